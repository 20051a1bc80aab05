"""Numbers that lie apart from the printed ones, and what explains them, from made-up cells."""

import csv
import io

import pytest

from gpbench.bench.plan.read import find_plan
from gpbench.errors import UsageError
from gpbench.report.evidence.apart import apart, apart_csv, apart_table
from gpbench.report.plan import claims_file
from gpbench.report.plan.checks import Check
from gpbench.report.plan.claims import Judged, unjudged
from gpbench.report.plan.claims_file import Cause, Claim, Counterparts, Part, read_causes

PLAN = """
title = "T"
paper = "villacampa2017"
datasets = ["german", "magic"]
split = "holdout:0.1*2"
metrics = ["nll"]
published = "numbers.csv"
[methods.a]
method = "x-gpc"
printed = "A"
[methods.other]
method = "svgpc"
printed = "A"
counted = false
"""
NUMBERS = "dataset,method,metric,value,spread\ngerman,A,nll,0.50,0.01\nmagic,A,nll,0.30,0.01\n"
NLLS = {("german", "a"): 0.9, ("german", "other"): 0.5, ("magic", "a"): 0.9, ("magic", "other"): 0.9}


@pytest.fixture
def plans(tmp_path, ran):
    (tmp_path / "numbers.csv").write_text(NUMBERS, encoding="utf-8")

    def outcomes(block):
        nll = NLLS[block.dataset, block.table.name]
        return [{"nll": nll}, {"nll": nll + 0.001}]

    return {"mine": ran(PLAN, outcomes, count=2)}


OTHER = Counterparts(plan="mine", methods={"a": "other"})


def cause(verdict, *, upheld=(), denied=(), **options):
    part = Part(plan="mine", measure="m", options={})
    claim = Claim(paper="p", text=f"so it is: {verdict}", rule="all", parts=(part,))
    checks = [Check("3 of 4", holds=True, cells=tuple(upheld)), Check("1 of 4", holds=False, cells=tuple(denied))]
    told = (
        unjudged(claim)
        if verdict == "not measured"
        else Judged(claim=claim, verdict=verdict, grade="full", checks=tuple((part, check) for check in checks))
    )
    return Cause(claim=claim, plan="mine", methods=("a",), datasets=(), **options), told


def test_a_cause_explains_where_it_holds_and_what_it_puts_instead_agrees(plans):
    causes = [cause("does not hold"), cause("holds", instead=OTHER), cause("not measured")]
    german, magic = apart(plans, causes)
    assert (german.entry.verdict.word, german.words) == ("higher", "2")
    assert magic.words == "not known; not 1, 2"
    table = apart_table([german, magic])
    assert "| mine | german | a | NLL | higher |" in table
    assert "- 2: so it is: holds: holds, 1 of 2 (full). 3 of 4; 1 of 4." in table
    assert "- 3:" not in table, "nothing was measured of it"
    rows = list(csv.DictReader(io.StringIO(apart_csv([german, magic]))))
    assert [(row["dataset"], row["holds"], row["explains"]) for row in rows] == [
        ("german", "does not hold", "False"), ("german", "holds", "True"),
        ("magic", "does not hold", "False"), ("magic", "holds", "False"),
    ]  # fmt: skip


def test_what_a_cause_puts_instead_is_of_the_same_swept_value(tmp_path, ran):
    (tmp_path / "numbers.csv").write_text(
        "dataset,method,inducing,metric,value,spread\ngerman,A,4,nll,0.50,0.01\ngerman,A,8,nll,0.50,0.01\n",
        encoding="utf-8",
    )
    text = PLAN.replace('["german", "magic"]', '["german"]') + "[sweep]\ninducing = [4, 8]\n"

    def outcomes(block):
        nll = 0.5 if block.table.name == "other" and list(block.sweep.values()) == [4] else 0.9
        return [{"nll": nll}, {"nll": nll + 0.001}]

    plans = {"mine": ran(text, outcomes, count=2)}
    few, many = apart(plans, [cause("holds", instead=OTHER)])
    assert (few.words, many.words) == ("1", "not known; not 1")


def test_what_a_cause_puts_instead_may_be_of_another_data_set(plans):
    there = Counterparts(plan="mine", methods={"a": "other"}, datasets={"german": "magic"})
    german, _ = apart(plans, [cause("holds", instead=there)])
    straight, _ = apart(plans, [cause("holds", instead=OTHER)])
    assert (german.tried[0].explains, straight.tried[0].explains) == (False, True)


@pytest.mark.parametrize(("table", "method"), [("a", "x-gpc"), ("other", "svgpc")])
def test_a_cause_that_speaks_of_each_number_apart_goes_by_the_cells_that_it_names(plans, table, method):
    cells = {cell.dataset: cell for cell in plans["mine"].results if cell.method == method}
    of = {"cells": Counterparts(plan="mine", methods={"a": table}), "upheld": [cells["german"]]}
    assert [each.words for each in apart(plans, [cause("holds in part", **of)])] == ["1", "not known"]
    of["denied"] = [cells["magic"]]
    assert [each.words for each in apart(plans, [cause("holds in part", **of)])] == ["1", "not known; not 1"]


@pytest.mark.parametrize(
    ("other", "words"),
    [((0.5, 0.501), "1"), ((0.3, 0.7), "1"), ((0.9, 0.901), "not known; not 1"), ((0.5,), "not known")],
)
def test_what_takes_a_number_s_place_must_not_lie_apart_too(tmp_path, ran, other, words):
    (tmp_path / "numbers.csv").write_text(NUMBERS, encoding="utf-8")
    plan = {
        "mine": ran(
            PLAN,
            lambda block: [{"nll": nll} for nll in ((0.9, 0.901) if block.table.name == "a" else other)],
            count=2,
        )
    }
    german, _ = apart(plan, [cause("holds", instead=OTHER)])
    assert german.words == words


def test_what_is_undecided_neither_explains_nor_is_ruled_out(plans):
    (german, _) = apart(plans, [cause("undecided", instead=OTHER)])
    assert (german.words, [each.explains for each in german.tried]) == ("not known", [None])


def test_a_number_without_a_cause_is_named_too(plans):
    assert [each.words for each in apart(plans, [])] == ["not known", "not known"]
    assert len(apart_csv(apart(plans, [])).splitlines()) == 3
    assert apart_table([]) == "None."
    number = {"method": "a", "dataset": "german", "metric": "nll"}
    assert not cause("holds", large=True)[0].speaks_of("mine", **number, large=False)
    assert cause("holds", large=True)[0].speaks_of("mine", **number, large=True)
    assert cause("holds", metrics=("nll",))[0].speaks_of("mine", **number, large=False)
    assert not cause("holds", metrics=("error",))[0].speaks_of("mine", **number, large=False)


def test_a_cause_that_puts_a_data_set_in_a_number_s_place_names_the_methods_too(tmp_path, monkeypatch):
    (tmp_path / "causes.toml").write_text(
        '[[causes]]\ntext = "t"\nexplains = { plan = "villacampa2017/table2" }\n'
        'instead = { plan = "questions/vowel", datasets = { vowel = "vowel-last" } }\n'
        '[[causes.parts]]\nplan = "questions/vowel"\nmeasure = "below"\n'
        'options = { method = "gfitc", metric = "nll", value = 1.0 }\n',
        encoding="utf-8",
    )
    monkeypatch.setattr(claims_file, "published_folder", lambda: tmp_path)
    with pytest.raises(UsageError, match=r"causes.toml, line 4: .*needs the methods"):
        read_causes.__wrapped__()


def test_causes_that_ship_speak_of_numbers_of_their_plans():
    for each in read_causes():
        plan = find_plan(each.plan)
        tables = {method.name for method in plan.methods}
        assert set(each.methods) <= tables
        assert set(each.datasets) <= set(plan.datasets)
        assert set(each.metrics) <= set(plan.metrics)
        for there in filter(None, (each.cells, each.instead)):
            other = find_plan(there.plan)
            assert set(there.methods) <= tables
            assert set(each.methods) <= set(there.methods), "or a number that is to be explained never is"
            assert set(there.methods.values()) <= {method.name for method in other.methods}
            assert other.published, "or nothing there is judged"
            assert set(there.datasets) <= set(plan.datasets)
            assert set(there.datasets.values()) <= set(other.datasets)
