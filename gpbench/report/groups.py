"""Which cells may be averaged: those of one data set and one split protocol that differ in split and seed alone.

What is not the same is never averaged together. Where one method stands in the store with several settings, each gets
a row of its own whose label names the settings that differ, such as ``x-gpc (inducing=200)``; the same goes for a data
set whose content or scaling changed. Labels are settled over all cells given, so that a label means the same in every
row and every picture of one report. Cells of a plan bear its labels and stand in its order instead (``shown``, see
:mod:`gpbench.report.plan.renderers`).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["OK", "Cell", "Group", "distinct", "group_cells", "natural"]

#: A stored result (design: "The store").
Cell = Mapping[str, Any]

#: The status of a finished cell.
OK = "ok"

#: Fields that belong to the data set: a change of them is no change of the method.
_OF_DATA = ("checksum", "scaling")


@dataclass(frozen=True)
class Group:
    """Cells that are one method with one choice of settings on one data set under one split protocol.

    Attributes
    ----------
    dataset, method : str
        Ids.
    dataset_label, method_label : str
        The ids, with what tells this group apart from others of the same id.
    split : str
        The protocol: ``"folds:10"``.
    cells : tuple of dict
        In the order of seed and split; failed ones too.
    """

    dataset: str
    dataset_label: str
    method: str
    method_label: str
    split: str
    cells: tuple[Cell, ...]

    @property
    def finished(self) -> tuple[Cell, ...]:
        """The cells that ended well."""
        return tuple(cell for cell in self.cells if cell["status"] == OK)

    @property
    def seeds(self) -> list[int]:
        """Seeds of the splits, sorted."""
        return sorted({cell["split"]["seed"] for cell in self.cells})

    @property
    def processors(self) -> list[str]:
        """Names of the processors that the finished cells ran on, sorted."""
        return sorted({str(cell["provenance"].get("cpu", "unknown")) for cell in self.finished})

    @property
    def threads(self) -> list[int]:
        """Numbers of threads that the finished cells ran with, sorted."""
        return sorted({int(cell["provenance"].get("threads", 1)) for cell in self.finished})


def natural(text: str) -> list[tuple[int, int, str]]:
    """Sort key that puts ``inducing=16`` before ``inducing=100``."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]


def distinct(cells: Iterable[Cell]) -> list[Cell]:
    """Each key once: the finished result where there are several, else the latest."""
    known: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        known[cell["key"]].append(cell)
    return [same[0] if len(same) == 1 else max(same, key=_rank) for same in known.values()]


def _rank(cell: Cell) -> tuple[bool, str, str]:
    """Finished before not, late before early; the JSON text settles ties, so that the order plays no part."""
    return cell["status"] == OK, str(cell["provenance"].get("end", "")), json.dumps(cell, sort_keys=True)


def group_cells(cells: Iterable[Cell]) -> list[Group]:
    """Groups in the order of data set, split protocol and method.

    Parameters
    ----------
    cells : iterable of dict
        Stored results in any order; a key that comes twice counts once.
    """
    unique = distinct(cells)
    members: dict[tuple[str, str, str, str, str], list[Cell]] = defaultdict(list)
    order: dict[tuple[str, str, str, str, str], tuple[int, ...]] = {}
    for cell, dataset_label, method_label in zip(unique, _dataset_labels(unique), _method_labels(unique), strict=True):
        shown = cell.get("shown")
        labels = (dataset_label, method_label) if shown is None else (shown["dataset"], shown["method"])
        name = (cell["dataset"], labels[0], cell["split"]["protocol"], cell["method"], labels[1])
        members[name].append(cell)
        order[name] = () if shown is None else tuple(shown["place"])
    groups = []
    for name in sorted(members, key=lambda parts: (order[parts], [natural(part) for part in parts])):
        dataset, dataset_label, split, method, method_label = name
        inside = sorted(members[name], key=_position)
        groups.append(Group(dataset, dataset_label, method, method_label, split, tuple(inside)))
    return groups


def _position(cell: Cell) -> tuple[int, int, int, str]:
    return cell["split"]["seed"], cell["split"]["index"], cell["seed"], cell["key"]


def _dataset_labels(cells: Sequence[Cell]) -> list[str]:
    """Ids of the data sets, with checksum or scaling where one id stands for several contents."""
    facts = [{name: _words(cell[name]) for name in _OF_DATA if name in cell} for cell in cells]
    names = [cell["dataset"] for cell in cells]
    return [_label(name, parts) for name, parts in zip(names, _tell_apart(names, facts), strict=True)]


def _method_labels(cells: Sequence[Cell]) -> list[str]:
    """Ids of the methods, with the settings, limits and versions that differ among all cells of a method.

    The likelihood counts within a data set only: it follows from the task unless the user names one.
    """
    facts = []
    likelihoods = []
    for cell in cells:
        facts.append(
            {name: _words(value) for name, value in cell["settings"].items()}
            | {f"limits.{name}": _words(value) for name, value in cell.get("limits", {}).items()}
            | {"version": _words(cell.get("version"))}
        )
        likelihoods.append({"likelihood": _words(cell.get("likelihood"))})
    methods = [cell["method"] for cell in cells]
    of_method = _tell_apart(methods, facts)
    of_dataset = _tell_apart([(cell["method"], cell["dataset"]) for cell in cells], likelihoods)
    origins = [cell.get("origin") or {} for cell in cells]
    of_origin = _tell_apart(
        [(cell["method"], origin.get("method")) for cell, origin in zip(cells, origins, strict=True)],
        [_origin_facts(origin) for origin in origins],
    )
    return [_label(name, a + b + c) for name, a, b, c in zip(methods, of_method, of_origin, of_dataset, strict=True)]


def _origin_facts(origin: Mapping[str, Any]) -> dict[str, str]:
    """Settings and version of the method that hyper-parameters come from, which tell cells apart as their own do."""
    if not origin:
        return {}
    facts = {**origin["settings"], "version": origin.get("version")}
    return {f"{origin.get('method')}.{name}": _words(value) for name, value in facts.items()}


def _tell_apart(scopes: Sequence[Hashable], facts: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """For each cell ``name=value`` of the facts that are not the same in all cells of its scope."""
    names: dict[Hashable, set[str]] = defaultdict(set)
    for scope, own in zip(scopes, facts, strict=True):
        names[scope].update(own)
    seen: dict[tuple[Hashable, str], set[str]] = defaultdict(set)
    for scope, own in zip(scopes, facts, strict=True):
        for name in names[scope]:
            seen[scope, name].add(own.get(name, "unset"))
    differing = {
        scope: [name for name in sorted(known) if len(seen[scope, name]) > 1] for scope, known in names.items()
    }
    return [
        # A limit that is not set goes without saying: where all others name theirs, labels stay apart.
        [
            f"{name}={own.get(name, 'unset')}"
            for name in differing[scope]
            if name in own or not name.startswith("limits.")
        ]
        for scope, own in zip(scopes, facts, strict=True)
    ]


def _label(name: str, parts: Sequence[str]) -> str:
    return f"{name} ({', '.join(parts)})" if parts else name


def _words(value: Any) -> str:
    """A setting's value as the command line takes it; a checksum by its first digits."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return value[:8] if re.fullmatch(r"[0-9a-f]{64}", value) else value
    return json.dumps(value, sort_keys=True)
