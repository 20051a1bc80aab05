"""gpbench plan new, and files of one's own in a plan."""

import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from gpbench.bench.plan.read import read_plan
from gpbench.cli import main
from gpbench.cli.plan import TEMPLATE
from gpbench.errors import UsageError


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    monkeypatch.setenv("GPBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("GPBENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.chdir(tmp_path)

    def run(*args, code=0):
        result = CliRunner().invoke(main, list(args))
        assert result.exit_code == code, result.output + result.stderr
        return result

    return run


def test_a_new_plan_is_one_and_runs_dry(invoke, tmp_path):
    assert "plan.toml" in invoke("plan", "new").stdout
    plan = read_plan(tmp_path / "plan.toml")
    assert [each.name for each in plan.methods] == ["pep", "x-gpc", "hgb", "linear"]
    said = invoke("reproduce", "plan.toml", "--dry-run").output
    assert "breast-cancer-wisconsin" in said
    assert "is there already" in invoke("plan", "new", code=2).stderr
    invoke("plan", "new", "--force")
    assert "ends in .toml" in invoke("plan", "new", "plan.txt", code=2).stderr


def test_what_is_commented_out_is_right_too(tmp_path):
    pd.DataFrame({"id": [1, 2], "a": [0.5, 1.5], "churn": [0, 1]}).to_csv(tmp_path / "customers.csv", index=False)
    text = TEMPLATE.format(name="x.toml").replace('datasets = ["', 'datasets = ["customers.csv", "')
    text = re.sub(r"(?m)^# (\[|\w+ = )", r"\1", text)
    (tmp_path / "x.toml").write_text(text)
    plan = read_plan(tmp_path / "x.toml")
    assert plan.files["customers.csv"].target == "churn"
    assert plan.files["customers.csv"].drop == ("id",)
    assert plan.files["customers.csv"].header is True
    assert plan.sweep == {"inducing": (20, 100)}


PLAN = """\
title = "Mine"
datasets = ["rows.csv"]
split = "holdout:0.3*1"
[files."rows.csv"]
target = "kind"
drop = ["id"]
impute = "median"
[methods.linear]
"""


def test_a_file_is_read_as_its_table_says(invoke, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"kind": rng.choice(["a", "b"], 60), "x": rng.normal(size=60), "id": range(60)})
    frame["y"] = np.where(frame.kind == "a", 1.0, -1.0) + rng.normal(size=60)
    frame.loc[3, "x"] = np.nan
    frame.to_csv("rows.csv", index=False)
    (tmp_path / "mine.toml").write_text(PLAN)
    assert "linear" in invoke("reproduce", "mine.toml").output
    (tmp_path / "mine.toml").write_text(PLAN.replace('impute = "median"\n', ""))
    assert "missing" in invoke("reproduce", "mine.toml", code=3).output


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('[files."rows.csv"]', '[files."row.csv"]'), "did you mean rows.csv"),
        (('target = "kind"', 'targt = "kind"'), "did you mean target"),
        (('impute = "median"', 'impute = "mean"'), "must be median"),
        (('drop = ["id"]', "drop = 3"), "drop"),
    ],
)
def test_mistakes_are_named(tmp_path, monkeypatch, change, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("kind,x,id,y\n")
    (tmp_path / "mine.toml").write_text(PLAN.replace(*change))
    with pytest.raises(UsageError, match=words):
        read_plan(tmp_path / "mine.toml")
