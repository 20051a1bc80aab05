"""``python -m gpbench.report.page.site FOLDER``: the reference results as static pages that need no network or server.

======================  ====================================================================================
page                    what is on it
======================  ====================================================================================
index.html              what was compared, on what, who has the lowest NLL, how far each plan has come
papers/PAPER.html       its plans: table with verdicts, pictures, claims
data-sets/ID.html       what the data set is, and everything that ran on it
methods/ID.html         what the method is, where it stands on each data set, and everything of it
======================  ====================================================================================

Links are relative, so that the folder can be moved, packed, or put behind any address.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from gpbench.bench.methods import methods, outdated
from gpbench.bench.plan.cells import described, look_up
from gpbench.bench.plan.plan import DESCRIPTIVE, SELF_CONTAINED
from gpbench.bench.plan.read import find_plan, shipped
from gpbench.bench.reference import read_reference, reference_file, reference_files
from gpbench.bench.store import Store
from gpbench.data.catalogue import entry_of
from gpbench.errors import GpbenchError, StoreError, reason
from gpbench.report.files import write_atomically
from gpbench.report.groups import distinct, group_cells
from gpbench.report.page.document import Link, Section, document, failures, lead, page, provenance, wins
from gpbench.report.page.markup import Markup, element, join, plain_table
from gpbench.report.page.parts import Part, part_section, plan_part
from gpbench.report.plan.numbers import entries_of
from gpbench.report.plan.verdicts import tally
from gpbench.report.tables.summary import summarise
from gpbench.report.tables.table import NONE, best_rows, display
from gpbench.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpbench.bench.plan.cells import PlanCells
    from gpbench.bench.result import Result
    from gpbench.report.tables.summary import Row

__all__ = ["build_site"]

_TITLE = "gpbench: reference results"
_COMMA = Markup(", ")  # text would lose its blank
_NOT_RUN = "not run"
_TOP: Link = ("Reference results", "../index.html")


@dataclass(frozen=True)
class _Site:
    """All that the pages are made of; ``plans`` are those that ship, by paper."""

    cells: Sequence[Result]
    plans: dict[str, list[PlanCells]]

    @cached_property
    def rows(self) -> list[Row]:
        """A row for each method with its settings on each data set and split."""
        return summarise(self.cells)

    @cached_property
    def best(self) -> dict[tuple[str, str], list[Row]]:
        """Data set and split -> its rows with the lowest mean NLL; none where nothing competes."""
        found: dict[tuple[str, str], list[Row]] = {}
        for index in sorted(best_rows(self.rows)):
            row = self.rows[index]
            found.setdefault((row["dataset_label"], row["split"]), []).append(row)
        return found

    @cached_property
    def states(self) -> dict[str, tuple[str, str]]:
        """Plan -> its cells and verdicts, counted."""
        return {found.plan.id: _state(found) for plans in self.plans.values() for found in plans}

    @cached_property
    def datasets(self) -> dict[str, str]:
        """Data set -> name of its page."""
        return _slugs(cell.dataset for cell in self.cells)

    @cached_property
    def methods(self) -> dict[str, str]:
        """Method -> name of its page."""
        return _slugs(cell.method for cell in self.cells)


def build_site(folder: Path) -> list[Path]:
    """Write all pages.

    Parameters
    ----------
    folder : Path
        Made where it is missing; pages of the same name are replaced.

    Returns
    -------
    list of Path
        The pages, the index first.

    Raises
    ------
    StoreError
        There are no reference results, they cannot be read, or a page cannot be written.
    """
    cells = distinct(cell for path in reference_files() for cell in read_reference(path))
    if not cells:
        raise StoreError("there are no reference results; `gpbench reproduce PAPER/ITEM --reference` adds some")
    plans: dict[str, list[PlanCells]] = {}
    with TemporaryDirectory() as empty:
        for name in shipped():
            plans.setdefault(name.partition("/")[0], []).append(look_up(find_plan(name), Store(Path(empty))))
        site = _Site(cells, plans)
        pages = {"index.html": _index(site)}
        pages |= {f"papers/{paper}.html": _paper_page(site, paper) for paper in plans}
    pages |= {f"data-sets/{slug}.html": _dataset_page(site, name) for name, slug in site.datasets.items()}
    pages |= {f"methods/{slug}.html": _method_page(site, name) for name, slug in site.methods.items()}
    for name, text in pages.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot write {path}: {reason(error)}") from error
        write_atomically(path, text)
    return [folder / name for name in pages]


def _slugs(names: Iterable[str]) -> dict[str, str]:
    """Name -> what its file is called: no two alike, on disks that know no capitals either."""
    found: dict[str, str] = {}
    taken: Counter[str] = Counter()
    for name in sorted(set(names)):
        slug = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
        taken[slug.casefold()] += 1
        count = taken[slug.casefold()]
        found[name] = slug if count == 1 else f"{slug}--{count}"
    return found


def _links(kind: str, slugs: dict[str, str], names: Iterable[str], *, up: str = "../") -> Markup:
    """Names with commas between, each a link to its page where it has one."""
    parts = [
        element("a", name, href=f"{up}{kind}/{slugs[name]}.html") if name in slugs else name
        for name in dict.fromkeys(names)
    ]
    pieces = [piece for part in parts for piece in (_COMMA, part)]
    return join(*pieces[1:]) if pieces else join(NONE)


def _index(site: _Site) -> str:
    return document(
        _TITLE,
        lead=[
            lead(site.cells),
            (
                "Sparse Gaussian process classifiers on the same splits under the same clock: the papers' tables and "
                "figures, run again. A page for each paper, data set and method; NLL is the mean negative log "
                "predictive probability of the test targets, in nats, and less is better."
            ),
            *_who_won(site),
        ],
        sections=[
            ("Data sets", _dataset_table(site)),
            ("Methods", _method_table(site)),
            *wins(site.cells),
            ("Papers and plans", _plan_table(site)),
            ("Provenance", provenance(site.cells)),
        ],
    )


def _who_won(site: _Site) -> list[str]:
    won = _won(site)
    if not won:
        return []
    told = ", ".join(f"{method} on {count}" for method, count in won.most_common())
    where = "data set where" if len(site.best) == 1 else "data sets and splits where"
    return [f"Lowest mean test NLL, of {len(site.best)} {where} methods or settings meet: {told}."]


def _won(site: _Site) -> Counter[str]:
    """Method -> data sets and splits on which it has the lowest mean NLL."""
    return Counter(method for rows in site.best.values() for method in {row["method"] for row in rows})


def _plan_table(site: _Site, paper: str | None = None) -> Markup:
    """How far each plan has come, of one paper or of all; what there is to show of it is a link's end."""
    chosen = site.plans if paper is None else {paper: site.plans[paper]}
    rows = []
    for name, plans in chosen.items():
        page_of = f"papers/{name}.html" if paper is None else ""
        for found in plans:
            place = f"{page_of}#{_anchor(found)}" if _is_shown(site, found) else page_of
            title = element("a", found.plan.title, href=place) if place else found.plan.title
            rows.append([found.plan.id, title, *site.states[found.plan.id]])
    heads = ["plan", "title", "cells", "verdicts"]
    if not any(row[-1] for row in rows):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    return plain_table(heads, rows)


def _anchor(found: PlanCells) -> str:
    return f"plan-{found.plan.item}"


def _is_shown(site: _Site, found: PlanCells) -> bool:
    """Whether there is anything of a plan to show: cells, arrays without cells, or a description."""
    return bool(found.results) or (found.plan.render in DESCRIPTIVE and site.states[found.plan.id][0] != _NOT_RUN)


def _state(found: PlanCells) -> tuple[str, str]:
    """Cells that there are of those that the plan states, and its verdicts counted."""
    if found.plan.render in SELF_CONTAINED:
        computed = reference_file(found.plan.id).with_suffix(".npz").exists()
        return ("none needed, computed" if computed else _NOT_RUN), ""
    if found.plan.render in DESCRIPTIVE:
        return "none needed", ""
    cells = read_reference(reference_file(found.plan.id))
    stale = len(cells) - len(described(found.plan, cells))
    if not found.results:
        return f"{stale} of earlier settings" if stale else _NOT_RUN, ""
    numbers = entries_of(found.plan, found.results)
    here = sum(each.finished for each in numbers)
    expected = sum(max(each.expected, each.finished + each.failed) for each in numbers)
    failed = f", {found.failed} failed" if found.failed else ""
    failed += f", {stale} more of earlier settings" if stale else ""
    counted = [entry.verdict for each in numbers if each.block.table.counted for entry in each.entries.values()]
    return f"{here} of {expected}{failed}", tally(counted).removeprefix("Verdicts: ")


def _dataset_table(site: _Site) -> Markup:
    rows = []
    for name in site.datasets:
        own = [row for row in site.rows if row["dataset"] == name]
        known = entry_of(name)
        for label, split in dict.fromkeys((row["dataset_label"], row["split"]) for row in own):
            best = site.best.get((label, split), [])
            lowest = f"{best[0]['nll']['mean']:.4f}" if best else NONE
            here = [row for row in own if (row["dataset_label"], row["split"]) == (label, split)]
            rows.append(
                [
                    _links("data-sets", site.datasets, [name], up=""),
                    "" if known is None else known.task,
                    split,
                    str(len({row["method"] for row in here})),
                    str(sum(row["cells"] for row in here)),
                    lowest,
                    _links("methods", site.methods, [row["method"] for row in best], up=""),
                ]
            )
    return plain_table(("data set", "task", "split", "methods", "cells", "lowest NLL", "of"), rows)


def _method_table(site: _Site) -> Markup:
    won = _won(site)
    rows = []
    for name in site.methods:
        own = [cell for cell in site.cells if cell.method == name]
        failed = sum(not cell.finished for cell in own)
        known = methods().get(name)
        rows.append(
            [
                _links("methods", site.methods, [name], up=""),
                "" if known is None else known.title,
                str(len({cell.dataset for cell in own})),
                f"failed {failed}/{len(own)}" if failed else str(len(own)),
                str(won[name]),
            ]
        )
    return plain_table(("method", "title", "data sets", "cells", "lowest NLL on"), rows)


def _paper_page(site: _Site, paper: str) -> str:
    shown = [found for found in site.plans[paper] if _is_shown(site, found)]
    cells = distinct(cell for found in shown for cell in found.results)
    sections: list[Section] = [
        ("Plans", join(_plan_table(site, paper=paper), _met(site, cells))),
        *((found.plan.title, _plan_section(found)) for found in shown),
    ]
    if cells:
        groups = [group for found in shown for group in group_cells(found.results)]
        sections += [("Failed cells", failures(groups)), ("Provenance", provenance(cells))]
    return document(paper, lead=[lead(cells)], sections=sections, trail=[_TOP])


def _plan_section(found: PlanCells) -> Markup:
    """A plan's part of its paper's page; what cannot be drawn is said."""
    plan = found.plan
    try:
        part = plan_part(found)
    except GpbenchError as error:
        part = Part(title=plan.title, notes=[f"Not shown: {error}."])
    tables, notes = list(part.tables), list(part.notes)
    if part.pictures:  # a table has the plan's notes below it
        notes += plan.notes
        tables = [("Cells", display(summarise(found.results))), *tables] if found.results else tables
    notes += found.remarks[1:]  # the first says that the cells are reference results, as all are here
    part = replace(part, notes=notes, tables=tables)
    return element("div", part_section(part), id=_anchor(found))


def _met(site: _Site, cells: Sequence[Result]) -> Markup:
    return plain_table(
        ("of the papers' plans", "that ran"),
        [
            ["data sets", _links("data-sets", site.datasets, sorted(cell.dataset for cell in cells))],
            ["methods", _links("methods", site.methods, sorted(cell.method for cell in cells))],
        ],
    )


def _papers_of(site: _Site, cells: Iterable[Result]) -> Markup:
    """Links to the papers whose plans some cells are of."""
    keys = {cell.key for cell in cells}
    papers = [
        name for name, plans in site.plans.items() if any(cell.key in keys for found in plans for cell in found.results)
    ]
    return _links("papers", {name: name for name in papers}, papers)


def _dataset_page(site: _Site, name: str) -> str:
    cells = [cell for cell in site.cells if cell.dataset == name]
    facts: list[Sequence[str]] = []
    known = entry_of(name)
    if known is not None:
        sizes = ", ".join(f"{value:,} {what}" for value, what in ((known.n, "rows"), (known.d, "inputs")) if value)
        facts += [
            ("title", known.title),
            ("task", f"{known.task}, {len(known.classes)} classes" if known.classes else known.task),
            ("size", sizes or NONE),
            ("licence", known.licence),
            ("citation", known.citation),
        ]
    facts += [
        ("papers", _papers_of(site, cells)),
        ("methods", _links("methods", site.methods, sorted(cell.method for cell in cells))),
    ]
    return page(cells, title=name, first=[("Data set", plain_table(("what", "value"), facts))], trail=[_TOP])


def _method_page(site: _Site, name: str) -> str:
    cells = [cell for cell in site.cells if cell.method == name]
    known = methods().get(name)
    versions = ", ".join(map(str, sorted({cell.version for cell in cells})))
    facts: list[Sequence[str]] = [("version", versions)]
    if known is not None:
        now = f" (now {known.latest})" if outdated(cells) else ""
        facts = [
            ("title", known.title),
            ("tasks", ", ".join(sorted(known.tasks))),
            ("paper", known.paper or NONE),
            ("version", versions + now),
        ]
    facts += [
        ("papers whose plans ran it", _papers_of(site, cells)),
        ("data sets", _links("data-sets", site.datasets, sorted(cell.dataset for cell in cells))),
    ]
    first = [("Method", plain_table(("what", "value"), facts)), ("Where it stands", _standing(site, name))]
    return page(cells, title=name, first=first, trail=[_TOP])


def _standing(site: _Site, name: str) -> Markup:
    """On each data set and split its own lowest mean NLL, and the lowest of all that ran there."""
    rows = []
    for (label, split), best in site.best.items():
        own = [
            (mean, row["method_label"])
            for row in site.rows
            if (row["dataset_label"], row["split"], row["method"]) == (label, split, name)
            and (mean := row["nll"]["mean"]) is not None
        ]
        if own:
            mean, setting = min(own)
            lowest = best[0]["nll"]["mean"]
            rows.append(
                [
                    _links("data-sets", site.datasets, [best[0]["dataset"]]),
                    split,
                    f"{mean:.4f}",
                    setting,
                    f"{lowest:.4f}",
                    _links("methods", site.methods, [row["method"] for row in best]),
                ]
            )
    if not rows:
        return element("p", "Nothing else ran on the same splits.")
    return plain_table(("data set", "split", "its NLL", "with", "lowest NLL", "of"), rows)


if __name__ == "__main__":
    try:
        written = build_site(Path(sys.argv[1]))
    except GpbenchError as error:
        sys.exit(f"gpbench: {error}")
    echo(f"{len(written)} pages: {written[0]}")
