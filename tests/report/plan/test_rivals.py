import csv
import io
import math

import numpy as np
import pytest

from gpbench.errors import UsageError
from gpbench.report.compare.attainment import stays
from gpbench.report.plan.rivals import render, runs_of, standings
from gpbench.report.traces import Trace

PLAN = """
title = "Duel"
datasets = ["heart", "german"]
split = "holdout:0.2*2"
render = "rivals"
[methods.x-gpc]
[methods.slow]
method = "svgpc"
[methods.other]
method = "klsp"
"""
FIGURE = '[figure]\nrivals = ["slow", "other"]\n'

# Goal 1.02 x 0.5: the method is there after 2 s, the faster rival after 8 s.
TRACES = {
    "x-gpc": [(1.0, 0.7, 0.1), (2.0, 0.5, 0.1), (3.0, 0.48, 0.1), (4.0, 0.48, 0.1), (5.0, 0.48, 0.1)],
    "slow": [(4.0, 0.8, 0.1), (8.0, 0.5, 0.1), (12.0, 0.5, 0.1), (16.0, 0.5, 0.1), (20.0, 0.5, 0.1)],
    "other": [(1.0, 0.8, 0.1), (2.0, 0.8, 0.1), (3.0, 0.6, 0.1), (4.0, 0.6, 0.1)],
}


@pytest.fixture
def duel(ran):
    def make(text=PLAN + FIGURE, change=lambda _block, _index: {}):
        def outcomes(block):
            return [{"trace": TRACES[block.table.name]} | change(block, index) for index in range(2)]

        return ran(text, outcomes, name="item.toml", protocol="folds:10")

    return make


@pytest.mark.parametrize(
    ("nlls", "seconds"),
    [
        ((0.9, 0.7, 0.5, 0.4, 0.4), 3.0),
        ((0.5, 0.5, 0.5), 1.0),
        ((0.9, 0.4, 0.4, 0.9, 0.9, 0.4, 0.4), 6.0),  # it left again
        ((0.9, 0.4, 0.4, 0.9, 0.9), math.inf),
        ((0.4, 0.4, 0.9, 0.4, 0.4), 1.0),  # one look decides nothing
        ((0.9, 0.4, 0.4, 0.4), 2.0),  # not before the first look that is there
        ((0.9, 0.5, math.nan, math.nan), math.inf),
    ],
)
def test_a_curve_stays_where_no_later_median_is_above(nlls, seconds):
    assert stays(Trace(np.arange(1.0, len(nlls) + 1), np.array(nlls)), 0.5) == seconds


def test_the_fastest_rival_and_the_best_end_are_what_counts(duel):
    rows = standings(runs_of(duel()))
    assert [(row.dataset, row.label) for row in rows[:3]] == [("heart", "x-gpc"), ("heart", "slow"), ("heart", "other")]
    method, slow, other = rows[:3]
    assert (method.first, slow.first, other.first) == (2.0, 8.0, math.inf)
    assert (method.times_first, method.times_stays) == (4.0, 4.0)
    assert method.excess == pytest.approx(-0.04)
    assert (slow.excess, other.excess) == (0.0, pytest.approx(0.2))
    assert (method.splits, method.rival, slow.rival) == (2, False, True)


def test_a_method_that_never_arrives_counts_as_never(duel, tmp_path):
    late = [(1.0, 0.9, 0.1), (2.0, 0.9, 0.1), (3.0, 0.9, 0.1)]
    found = duel(
        change=lambda block, _: {"trace": late} if (block.dataset, block.table.name) == ("german", "x-gpc") else {}
    )
    written = {path.name: path.read_text(encoding="utf-8") for path in render(found, tmp_path)}
    assert set(written) == {"table.txt", "table.md", "table.tex", "item.csv"}
    (line,) = (line for line in written["table.md"].splitlines() if line.startswith("| x-gpc | 2 |"))
    assert [each.strip() for each in line.strip("|").split("|")] == [
        "x-gpc", "2", "4.0", "4.0", "0.0", "1 of 2", "1 of 2", "+80.0",
    ]  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(written["item.csv"])))
    assert len(rows) == 2 * 3 * 2


def test_failed_cells_are_named_and_their_split_left_out(duel, tmp_path):
    found = duel(change=lambda block, index: {"status": "failed"} if (block.table.name, index) == ("slow", 1) else {})
    runs = runs_of(found)
    method, slow, _ = standings(runs)[:3]
    assert (method.splits, slow.splits) == (1, 1)
    assert "slow on heart, split 2" in render(found, tmp_path)[0].read_text(encoding="utf-8")


def test_times_of_different_processors_are_not_shown(duel, tmp_path):
    found = duel()
    found.results[0].provenance["cpu"] = "another"
    words = render(found, tmp_path)[0].read_text(encoding="utf-8")
    assert "No times are shown" in " ".join(words.split())
    assert " 4.0 " not in words


@pytest.mark.parametrize(("start", "said"), [("10:30", True), ("09:40", True), ("10:09", False)])
def test_a_method_that_ran_at_another_time_than_the_rivals_is_said(duel, tmp_path, start, said):
    found = duel()
    for cell in found.results:
        begun = start if (cell.shown.name, cell.split.index) == ("x-gpc", 1) else "10:00"
        times = {"start": f"2026-11-01T{begun}:00+00:00", "end": f"2026-11-01T{begun}:30+00:00"}
        cell.provenance.update(times)
    words = " ".join(render(found, tmp_path)[0].read_text(encoding="utf-8").split())
    assert ("On 2 of 4 splits x-gpc ran more than 10 minutes before or after all rivals" in words) is said
    assert "splits slow ran" not in words


def test_what_was_planned_and_not_run_is_said(duel, tmp_path):
    found = duel()
    found.results[:] = [cell for cell in found.results if cell.shown.name != "other" and cell.shown.dataset == "heart"]
    words = " ".join(render(found, tmp_path)[0].read_text(encoding="utf-8").split())
    assert "Planned and not run: other; german." in words


def test_what_ran_on_some_sets_or_splits_alone_is_said(duel, tmp_path):
    found = duel()
    gone = {("other", "german", 0), ("other", "german", 1), ("slow", "german", 1)}
    found.results[:] = [c for c in found.results if (c.shown.name, c.shown.dataset, c.split.index) not in gone]
    words = " ".join(render(found, tmp_path)[0].read_text(encoding="utf-8").split())
    assert "On german not run: slow (1 of 2 splits run); other." in words
    assert "On heart" not in words
    assert "Planned and not run" not in words


@pytest.mark.parametrize("figure", ["", '[figure]\nrivals = ["nobody"]\n'])
def test_rivals_must_be_named(duel, figure):
    with pytest.raises(UsageError, match=r"rivals, a list|table of \[methods\]"):
        runs_of(duel(PLAN + figure))
