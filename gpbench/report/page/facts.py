"""Sections about the cells themselves: which failed and why, and what all ran on and with."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from gpbench.report.groups import OK
from gpbench.report.page.markup import Markup, element
from gpbench.report.page.tables import plain_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.report.groups import Cell, Group

__all__ = ["failures", "provenance"]

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


def failures(groups: Sequence[Group]) -> Markup:
    """Every cell that has not ended well, with its message."""
    rows = []
    for group in groups:
        for cell in group.cells:
            if cell["status"] == OK:
                continue
            problem = cell["problem"] or {}
            split = cell["split"]
            rows.append(
                (
                    group.dataset_label,
                    group.method_label,
                    f"{group.split}, {split['index'] + 1}/{split['count']}, seed {split['seed']}",
                    str(cell["status"]),
                    _text(problem.get("iteration")),
                    f"{problem.get('type', 'no type')}: {problem.get('message', 'no message')}",
                )
            )
    if not rows:
        return element("p", "Every cell ended well.")
    return plain_table(
        ("data set", "method", "split", "status", "iteration", "message"),
        rows,
        caption="Cells that have not ended well",
    )


def provenance(cells: Sequence[Cell]) -> Markup:
    """What the cells ran on and with; where it is not the same for all, how many each."""
    found: dict[str, Counter[str]] = {}
    for cell in cells:
        for name, value in _facts(cell["provenance"]).items():
            found.setdefault(name, Counter())[value] += 1
    rows = []
    for name, values in found.items():
        total = sum(values.values())
        words = [value if count == total else f"{value} ({count} cells)" for value, count in sorted(values.items())]
        rows.append((name, "; ".join(words)))
    times = sorted(
        str(cell["provenance"][end]) for cell in cells for end in ("start", "end") if end in cell["provenance"]
    )
    if times:
        rows.append(("ran", f"{times[0]} to {times[-1]}"))
    return plain_table(("what", "value"), rows, caption="Provenance")


def _facts(known: dict[str, Any]) -> dict[str, str]:
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
