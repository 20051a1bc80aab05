"""States of experiments, the page and the summary picture, from made-up cells."""

import pytest

from gpbench.bench.plan.blocks import blocks
from gpbench.errors import UsageError
from gpbench.report.evidence import page as evidence_page
from gpbench.report.evidence.experiments import experiment, experiments_table, headlines
from gpbench.report.evidence.page import UNCARRIED, page, resolved
from gpbench.report.evidence.summary import points, points_csv, summary_picture
from gpbench.report.plan.checks import Check
from gpbench.report.plan.claims import Judged, unjudged
from gpbench.report.plan.claims_file import Claim, Part

PLAN = """
title = "T"
paper = "villacampa2017"
datasets = ["german", "magic"]
split = "holdout:0.1*2"
metrics = ["nll", "error"]
published = "numbers.csv"
[methods.a]
method = "x-gpc"
printed = "A"
[methods.b]
method = "svgpc"
printed = "B"
"""
NUMBERS = "dataset,method,metric,value,spread\ngerman,A,nll,0.50,0.01\nmagic,A,nll,0.30,0.01\ngerman,B,nll,large,\n"


@pytest.fixture
def bench(tmp_path, ran):
    def make(given, **common):
        """Data set, table -> NLLs of the splits; None: a failed cell."""
        (tmp_path / "numbers.csv").write_text(NUMBERS, encoding="utf-8")

        def outcomes(block):
            for value in given.get((block.dataset, block.table.name), ()):
                yield {"version": block.table.method.version} | (
                    {"status": "failed"} if value is None else {"nll": value}
                )

        return ran(PLAN, outcomes, count=2, **common)

    return make


ALL = {(dataset, name): (0.5, 0.51) for dataset in ("german", "magic") for name in "ab"}


def test_full_cut_short_in_part_and_not_run(bench):
    assert experiment(bench(ALL)).state == "full"
    cut = experiment(bench(ALL, stopped_by="seconds", limits={"seconds": 5.0}))
    assert (cut.state, cut.cut, cut.finished, cut.planned) == ("cut short", 8, 8, 8)
    part = experiment(bench({("german", "a"): (0.5, None)}))
    assert (part.state, part.finished, part.failed, part.planned, part.absent) == ("in part", 1, 1, 8, ("magic",))
    none = experiment(bench({}))
    assert (none.state, none.planned, none.absent) == ("not run", 8, ())
    text = experiments_table([experiment(bench(ALL)), part, none])
    assert "| mine: T | in part | 1 of 8 | 1 failed; no cells of magic |" in text
    assert "Not run (8 cells at least): mine." in text


def test_cells_of_an_earlier_version_count_and_are_named(bench, make_cell, plan_cell, found_of):
    found = bench({})
    block = blocks(found.plan)[0]
    cell = make_cell(dataset="german", protocol=block.split, count=2, version=-1, settings=dict(block.settings))
    assert experiment(found_of(found.plan, [plan_cell(cell, block, found.plan)])).stale == ("x-gpc",)


def test_verdicts_are_counted_for_each_plan_and_for_all(bench):
    told = headlines({"mine": bench({("german", "a"): (0.5, 0.501)})})
    assert (told["mine"].counts["agrees"], told["mine"].counts["not run"]) == (1, 2)
    assert told["all"].share == 1.0


def test_a_number_of_the_page_is_its_plan_s_centre_and_leaves_with_its_cells(bench):
    text = "x-gpc has {{mine | a, dataset=german | nll}} nats.\n\nOthers have {{mine | b, dataset=german | nll}}."
    plans = {"mine": bench({("german", "a"): (0.4, 0.6)})}
    assert resolved(text, plans) == f"x-gpc has 0.5 nats.\n\n{UNCARRIED}"
    for wrong, why in (
        ("mine | a", "named PLAN"), ("other | a | nll", "named PLAN"), ("mine | a | bound", "bound is no metric"),
        ("mine | a | nll", "2 groups"), ("mine | c | nll", "unknown table"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=why):
            resolved("{{" + wrong + "}}", plans)


def judged(text, found=None, *words):
    """A finding of one check, which rests on all cells that there are; none: nothing is measured."""
    part = Part(plan="mine", measure="lower", options={})
    claim = Claim(paper="gpbench", text=text, rule="all", parts=(part,))
    if found is None:
        return unjudged(claim)
    checks = tuple((part, Check(each, None, found.results)) for each in words)
    return Judged(claim=claim, verdict="holds", grade="full", checks=checks)


def test_the_page_tells_what_is_measured_and_asks_what_is_not(bench, monkeypatch):
    plans = {"mine": bench(ALL)}
    findings = [
        judged("it is so", plans["mine"], "a 1, b 2"),
        judged("and that"),
    ]
    monkeypatch.setattr(evidence_page, "_FIRST", 2)
    findings.append(judged("and others", plans["mine"], "c 3"))
    text = page(
        "# R\n<!-- FINDINGS -->\n\n<!-- FURTHER -->\n\n<!-- HEADLINE -->\n\n<!-- CLAIMS -->\n\n<!-- EXPERIMENTS -->\n",
        plans=plans, findings=findings, claims=[judged("said")], told=headlines(plans),
        found=[experiment(plans["mine"])],
    )  # fmt: skip
    assert "- **it is so**: holds (full, 8 cells).\n  a 1, b 2. `gpbench report mine`." in text
    assert "- **and that?**: not measured.\n  `gpbench report mine`." in text
    assert "| and others | holds | full, 8 cells | `gpbench report mine` |" in text
    assert "c 3" not in text
    assert "Of 1 claims: not measured 1." in text
    assert "1 plans: full 1. 8 of 8 cells" in text
    with pytest.raises(UsageError, match="the template names OTHER"):
        page("<!-- OTHER -->", plans=plans, findings=[], claims=[], told=headlines(plans), found=[])


def test_points_are_what_is_printed_and_may_be_compared(bench):
    found = points([bench({("german", "a"): (0.5, 0.52), ("magic", "a"): (0.3,), ("german", "b"): (2.0, 2.0)})])
    assert [(point.dataset, point.method, point.ours, point.printed, point.whole) for point in found] == [
        ("german", "a", 0.51, 0.5, True), ("magic", "a", 0.3, 0.3, False),
    ]  # fmt: skip
    assert points_csv(found).splitlines()[1].endswith(",agrees,True")
    drawn = summary_picture(found)
    assert len(drawn.axes) == 1
    fills = [line.get_markerfacecolor() for line in drawn.axes[0].lines if line.get_marker() != "None"]
    assert fills[-1] == "white"
    assert fills[0] != "white"
    drawn.draw_without_rendering()
    labels = [
        label.get_text()
        for axis in (drawn.axes[0].xaxis, drawn.axes[0].yaxis)
        for label in axis.get_ticklabels(which="both")
    ]
    assert sum(map(bool, labels)) >= 6, "three on each axis"
    assert not any("$" in label for label in labels), "a formula, which is not set"
    assert summary_picture([]) is None
