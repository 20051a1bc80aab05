import json
from dataclasses import dataclass

import pytest
from click.testing import CliRunner

import gpbench
import gpbench.bench.methods
import gpbench.bench.plan.read
import gpbench.data.catalogue
from gpbench.bench.methods import Method
from gpbench.cli import main
from gpbench.data.catalogue import Catalogue, Entry
from gpbench.data.generators import GENERATORS
from gpbench.errors import PluginError
from gpbench.report.tables.inventory import method_card, method_facts, plan_facts, plan_table
from gpbench.schemes.base import setting


@dataclass(frozen=True)
class Scheme:
    rate: float | None = setting(None, "Step size.", kind=float, minimum=0.0, maximum=1.0)
    batch_size: int = setting(100, "Rows of a mini-batch", minimum=1)
    kernel: str = setting("se", "Covariance function", choices=("se", "linear"))
    learn: bool = setting(True, "Whether hyper-parameters are learned")
    inducing: str = setting("100", "Number of inducing inputs: 100, 3% or all")


GOOD = Method(
    id="good", title="A good one", tasks=frozenset({"multiclass", "binary"}), paper="wenzel2019", scheme=Scheme,
    preset={"batch_size": 7}, version=3, extra="cluster",
)  # fmt: skip
MAYBE = "(it may be of a plug-in that does not load: {})"
BROKEN = Method(id="broken", title="Cannot be imported", tasks=frozenset({"count"}), scheme="nowhere:Scheme")


@pytest.fixture(autouse=True)
def few(monkeypatch, tmp_path):
    """Two methods, two data sets, and a broken plug-in of each kind."""
    monkeypatch.setattr(gpbench.bench.methods, "methods", lambda: {"good": GOOD, "broken": BROKEN})
    monkeypatch.setattr(gpbench.bench.methods, "plugin_problems", lambda: (PluginError("plug-in 'bad' does not load"),))
    entries = {
        "far-away": Entry(
            id="far-away", title="Must be fetched", task="binary", n=11_000_000, d=28, classes=("no", "yes"),
            source="UCI", licence="CC BY 4.0", papers=("wenzel2019",), notes=("First note.", "Second note."),
        ),
        "wine": gpbench.data.catalogue.entries()["wine"],
    }  # fmt: skip
    broken = {"worse": PluginError("plug-in worse: RuntimeError: no")}
    known = Catalogue(entries, broken)
    monkeypatch.setattr(gpbench.data.catalogue, "catalogue", lambda: known)
    monkeypatch.setenv("GPBENCH_DATA", str(tmp_path))
    monkeypatch.setattr(gpbench.bench.plan.read, "PAPERS", tmp_path / "papers")


def listed(*args):
    return CliRunner().invoke(main, ["list", *args])


def test_everything_in_brief():
    done = listed()
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "method  tasks               paper       title",
        "good    binary, multiclass  wenzel2019  A good one",
        "broken  count               –           Cannot be imported",
        "",
        "data set  task                 n   d  classes  here  papers          title",
        "far-away  binary      11,000,000  28        2        wenzel2019      Must be fetched",
        "wine      multiclass         178  13        3  yes   villacampa2017  Wine recognition",
        "",
        "no plans",
        "",
        "problems:",
        "  method broken: the scheme nowhere:Scheme of method broken cannot be imported: No module named 'nowhere'",
        "  plug-in 'bad' does not load",
        "  plug-in worse: RuntimeError: no",
    ]


def test_settings_of_a_method():
    done = listed("methods", "good")
    assert done.stdout.splitlines()[:7] == [
        "good: A good one",
        "  tasks: binary, multiclass; paper: wenzel2019; version: 3; needs: gpbench[cluster]",
        "  rate = none     Step size (a number in [0, 1] or none)",
        "  batch_size = 7  Rows of a mini-batch (an integer >= 1)",
        "  kernel = se     Covariance function (one of se, linear)",
        "  learn = true    Whether hyper-parameters are learned (true or false)",
        "  inducing = 100  Number of inducing inputs: 100, 3% or all",
    ]
    assert "broken" not in done.stdout


def test_all_methods_with_their_settings():
    text = listed("methods").stdout
    assert "batch_size = 7" in text
    assert "broken: Cannot be imported\n  tasks: count; version: 1\n  its settings cannot be shown" in text
    assert "data set" not in text


def test_help_is_broken_at_the_width():
    (facts,), _ = method_facts([GOOD])
    card = method_card(facts, width=50)
    assert max(map(len, card[2:])) <= 50
    assert card[-4:-2] == [
        "  learn = true    Whether hyper-parameters are",
        "                  learned (true or false)",
    ]


def test_a_scheme_that_raises_anything_is_reported():
    def explode(self):
        raise ZeroDivisionError("oh")

    bad = type("Bad", (Method,), {"load": explode})(id="bad", title="", tasks=frozenset(), scheme="a:b")
    facts, problems = method_facts([bad, GOOD])
    assert [each["settings"] is None for each in facts] == [True, False]
    assert problems == ["method bad: oh"]


def test_methods_as_json():
    found = json.loads(listed("methods", "--json").stdout)
    assert set(found) == {"methods", "problems"}
    good, broken = found["methods"]
    assert (good["id"], good["tasks"], good["version"]) == ("good", ["binary", "multiclass"], 3)
    assert good["settings"][0] == {
        "name": "rate", "type": "float", "default": None, "values": "a number in [0, 1] or none", "choices": [],
        "minimum": 0.0, "maximum": 1.0, "optional": True, "rules": [], "help": "Step size.",
    }  # fmt: skip
    assert broken["settings"] is None
    assert len(found["problems"]) == 2


def test_everything_as_json():
    found = json.loads(listed("--json").stdout)
    assert set(found) == {"methods", "datasets", "plans", "problems"}
    assert {each["id"]: each["here"] for each in found["datasets"]} == {"far-away": False, "wine": True}
    assert found["datasets"][0]["classes"] == ["no", "yes"]


def test_a_data_set_in_full():
    assert listed("datasets", "far-away").stdout.splitlines()[:10] == [
        "far-away: Must be fetched",
        "  task      binary",
        "  rows      11,000,000",
        "  features  28",
        "  classes   no, yes",
        "  papers    wenzel2019",
        "  source    UCI",
        "  licence   CC BY 4.0",
        "  here      no; `gpbench fetch far-away` brings it",
        "  notes     First note.",
    ]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("method",), "unknown kind of things to list 'method'; did you mean methods?"),
        (
            ("methods", "goood"),
            "unknown method 'goood'; did you mean good? " + MAYBE.format("plug-in 'bad' does not load"),
        ),
        (
            ("datasets", "vine"),
            "unknown data set 'vine'; did you mean wine? " + MAYBE.format("plug-in worse: RuntimeError: no"),
        ),
        (("datasets", "wine:50"), "unknown generated data set 'wine'; known: " + ", ".join(sorted(GENERATORS))),
        (
            ("datasets", "twonorm-gen:5"),  # not ...-gen:5
            "unknown data set 'twonorm-gen'; known: far-away, wine " + MAYBE.format("plug-in worse: RuntimeError: no"),
        ),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(args, message):
    done = listed(*args)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"gpbench: {message}\n")


def test_plans(tmp_path):
    (tmp_path / "wenzel2019").mkdir()
    (tmp_path / "wenzel2019" / "table1.toml").write_text(
        'title = "Table 1"\npaper = "wenzel2019"\ndatasets = ["far-away"]\nsplit = "folds:5"\n'
        "limits = {seconds = 50}\n[methods.klsp-sgd]\nmax_iterations = 10_000_000\n[methods.linear]\n",
        encoding="utf-8",
    )
    (tmp_path / "wenzel2019" / "fig1.toml").write_text("title = ", encoding="utf-8")
    (tmp_path / "wenzel2019" / "fig2.toml").write_text('title = "Figure 2"', encoding="utf-8")
    facts, problems = plan_facts(tmp_path)
    seconds = facts[0].pop("seconds")
    assert facts == [
        {
            "id": "wenzel2019/table1",
            "title": "Table 1",
            "paper": "wenzel2019",
            "render": "table",
            "datasets": ["far-away"],
            "methods": ["klsp-sgd", "linear"],
            "cells": 10,
            "needs": None,
        }
    ]
    assert 255 <= seconds < 2000  # klsp-sgd ends at its limit of 50 s; a second beside each cell
    assert (
        plan_table([{**facts[0], "seconds": 512.0}])[1]
        == "wenzel2019/table1          1        2     10   8:32  Table 1"
    )
    assert problems[0].startswith("plan wenzel2019/fig1: ")
    assert "is no TOML: " in problems[0]
    assert problems[1].endswith("fig2.toml: datasets is missing")


def test_control_characters_do_not_reach_the_terminal(monkeypatch):
    bad = Method(id="a\x1b[31m", title="b\nc", tasks=frozenset(), scheme=Scheme)
    monkeypatch.setattr(gpbench.bench.methods, "methods", lambda: {bad.id: bad})
    for args in ((), ("methods",)):
        assert "\x1b" not in listed(*args).stdout


def test_a_plug_in_that_does_not_load_is_named_with_its_cause(monkeypatch):
    problem = PluginError("plug-in 'bad' does not load: ModuleNotFoundError", plugin="bad")
    monkeypatch.setattr(gpbench.bench.methods, "plugin_problems", lambda: (problem,))
    done = listed("methods", "bad")
    assert done.exit_code == 1
    assert done.stderr == "gpbench: there is no method 'bad': plug-in 'bad' does not load: ModuleNotFoundError\n"
