"""What stands in results comes from the reference results: all of it is made again, and compared to the byte."""

import csv
import io
import re

import pytest

from gpbench.bench.plan.cells import look_up
from gpbench.bench.plan.read import find_plan
from gpbench.bench.reference import read_reference, reference_files
from gpbench.config import checkout
from gpbench.report.evidence import write
from gpbench.report.evidence.page import NUMBER
from gpbench.report.evidence.write import TEMPLATE, write_evidence
from gpbench.report.files import PICTURES
from gpbench.report.plan.claims_file import read_findings

ROOT = checkout()
pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(ROOT is None, reason="results/reproduced stands in a checkout alone"),
]
#: What stands in results/reproduced and is made by no command: its own page, and the picture of the first page.
APART = {"README.md", "first-result.png"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    written, unwritten = write_evidence(folder, template=ROOT / "results" / TEMPLATE)
    assert not unwritten
    return folder, [path.relative_to(folder) for path in written]


def test_there_are_reference_results():
    assert reference_files()


def test_nothing_stands_there_that_is_not_made(made):
    place = ROOT / "results" / "reproduced"
    there = {path.relative_to(ROOT / "results") for path in place.rglob("*") if path.is_file()}
    assert {path for path in there if path.name not in APART} == {
        path for path in made[1] if path.parts[0] == place.name
    }


def test_tables_numbers_and_texts_are_the_same_when_they_are_made_again(made):
    folder, written = made
    other = [
        str(name)
        for name in written
        if name.suffix not in PICTURES  # of a picture the numbers beside it
        and (folder / name).read_bytes() != (ROOT / "results" / name).read_bytes()
    ]
    assert not other, "`make results` makes these"


def test_whatever_is_measured_names_cells_of_the_reference(made):
    keys = {cell.key for path in reference_files() for cell in read_reference(path)}
    for name in ("claims.csv", "findings.csv", "causes.csv"):
        for row in csv.DictReader(io.StringIO((made[0] / "reproduced" / name).read_text(encoding="utf-8"))):
            named = row["cells"].split()
            assert set(named) <= keys
            assert named or row["so"] == "not measured" or row["measure"] == "contracts", row


def test_no_finished_cell_is_beyond_reason():
    """A search that ran away is no result: a coin has .69 nats, ten classes at random 2.3; counts have their own."""
    away = [
        (path.stem, cell.method, cell.dataset, cell.metrics["nll"])
        for path in reference_files()
        for cell in read_reference(path)
        if cell.finished and (cell.metrics.get("nll") or 0.0) > 10.0
    ]
    assert not away


def test_the_page_s_prose_has_no_number_without_a_name():
    """Digits stand in names alone: of papers, methods, symbols and files."""
    text = NUMBER.sub("", (ROOT / "results" / TEMPLATE).read_text(encoding="utf-8"))
    text = re.sub(r"\(.*?\)|`.*?`|\b[a-z]+(?:2015|2016|2017|2019)\b", "", text)
    assert not re.findall(r"\d", text)


def test_a_number_in_a_finding_is_one_that_its_measure_is_given():
    for finding in read_findings():
        text = re.sub(r"\b[a-z]+(?:2015|2016|2017|2019)\b", "", finding.text)
        given = " ".join(f"{part.options} {part.plan}" for part in finding.parts)
        for number in re.findall(r"\d*\.?\d+", text):
            known = [float(each) for each in re.findall(r"\d+\.?\d*", given)]
            # 2 % is a factor of 1.02; what a plan states (its rates, its sizes) stands in the plan
            plans = " ".join(PLANS[part.plan] for part in finding.parts)
            stated = [float(each) for each in re.findall(r"\d+\.?\d*", plans)]
            value = float(number)
            assert value in {*known, *stated} or 1.0 + value / 100.0 in known, (finding.text, number)


PLANS = {
    part.plan: (ROOT / "gpbench" / "papers" / f"{part.plan}.toml").read_text(encoding="utf-8") if ROOT else ""
    for finding in read_findings()
    for part in finding.parts
}


def test_what_is_not_made_again_is_removed_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(
        write, "all_plans", lambda store: {"wenzel2019/fig1": look_up(find_plan("wenzel2019/fig1"), store)}
    )
    monkeypatch.setattr(write, "read_claims", list)
    monkeypatch.setattr(write, "read_findings", list)
    monkeypatch.setattr(write, "read_causes", list)
    template = tmp_path / TEMPLATE
    template.write_text("No numbers.\n", encoding="utf-8")
    stale, other = (tmp_path / "reproduced" / name for name in ("wenzel2019/fig1/old.csv", "mine/kept.csv"))
    for path in (stale, other):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", encoding="utf-8")
    write_evidence(tmp_path, template=template)
    assert (stale.exists(), other.exists(), (stale.parent / "fig1.csv").exists()) == (False, True, True)
