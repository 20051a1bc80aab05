"""The shell completes what gpbench knows: asked as the shells ask."""

import os
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from gpbench.cli import main


def completed(line, *, shell="bash"):
    """What is offered at the end of a line."""
    words = line.split(" ")
    env = {
        **os.environ,
        "_GPBENCH_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1) if shell != "fish" else words[-1],
    }
    done = subprocess.run(
        [sys.executable, "-c", "from gpbench.cli import main; main(prog_name='gpbench')"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("gpbench rep", "plain,reproduce"),
        ("gpbench run --method x-g", "plain,x-gpc"),
        ("gpbench run --dataset breast", "plain,breast-cancer-wisconsin"),
        ("gpbench run --dataset some/file", "file,some/file"),
        ("gpbench reproduce wenzel2019/tab", "plain,wenzel2019/table1"),
        ("gpbench run --method x-gpc --set rate_", "plain,rate_rule="),
        ("gpbench run --method x-gpc --set rate_rule=ad", "plain,rate_rule=adaptive"),
        ("gpbench fit rows.csv -m hg", "plain,hgb-tuned"),
        ("gpbench compare lin", "plain,linear"),
        ("gpbench check pe", "plain,pep"),
        ("gpbench completion z", "plain,zsh"),
    ],
)
def test_names_are_completed(line, offered):
    assert offered in completed(line)


def test_settings_are_those_of_the_methods_that_were_named():
    assert completed("gpbench run --method linear --set ") == [
        f"plain,{name}=" for name in ("max_iterations", "max_rows", "penalty")
    ]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_takes_what_is_printed(shell, tmp_path):
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert f"_GPBENCH_COMPLETE={shell}_complete" in result.output
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: its script is printed and not tried")
    (tmp_path / "script").write_text(result.output)
    flag = "--no-execute" if shell == "fish" else "-n"
    subprocess.run([shell, flag, str(tmp_path / "script")], check=True)


def test_another_shell_is_refused():
    assert CliRunner().invoke(main, ["completion", "tcsh"]).exit_code == 2
