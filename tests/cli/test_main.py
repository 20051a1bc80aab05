import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

import gpbench.cli
from gpbench import __version__
from gpbench.cli import COMMANDS, LazyGroup, main
from gpbench.errors import DataUnavailable, GpbenchError, UsageError


def run_main(*args):
    return CliRunner().invoke(main, list(args))


def group_whose_command(body):
    """A group with one command `go` that runs `body`."""
    group = LazyGroup(name="gpbench", table={"go": ("somewhere", "Goes.")})
    group.get_command = lambda _ctx, name: click.Command(name, callback=body)
    return group


def test_help_names_every_command_with_its_line():
    result = run_main("--help")
    assert result.exit_code == 0
    words = " ".join(result.output.split())
    for name, (_, about) in COMMANDS.items():
        assert f"{name} {about}" in words


def test_help_imports_nothing_heavy_and_no_command():
    program = (
        "import sys\nfrom gpbench.cli import main\nmain(['--help'], standalone_mode=False)\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in "
        "{'gpbench', 'numpy', 'scipy', 'pandas', 'sklearn', 'matplotlib', 'difflib'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['gpbench', 'gpbench.cli']"


def test_version():
    assert run_main("--version").output == f"gpbench {__version__}\n"


def test_unknown_command_is_answered_with_the_nearest():
    result = run_main("reprot")
    assert result.exit_code == 2
    assert result.stderr == "gpbench: unknown command 'reprot'; did you mean report or reproduce?\n"
    assert result.stdout == ""


def test_unknown_option_is_a_usage_error():
    result = run_main("--nothing-like-this")
    assert result.exit_code == 2
    assert "No such option" in result.stderr


def test_a_command_is_imported_only_when_it_is_called(monkeypatch):
    imported = []

    def fake_import(module):
        imported.append(module)
        return SimpleNamespace(command=click.Command("go", callback=lambda: click.echo("gone")))

    monkeypatch.setattr(gpbench.cli, "import_module", fake_import)
    group = LazyGroup(name="gpbench", table={"go": ("a.b", "Goes."), "stay": ("a.c", "Stays.")})
    assert CliRunner().invoke(group, ["--help"]).exit_code == 0
    assert imported == []
    assert CliRunner().invoke(group, ["go"]).output == "gone\n"
    assert imported == ["a.b"]


@pytest.mark.parametrize(
    ("error", "code"), [(GpbenchError("broken"), 1), (UsageError("wrong"), 2), (DataUnavailable("nowhere"), 3)]
)
def test_errors_become_a_message_and_their_exit_code(error, code):
    def body():
        raise error

    result = CliRunner().invoke(group_whose_command(body), ["go"])
    assert (result.exit_code, result.stderr, result.stdout) == (code, f"gpbench: {error}\n", "")


def test_errors_of_other_kinds_are_not_hidden():
    def body():
        raise ZeroDivisionError

    result = CliRunner().invoke(group_whose_command(body), ["go"])
    assert isinstance(result.exception, ZeroDivisionError)


def test_interrupt_is_said_with_no_word_of_what_is_kept_where_nothing_is():
    def body():
        raise KeyboardInterrupt

    result = CliRunner().invoke(group_whose_command(body), ["go"])
    assert result.exit_code == 130
    assert result.stderr == "\ngpbench: interrupted\n"


def test_exit_code_of_a_command_is_kept():
    def body():
        click.get_current_context().exit(4)

    assert CliRunner().invoke(group_whose_command(body), ["go"]).exit_code == 4


def test_a_reader_that_leaves_early_gets_no_traceback():
    """The pipe's reading end is closed before the first line is written."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-c", "from gpbench.cli import main; main()", "--version"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device"), "cannot read or write the output: No space left on device"),
        (NotADirectoryError(20, "Not a directory", "a/b"), "a/b: a file stands where a folder is needed"),
    ],
)
def test_what_the_system_refuses_is_said_without_a_traceback(error, message):
    def body():
        raise error

    result = CliRunner().invoke(group_whose_command(body), ["go"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith(f"{message}\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no file that is always full")
def test_output_that_cannot_be_written():
    command = [sys.executable, "-c", "from gpbench.cli import main; main()", "list", "plans"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("gpbench: cannot read or write the output: ")


def test_as_a_program():
    command = [sys.executable, "-c", "from gpbench.cli import main; main()", "rnu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "gpbench: unknown command 'rnu'; did you mean run or truth?\n"
