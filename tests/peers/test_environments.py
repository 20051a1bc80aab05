"""Environments of rivals: what counts as installed, and what an installation leaves behind when it fails."""

import json
import subprocess
import sys
import venv
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpbench.bench.builtin import rivals
from gpbench.errors import GpbenchError, UsageError
from gpbench.peers import environments
from gpbench.peers.environments import MARK, PEERS, install, python_of, versions
from gpbench.peers.rivals import RIVALS, peer_facts


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("GPBENCH_PEERS", str(tmp_path))
    return tmp_path


class Pip:
    """Takes the place of venv and of pip; notes its commands."""

    def __init__(self, monkeypatch, interpreter, *, codes=(0, 0), listed=()):
        self.commands, self.codes, self.listed = [], list(codes), listed
        monkeypatch.setattr(venv, "create", lambda place, **_: interpreter(Path(place)))
        monkeypatch.setattr(subprocess, "run", self)

    def __call__(self, command, **_):
        self.commands.append(command)
        listed = [{"name": name, "version": number} for name, number in self.listed]
        return SimpleNamespace(returncode=self.codes.pop(0), stdout=json.dumps(listed).encode())


GOOD = (("gpflow", "2.11.2"), ("tensorflow", "2.21.0"), ("tensorflow_probability", "0.25.0"), ("NumPy", "1.26.4"))


def test_installs_and_finds_what_it_installed(home, monkeypatch, interpreter):
    pip, said = Pip(monkeypatch, interpreter, listed=GOOD), []
    assert install("gpflow", say=said.append) == home / "gpflow"
    wanted = ["gpflow==2.11.2", "tensorflow==2.21.0", "tensorflow-probability==0.25.0"]
    assert pip.commands[0][-3:] == wanted
    assert pip.commands[0][0] == str(home / "gpflow" / "bin" / "python")
    assert versions(PEERS["gpflow"])["numpy"] == "1.26.4"
    assert python_of(PEERS["gpflow"]) == home / "gpflow" / "bin" / "python"
    assert [line.split()[0] for line in said] == ["making", "installing"]


@pytest.mark.parametrize("codes", [(1,), (0, 1)])
def test_a_failed_installation_counts_as_absent(home, monkeypatch, interpreter, codes):
    Pip(monkeypatch, interpreter, listed=GOOD)
    install("gpflow", say=lambda _: None)
    Pip(monkeypatch, interpreter, codes=codes, listed=GOOD)
    with pytest.raises(GpbenchError, match=r"pip could not .*gpflow.*exit code 1"):
        install("gpflow", say=lambda _: None)
    assert versions(PEERS["gpflow"]) is None
    with pytest.raises(UsageError, match="gpbench peers install gpflow"):
        python_of(PEERS["gpflow"])


def test_a_folder_that_cannot_be_made(home, monkeypatch):
    (home / "file").write_text("")
    monkeypatch.setenv("GPBENCH_PEERS", str(home / "file"))
    with pytest.raises(GpbenchError, match="cannot make an environment in"):
        install("gpytorch", say=lambda _: None)


def test_a_mark_that_cannot_be_written_leaves_nothing(home, monkeypatch, interpreter):
    Pip(monkeypatch, interpreter, listed=GOOD)
    write = Path.write_text

    def full(self, text, **how):
        if text.startswith("{"):
            write(self, text[:5], **how)
            raise OSError("the disk is full")
        return write(self, text, **how)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(GpbenchError, match=rf"{MARK} cannot be written: the disk is full"):
        install("gpflow", say=lambda _: None)
    assert [path.name for path in (home / "gpflow").iterdir()] == ["bin"]


@pytest.mark.parametrize("content", ["", "[]", '{"packages": 3}', "{"])
def test_a_mark_that_gpbench_did_not_write_counts_as_absent(home, interpreter, content):
    interpreter(home / "gpflow")
    (home / "gpflow" / MARK).write_text(content)
    assert versions(PEERS["gpflow"]) is None


def test_other_versions_are_named(home, interpreter):
    interpreter(home / "gpytorch")
    (home / "gpytorch" / MARK).write_text(json.dumps({"packages": {"gpytorch": "1.11", "torch": "2.13.0+cpu"}}))
    with pytest.raises(UsageError, match=r"holds gpytorch 1.11 instead of 1.15.2; run"):
        python_of(PEERS["gpytorch"])


def test_unknown_rivals_and_gpbenchs_own_environment():
    with pytest.raises(UsageError, match="did you mean gpytorch"):
        install("pytorch", say=lambda _: None)
    said = []
    assert install("sklearn", say=said.append) == Path(sys.prefix)
    assert "nothing to install" in said[0]
    assert python_of(PEERS["sklearn"]) == Path(sys.executable)


def test_without_the_variable_environments_lie_in_the_users_folder(monkeypatch):
    monkeypatch.setenv("GPBENCH_PEERS", " ")
    assert environments.folder().parts[-2:] == ("gpbench", "peers")


def test_the_inventory_names_every_method_of_a_rival():
    facts = {each["name"]: each for each in peer_facts()}
    named = {name: peer["name"] for peer in facts.values() for name in peer["methods"]}
    assert set(named) == {each.id for each in rivals.METHODS} == {each.name for each in RIVALS}
    for method in rivals.METHODS:
        assert method.load().name == method.id
        assert method.load().peer == named[method.id]
    assert facts["sklearn"]["problem"] is None
    assert "gpbench peers install gpflow" in facts["gpflow"]["problem"]


def test_every_script_is_there():
    assert all(peer.script.is_file() for peer in PEERS.values())
