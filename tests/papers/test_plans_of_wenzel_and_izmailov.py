"""The plans of wenzel2019 and izmailov2016 say what the papers print."""

from collections import Counter
from pathlib import Path

import pytest

import gpbench
from gpbench.bench.plan.blocks import blocks
from gpbench.bench.plan.read import read_plan
from gpbench.report.plan.published import find_printed, read_published

PAPERS = Path(gpbench.__file__).parent / "papers"
ITEMS = {
    "wenzel2019": {"fig1", "table1", "fig2", "fig3", "fig4", "fig5", "fig6"},
    "izmailov2016": {"table1", "fig4", "fig5", "fig6", "fig7"},
}


def plan(name):
    return read_plan(PAPERS / f"{name}.toml", id=name)


@pytest.mark.parametrize("paper", ITEMS)
def test_every_item_has_a_plan(paper):
    assert {path.stem for path in (PAPERS / paper).glob("*.toml")} == ITEMS[paper]


def test_every_printed_number_of_wenzel2019_s_table_has_its_block():
    whole = plan("wenzel2019/table1")
    printed = read_published(whole)
    judged = [block for block in blocks(whole) if block.table.counted]
    comparable = [block for block in judged if whole.override(block.dataset).incomparable is None]
    found = Counter(id(find_printed(printed, whole, block, metric)) for block in comparable for metric in whole.metrics)
    assert [found[id(each)] for each in printed] == [1] * 117


def test_samples_of_large_sets_are_never_judged_as_the_sets():
    whole = plan("wenzel2019/table1")
    samples = {name for name in whole.datasets if whole.override(name).incomparable}
    assert samples == {"click-prediction-small", "higgs-11k", "susy-1k"}


def test_wenzel2019_s_figures_and_table_share_their_cells():
    def described(name):
        return {
            (block.dataset, block.table.name): (block.settings, block.limits, block.split, block.splits)
            for block in blocks(plan(f"wenzel2019/{name}"))
        }

    table = described("table1")
    figures = {}
    for name in ("fig2", "fig4", "fig5", "fig6"):
        figures |= described(name)
    assert {key: table[key] for key in figures} == figures
    assert {dataset for dataset, _ in figures} == {dataset for dataset, _ in table}


def test_wenzel2019_sets_what_its_paper_sets():
    for block in blocks(plan("wenzel2019/table1")):
        settings = block.settings
        assert (settings["kernel"], settings["inducing"], settings["batch_size"]) == ("se", "100", 100)
        assert settings["stop"] == "held-out"
        assert block.limits.test_rows == (100_000 if block.dataset in {"higgs", "susy"} else None)
        shuffled = block.table.name == "x-gpc-shuffled" or block.dataset == "cod-rna"
        assert block.split == ("folds:10" if shuffled else "contiguous:10")
    assert {block.settings["inducing"] for block in blocks(plan("wenzel2019/fig3"))} == {"16", "32", "64", "128"}


def test_izmailov2016_sets_what_its_paper_sets():
    seen = {}
    for item in ("fig4", "fig5", "fig6", "fig7"):
        for block in blocks(plan(f"izmailov2016/{item}")):
            assert (block.settings["kernel"], block.settings["inducing_rule"]) == ("se", "kmeans")
            if block.table.name == "svi-adadelta":
                seen[block.dataset] = block.split, block.settings["batch_size"]
    assert seen == {
        "german-numeric": ("holdout:0.2*1", 50),
        "svmguide1": ("given", 50),
        "magic": ("holdout:0.2*1", 152),
        "ijcnn1": ("given", 500),
        "cod-rna-files": ("given", 595),
        "skin-nonskin": ("holdout:0.2*1", 1960),
        "a8a": ("given", 247),
    }
