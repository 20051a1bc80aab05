"""Every plan that ships loads and says what it would run; the quick form runs, where its data need no network."""

import json

import pytest
from click.testing import CliRunner

from gpbench.bench.plan.plan import DESCRIPTIVE
from gpbench.bench.plan.read import find_plan, shipped
from gpbench.cli import main
from gpbench.data.catalogue import entries
from gpbench.peers.rivals import peer_facts
from gpbench.report.notes import head_notes
from gpbench.report.plan.published import read_published
from gpbench.report.plan.renderers import RENDERERS, check_figure

PLANS = {name: find_plan(name) for name in shipped()}

#: Plans with data that are generated, or that come with scikit-learn; of those with others, these alone are run.
NEAR = {"embedded", "generated"}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """An empty current folder, and no settings from outside."""
    monkeypatch.chdir(tmp_path)
    for name in ("GPBENCH_RESULTS", "GPBENCH_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GPBENCH_DATA", str(tmp_path / "data"))
    return tmp_path


def gpbench(*arguments):
    return CliRunner().invoke(main, list(arguments))


def absent(name):
    """What a plan's rivals say of their environments where these are not there; empty where nothing is missing."""
    wanted = {table.method.id for table in PLANS[name].methods}
    return [each["problem"] for each in peer_facts() if each["problem"] and wanted.intersection(each["methods"])]


def near(name):
    return [each for each in PLANS[name].datasets if entries()[each.partition(":")[0]].maker in NEAR]


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_loads_and_says_what_it_would_run(name, place):
    plan = PLANS[name]
    check_figure(plan)
    read_published(plan)
    RENDERERS[plan.render].load()
    done = gpbench("reproduce", name, "--dry-run", "--quick")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith(head_notes(plan)[0])
    assert (" 0 cells," in f" {done.stdout.splitlines()[-1]}") == (plan.render in DESCRIPTIVE)
    assert not (place / "results").exists()


def test_every_plan_is_listed_with_its_time():
    found = json.loads(gpbench("list", "plans", "--json").stdout)
    assert found["problems"] == []
    assert [each["id"] for each in found["plans"]] == list(shipped())
    assert all(each["seconds"] is not None for each in found["plans"])


@pytest.mark.slow  # pairs of matrices under sheth2015's operator
@pytest.mark.parametrize("name", [name for name, plan in PLANS.items() if plan.render in DESCRIPTIVE])
def test_what_describes_is_written(name, place):
    done = gpbench("reproduce", name, "--quick")
    assert done.exit_code == 0, done.stderr
    assert list((place / "results" / "partial" / name).iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name, plan in PLANS.items() if plan.render not in DESCRIPTIVE and near(name)]
)
def test_the_quick_form_runs_from_end_to_end(name, place):
    if missing := absent(name):
        done = gpbench("reproduce", name, "--quick", "--datasets", ",".join(near(name)))
        assert (done.exit_code, "gpbench peers install" in done.stderr) == (2, True)
        pytest.skip("; ".join(missing))
    done = gpbench("reproduce", name, "--quick", "--datasets", ",".join(near(name)))
    assert done.exit_code == 0, done.stderr
    written = list((place / "results" / "partial" / name).iterdir())
    assert len(written) > 1
    assert all(path.stat().st_size for path in written)
