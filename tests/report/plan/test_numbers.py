import csv
import io
from dataclasses import replace
from shutil import copytree

import pytest

from gpbench.bench.plan.blocks import blocks
from gpbench.bench.plan.read import read_plan
from gpbench.errors import UsageError
from gpbench.report.page.parts import plan_part
from gpbench.report.plan.anew import judge_anew
from gpbench.report.plan.numbers import entries_of, entries_of_table
from gpbench.report.plan.output import plan_text
from gpbench.report.plan.published import shipped_folder
from gpbench.report.plan.table import plan_csv

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


def test_a_table_is_judged_anew_from_its_numbers_alone(plan, run):
    found = plan()
    results = entries_of(found, run(found, 4, limits={"seconds": 60.0}))
    again = entries_of_table(found, plan_csv(found, results))
    assert again == results
    # today's printed number decides, not what the table says of it
    changed = plan_csv(found, results).replace(",agrees,", ",worse,").replace(",0.5,0.01,", ",0.9,0.9,")
    assert entries_of_table(found, changed) == results


def test_an_earlier_table_says_nothing_of_cells_that_were_cut_short(plan, run):
    found = plan()
    rows = list(csv.reader(io.StringIO(plan_csv(found, entries_of(found, run(found, 3))))))
    kept = [index for index, name in enumerate(rows[0]) if name not in {"expected", "cut_short"}]
    earlier = "\n".join(",".join(f'"{row[index]}"' for index in kept) for row in rows)
    first = entries_of_table(found, earlier)[0]
    assert (first.cut, first.expected, str(first.entries["nll"].verdict)) == (None, 4, "agrees: 3 of 4 splits")


def test_a_table_of_other_splits_is_not_comparable(plan, run):
    old = plan()
    text = plan_csv(old, entries_of(old, run(old, 4)))
    told = str(entries_of_table(plan("folds:4"), text)[0].entries["nll"].verdict)
    assert told == "not comparable: splits holdout:0.1*4, the plan's are folds:4"


def test_what_is_no_table_of_the_plan(plan, run):
    found = plan()
    with pytest.raises(UsageError, match="this is no table of mine: it lacks the columns cells, centre"):
        entries_of_table(found, "dataset,label\n")
    text = plan_csv(found, entries_of(found, run(found, 4))).replace(",0.5,", ",half,", 1)
    with pytest.raises(UsageError, match="centre: expected a number or nothing; got 'half'"):
        entries_of_table(found, text)


def test_what_ships_is_judged_by_today_s_rule(tmp_path):
    """Judging the shipped tables anew changes nothing."""
    shipped = shipped_folder("reproduced")
    copytree(shipped, tmp_path / "reproduced")
    told = judge_anew(tmp_path / "reproduced")
    assert told
    files = [f"{name}/table.{ending}" for name, _ in told for ending in ("csv", "md", "txt")]
    for file in [*files, "verdicts.md"]:
        one, other = ((folder / file).read_text(encoding="utf-8") for folder in (tmp_path / "reproduced", shipped))
        assert one == other, file
