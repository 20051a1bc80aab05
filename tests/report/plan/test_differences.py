import csv
import io
import math

import pytest
from scipy import stats

from gpbench.bench.plan.blocks import blocks
from gpbench.bench.plan.read import read_plan
from gpbench.report.plan.differences import PlannedDifference, differences, differences_csv, differences_note
from gpbench.report.plan.numbers import entries_of
from gpbench.report.plan.output import plan_text, write_plan

PLAN = """
title = "Table"
paper = "villacampa2017"
datasets = ["german"]
split = "holdout:0.1*4"
metrics = ["nll", "train_seconds"]
published = "numbers.csv"
[methods.x-gpc]
label = "X"
[methods.linear]
label = "L"
[methods.svgpc]
label = "S"
"""


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "numbers.csv").write_text(
        "dataset,method,metric,value,spread\ngerman,X,nll,0.50,0.20\ngerman,L,nll,0.60,0.20\n"
        "german,X,seconds,1,1\ngerman,L,seconds,2,1\n",
        encoding="utf-8",
    )
    path = tmp_path / "mine.toml"
    path.write_text(PLAN, encoding="utf-8")
    return read_plan(path)


@pytest.fixture
def cells(plan, make_cell, plan_cell):
    """Splits far apart, on each of which the first is lower by 0.08 to 0.11."""
    nlls = {"x-gpc": (0.2, 0.8, 0.4, 0.6), "linear": (0.3, 0.9, 0.48, 0.71), "svgpc": (0.5,) * 4}
    return [
        plan_cell(
            make_cell(
                dataset="german", method=block.table.method.id, index=index, protocol=block.split, count=4, nll=nll
            ),
            block, plan,
        )
        for block in blocks(plan)
        for index, nll in enumerate(nlls[block.table.method.id])
    ]  # fmt: skip


def test_the_difference_of_two_methods_by_hand(plan, cells):
    (found,) = differences(plan, entries_of(plan, cells), cells)
    assert (found.first, found.second, found.metric, found.splits) == ("X", "L", "nll", 4)
    d = (-0.1, -0.1, -0.08, -0.11)
    mean = sum(d) / 4
    sd = math.sqrt(sum((each - mean) ** 2 for each in d) / 3)
    half = stats.t.ppf(0.975, 3) * sd * math.sqrt(1 / 4 + 1 / 9)  # holdout of a tenth: nine tenths are shared
    assert (found.ours, found.low, found.high) == pytest.approx((mean, mean - half, mean + half))
    assert (found.printed, found.rounding) == pytest.approx((-0.1, 0.01))
    assert (found.sign, found.size) == ("same", "within")


def test_it_decides_where_the_numbers_alone_do_not(plan, cells, found_of, tmp_path):
    assert {entry.verdict.word for each in entries_of(plan, cells) for entry in each.entries.values()} == {
        "undecided", "",
    }  # fmt: skip
    told = (
        "Differences between methods on the same splits, 1 pairs: sign same 1, opposite 0, open 0; the printed "
        "difference lies within our 95 % interval in 1."
    )
    assert told in plan_text(found_of(plan, cells), "text")
    written = write_plan(found_of(plan, cells), tmp_path / "out")
    assert "differences.csv" in [path.name for path in written]
    (row,) = csv.DictReader(io.StringIO((tmp_path / "out" / "differences.csv").read_text(encoding="utf-8")))
    assert (row["first"], row["second"], row["sign"], row["size"]) == ("X", "L", "same", "within")


@pytest.mark.parametrize(
    ("low", "high", "printed", "sign", "size"),
    [
        (0.1, 0.3, 0.2, "same", "within"),
        (0.1, 0.3, -0.2, "opposite", "outside"),
        (-0.1, 0.3, 0.2, "open", "within"),
        (0.1, 0.3, 0.01, "open", "outside"),
        (0.1, 0.3, 0.31, "same", "within"),
        (0.1, 0.3, 0.32, "same", "outside"),
        (-0.3, -0.1, -0.5, "same", "outside"),
    ],
)
def test_sign_and_size(low, high, printed, sign, size):
    found = PlannedDifference(
        dataset="D", swept="", metric="nll", first="A", second="B", splits=4, ours=(low + high) / 2, low=low, high=high,
        printed=printed, rounding=0.01,
    )  # fmt: skip
    assert (found.sign, found.size) == (sign, size)
    assert differences_csv([found]).splitlines()[1].endswith(f"{sign},{size}")


def test_what_cannot_be_compared_is_in_no_pair(plan, cells):
    some = [cell for cell in cells if cell.method != "linear"]
    assert differences(plan, entries_of(plan, some), some) == []
    assert differences_note([]) == ""
    one = [cell for cell in cells if cell.split.index == 0]
    assert differences(plan, entries_of(plan, one), one) == []
