import csv
import io
from dataclasses import replace

import pytest

from gpbench.bench.cell import Limits
from gpbench.bench.plan import cells as plan_cells
from gpbench.bench.plan.blocks import blocks
from gpbench.bench.plan.read import find_plan, read_plan, shipped
from gpbench.bench.plan.reduce import quick_form
from gpbench.bench.store import Store
from gpbench.errors import UsageError
from gpbench.report.page import plan_page
from gpbench.report.page.parts import plan_part
from gpbench.report.plan import claims
from gpbench.report.plan.checks import Check
from gpbench.report.plan.claims import judge_claims, judge_claims_of, judge_store, unjudged
from gpbench.report.plan.claims_file import MEASURES, Claim, Part, claims_of, read_claims
from gpbench.report.plan.claims_shown import NOTE, claim_display, claim_words, claims_csv
from gpbench.report.plan.output import plan_text, write_plan

PAPERS = ("hensman2015", "izmailov2016", "sheth2015", "villacampa2017", "wenzel2019")
FILE = """
paper = "wenzel2019"
[[claims]]
text = "it is good"
[[claims.parts]]
plan = "table1"
measure = "lower"
options = { first = "x-gpc", second = "svgpc" }
"""
PLAN = """
title = "T"
paper = "mine"
datasets = ["german", "magic"]
split = "holdout:0.1*3"
[methods.x-gpc]
[methods.svgpc]
"""


def test_all_claims_of_the_papers_are_code():
    found = read_claims()
    assert len(found) == 33
    assert {claim.paper for claim in found} == set(PAPERS)
    for claim in found:
        for part in claim.parts:
            assert part.plan in shipped()
            assert part.measure in MEASURES


def test_every_claim_is_shown_with_a_plan():
    assert {claim.text for name in shipped() for claim in claims_of(name)} == {claim.text for claim in read_claims()}


def test_without_cells_every_claim_reads_not_measured_and_knows_its_plan(tmp_path):
    """Every measure runs with its options: names of methods, data sets and swept values are the plan's."""
    judged = judge_store(Store(tmp_path / "runs"))
    assert {each.verdict for each in judged} == {"not measured"}
    assert all(each.measured == each.grade == "" for each in judged)


def test_the_store_is_read_once_for_all_claims(tmp_path, monkeypatch):
    reads = []
    monkeypatch.setattr(Store, "results", lambda store: reads.append(store) or [])
    judge_store(Store(tmp_path / "runs"))
    assert len(reads) == 1


def test_claims_are_judged_without_reference_results_where_none_are_wanted(tmp_path, monkeypatch, found_of):
    reads = []
    monkeypatch.setattr(plan_cells, "read_reference", lambda path: reads.append(path) or [])
    store = Store(tmp_path / "runs")
    judge_store(store, fresh=True)
    judge_claims_of(replace(found_of(find_plan("villacampa2017/table2")), fresh=True))  # and those of another plan
    assert reads == []
    judge_store(store)
    assert len(reads) > 10


def read(tmp_path, text=FILE):
    (tmp_path / "wenzel2019-claims.toml").write_text(text, encoding="utf-8")
    return read_claims(tmp_path)


def test_a_claim_as_its_file_says(tmp_path):
    (claim,) = read(tmp_path)
    assert (claim.paper, claim.text, claim.rule) == ("wenzel2019", "it is good", "all")
    assert claim.decided_by == "table1: lower (all)"
    assert claim.parts[0].options == {"first": "x-gpc", "second": "svgpc"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"lower"', '"lover"', "unknown measure 'lover'; did you mean lower"),
        ("second =", "secnd =", "options of lower: missing a required argument: 'second'"),
        ("second =", "third = 1, second =", "options of lower: got an unexpected keyword argument 'third'"),
        ("[[claims.parts]]", 'rule = "some"\n[[claims.parts]]', "unknown rule 'some'"),
        ("plan =", "plans =", "unknown key 'plans'; did you mean plan"),
        (FILE.partition("[[claims.parts]]")[2], "", "measure is missing"),
        (FILE.partition('text = "it is good"')[2], "", "a claim needs a part that decides it"),
    ],
)
def test_slips_in_a_claim_s_file(tmp_path, old, new, message):
    text = FILE.replace(old, new)
    if message.startswith("a claim needs"):
        text += "\n"
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)
    assert "wenzel2019-claims.toml" in str(caught.value)


def test_a_claim_is_made_once(tmp_path):
    with pytest.raises(UsageError, match="claims twice: 'it is good'"):
        read(tmp_path, FILE + FILE.partition('"wenzel2019"')[2])


@pytest.fixture
def judged(tmp_path, make_cell, plan_cell, found_of, monkeypatch):
    """A claim on made-up cells, by what its checks say: name of a data set -> whether it holds."""

    def make(says, *, rule="all", count=3, paper=None, **outcome):
        (tmp_path / "mine.toml").write_text(PLAN, encoding="utf-8")
        plan = read_plan(tmp_path / "mine.toml")
        if paper is not None:
            object.__setattr__(plan, "paper_limits", Limits(**paper))
        checks = []
        for name, holds in says.items():
            block = next(each for each in blocks(plan) if each.dataset == name)
            cells = tuple(
                plan_cell(make_cell(dataset=name, index=index, protocol=block.split, count=3, **outcome), block, plan)
                for index in range(count)
            )
            checks.append(Check(f"{name} is so", holds, cells, measured=holds != "not run"))
        monkeypatch.setitem(MEASURES, "made", lambda found: checks)  # noqa: ARG005
        claim = Claim(paper="mine", text="t", rule=rule, parts=(Part(plan="mine/mine", measure="made", options={}),))
        (found,) = judge_claims([claim], lambda _: found_of(plan))
        return found

    return make


@pytest.mark.parametrize(
    ("rule", "says", "verdict"),
    [
        ("all", (True, True), "holds"),
        ("all", (True, False), "holds in part"),
        ("all", (False, False), "does not hold"),
        ("all", (True, None), "holds"),
        ("all", (None, None), "undecided"),
        ("most", (True, False), "does not hold"),
        ("most", (True, None), "holds"),
        ("all", ("not run", "not run"), "not measured"),
    ],
)
def test_the_rules(judged, rule, says, verdict):
    found = judged(dict(zip(("german", "magic"), says, strict=True)), rule=rule)
    assert found.verdict == verdict
    assert found.measured == ("" if verdict == "not measured" else "german is so; magic is so")


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        (([True, True, False], [True]), "holds"),
        (([True, True, True], [True, False]), "holds in part"),
        (([True, False], [False]), "does not hold"),
        (([], [True]), "holds in part"),
        (([], [False]), "does not hold"),
    ],
)
def test_most_is_asked_of_each_part(parts, verdict, monkeypatch, found_of):
    given = iter([[Check("so", holds) for holds in part] for part in parts])
    monkeypatch.setitem(MEASURES, "made", lambda found: next(given))  # noqa: ARG005
    part = Part(plan="wenzel2019/table1", measure="made", options={})
    claim = Claim(paper="mine", text="t", rule="most", parts=(part,) * len(parts))
    (found,) = judge_claims([claim], lambda name: found_of(find_plan(name)))
    assert found.verdict == verdict


def test_a_claim_of_which_half_is_not_measured_holds_in_part(judged):
    assert judged({"german": True, "magic": "not run"}).verdict == "holds in part"
    assert judged({"german": False, "magic": "not run"}).verdict == "does not hold"


def test_the_grade_of_the_evidence(judged):
    whole = judged({"german": True})
    assert (whole.grade, len(whole.keys)) == ("full", 3)
    assert judged({"german": True, "magic": "not run"}).grade == "cut short"
    assert judged({"german": True}, count=2).grade == "cut short"
    assert judged({"german": True}, stopped_by="seconds").grade == "cut short"
    limits = {"seconds": 60.0}
    assert judged({"german": True}, stopped_by="seconds", limits=limits, paper={"seconds": 60}).grade == "full"
    assert judged({"german": "not run"}).grade == ""
    assert judged({"german": True, "magic": "not run"}).measured == "german is so; 1 of 2 not measured"


def test_a_page_is_shown_a_few_numbers_those_against_the_claim_first(judged, monkeypatch):
    says = {"german": True, "magic": False}
    assert judged(says).brief == judged(says).measured == "german is so; magic is so"
    monkeypatch.setattr(claims, "_MANY", 1)
    found = judged(says)
    assert (found.measured, found.brief) == ("german is so; magic is so", "magic is so; 1 more")


def test_one_split_where_the_plan_has_no_more(judged, monkeypatch):
    monkeypatch.setattr(
        "test_claims.PLAN", PLAN.replace('split = "holdout:0.1*3"', 'split = "holdout:0.1*3"\nsplits = 1')
    )
    assert judged({"german": True}, count=1).grade == "one split"


def test_claims_as_csv(judged):
    one = judged({"german": True, "magic": None})
    rows = list(csv.DictReader(io.StringIO(claims_csv([one, unjudged(read_claims()[0])]))))
    assert {(row["paper"], row["verdict"], row["evidence"]) for row in rows[:2]} == {("mine", "holds", "full")}
    assert [(row["measured"], row["so"]) for row in rows] == [
        ("german is so", "yes"), ("magic is so", "undecided"), ("", "not measured"),
    ]  # fmt: skip
    assert [(row["plan"], row["measure"]) for row in rows[:2]] == [("mine/mine", "made")] * 2
    assert sorted(key for row in rows for key in row["cells"].split()) == list(one.keys)
    half = judged({"german": False, "magic": "not run"})
    assert [row["so"] for row in csv.DictReader(io.StringIO(claims_csv([half])))] == ["no", "not measured"]


def test_what_the_cells_decide_of_a_claim_is_counted(judged):
    found = judged({"german": True, "magic": False})
    assert (found.so, found.decided, found.undecided) == (1, 2, 0)
    assert found.upheld | found.denied == set(found.keys)
    assert len(found.upheld) == len(found.denied) == 3
    found = judged({"german": None, "magic": "not run"})
    assert (found.so, found.decided, found.undecided, found.upheld, found.denied) == (0, 0, 1, set(), set())


def test_a_table_s_claims_stand_below_it_in_two_columns(tmp_path, found_of):
    plan = find_plan("hensman2015/table1")
    own = claims_of("hensman2015/table1")
    text = plan_text(found_of(plan), "text")
    table, below = text.split("\nclaim of the paper")
    assert table.startswith("hensman2015, Table 1")
    assert below.rstrip().endswith(NOTE)
    assert all(len(line) <= 120 for line in below.splitlines())
    assert below.count("not measured") == len(own) == 2
    marked = plan_text(found_of(plan), "markdown")
    assert "| claim of the paper | verdict |\n|---|---|\n" in marked
    assert all(f"| {claim.text} | not measured |" in marked for claim in own)
    assert NOTE not in plan_text(found_of(plan), "csv")
    written = write_plan(found_of(plan), tmp_path)
    assert [path.read_text(encoding="utf-8") for path in written[:2]] == [text, marked]


def test_the_cells_of_a_plan_decide_its_claims(make_cell, plan_cell, found_of):
    plan = find_plan("hensman2015/fig1")
    nlls = {4: 0.5, 8: 0.3, 16: 0.25, 32: 0.25, 64: 0.25}
    cells = [
        plan_cell(
            make_cell(
                dataset="banana", method="klsp", protocol="given", count=100, nll=nlls[block.sweep["inducing"]],
                settings=dict(block.settings),
            ),
            block, plan,
        )
        for block in blocks(plan)
        if block.table.name == "klsp"
    ]  # fmt: skip
    found = {each.claim.text[:20]: each for each in judge_claims_of(found_of(plan, cells))}
    first = found["with more inducing p"]
    assert (first.verdict, first.grade) == ("holds", "one split")
    assert first.measured == "banana: klsp 0.5 0.3 0.25 0.25 0.25 with inducing 4 8 16 32 64"
    assert found["gfitc makes no good "].verdict == "not measured"
    assert "holds (one split): banana: klsp 0.5" in " ".join(claim_words([first], "markdown").split())


def test_a_quick_form_decides_nothing(found_of):
    plan = quick_form(find_plan("hensman2015/fig1"))
    assert {each.verdict for each in judge_claims_of(found_of(plan))} == {"not measured"}


def test_a_part_of_a_plan_decides_nothing_of_its_own(found_of):
    whole = find_plan("hensman2015/table1")
    part = replace(whole, methods=whole.methods[:1], datasets=whole.datasets[:2])
    assert [each.verdict for each in judge_claims_of(found_of(part))] == ["not measured"] * 2


def test_a_page_shows_all_that_is_known_of_a_claim(found_of):
    plan = find_plan("hensman2015/table1")
    (_, (caption, shown)) = plan_part(found_of(plan)).tables
    assert caption == "Claims of the paper that this decides"
    own = claims_of("hensman2015/table1")
    assert [line.words for line in shown.lines] == [
        (each.text, each.decided_by, "not measured", "", "") for each in own
    ]
    page = plan_page(found_of(plan))
    assert all(claim.text in page for claim in own)


def test_a_plan_that_decides_nothing_is_as_before(tmp_path, found_of):
    (tmp_path / "mine.toml").write_text(
        'title = "T"\npaper = "hensman2015"\ndatasets = ["german"]\n[methods.linear]\n', encoding="utf-8"
    )
    plan = read_plan(tmp_path / "mine.toml")
    assert claims_of(plan.id) == []
    assert (claim_words([], "text"), claim_display([])) == ("", None)
    assert "claim" not in plan_text(found_of(plan), "text")


def test_an_unjudged_claim_has_no_numbers():
    found = unjudged(read_claims()[0])
    assert (found.verdict, found.measured, found.keys) == ("not measured", "", ())
