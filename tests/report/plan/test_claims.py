import pytest

from gpbench.bench.plan.read import find_plan, read_plan, shipped
from gpbench.errors import UsageError
from gpbench.report.page import plan_page
from gpbench.report.page.parts import plan_part
from gpbench.report.plan.claims import (
    NOTE,
    VERDICTS,
    Claim,
    claim_display,
    claim_words,
    claims_of,
    read_claims,
    reproduced_folder,
)
from gpbench.report.plan.output import plan_text, write_plan
from gpbench.report.plan.published import published_folder

CLAIM = Claim(paper="p", text="t", decided_by="fig1")
PUBLISHED = 'paper,claim,decided by\np,it is fast,"fig1: seconds"\np,it is good,table1\n'
HEAD = "paper,claim,measured,verdict,where\n"


def claims(tmp_path, reproduced, published=PUBLISHED):
    for name, content in (("published.csv", published), ("reproduced.csv", reproduced)):
        (tmp_path / name).write_text(content, encoding="utf-8")
    return read_claims(tmp_path / "published.csv", tmp_path / "reproduced.csv")


def test_every_claim_of_the_papers_has_one_row_with_a_verdict():
    """Keys of both files are unique and verdicts known, or reading raises."""
    written = (reproduced_folder() / "claims.csv").read_text(encoding="utf-8").splitlines()
    made = (published_folder() / "claims.csv").read_text(encoding="utf-8").splitlines()
    found = read_claims()
    assert len(written) == len(made) == len(found) + 1
    assert all(claim.verdict in VERDICTS for claim in found)
    assert all(bool(claim.measured and claim.where) for claim in found if claim.verdict != "not measured")


def test_every_claim_is_shown_with_a_plan():
    named = {claim for name in shipped() for claim in claims_of(*name.split("/"))}
    assert named == set(read_claims())


@pytest.mark.parametrize(
    ("decided_by", "items"),
    [
        ("fig1: NLL at M = 4 and fig2", {"fig1"}),
        ("table1 and fig2: seconds", {"table1", "fig2"}),
        ("fig4 to fig7", {"fig4", "fig5", "fig6", "fig7"}),
        ("table1 higgs (its text says fig3)", {"table1"}),
        ("mnist", {"mnist"}),
        ("table2 and peak memory over n", {"table2"}),
    ],
)
def test_the_plans_that_decide(decided_by, items):
    found = Claim(paper="p", text="t", decided_by=decided_by).items
    assert {each for each in found if each == "mnist" or each[-1].isdigit()} == items


def test_a_part_of_a_figure_decides_its_claims():
    assert claims_of("villacampa2017", "fig5-airline") == claims_of("villacampa2017", "fig5") != []
    assert claims_of("villacampa2017", "fig") == claims_of("mine", "fig5") == []


def test_verdicts_are_joined_to_claims(tmp_path):
    first, second = claims(tmp_path, HEAD + "p,it is good,NLL 0.5,holds in part,here\n")
    assert (first.verdict, first.measured, first.decided_by) == ("not measured", "", "fig1: seconds")
    assert (second.verdict, second.measured, second.where) == ("holds in part", "NLL 0.5", "here")
    (tmp_path / "reproduced.csv").unlink()
    found = read_claims(tmp_path / "published.csv", tmp_path / "reproduced.csv")
    assert [each.verdict for each in found] == ["not measured"] * 2


@pytest.mark.parametrize(
    ("reproduced", "message"),
    [
        (HEAD + "p,it is god,,holds,\n", "unknown claim of p 'it is god'; did you mean it is good?"),
        (
            HEAD + "p,it is good,,hold,\n",
            "must be one of holds, holds in part, does not hold, not measured; got 'hold'",
        ),
        (HEAD + "p,it is good,,holds,\n" * 2, "line 3: p claims twice: 'it is good'"),
        (HEAD + "p,it is good,a,b,holds,\n", "line 2: expected 5 values"),
        (HEAD + "p,it is good,holds\n", "line 2: expected 5 values"),
        (
            "paper,claim,verdict\n",
            "expected the columns paper, claim, measured, verdict, where; measured, where missing",
        ),
    ],
)
def test_files_that_hold_something_else(tmp_path, reproduced, message):
    with pytest.raises(UsageError, match=message):
        claims(tmp_path, reproduced)


def test_a_table_s_claims_stand_below_it_in_two_columns(tmp_path, found_of):
    plan = find_plan("hensman2015/table1")
    own = claims_of("hensman2015", "table1")
    text = plan_text(found_of(plan), "text")
    table, below = text.split("\nclaim of the paper")
    assert table.startswith("hensman2015, Table 1")
    assert below.rstrip().endswith(NOTE)
    assert all(len(line) <= 120 for line in below.splitlines())
    joined = " ".join(below.split())
    assert all(claim.text.split(" ", 1)[0] in joined and claim.verdict in joined for claim in own)
    marked = plan_text(found_of(plan), "markdown")
    assert "| claim of the paper | verdict |\n|---|---|\n" in marked
    for claim in own:
        (line,) = (line for line in marked.splitlines() if line.startswith(f"| {claim.text} | {claim.verdict}"))
        assert claim.measured in line
    assert NOTE not in plan_text(found_of(plan), "csv")
    written = write_plan(found_of(plan), tmp_path)
    assert [path.read_text(encoding="utf-8") for path in written[:2]] == [text, marked]


def test_a_page_shows_all_that_is_known_of_a_claim(found_of):
    plan = find_plan("hensman2015/table1")
    (_, (caption, shown)) = plan_part(found_of(plan)).tables
    assert caption == "Claims of the paper that this decides"
    own = claims_of("hensman2015", "table1")
    assert [line.words for line in shown.lines] == [
        (each.text, each.decided_by, each.verdict, each.measured, each.where) for each in own
    ]
    page = plan_page(found_of(plan))
    assert all(claim.text in page for claim in own)


def test_a_plan_that_decides_nothing_is_as_before(tmp_path, found_of):
    (tmp_path / "mine.toml").write_text(
        'title = "T"\npaper = "hensman2015"\ndatasets = ["german"]\n[methods.linear]\n', encoding="utf-8"
    )
    plan = read_plan(tmp_path / "mine.toml")
    assert claim_words(plan, "text") == ""
    assert claim_display(plan) is None
    assert "claim" not in plan_text(found_of(plan), "text")
