"""Iterations and seconds to 2 % of a method's own end, on made-up curves."""

from dataclasses import replace

import pytest

from gpbench.errors import UsageError
from gpbench.report.plan.attaining import attainments, displays, render

PLAN = """
title = "T"
datasets = ["twonorm-gen"]
split = "holdout:0.1*2"
render = "attainment"
[methods.x-gpc]
[methods.svgpc]
{more}
"""
FAST = [(0.1, 1.0, 0.3), (0.2, 0.505, 0.2), (0.4, 0.5, 0.2), (0.8, 0.5, 0.2)]
SLOW = [(0.1, 2.0, 0.3), (1.0, 1.0, 0.3), (2.0, 0.9, 0.2), (4.0, 0.4, 0.2), (8.0, 0.4, 0.2), (9.0, 0.4, 0.2)]


@pytest.fixture
def found(ran):
    def make(curves, more=""):
        def outcomes(block):
            for trace in curves[block.table.name]:
                yield {"status": "failed"} if trace is None else {"trace": trace, "nll": trace[-1][1]}

        return ran(PLAN.format(more=more), outcomes, count=2)

    return make


def test_each_method_runs_for_its_own_end(found):
    here = found({"x-gpc": [FAST, FAST], "svgpc": [SLOW, SLOW]})
    first, second = attainments(here.plan, here.results)
    assert (first.iterations, first.seconds, first.fewer, first.sooner) == (2.0, 0.2, 1.0, 1.0)
    assert (second.iterations, second.seconds, second.fewer, second.sooner) == (4.0, 4.0, 2.0, pytest.approx(20.0))
    assert (first.end, second.end) == (0.5, 0.4)


def test_ratios_rest_on_common_splits_and_failures_are_counted(found):
    here = found({"x-gpc": [None, FAST], "svgpc": [SLOW, SLOW]})
    first, second = attainments(here.plan, here.results)
    assert (first.splits, first.failed, second.splits) == (1, 1, 2)
    assert second.sooner == pytest.approx(20.0)
    none = found({"x-gpc": [None, None], "svgpc": [SLOW, SLOW]})
    assert attainments(none.plan, none.results)[1].sooner is None


def test_splits_of_one_number_and_other_protocols_are_not_common(found):
    here = found({"x-gpc": [FAST, FAST], "svgpc": [SLOW, SLOW]})
    cells = [
        replace(cell, split=replace(cell.split, protocol="folds:2")) if cell.method == "svgpc" else cell
        for cell in here.results
    ]
    assert attainments(here.plan, cells)[1].sooner is None


def test_seconds_of_two_processors_stand_in_no_column(found):
    here = found({"x-gpc": [FAST, FAST], "svgpc": [SLOW, SLOW]})
    cells = [replace(cell, provenance={**cell.provenance, "cpu": cell.method}) for cell in here.results]
    rows = attainments(here.plan, cells)
    assert [(row.iterations, row.seconds, row.sooner) for row in rows] == [(2.0, None, None), (4.0, None, None)]
    assert "No seconds are shown" in displays(replace(here, results=cells))[0].notes[1]


def test_ratios_are_to_the_plan_s_first_method_or_none(found):
    here = found({"x-gpc": [], "svgpc": [SLOW, SLOW]})
    (row,) = attainments(here.plan, here.results)
    assert (row.method, row.fewer, row.sooner) == ("svgpc", None, None)
    assert "Ratios: to x-gpc, medians" in displays(here)[0].notes[0]


def test_a_wider_goal_is_reached_sooner_and_a_goal_below_one_is_refused(found):
    here = found({"x-gpc": [FAST], "svgpc": [SLOW]}, more="[figure]\nfactor = 3.0")
    assert attainments(here.plan, here.results)[1].iterations == 2.0
    wrong = found({"x-gpc": [FAST], "svgpc": [SLOW]}, more="[figure]\nfactor = 0.9")
    with pytest.raises(UsageError, match="above 1"):
        attainments(wrong.plan, wrong.results)


def test_the_table_says_what_was_found(found, tmp_path):
    here = found({"x-gpc": [FAST, FAST], "svgpc": [SLOW, SLOW]})
    written = render(here, tmp_path / "out")
    assert [path.name for path in written] == ["table.txt", "table.md", "table.tex", "table.csv"]
    assert "20" in written[0].read_text(encoding="utf-8")
    assert written[-1].read_text(encoding="utf-8").splitlines()[0].startswith("dataset,method,splits")
