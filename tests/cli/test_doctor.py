import json
import platform
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from gpbench import __version__
from gpbench.bench import health as health_module
from gpbench.bench.health import lines, thread_warnings
from gpbench.cli import main
from gpbench.errors import PluginError


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("GPBENCH_RESULTS", raising=False)
    monkeypatch.delenv("GPBENCH_MIRROR", raising=False)
    return tmp_path


def doctor():
    result = CliRunner().invoke(main, ["doctor", "--json"])
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def test_what_a_bug_report_needs(place):
    found = doctor()
    assert (found["gpbench"], found["python"]) == (__version__, platform.python_version())
    assert found["packages"]["numpy"] == np.__version__
    assert {"numpy", "scipy"} <= {pool["owner"] for pool in found["blas"]}
    assert (found["data"]["place"], found["data"]["origin"]) == (str(place / "data"), "GPBENCH_DATA")
    assert (found["mirror"]["place"], found["mirror"]["reachable"]) == (None, None)
    assert (found["store"]["place"], found["store"]["cells"]) == (str(place / "results" / "runs"), {})
    assert not list(place.iterdir())  # looking changes nothing


def test_packages_that_are_named_are_those_that_gpbench_asks_for():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(health_module.PACKAGES + health_module._OTHERS) <= {name(each) for each in project["dependencies"]}
    extras = project["optional-dependencies"]
    assert set(health_module._EXTRAS) <= {name(each) for extra in ("cluster", "gibbs") for each in extras[extra]}


def name(requirement):
    return re.match(r"[\w-]+", requirement).group()


def test_a_mirror_that_is_not_there_is_said(place, monkeypatch):
    monkeypatch.setenv("GPBENCH_MIRROR", str(place / "nowhere"))
    found = doctor()
    assert found["mirror"]["reachable"] is False
    assert f"the mirror {place / 'nowhere'} cannot be used: No such file or directory" in found["warnings"]


def test_a_mirror_that_is_there(place, monkeypatch):
    monkeypatch.setenv("GPBENCH_MIRROR", str(place))
    assert doctor()["mirror"]["reachable"] is True


def test_an_address_that_does_not_answer_is_said(place, monkeypatch):
    monkeypatch.setenv("GPBENCH_MIRROR", "http://127.0.0.1:9/mirror")
    found = doctor()
    assert found["mirror"]["reachable"] is False
    assert any("http://127.0.0.1:9/mirror cannot be used" in words for words in found["warnings"])


def test_cells_are_counted_and_damaged_ones_named(place):
    folder = place / "results" / "runs"
    folder.mkdir(parents=True)
    (folder / "abc.json").write_text("{")
    found = doctor()
    assert found["store"]["cells"] == {}
    assert any("abc.json is passed over: it is no JSON" in words for words in found["warnings"])


def test_a_store_that_is_a_file_is_said(place):
    (place / "results").mkdir()
    (place / "results" / "runs").write_text("")
    assert any("cannot read the store" in words for words in doctor()["warnings"])


def test_broken_plugins_are_said(place, monkeypatch):
    monkeypatch.setattr(health_module, "plugin_problems", lambda: (PluginError("plug-in 'a' does not load"),))
    assert "plug-in 'a' does not load" in doctor()["warnings"]


def pool(owner, threads, api="blas"):
    return {"api": api, "library": "openblas", "owner": owner, "threads": threads}


def test_pools_that_fight_are_said():
    (warning,) = thread_warnings([pool("numpy", 2), pool("scipy", 4)])
    assert "numpy's (2 threads) and scipy's (4 threads) spin against one another" in warning
    assert thread_warnings([pool("numpy", 1), pool("scipy", 4)]) == []
    assert thread_warnings([pool("numpy", 2), pool("scikit_learn", 4, "openmp")]) == []


def test_lines_for_people(place):
    found = doctor()
    found["commit"], found["dirty"] = "0123456789abcdef", True
    found["warnings"] = ["something"]
    text = lines(found)
    assert text[0] == f"gpbench    {__version__} (commit 0123456789ab, with changes)"
    assert text[-1] == "warning: something"
    assert any(line.startswith("threads    numpy: openblas") for line in text)
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0
    assert result.stdout.startswith(f"gpbench    {__version__}")
