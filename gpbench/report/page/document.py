"""The page as a whole. Its head forbids it to load anything, and to run any script but the one that stands in it."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING

from gpbench import __version__
from gpbench.report.files import write_atomically
from gpbench.report.groups import OK, distinct, group_cells
from gpbench.report.page.charts import charts
from gpbench.report.page.facts import failures, provenance
from gpbench.report.page.markup import Markup, data_block, element, join, raw
from gpbench.report.page.parts import Part, part_section
from gpbench.report.page.tables import display_table, note_list
from gpbench.report.tables.display import SHOWN, display
from gpbench.report.tables.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpbench.report.groups import Cell, Group

__all__ = ["page", "write_page"]

_BANDS = {
    "sd": "1 standard deviation over splits",
    "2sd": "2 standard deviations over splits",
    "se": "1 standard error over splits",
    "2se": "2 standard errors over splits",
}


def write_page(
    cells: Sequence[Cell],
    path: Path,
    *,
    title: str,
    plans: Sequence[Part] = (),
    metrics: Sequence[str] = SHOWN,
    spread: str = "2se",
) -> None:
    """Write the page to a file, whole or not at all; the arguments are those of :func:`page`.

    Raises
    ------
    StoreError
        The place cannot be written.
    """
    write_atomically(path, page(cells, title=title, plans=plans, metrics=metrics, spread=spread))


def page(
    cells: Sequence[Cell],
    *,
    title: str,
    plans: Sequence[Part] = (),
    metrics: Sequence[str] = SHOWN,
    spread: str = "2se",
) -> str:
    """A page of HTML.

    Parameters
    ----------
    cells : sequence of dict
        Stored results in any order; a key that comes twice counts once.
    title : str
    plans : sequence of Part
        Sections before those of the cells.
    metrics : sequence of str
        Columns of the table, see :func:`gpbench.report.tables.display.display`.
    spread : str
        Half width of the curves' bands.
    """
    cells = distinct(cells)
    groups = group_cells(cells)
    sections: list[tuple[str, Markup]] = [(part.title, part_section(part)) for part in plans]
    drawn = charts(groups, spread=spread)
    sections += [
        ("Curves", _curves(drawn["left_out"], spread=spread)),
        ("Results", display_table(display(summarise(cells), metrics=metrics))),
        ("Failed cells", failures(groups)),
        ("Provenance", provenance(cells)),
    ]
    names = [f"part-{number}" for number in range(len(sections))]
    body = element(
        "body",
        element("h1", title),
        element("p", _lead(cells, groups), class_="lead"),
        element("nav", *(element("a", head, href=f"#{name}") for name, (head, _) in zip(names, sections, strict=True))),
        *(
            element("section", element("h2", head), content, id=name)
            for name, (head, content) in zip(names, sections, strict=True)
        ),
        data_block("chart-data", drawn),
        element("script", raw(_asset("curves.js"))),
    )
    return "<!doctype html>\n" + element("html", _head(title), body, lang="en") + "\n"


def _head(title: str) -> Markup:
    run = base64.b64encode(hashlib.sha256(_asset("curves.js").encode("utf-8")).digest()).decode("ascii")
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{run}'"
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=f"gpbench {__version__}"),
        element("title", title),
        element("style", raw(_asset("style.css"))),
    )


def _lead(cells: Sequence[Cell], groups: Sequence[Group]) -> str:
    failed = sum(cell["status"] != OK for cell in cells)
    counts = [
        (len(cells), "cell"),
        (len({group.dataset for group in groups}), "data set"),
        (len({group.method for group in groups}), "method"),
    ]
    words = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts)
    return f"{words}; {failed} failed." if failed else f"{words}; none failed."


def _curves(left_out: Sequence[str], *, spread: str) -> Markup:
    help_text = (
        f"Mean over splits, band ± {_BANDS[spread]}. Drag over a part to enlarge it; "
        "double-click, or reset, shows all. The boxes switch methods on and off."
    )
    return join(
        element("p", help_text, class_="lead"),
        element("noscript", element("p", "The curves need JavaScript; the tables below hold the final values.")),
        element("div", id="chart-controls", class_="controls"),
        element("div", id="charts", class_="charts"),
        note_list([f"Not drawn: {each}." for each in left_out]),
    )


def _asset(name: str) -> str:
    return files("gpbench.report.page").joinpath(name).read_text(encoding="utf-8")
