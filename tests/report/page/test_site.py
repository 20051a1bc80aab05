"""The site of the reference results, built from made-up cells: every link leads somewhere, inside of the folder."""

import posixpath
from dataclasses import replace

import pytest
from hostile import Reader

from gpbench.bench import choices, reference
from gpbench.bench.cell import SplitSpec
from gpbench.bench.plan.blocks import blocks
from gpbench.bench.plan.read import find_plan
from gpbench.bench.reference import write_reference
from gpbench.bench.result import Problem, Result
from gpbench.bench.sources import dataset_id
from gpbench.errors import StoreError
from gpbench.report.page import site
from gpbench.report.page.site import build_site

PLANS = ("wenzel2019/table1", "sheth2015/table2", "hensman2015/fig1", "sheth2015/fig1")


def made_up(block, index, *, nll, status="ok", wall=1.0):
    split = SplitSpec(protocol=block.split, index=index, count=10, seed=block.seed)
    cell = block.choice.cell(
        dataset_id(block.dataset), limits=block.limits, seed=block.seed, scaling=block.scaling, split=split
    )
    finished = status == "ok"
    return Result.of(
        replace(cell, checksum="c" * 64, likelihood="logit"),
        status=status,
        stopped_by="converged" if finished else None,
        metrics={
            "nll": nll if finished else None, "error": 0.25 if finished else None,
            "train_seconds": 1.0, "wall_seconds": wall, "cpu_seconds": 1.0,
        },
        trace={name: [1.0] if finished else [] for name in ("seconds", "iteration", "nll", "error", "bound")},
        provenance={"cpu": "Zen 4", "threads": 1, "dirty": False, "end": "2026-11-27T12:00:00.000+00:00"},
        problem=None if finished else Problem("NumericalError", "too bad", 3),
    )  # fmt: skip


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder of reference results: two data sets of a table, one of whose cells failed; one row was disturbed."""
    monkeypatch.setattr(reference, "shipped", lambda name: tmp_path / name)
    monkeypatch.setattr(site, "shipped", lambda: dict.fromkeys(PLANS))
    monkeypatch.setattr(choices, "changes", lambda: None)  # this checkout's are none of theirs
    found = blocks(find_plan(PLANS[0]))
    first = [block for block in found if block.dataset == found[0].dataset]
    second = [block for block in found if block.dataset == found[-1].dataset]
    cells = [
        made_up(block, index, nll=0.5 + 0.1 * number + 0.01 * index, wall=9.0 if number == 1 else 1.0)
        for own in (first, second)
        for number, block in enumerate(own[:2])
        for index in range(2)
    ]
    cells[-1] = made_up(second[1], 1, nll=None, status="failed")
    write_reference(tmp_path / "reference" / f"{PLANS[0]}.parquet", cells)
    return tmp_path


def pages_of(folder):
    return {
        path.relative_to(folder).as_posix(): Reader(path.read_text(encoding="utf-8"))
        for path in folder.rglob("*.html")
    }  # fmt: skip


def test_every_page_is_reached_and_every_link_leads_to_one(place):
    written = build_site(place / "site")
    pages = pages_of(place / "site")
    assert sorted(pages) == sorted(path.relative_to(place / "site").as_posix() for path in written)
    linked = {}
    for name, found in pages.items():
        linked[name] = set()
        for link in (each["href"] for each in found.all("a")):
            target, _, anchor = link.partition("#")
            assert not target.startswith("/"), link
            assert ":" not in target, link
            whole = posixpath.normpath(posixpath.join(posixpath.dirname(name), target)) if target else name
            assert whole in pages, (name, link)
            assert not anchor or anchor in {attributes.get("id") for _, attributes in pages[whole].elements}, (
                name,
                link,
            )
            linked[name].add(whole)
        assert name == "index.html" or "index.html" in linked[name]
        identifiers = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
        assert len(identifiers) == len(set(identifiers))
    assert linked["index.html"] == pages.keys()


def test_the_index_says_what_met_on_what_who_won_and_how_far_the_plans_are(place):
    build_site(place / "site")
    texts = pages_of(place / "site")["index.html"].texts
    a, b = (block.table.method.id for block in blocks(find_plan(PLANS[0]))[:2])
    assert "8 cells, 2 data sets, 2 methods; 1 failed." in texts
    assert f"Lowest mean test NLL, of 1 data set where methods or settings meet: {a} on 1." in texts
    at = texts.index("wenzel2019/table1")
    expected = find_plan(PLANS[0])
    assert texts[at + 1] == expected.title
    assert texts[at + 2].startswith("7 of ")
    assert texts[at + 2].endswith(", 1 failed")
    assert texts[texts.index("sheth2015/table2") + 2] == "none needed"
    assert texts[texts.index("hensman2015/fig1") + 2] == "not run"
    assert texts[texts.index("sheth2015/fig1") + 2] == "not run"
    assert "failed 1/4" in texts
    assert {a, b} <= set(texts)


def test_cells_of_earlier_settings_are_counted_apart(place):
    path = place / "reference" / f"{PLANS[0]}.parquet"
    first, *others = reference.read_reference(path)
    write_reference(path, [replace(first, settings={**first.settings, "gone": 1}), *others])
    build_site(place / "site")
    texts = pages_of(place / "site")["index.html"].texts
    assert texts[texts.index("wenzel2019/table1") + 2].endswith(", 1 more of earlier settings")


def test_a_paper_has_its_tables_a_data_set_and_a_method_their_cells(place):
    build_site(place / "site")
    pages = pages_of(place / "site")
    plan = find_plan(PLANS[0])
    (first, second) = dict.fromkeys([blocks(plan)[0].dataset, blocks(plan)[-1].dataset])
    method = blocks(plan)[1].table.method.id
    paper = pages["papers/wenzel2019.html"].texts
    assert plan.dataset_label(first) in paper
    assert {"verdict", "NumericalError: too bad", "Claims of the paper that this decides"} <= {*map(str.strip, paper)}
    assert "Table 2: data sets" in pages["papers/sheth2015.html"].texts
    assert "binary, 2 classes" in pages[f"data-sets/{dataset_id(first)}.html"].texts
    assert "0.5050 ± 0.0071" in pages[f"data-sets/{dataset_id(second)}.html"].texts
    own = pages[f"methods/{method}.html"].texts
    assert [text for text in own[own.index("its NLL") :] if text in {"0.6050", "0.5050"}][:2] == ["0.6050", "0.5050"]


def test_nothing_to_show_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(reference, "shipped", lambda name: tmp_path / name)
    with pytest.raises(StoreError, match="there are no reference results"):
        build_site(tmp_path / "site")


def test_names_become_files_that_no_disk_takes_for_one_another():
    found = site._slugs(["a:1", "a/1", "A-1", "b"])
    assert len({slug.casefold() for slug in found.values()}) == 4
    assert all("/" not in slug and ":" not in slug for slug in found.values())
    assert found["b"] == "b"
