"""What there is to run: methods with their settings, data sets and plans, as plain data and as text.

The data are JSON-able and complete; the text shows what fits a terminal. What does not load is a problem in words and
takes nothing else away.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from gpbench.errors import GpbenchError, MissingExtra
from gpbench.report.text import columns, printable
from gpbench.terminal import duration
from gpbench.toml import read_toml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from gpbench.bench.methods import Method
    from gpbench.data.catalogue import Entry

__all__ = [
    "dataset_card",
    "dataset_facts",
    "dataset_table",
    "method_card",
    "method_facts",
    "method_table",
    "plan_facts",
    "plan_table",
]

Facts = dict[str, Any]

_ESTIMATE = (
    "about: an estimate from the sizes of the data, with nothing stored and one cell at a time; when a scheme will\n"
    "have converged is not known, so it may be several times off. `gpbench reproduce PLAN --dry-run` looks at what\n"
    "is stored."
)


def method_facts(methods: Iterable[Method]) -> tuple[list[Facts], list[str]]:
    """Facts of methods, and a sentence for each whose scheme does not load (its settings are then None)."""
    facts, problems = [], []
    for method in methods:
        try:
            settings = [
                {
                    "name": each.name,
                    "type": each.kind.__name__,
                    "default": each.default,
                    "values": each.describe(),
                    "choices": list(each.choices),
                    "minimum": each.minimum,
                    "maximum": each.maximum,
                    "optional": each.optional,
                    "rules": list(each.rules),
                    "help": each.help,
                }
                for each in method.settings().values()
            ]
        except Exception as error:  # noqa: BLE001  # a third party's scheme can raise anything at import
            settings = None
            problems.append(f"method {method.id}: {error}")
        facts.append(
            {
                "id": method.id,
                "title": method.title,
                "tasks": sorted(method.tasks),
                "paper": method.paper,
                "version": method.version,
                "extra": method.extra,
                "settings": settings,
            }
        )
    return facts, problems


def dataset_facts(entries: Iterable[Entry], is_here: Callable[[str], bool]) -> list[Facts]:
    """Facts of data sets.

    Parameters
    ----------
    entries : iterable of Entry
    is_here : callable
        Id -> whether it can be opened without network or mirror.
    """
    return [
        {
            "id": entry.id,
            "title": entry.title,
            "task": entry.task,
            "n": entry.n,
            "d": entry.d,
            "classes": list(entry.classes),
            "source": entry.source,
            "licence": entry.licence,
            "citation": entry.citation,
            "papers": list(entry.papers),
            "notes": list(entry.notes),
            "here": is_here(entry.id),
        }
        for entry in entries
    ]


def plan_facts(folder: Path) -> tuple[list[Facts], list[str]]:
    """Facts of the plans ``PAPER/ITEM.toml`` in a folder, and a sentence for each that cannot be read.

    ``seconds`` is the estimate of :mod:`gpbench.bench.plan.estimate`; `gpbench reproduce PLAN --dry-run` looks at
    stored cells too. ``needs`` is the extra that must be installed first, without which cells are not counted.
    """
    from gpbench.bench.plan.blocks import runnable  # noqa: PLC0415  # lists of methods and data sets need no plans
    from gpbench.bench.plan.estimate import estimate  # noqa: PLC0415
    from gpbench.bench.plan.read import read_plan  # noqa: PLC0415

    facts, problems = [], []
    for path in sorted(folder.glob("*/*.toml")):
        name = f"{path.parent.name}/{path.stem}"
        try:
            plan = read_plan(path, id=name)
            estimates = estimate([(block, []) for block in runnable(plan)])
        except MissingExtra as error:
            facts.append(_without(error.extra, path, name))
            continue
        except GpbenchError as error:
            problems.append(f"plan {name}: {error}")
            continue
        known = [each.seconds for each in estimates]
        facts.append(
            {
                "id": name,
                "title": plan.title,
                "paper": plan.paper or path.parent.name,
                "render": plan.render,
                "datasets": list(plan.datasets),
                "methods": [each.name for each in plan.methods],
                "cells": sum(each.cells for each in estimates),
                "seconds": None if None in known else sum(seconds for seconds in known if seconds is not None),
                "needs": None,
            }
        )
    return facts, problems


def _without(extra: str, path: Path, name: str) -> Facts:
    """What is known of a plan whose methods cannot be loaded without an extra."""
    top = read_toml(path, what="the plan")
    return {
        "id": name,
        "title": top.text("title"),
        "paper": top.text("paper", path.parent.name),
        "render": top.text("render", "table"),
        "datasets": list(top.texts("datasets", ())),
        "methods": list(top.tables("methods")),
        "cells": None,
        "seconds": None,
        "needs": extra,
    }


def method_table(facts: Sequence[Facts]) -> list[str]:
    """One line a method."""
    rows = [("method", "tasks", "paper", "title")]
    rows += [(each["id"], ", ".join(each["tasks"]), each["paper"] or "–", each["title"]) for each in facts]
    return _lines(rows)


def method_card(facts: Facts, *, width: int) -> list[str]:
    """All about a method: ``name = default`` of each setting beside its line of help and the values allowed."""
    about = [
        f"tasks: {', '.join(facts['tasks'])}",
        *([f"paper: {facts['paper']}"] if facts["paper"] else []),
        f"version: {facts['version']}",
        *([f"needs: gpbench[{facts['extra']}]"] if facts["extra"] else []),
    ]
    lines = [f"{facts['id']}: {facts['title']}", "  " + "; ".join(about)]
    if facts["settings"] is None:
        return [printable(lines[0]), lines[1], "  its settings cannot be shown: the scheme does not load"]
    left = [f"{each['name']} = {_value(each['default'])}" for each in facts["settings"]]
    right = [
        each["help"].rstrip(".") + ("" if each["values"] == "a text" else f" ({each['values']})")
        for each in facts["settings"]
    ]
    return lines + ["  " + line for line in _two_columns(left, right, width - 2)]


def dataset_table(facts: Sequence[Facts]) -> list[str]:
    """One line a data set."""
    rows = [("data set", "task", "n", "d", "classes", "here", "papers", "title")]
    rows += [
        (
            *(each["id"], each["task"], _count(each["n"]), _count(each["d"])),
            *(str(len(each["classes"])) if each["classes"] else "–", "yes" if each["here"] else ""),
            *(", ".join(each["papers"]) or "–", each["title"]),
        )
        for each in facts
    ]
    return _lines(rows, right=frozenset({2, 3, 4}))


def dataset_card(facts: Facts, *, width: int) -> list[str]:
    """All about a data set."""
    known = {
        "task": facts["task"],
        "rows": _count(facts["n"]),
        "features": _count(facts["d"]),
        "classes": ", ".join(facts["classes"]),
        "papers": ", ".join(facts["papers"]),
        "source": facts["source"],
        "licence": facts["licence"],
        "citation": facts["citation"],
        "here": "yes" if facts["here"] else f"no; `gpbench fetch {facts['id']}` brings it",
        "notes": "\n".join(facts["notes"]),
    }
    shown = {name: value for name, value in known.items() if value}
    lines = _two_columns(list(shown), list(shown.values()), width - 2)
    return [printable(f"{facts['id']}: {facts['title']}"), *("  " + line for line in lines)]


def plan_table(facts: Sequence[Facts]) -> list[str]:
    """One line a plan, with an estimate of the time that it takes, and what the estimate is."""
    rows = [("plan", "data sets", "methods", "cells", "about", "title")]
    rows += [
        (
            *(each["id"], str(len(each["datasets"])), str(len(each["methods"]))),
            "?" if each["cells"] is None else f"{each['cells']:,}",
            "?" if each["seconds"] is None else duration(each["seconds"]),
            each["title"]
            if each["needs"] is None
            else f'{each["title"]} (pip install "gpbench[{each["needs"]}]" first)',
        )
        for each in facts
    ]
    return [*_lines(rows, right=frozenset({1, 2, 3, 4})), _ESTIMATE]


def _lines(rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()) -> list[str]:
    return columns([[printable(cell) for cell in row] for row in rows], right=right)


def _two_columns(left: Sequence[str], right: Sequence[str], width: int) -> list[str]:
    """Terms on the left, and on the right their explanations, each line of them broken at the width."""
    indent = max(map(len, left), default=0) + 2
    lines = []
    for term, text in zip(left, right, strict=True):
        broken = [
            part
            for line in text.splitlines() or [""]
            for part in textwrap.wrap(printable(line), max(width - indent, 24), break_on_hyphens=False) or [""]
        ]
        terms = [term] + [""] * (len(broken) - 1)
        lines += [f"{name:<{indent}}{part}".rstrip() for name, part in zip(terms, broken, strict=True)]
    return lines


def _count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _value(value: Any) -> str:
    """A default as the command line takes it."""
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
