"""Whatever stands at the places of stored cells, each command passes over it or sets it aside with a word."""

import hashlib
import json
import os
import shutil

import pytest
from click.testing import CliRunner

from gpbench.bench.cell import canonical
from gpbench.cli import main

RUN = ["run", "-m", "linear", "-d", "ringnorm-gen:60", "--folds", "4"]
PLAN = """
title = "T"
datasets = ["ringnorm-gen:60"]
split = "folds:4"
metrics = ["nll", "brier"]
[methods.linear]
"""


def call(*words):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A results folder with four cells."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPBENCH_RESULTS", str(folder / "results"))
        patch.setenv("GPBENCH_DATA", str(folder / "data"))
        assert call(*RUN).exit_code == 0
    return folder


def not_a_number(path):
    content = json.loads(path.read_text())
    content["metrics"]["nll"] = float("nan")
    path.write_text(json.dumps(content))


def a_text(path):
    content = json.loads(path.read_text())
    content["metrics"]["train_seconds"] = "0.1"
    text = canonical({name: value for name, value in content.items() if name != "digest"})
    path.write_text(json.dumps({**content, "digest": hashlib.sha256(text.encode()).hexdigest()}))


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def a_folder(path):
    path.unlink()
    path.mkdir()


def half_an_npz(path):
    npz = path.with_suffix(".npz")
    npz.write_bytes(npz.read_bytes()[:200])


@pytest.mark.parametrize(
    "damage", [not_a_number, a_text, a_pipe, a_folder, half_an_npz], ids=lambda each: each.__name__
)
def test_each_command_goes_on_without_it(whole, tmp_path, monkeypatch, damage):
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("GPBENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("GPBENCH_DATA", str(tmp_path / "data"))
    path = min((tmp_path / "results" / "runs").glob("*.json"))
    damage(path)
    (tmp_path / "plan.toml").write_text(PLAN)
    npz = damage is half_an_npz
    word = "1 cells without Brier score" if npz else f"{path} is passed over: "
    for words in (["report", "--metrics", "nll,brier"], ["report", tmp_path / "plan.toml"]):
        result = call(*words)
        assert result.exit_code == 0, result.stderr
        assert word in result.stderr or (npz and "plan.toml" in str(words[1]))
        assert result.stderr.count("\n") <= 1
    found = json.loads(call("doctor", "--json").stdout)
    assert found["store"]["cells"] == {"ok": 4 if npz else 3}
    assert any(word in warning for warning in found["warnings"]) is not npz
    result = call("compare", "linear", "x-gpc")
    assert (result.exit_code, "x-gpc" in result.stderr) == (2, True)  # of which there are no cells
    result = call("reproduce", tmp_path / "plan.toml", "--output", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    assert f"{path} is damaged and was set aside as {path.name}.damaged" in result.stderr
    result = call(*RUN, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(json.loads(result.stdout)["cells"]) == 4
