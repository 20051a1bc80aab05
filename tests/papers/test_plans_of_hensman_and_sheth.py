"""The plans of hensman2015 and sheth2015 say what the papers print."""

from collections import Counter
from pathlib import Path

import pytest

import gpbench
from gpbench.bench.plan.blocks import blocks
from gpbench.bench.plan.read import read_plan
from gpbench.bench.plan.reduce import quick_form
from gpbench.report.plan.published import find_printed, read_published
from gpbench.report.plan.renderers import check_figure

PAPERS = Path(gpbench.__file__).parent / "papers"
ITEMS = {
    "hensman2015": {"fig1", "table1", "fig2", "s1", "s2", "s3", "s4", "s5", "s6", "mnist", "fig3"},
    "sheth2015": {"table2", "fig1", "fig2", "fig3", "fig4", "fig4-time", "blogfeedback", "blogfeedback-time"},
}
ALL = [f"{paper}/{item}" for paper, items in ITEMS.items() for item in sorted(items)]


def plan(name):
    return read_plan(PAPERS / f"{name}.toml", id=name)


@pytest.mark.parametrize("paper", ITEMS)
def test_every_item_has_a_plan(paper):
    assert {path.stem for path in (PAPERS / paper).glob("*.toml")} == ITEMS[paper]


@pytest.mark.parametrize("name", ALL)
def test_a_plan_and_its_quick_form_come_to_blocks(name):
    whole = plan(name)
    check_figure(whole)
    assert whole.paper == name.split("/")[0]
    if whole.render not in {"outline", "contraction"}:
        assert 0 < len(blocks(quick_form(whole))) <= len(blocks(whole))


def test_every_printed_number_of_hensman2015_s_table_has_its_block():
    whole = plan("hensman2015/table1")
    printed = read_published(whole)
    found = Counter(id(find_printed(printed, whole, block, "nll")) for block in blocks(whole) if block.table.counted)
    assert [found[id(each)] for each in printed] == [1] * 72


def test_hensman2015_s_columns_are_the_paper_s_with_30_percent_beside():
    labels = list(dict.fromkeys(block.label for block in blocks(plan("hensman2015/table1"))))
    assert labels == [
        "KL", "EP", "EPFitc M=8", "EPFitc M=3%", "EPFitc M=30%", "KLSp M=8", "KLSp M=3%", "KLSp M=30%",
        "MFSp M=8", "MFSp M=3%", "MFSp M=30%",
    ]  # fmt: skip


@pytest.mark.parametrize("pair", [("fig2", "s1"), ("s1", "s2"), ("s3", "s4"), ("s4", "s5"), ("s5", "s6")])
def test_figures_over_time_share_their_cells(pair):
    first, second = (
        [(b.settings, b.limits, b.split, b.splits) for b in blocks(plan(f"hensman2015/{name}"))] for name in pair
    )
    assert first == second


@pytest.mark.parametrize("pair", [("fig2", "fig3"), ("fig4", "fig4-time"), ("blogfeedback", "blogfeedback-time")])
def test_sheth2015_s_pictures_of_error_and_time_share_their_cells(pair):
    first, second = ([(b.settings, b.limits, b.split) for b in blocks(plan(f"sheth2015/{name}"))] for name in pair)
    assert first == second


def test_the_dual_is_left_out_for_ordinal_targets_alone():
    duals = {block.dataset for block in blocks(plan("sheth2015/fig2")) if "dual" in block.table.name}
    assert duals == {"ucsdpeds1l", "abalone", "usps-3-5", "musk"}
