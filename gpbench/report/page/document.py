"""The page as a whole: parts of plans, curves, the table, which cells failed and why, and what all ran on and with.

Its head forbids it to load anything, and to run any scripts but the two that stand in it: one draws the curves, one
sorts and filters the tables.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections import Counter, defaultdict
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gpbench import __version__
from gpbench.report.compare.comparison import wins_over
from gpbench.report.compare.display import WINS, wins_display
from gpbench.report.figures.quality import LEAST, figure
from gpbench.report.figures.style import AXIS_LABELS, picture_bytes, styles_of
from gpbench.report.files import write_atomically
from gpbench.report.groups import distinct, disturbed_words, group_cells
from gpbench.report.page.markup import Markup, data_block, display_table, element, join, note_list, plain_table, raw
from gpbench.report.page.parts import Part, Picture, part_section, picture_element, plan_part
from gpbench.report.tables.summary import statistics, summarise
from gpbench.report.tables.table import SHOWN, display
from gpbench.report.text import printable
from gpbench.report.traces import curve_of, in_digits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gpbench.bench.plan.cells import PlanCells
    from gpbench.bench.result import Result
    from gpbench.report.groups import Group
    from gpbench.report.scores import Calibration
    from gpbench.report.traces import Array

__all__ = [
    "METRICS",
    "Link",
    "Section",
    "charts",
    "document",
    "failures",
    "lead",
    "page",
    "plan_page",
    "provenance",
    "wins",
    "write_page",
]

#: Head and content of a section; words and address of a link.
Section: TypeAlias = tuple[str, Markup]
Link: TypeAlias = tuple[str, str]

#: Metric of a chart -> label of its axis.
METRICS = {name: AXIS_LABELS[name] for name in ("nll", "error")}

_SCRIPTS = ("curves.js", "tables.js")

#: Field of the provenance -> its name on the page.
_FIELDS = {
    "gpbench": "gpbench",
    "commit": "commit",
    "python": "Python",
    "cpu": "processor",
    "cores": "cores",
    "memory_gb": "memory (GB)",
    "platform": "platform",
    "threads": "threads of a cell",
    "jobs": "cells at once",
}


def write_page(
    cells: Sequence[Result],
    path: Path,
    *,
    title: str,
    plans: Sequence[Part] = (),
    metrics: Sequence[str] = SHOWN,
    spread: str = "2se",
    bins: Mapping[str, Calibration] | None = None,
) -> None:
    """Write the page to a file, whole or not at all; the arguments are those of :func:`page`.

    Raises
    ------
    StoreError
        The path cannot be written.
    """
    write_atomically(path, page(cells, title=title, plans=plans, metrics=metrics, spread=spread, bins=bins))


def page(
    cells: Sequence[Result],
    *,
    title: str,
    plans: Sequence[Part] = (),
    metrics: Sequence[str] = SHOWN,
    spread: str = "2se",
    bins: Mapping[str, Calibration] | None = None,
    first: Sequence[Section] = (),
    trail: Sequence[Link] = (),
) -> str:
    """A page of HTML.

    Parameters
    ----------
    cells : sequence of Result
        Stored results in any order; a key that comes twice counts once.
    title : str
    plans : sequence of Part
        Sections before those of the cells.
    metrics : sequence of str
        Columns of the table, see :func:`gpbench.report.tables.table.display`.
    spread : str
        Half width of the curves' bands.
    bins : mapping, optional
        Key of a cell -> what its reliability diagram is made of, see :func:`gpbench.report.sources.calibrations`.
    first : sequence of (str, Markup)
        Head and content of sections before all others.
    trail : sequence of (str, str)
        Words and addresses of the pages above this one.
    """
    cells = distinct(cells)
    groups = group_cells(cells)
    sections = [*first, *((part.title, part_section(part)) for part in plans)]
    drawn = charts(groups, spread=spread)
    sections += [
        ("Curves", _curves(drawn["left_out"], spread=spread)),
        ("Results", display_table(display(summarise(cells), metrics=metrics))),
        *wins(cells),
        *_predictions(groups, bins or {}),
        ("Failed cells", failures(groups)),
        ("Provenance", provenance(cells)),
    ]
    return document(title, lead=[lead(cells), *_winners(groups)], sections=sections, trail=trail, drawn=drawn)


def document(
    title: str,
    *,
    lead: Sequence[str],
    sections: Sequence[Section],
    trail: Sequence[Link] = (),
    drawn: Mapping[str, Any] | None = None,
) -> str:
    """A page of any sections, with its style and scripts in it.

    Parameters
    ----------
    title : str
    lead : sequence of str
        Paragraphs below it.
    sections : sequence of (str, Markup)
        Head and content.
    trail : sequence of (str, str)
        Words and addresses of the pages above this one.
    drawn : mapping, optional
        From :func:`charts`; one of the sections has the place for it.
    """
    names = [f"part-{number}" for number in range(len(sections))]
    above = [element("a", words, href=address) for words, address in trail]
    body = element(
        "body",
        *([element("nav", *above, class_="trail", aria_label="pages above")] if above else []),
        element("h1", title),
        *(element("p", words, class_="lead") for words in lead),
        element("nav", *(element("a", head, href=f"#{name}") for name, (head, _) in zip(names, sections, strict=True))),
        *(
            element("section", element("h2", head), content, id=name)
            for name, (head, content) in zip(names, sections, strict=True)
        ),
        *([] if drawn is None else [data_block("chart-data", drawn)]),
        *(element("script", raw(_asset(name))) for name in _SCRIPTS),
    )
    return "<!doctype html>\n" + element("html", _head(title), body, lang="en") + "\n"


def plan_page(found: PlanCells) -> str:
    """The page of a plan: its table or pictures, the curves of its cells, their provenance.

    Raises
    ------
    UsageError
        The plan cannot be rendered from these cells.
    NotComputed
        It needs arrays that are not stored.
    """
    return page(found.results, title=f"{found.plan.paper} {found.plan.title}".strip(), plans=[plan_part(found)])


def _head(title: str) -> Markup:
    digests = (hashlib.sha256(_asset(name).encode("utf-8")).digest() for name in _SCRIPTS)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests)
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {allowed}"
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=f"gpbench {__version__}"),
        element("title", title),
        element("style", raw(_asset("style.css"))),
    )


def lead(cells: Sequence[Result]) -> str:
    """How many cells, of how many data sets and methods, and how many of them failed."""
    failed = sum(not cell.finished for cell in cells)
    counts = [
        (len(cells), "cell"),
        (len({cell.dataset for cell in cells}), "data set"),
        (len({cell.method for cell in cells}), "method"),
    ]
    words = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts)
    return f"{words}; {failed} failed." if failed else f"{words}; none failed."


def wins(cells: Sequence[Result]) -> list[Section]:
    """The matrix of wins as a section; none where fewer than two methods meet on fewer than two data sets."""
    found = wins_over(cells)
    return [("Shares of wins", display_table(wins_display(found, found[0].labels), caption=WINS))] if found else []


def _winners(groups: Sequence[Group]) -> list[str]:
    """Who has the lowest mean NLL, over the data sets on which every method of the page has ended well."""
    methods = list(dict.fromkeys(group.method_label for group in groups))
    means: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for group in groups:
        mean = statistics([cell.metrics.get("nll") for cell in group.cells])["mean"]
        if mean is not None:
            means[group.dataset_label, group.split][group.method_label] = mean
    shared = [found for found in means.values() if len(found) == len(methods)]
    if len(methods) < 2 or not shared:
        return []
    won = Counter(min(found, key=lambda each: found[each]) for found in shared)
    what = "methods" if len({group.method for group in groups}) == len(methods) else "methods with their settings"
    if len(shared) == 1:
        (found,) = shared
        return [f"Lowest mean test NLL of all {len(methods)} {what}: {next(iter(won))}, {min(found.values()):.4f}."]
    told = ", ".join(f"{method} on {count}" for method, count in won.most_common())
    return [f"Lowest mean test NLL over {len(shared)} data sets on which all {len(methods)} {what} ended well: {told}."]


def _predictions(groups: Sequence[Group], bins: Mapping[str, Calibration]) -> list[Section]:
    """Error against NLL and reliability, a picture for each data set and split protocol; none of a single point."""
    members: dict[tuple[str, str], list[Group]] = defaultdict(list)
    for group in groups:
        if group.finished:
            members[group.dataset_label, group.split].append(group)
    pictures = [
        picture_element(Picture(f"{dataset}, {split}", "image/png", picture_bytes(figure(own, bins), dpi=110)))
        for (dataset, split), own in members.items()
        if len(own) > 1 or any(cell.key in bins for cell in own[0].finished)
    ]
    if not pictures:
        return []
    words = "Left: means over splits with a standard error each way."
    if bins:
        words += (
            " Right, where probabilities are stored: how often something came true against how probable it was said "
            f"to be, in bins of at least {LEAST} test rows; the second class where there are two, else the predicted "
            "one. On the line, probabilities can be believed."
        )
    return [("Predictions", join(element("p", words, class_="lead"), *pictures))]


def _curves(left_out: Sequence[str], *, spread: str) -> Markup:
    help_text = (
        f"Mean over splits, band ± {in_digits(spread)} over splits. Drag over a part to enlarge it; "
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


def charts(groups: Sequence[Group], *, spread: str = "2se") -> dict[str, Any]:
    """Data of all charts, ready for JSON; NaN becomes null.

    Charts whose cells ran on different processors are left out and named under ``left_out``.

    Parameters
    ----------
    groups : sequence of Group
    spread : str
        Half width of the bands, see :func:`gpbench.report.traces.mean_curve`.

    Returns
    -------
    dict
        ``metrics``, ``methods`` (label, colour, dash), ``charts`` (title, split, curves), ``left_out``.
    """
    finished = [group for group in groups if group.finished]
    by_chart: dict[tuple[str, str], list[Group]] = defaultdict(list)
    for group in finished:
        by_chart[group.dataset_label, group.split].append(group)
    drawn, left_out = [], []
    for (dataset, split), members in by_chart.items():
        cpus = sorted({cpu for group in members for cpu in group.processors})
        if len(cpus) > 1:
            left_out.append(f"{dataset}, {split}: times of different processors ({'; '.join(cpus)})")
            continue
        curves = [_curve(group, spread) for group in members]
        where = "; ".join([cpus[0], *disturbed_words([cell for group in members for cell in group.finished])])
        drawn.append(
            {"title": printable(dataset), "split": printable(split), "cpu": printable(where), "curves": curves}
        )
    methods = [
        {"label": printable(label), "color": style.color, "dash": "" if style.line == "-" else _dash(style.line)}
        for label, style in styles_of(finished).items()
    ]
    return {"metrics": METRICS, "methods": methods, "charts": drawn, "left_out": left_out}


def _curve(group: Group, spread: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "method": printable(group.method_label),
        "splits": len(group.finished),
        "of": len(group.cells),
    }
    for metric in METRICS:
        curve = curve_of(group, metric, spread=spread)
        found["seconds"] = _numbers(curve.seconds)
        found[metric] = _numbers(curve.mean)
        found[f"{metric}_band"] = None if curve.band is None else _numbers(curve.band)
    return found


def _numbers(values: Array) -> list[float | None]:
    """Six digits, which no screen can tell from more."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in np.asarray(values)]


def _dash(line: tuple[float, tuple[float, ...]]) -> str:
    return " ".join(f"{1.5 * length:g}" for length in line[1])


def failures(groups: Sequence[Group]) -> Markup:
    """Every cell that has not ended well, with its message."""
    rows = []
    for group in groups:
        for cell in group.cells:
            if cell.finished:
                continue
            problem = cell.problem
            rows.append(
                (
                    group.dataset_label,
                    group.method_label,
                    f"{group.split}, {cell.split.index + 1}/{cell.split.count}, seed {cell.split.seed}",
                    cell.status,
                    "" if problem is None else str(problem.iteration),
                    "" if problem is None else str(problem),
                )
            )
    if not rows:
        return element("p", "Every cell ended well.")
    return plain_table(
        ("data set", "method", "split", "status", "iteration", "message"),
        rows,
        caption="Cells that have not ended well",
    )


def provenance(cells: Sequence[Result]) -> Markup:
    """What the cells ran on and with; where it is not the same for all, how many each."""
    found: dict[str, Counter[str]] = {}
    for cell in cells:
        for name, value in _facts(cell.provenance).items():
            found.setdefault(name, Counter())[value] += 1
    rows = []
    for name, values in found.items():
        total = sum(values.values())
        words = [value if count == total else f"{value} ({count} cells)" for value, count in sorted(values.items())]
        rows.append((name, "; ".join(words)))
    times = sorted(str(cell.provenance[end]) for cell in cells for end in ("start", "end") if end in cell.provenance)
    if times:
        rows.append(("ran", f"{times[0]} to {times[-1]}"))
    return plain_table(("what", "value"), rows, caption="Provenance")


def _facts(known: Mapping[str, Any]) -> dict[str, str]:
    facts = {title: _text(known[name]) for name, title in _FIELDS.items() if name in known}
    if known.get("dirty"):
        facts["commit"] = f"{facts.get('commit', 'unknown')} with changes"
    packages = known.get("packages")
    if isinstance(packages, dict):
        facts["packages"] = ", ".join(f"{name} {version}" for name, version in packages.items())
    blas = known.get("blas")
    if isinstance(blas, list):
        libraries = [each for each in blas if isinstance(each, dict) and each.get("api") == "blas"]
        facts["BLAS"] = ", ".join(
            dict.fromkeys(
                " ".join(str(each[name]) for name in ("library", "version", "architecture") if name in each)
                for each in libraries
            )
        )
    return facts


def _text(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
