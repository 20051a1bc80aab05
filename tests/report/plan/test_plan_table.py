import csv
import io
from dataclasses import replace

import pytest

from gpbench.bench.plan.blocks import blocks
from gpbench.bench.plan.read import read_plan
from gpbench.bench.plan.reduce import quick_form
from gpbench.report.groups import group_cells
from gpbench.report.plan.numbers import entries_of
from gpbench.report.plan.output import plan_text, write_plan
from gpbench.report.plan.table import plan_csv
from gpbench.report.plan.verdicts import RULE

PLAN = """
title = "Table 1"
paper = "villacampa2017"
notes = ["A note."]
datasets = ["german", "magic"]
split = "folds:4"
metrics = ["nll", "error", "train_seconds"]
published = "numbers.csv"
[methods.x-gpc]
label = "X"
[methods.linear]
label = "L"
[overrides.german]
label = "German"
[overrides.magic]
label = "Magic"
"""
NUMBERS = """dataset,method,metric,value,spread
German,X,nll,0.50,0.01
German,X,error,0.20,0.01
German,X,seconds,9,1
German,L,nll,0.90,0.01
Magic,X,nll,0.30,0.02
"""


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "numbers.csv").write_text(NUMBERS, encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(PLAN, encoding="utf-8")
    return read_plan(path)


@pytest.fixture
def cell(plan, make_cell, plan_cell):
    def make(block, index, **outcome):
        found = make_cell(
            dataset=block.dataset, method=block.table.method.id, index=index, protocol=block.split, count=4,
            **{"error": 0.2, **outcome},
        )  # fmt: skip
        return plan_cell(found, block, plan)

    return make


@pytest.fixture
def cells(plan, cell):
    german_x, german_l, _, _ = blocks(plan)
    return [
        *(cell(german_x, index, nll=0.5 + step) for index, step in enumerate((-0.02, 0.02, -0.02, 0.02))),
        *(cell(german_l, index, nll=0.6, error=0.1) for index in range(3)),
        cell(german_l, 3, status="failed"),
    ]


def test_ours_printed_and_verdicts_in_the_paper_s_layout(plan, cells, found_of):
    found = replace(plan, missing={"magic": "data set magic cannot be had"})
    lines = [line for line in plan_text(found_of(found, cells), "text").splitlines() if not line.startswith("─")]
    assert lines == [
        "villacampa2017, Table 1",
        "",
        "data set            X              L",
        "German    NLL       0.500 ± 0.023  0.600 ± 0.000 (failed 1/4)",
        "          printed   0.50 ± 0.01    0.90 ± 0.01",
        "          verdict   agrees         failed",
        "          error     0.200 ± 0.000  0.100 ± 0.000 (failed 1/4)",
        "          printed   0.20 ± 0.01    –",
        "          verdict   agrees         –",
        "          time (s)  1.00 ± 0.00    1.00 ± 0.00 (failed 1/4)",
        "          printed   9 ± 1          –",
        "Magic     NLL       no data        no data",
        "          printed   0.30 ± 0.02    –",
        "          verdict   not run        –",
        "          error     no data        no data",
        "          time (s)  no data        no data",
        (
            "Verdicts: 2 of 2 decided numbers agree with what is printed (100 %), 0 are lower and 0 higher; "
            "undecided 0, not comparable 0, cut short 0, not run 1, failed 1."
        ),
        RULE,
        "Mean ± one standard deviation over splits. * lowest of the row.",
        "Times were taken on Zen 4.",
        "A note.",
        "Magic: data set magic cannot be had.",
    ]


def test_every_number_in_full(plan, cells):
    rows = list(csv.DictReader(io.StringIO(plan_csv(plan, entries_of(plan, cells)))))
    assert len(rows) == 12
    first = rows[0]
    assert float(first["centre"]) == 0.5
    assert float(first["standard_error"]) == pytest.approx(float(first["spread_sd"]) / 2)
    assert (first["printed"], first["printed_spread"], first["verdict"]) == ("0.5", "0.01", "agrees")
    assert (rows[3]["verdict"], rows[3]["why"], rows[3]["failed"]) == ("failed", "1 of 4 splits", "1")
    assert (rows[6]["verdict"], rows[6]["why"], rows[6]["centre"]) == ("not run", "not run", "")


def test_median_and_two_standard_deviations(plan, cell, found_of):
    own = [cell(blocks(plan)[0], index, nll=nll) for index, nll in enumerate((1.0, 1.1, 9.0))]
    entry = entries_of(replace(plan, centre="median", spread="2sd"), own)[0].entries["nll"]
    mean = entries_of(plan, own)[0].entries["nll"]
    assert (entry.centre, entry.spread) == (1.1, 2 * mean.spread)
    assert "large (1.100 ± " in plan_text(found_of(replace(plan, centre="median"), own), "text")


def test_a_quick_form_is_judged_by_nothing_and_says_so_first(plan, cells, found_of):
    quick = quick_form(plan)
    text = plan_text(found_of(quick, cells), "text")
    assert text.splitlines()[1].startswith("QUICK FORM, not for its numbers: ")
    assert {str(entry.verdict) for result in entries_of(quick, cells) for entry in result.entries.values()} == {
        "", "not comparable: quick form", "another machine",
    }  # fmt: skip


def test_what_does_not_compare_says_why(plan, cells, found_of):
    override = replace(plan.override("german"), incomparable="a tenth of the rows")
    found = replace(plan, overrides={**plan.overrides, "german": override})
    assert "German: not comparable: a tenth of the rows." in plan_text(found_of(found, cells), "text")


def test_times_of_two_processors_are_not_shown(plan, cells, found_of):
    cells[0].provenance["cpu"] = "M4"
    text = plan_text(found_of(plan, cells), "text")
    assert "time (s)  –" in text
    assert "No times are shown: the cells ran on different processors (M4; Zen 4)." in text


def test_the_lowest_of_a_row_is_marked_where_all_have_run(plan, cell, cells, found_of):
    own = [each for each in cells if each.finished]
    three = [each for each in own if each.split.index < 3]
    assert " *" not in plan_text(found_of(plan, own), "text").split("─\n")[1]
    german_l = blocks(plan)[1]
    text = plan_text(found_of(plan, [*own, cell(german_l, 3, nll=0.6, error=0.1)]), "text")
    assert "NLL       0.500 ± 0.023 *  0.600 ± 0.000" in text
    assert "error     0.200 ± 0.000    0.100 ± 0.000 *" in text
    other = replace(plan, methods=(plan.methods[0], replace(plan.methods[1], split="folds:5")))  # other test rows
    assert " *" not in plan_text(found_of(other, [*own, cell(german_l, 3, nll=0.6, error=0.1)]), "text").split("─\n")[1]
    assert "(3 of 4 splits)" in plan_text(found_of(plan, three), "text")


def test_a_cell_of_two_variants_counts_once_whatever_the_order(plan, make_cell, plan_cell):
    both = [plan_cell(make_cell(), block, plan) for block in blocks(plan)[:2]]
    assert [[group.method_label for group in group_cells(cells)] for cells in (both, both[::-1])] == [["X"], ["X"]]


def test_files_and_their_provenance(plan, cells, tmp_path, found_of):
    written = write_plan(found_of(plan, cells), tmp_path / "out")
    assert [path.name for path in written] == ["table.txt", "table.md", "table.tex", "table.csv", "provenance.json"]
    assert written[1].read_text(encoding="utf-8").startswith("> villacampa2017, Table 1")
    assert '"failed": 1' in written[-1].read_text(encoding="utf-8")


def test_a_title_can_neither_act_on_a_terminal_nor_mark_up(plan, cells, tmp_path, found_of):
    hostile = replace(plan, paper="", title="<b>\x1b[31m 5% \u202e\nend")
    first = {form: plan_text(found_of(hostile, cells), form).splitlines()[0] for form in ("text", "markdown", "latex")}
    assert first["text"] == "<b>\ufffd[31m 5% \ufffd end"
    assert first["latex"] == "% " + first["text"]
    assert first["markdown"] == "> \\<b\\>\ufffd\\[31m 5% \ufffd end  "
    write_plan(found_of(hostile, cells), tmp_path)
    assert (tmp_path / "table.txt").read_text(encoding="utf-8").splitlines()[0] == first["text"]
    assert (tmp_path / "table.md").read_text(encoding="utf-8").splitlines()[0] == first["markdown"].rstrip("\n")


def test_busy_clocks_are_said_once_with_the_data_sets(plan, cells, found_of):
    busy = [
        replace(each, clock="processor", metrics={**each.metrics, "wall_seconds": 6.0, "cpu_seconds": 2.0})
        for each in cells[:3]
    ]
    notes = plan_text(found_of(plan, [*busy, *cells[3:]]), "text").replace("\n", " ")
    assert notes.count("the machine was busy") == 1
    assert "In 3 of 7 cells (German) training took up to 3 times as many wall seconds" in notes
