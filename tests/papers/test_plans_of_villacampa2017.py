"""The plans of villacampa2017 say what the paper prints."""

from collections import Counter
from pathlib import Path

import pytest

import gpbench
from gpbench.bench.plan.blocks import blocks
from gpbench.bench.plan.read import read_plan
from gpbench.bench.plan.reduce import quick_form
from gpbench.report.plan.published import find_printed, read_published
from gpbench.report.plan.renderers import check_figure

PAPER = Path(gpbench.__file__).parent / "papers" / "villacampa2017"
ITEMS = {"table1", "fig1", "fig2", "table2", "fig3", "fig4", "fig5", "fig5-airline"}


def plan(item):
    return read_plan(PAPER / f"{item}.toml", id=f"villacampa2017/{item}")


def test_every_item_has_a_plan():
    assert {path.stem for path in PAPER.glob("*.toml")} == ITEMS


@pytest.mark.parametrize("item", sorted(ITEMS))
def test_a_plan_and_its_quick_form_come_to_blocks(item):
    whole = plan(item)
    check_figure(whole)
    if whole.render not in {"outline", "factors"}:
        assert 0 < len(blocks(quick_form(whole))) <= len(blocks(whole))


def test_every_printed_number_of_table_2_has_its_block():
    whole = plan("table2")
    printed = [each for each in read_published(whole) if each.dataset != "Avg. Time"]
    found = Counter(id(find_printed(printed, whole, block, "nll")) for block in blocks(whole) if block.table.counted)
    assert {found[id(each)] for each in printed if each.metric == "nll"} == {1}


def test_figure_3_learns_inducing_inputs_alone_from_the_same_random_rows():
    for block in blocks(plan("fig3")):
        assert (block.settings["hyperparameters"], block.settings["inducing_rule"]) == ("fixed", "random")
        assert block.settings["learn_inducing"] is True
        assert block.limits.iterations == (20_000 if block.table.method.id == "vi-mgpc" else 2_000)
