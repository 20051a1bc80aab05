import gzip
import hashlib
import os
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner
from webserver import Web

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


PIMA = entry("diabetes").files[0]
PAGE = b"<html>Sorry, try again</html>\n"


def _pima(shift=0):
    """As many rows of each class as the catalogue counts; not the publisher's bytes, whose hash is not known."""
    rows = [(*((i * k + shift) % 97 for k in range(1, 9)), int(i >= 500)) for i in range(768)]
    return "".join(",".join(map(str, row)) + "\n" for row in rows).encode()


def test_to_writes_a_mirror_in_the_layout_that_a_mirror_has(run, tmp_path):
    place = tmp_path / "data" / "files" / PIMA.path
    place.parent.mkdir(parents=True)
    place.write_bytes(_pima())
    result = run("diabetes", "wine", "--to", str(tmp_path / "mirror"))
    assert result.exit_code == 0
    assert result.stdout == f"diabetes: {PIMA.name}\nwine: needs no files\n"
    assert (tmp_path / "mirror" / PIMA.path).read_bytes() == place.read_bytes()
    assert "# read: " in (tmp_path / "mirror" / (PIMA.path + ".sha256")).read_text()
    assert {path.name for path in (tmp_path / "mirror").rglob("*") if path.is_file()} == {
        PIMA.name,
        PIMA.name + ".sha256",
    }
    again = run("diabetes", GPBENCH_DATA=str(tmp_path / "other"), GPBENCH_MIRROR=str(tmp_path / "mirror"))
    assert again.stdout.startswith("diabetes: 768 rows, 8 features")


def test_what_is_not_the_data_set_goes_to_no_mirror(run, tmp_path):
    place = tmp_path / "data" / "files" / PIMA.path
    place.parent.mkdir(parents=True)
    place.write_bytes(PAGE)
    result = run("diabetes", "--to", str(tmp_path / "mirror"))
    assert result.exit_code == 3
    assert f"{place}: not the data set that the catalogue describes" in result.stderr
    assert [path for path in (tmp_path / "mirror").rglob("*") if path.is_file()] == []


def test_a_page_that_comes_with_status_200_neither_counts_nor_stays(run, tmp_path):
    server = Web()
    url = server.serve("/" + PIMA.path, PAGE)
    result = run("diabetes", "--mirror", server.url)
    assert result.exit_code == 3
    assert f"{url}: not the data set that the catalogue describes: " in result.stderr
    assert "remedy" in result.stderr
    assert "nothing is here" in run("--check").stdout
    server.serve("/" + PIMA.path, _pima(), etag='"two"')
    assert run("diabetes", "--mirror", server.url).exit_code == 0
    server.close()
    assert "2 files and prepared data sets are whole" in run("--check").stdout
    here = tmp_path / "data" / "files" / PIMA.path
    here.write_bytes(_pima(shift=1))
    result = run("--check")
    assert result.exit_code == 1
    assert f"{here}: expected sha256 " in result.stderr


@pytest.mark.parametrize("recorded", [False, True])
def test_check_reads_what_no_hash_vouches_for(run, tmp_path, recorded):
    here = tmp_path / "data" / "files" / PIMA.path
    here.parent.mkdir(parents=True)
    for content, code, state in ((PAGE, 1, "DAMAGED "), (_pima(), 0, "ok      ")):
        here.write_bytes(content)
        if recorded:  # as gpbench once did it at the first download
            here.with_name(here.name + ".sha256").write_text(f"{hashlib.sha256(content).hexdigest()}  {here.name}\n")
        result = run("--check")
        assert (result.exit_code, result.stdout.splitlines()[0]) == (code, f"{state}{here}")
    assert not list((tmp_path / "data").rglob(".reading-*"))
    assert "# read: " in here.with_name(here.name + ".sha256").read_text()


def test_check_says_what_it_cannot_read(run, tmp_path):
    """One of the two files that usps is made of."""
    here = tmp_path / "data" / "files" / entry("usps").files[0].path
    here.parent.mkdir(parents=True)
    here.write_bytes(PAGE)
    result = run("--check")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == f"unread  {here}"
    assert "1 have no known hash and were not read" in result.stdout


def test_three_processes_share_one_download(tmp_path):
    server = Web()
    server.serve("/" + PIMA.path, _pima())
    program = [
        sys.executable,
        "-c",
        "from gpbench.cli import main; main()",
        "fetch",
        "diabetes",
        "--mirror",
        server.url,
    ]
    environ = os.environ | PRIVATE | {"GPBENCH_DATA": str(tmp_path)}
    processes = [subprocess.Popen(program, env=environ, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = {process.communicate()[0] for process in processes}
    server.close()
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(said) == 1
    assert [path for path, *_ in server.requests] == ["/" + PIMA.path]
    assert not list(tmp_path.rglob("*.lease"))


def test_help_imports_neither_numpy_nor_pandas():
    code = (
        "import sys; from click.testing import CliRunner; from gpbench.cli import main; "
        "result = CliRunner().invoke(main, ['fetch', '--help']); assert result.exit_code == 0, result.output; "
        "assert '--mirror' in result.output; "
        "print(sorted({'numpy', 'pandas', 'requests', 'openml'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
