"""The command `gpbench peers`."""

import json

import pytest
from click.testing import CliRunner

from gpbench.cli import main


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("GPBENCH_PEERS", str(tmp_path))


def run(*arguments):
    return CliRunner().invoke(main, ["peers", *arguments])


def test_lists_rivals_with_what_to_do():
    done = run("list")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["rival", "gpflow", "gpjax", "gpytorch", "sklearn"]
    assert "gpbench peers install gpflow" in lines[1]
    assert "gpytorch-svgp, gpytorch-pg" in lines[3]
    assert lines[4].endswith("ready")


def test_lists_one_as_json(tmp_path):
    done = run("list", "gpytorch", "--json")
    (peer,) = json.loads(done.stdout)["peers"]
    assert (peer["name"], peer["packages"], peer["folder"]) == ("gpytorch", None, str(tmp_path / "gpytorch"))


@pytest.mark.parametrize("words", [("list", "gpflo"), ("install", "gpflo")])
def test_an_unknown_rival_is_answered_with_the_nearest(words):
    done = run(*words)
    assert done.exit_code == 2
    assert "did you mean gpflow?" in done.stderr


def test_installing_what_is_part_of_gpbench_does_nothing():
    done = run("install", "sklearn")
    assert done.exit_code == 0
    assert "nothing to install" in done.stderr
