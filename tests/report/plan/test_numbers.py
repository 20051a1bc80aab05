import csv
import io
from dataclasses import replace

import pytest

from gpbench.bench.plan.blocks import blocks
from gpbench.bench.plan.read import read_plan
from gpbench.report.page.parts import plan_part
from gpbench.report.plan.numbers import entries_of
from gpbench.report.plan.output import plan_text

PLAN = """
title = "Table"
paper = "villacampa2017"
datasets = ["german", "magic"]
split = "{split}"
metrics = ["nll", "train_seconds"]
published = "numbers.csv"
[methods.x-gpc]
label = "X"
[methods.own]
method = "x-gpc"
label = "X, as in the authors' code"
printed = "X"
counted = false
rate = 0.5
[overrides.german]
label = "German"
"""


@pytest.fixture
def plan(tmp_path):
    def make(split="holdout:0.1*4", extra=""):
        (tmp_path / "numbers.csv").write_text(
            "dataset,method,metric,value,spread\nGerman,X,nll,0.50,0.01\nGerman,X,seconds,9,1\nmagic,X,nll,0.3,0.01\n",
            encoding="utf-8",
        )
        path = tmp_path / "mine.toml"
        path.write_text(extra + PLAN.format(split=split), encoding="utf-8")
        return read_plan(path)

    return make


@pytest.fixture
def run(make_cell, plan_cell):
    def make(plan, count, **outcome):
        return [
            plan_cell(
                make_cell(
                    dataset="german", index=index, protocol=blocks(plan)[0].split, count=4,
                    **{"nll": 0.5 + 0.01 * (-1) ** index, **outcome},
                ),
                blocks(plan)[0], plan,
            )
            for index in range(count)
        ]  # fmt: skip

    return make


def word(plan, cells):
    return str(entries_of(plan, cells)[0].entries["nll"].verdict)


def test_a_part_of_random_splits_is_judged_and_of_ordered_ones_not(plan, run):
    random, ordered = plan(), plan("contiguous:4")
    assert word(random, run(random, 4)) == "agrees"
    assert word(random, run(random, 3)) == "agrees: 3 of 4 splits"
    assert word(random, run(random, 1)) == "undecided: 1 of 4 splits"
    assert word(ordered, run(ordered, 4)) == "agrees"
    assert word(ordered, run(ordered, 3)) == "not comparable: 3 of 4 splits in file order"


def test_the_number_of_splits_is_the_plan_s(plan, run):
    two = plan(extra="splits = 2\n")
    assert word(two, run(two, 2)) == "agrees"
    fewer = replace(two, reduction=replace(two.reduction, splits=1))  # as `--folds 1` asks for
    assert word(fewer, run(fewer, 1)) == "undecided: 1 of 2 splits"


def test_a_clock_cuts_short_what_the_paper_ran_to_its_end(plan, run):
    found = plan()
    cells = run(found, 4, stopped_by="seconds", limits={"seconds": 60.0})
    assert word(found, cells) == "cut short: 4 of 4 splits"
    result = entries_of(found, cells)[0]
    assert (result.cut, result.note) == (4, "cut short 4/4")
    longer = plan(extra="paper_limits = { seconds = 60 }\n")
    assert word(longer, cells) == "agrees"


def test_text_csv_and_page_print_the_same_verdict_and_count_alike(plan, run, found_of):
    found = plan()
    cells = run(found, 3)
    rows = list(csv.DictReader(io.StringIO(plan_text(found_of(found, cells), "csv"))))
    words = [row["verdict"] for row in rows if row["metric"] == "nll"]
    assert words == ["agrees", "not run", "not run", "not run"]
    ((_, shown),) = plan_part(found_of(found, cells)).tables
    verdicts = [line.words for line in shown.lines if line.words[1].strip() == "verdict"]
    assert verdicts == [("", "  verdict", "agrees", "not run"), ("", "  verdict", "not run", "not run")]
    text = plan_text(found_of(found, cells), "text")
    assert [line.split()[1:] for line in text.splitlines() if line.split()[:1] == ["verdict"]] == [
        ["agrees", "not", "run"], ["not", "run", "not", "run"],
    ]  # fmt: skip
    # the rows that are not counted are judged, shown, and in no share
    assert "Verdicts: 1 of 1 decided numbers agree" in text
    assert "not run 1" in text
    assert "Judged and not counted: X, as in the authors' code." in text


def test_a_mean_that_hangs_on_one_row_says_so(plan, run, found_of):
    found = plan()
    cells = run(found, 4, nll=0.5)
    shares = [0.05, 0.6, 0.05, 0.05]
    told = [
        replace(cell, metrics={**cell.metrics, "worst_share": share}) for cell, share in zip(cells, shares, strict=True)
    ]
    first = entries_of(found, told)[0]
    assert first.one_row == pytest.approx(0.6 / 4)
    words = "One test row carries more than 10 % of the mean NLL over splits: German, X (15 %)."
    assert words in plan_text(found_of(found, told), "text").replace("\n", " ")
    assert "One test row" not in plan_text(found_of(found, told[:1] + told[2:]), "text")
    assert entries_of(found, [*told[:3], cells[3]])[0].one_row is None, "one split's share is not known"
    medians = plan(extra='centre = "median"\n')
    assert "One test row" not in plan_text(found_of(medians, told), "text")
