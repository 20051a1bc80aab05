"""The methods: schemes with their settings, known by an id. Third-party packages add theirs by entry points.

A package that adds methods says in its ``pyproject.toml``::

    [project.entry-points."gpbench.methods"]
    mine = "mypackage.methods:METHODS"      # a Method, or a list of them

and a package that does not load is reported by ``gpbench list`` and breaks nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gpbench.bench.builtin import BUILT_IN
from gpbench.bench.method import Method
from gpbench.data.catalogue import task_of
from gpbench.errors import GpbenchError, PluginError
from gpbench.plugins import loaded, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpbench.bench.result import Result

__all__ = ["GROUP", "Method", "method", "methods", "outdated", "plugin_problems", "unknown_method"]

#: The entry-point group of third-party methods.
GROUP = "gpbench.methods"


@dataclass(frozen=True)
class _Registry:
    methods: Mapping[str, Method]
    problems: tuple[PluginError, ...]


@cache
def _registry() -> _Registry:
    found = {each.id: each for each in BUILT_IN}
    problems: list[PluginError] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        plugin = f"plug-in {entry.name!r} ({entry.value})"
        try:
            found_there = loaded(entry)
            offered = [found_there] if isinstance(found_there, Method) else list(found_there)
        except PluginError as error:
            problems.append(PluginError(f"{plugin} does not load: {error}", plugin=entry.name))
            continue
        except Exception as error:  # noqa: BLE001  # what it names can be anything
            words = f"{type(error).__name__}: {error}"
            problems.append(PluginError(f"{plugin} does not load: {words}", plugin=entry.name))
            continue
        problems.extend(PluginError(words, plugin=entry.name) for words in _admit(found, offered, plugin))
    return _Registry(MappingProxyType(found), tuple(problems))


def _admit(found: dict[str, Method], offered: Iterable[Any], plugin: str) -> list[str]:
    problems = []
    for each in offered:
        if not isinstance(each, Method):
            problems.append(f"{plugin} must offer Method objects; got {each!r}")
        elif not (isinstance(each.id, str) and isinstance(each.title, str) and isinstance(each.tasks, frozenset)):
            problems.append(f"{plugin}: id and title must be texts, and tasks a frozenset; got {each!r}")
        elif each.id in found:
            problems.append(f"{plugin} offers method {each.id!r}, an id that is taken")
        else:
            found[each.id] = each
    return problems


def methods() -> Mapping[str, Method]:
    """Every method by id: the built-in ones first, then those of plug-ins."""
    return _registry().methods


def outdated(cells: Iterable[Result]) -> dict[str, set[int]]:
    """The versions of cells that are no longer their method's, by its id."""
    found: dict[str, set[int]] = {}
    for cell in cells:
        known = methods().get(cell.method)
        if known is not None and not known.is_current(cell.version, task_of(cell.dataset)):
            found.setdefault(cell.method, set()).add(cell.version)
    return found


def plugin_problems() -> tuple[PluginError, ...]:
    """Plug-ins that do not load, or whose methods cannot be taken."""
    return _registry().problems


def method(name: str) -> Method:
    """The method of an id.

    Raises
    ------
    UsageError
        There is none; the message names the nearest.
    PluginError
        It is the name of a plug-in that does not load; the message says why.
    """
    known = methods()
    if name not in known:
        raise unknown_method(name)
    return known[name]


def unknown_method(name: str, *, others: Iterable[str] = ()) -> GpbenchError:
    """The error for a name that is no method's; ``others`` are names that would have been right beside them."""
    return unknown("method", name, {*methods(), *others}, problems=plugin_problems())
