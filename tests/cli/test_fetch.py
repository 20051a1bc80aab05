import gzip
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from gpbench.cli import main
from gpbench.data.catalogue import entry

PRIVATE = {"GPBENCH_MIRROR": "", "GPBENCH_RESULTS": "", "http_proxy": "", "https_proxy": ""}


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments, **environ):
        return CliRunner().invoke(
            main, ["fetch", *arguments], env=PRIVATE | {"GPBENCH_DATA": str(tmp_path / "data")} | environ
        )

    return invoke


def test_embedded_sets_come_without_network(run):
    result = run("wine", "digits")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].startswith("wine: 178 rows, 13 features, multiclass; checksum ")
    assert result.stdout.splitlines()[1].startswith("digits: 1,797 rows, 64 features")
    assert result.stderr == ""  # progress goes to a terminal only


def test_generated_sets_take_a_number_of_rows(run):
    assert run("twonorm-gen:300").stdout.startswith("twonorm-gen:300: 300 rows")


def test_a_set_from_a_mirror(run, tmp_path):
    place = tmp_path / "mirror" / "uci" / "glass"
    place.mkdir(parents=True)
    (place / "glass.data").write_bytes(gzip.compress(b"not what it should be"))
    result = run("glass", "--mirror", str(tmp_path / "mirror"))
    assert result.exit_code == 3
    assert "glass.data: expected 11903 bytes" in result.stderr.replace(",", "")


def test_without_network_and_mirror_a_message_and_exit_code_three(run, monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr("socket.create_connection", unknown)
    result = run("mnist")
    assert result.exit_code == 3
    assert "data set mnist cannot be had" in result.stderr
    assert "mnist/mnist/train-images-idx3-ubyte.gz: not there" in result.stderr
    assert "the name yann.lecun.com does not resolve" in result.stderr
    assert "gpbench fetch mnist --to DIR" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["glas"], "did you mean glass"),
        (["nosuch"], "unknown data set 'nosuch'; the nearest of the "),
        ([], "expected data sets' names, or --all"),
        (["glass", "--all"], "got both"),
        (["--check", "--all"], "--check verifies what is here"),
        (["openml:blood"], "expected openml: and a number"),
    ],
)
def test_wrong_usage_has_exit_code_two(run, arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_check_verifies_what_is_here(run, tmp_path):
    assert "nothing is here" in run("--check").stdout
    run("waveform3:50")
    assert "1 files and prepared data sets are whole" in run("--check").stdout
    (matrix,) = (tmp_path / "data").rglob("X.npy")
    matrix.write_bytes(matrix.read_bytes()[:-8])
    result = run("--check", "waveform3")
    assert result.exit_code == 1
    assert "DAMAGED" in result.stdout
    assert "1 of 1 are damaged" in result.stderr


def test_to_writes_a_mirror_in_the_layout_that_a_mirror_has(run, tmp_path):
    place = tmp_path / "data" / "files" / entry("ucsdpeds1l").files[0].path
    place.parent.mkdir(parents=True)
    place.write_bytes(b"any bytes: the hash is not known")
    result = run("ucsdpeds1l", "wine", "--to", str(tmp_path / "mirror"))
    assert result.exit_code == 0
    assert result.stdout == "ucsdpeds1l: ucsdpeds_feats.zip\nwine: needs no files\n"
    assert (tmp_path / "mirror" / "ucsd" / "peds" / "ucsdpeds_feats.zip").read_bytes() == place.read_bytes()


def test_help_imports_neither_numpy_nor_pandas():
    code = (
        "import sys; from click.testing import CliRunner; from gpbench.cli import main; "
        "result = CliRunner().invoke(main, ['fetch', '--help']); assert result.exit_code == 0, result.output; "
        "assert '--mirror' in result.output; "
        "print(sorted({'numpy', 'pandas', 'requests', 'openml'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
