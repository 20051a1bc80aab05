"""From what a user asks for to settings of methods: which option reaches which method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpbench.bench.method import origin_name
from gpbench.bench.methods import methods as all_methods
from gpbench.bench.origin import Choice, origin_of
from gpbench.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpbench.bench.methods import Method

__all__ = ["Choice", "choose", "parse_assignments"]


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """``name=value`` texts as a mapping.

    Raises
    ------
    UsageError
        No equals sign, or a name given twice.
    """
    found: dict[str, str] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise UsageError(f"--set expects name=value; got {text!r}")
        if name in found:
            raise UsageError(f"--set gives {name} twice: {found[name]!r} and {value.strip()!r}")
        found[name] = value.strip()
    return found


def choose(
    methods: Sequence[Method],
    flags: Mapping[str, str | int | None],
    *,
    assignments: Mapping[str, str],
    iterations: int | None = None,
) -> list[Choice]:
    """Settle the settings of methods that are run side by side.

    A flag or assignment applies to each method that has the setting; one that applies to none is an error. Where the
    hyper-parameters come from another method, it applies to that one too, as if it had been named.

    Parameters
    ----------
    methods : sequence of Method
    flags : mapping
        Setting -> value of the options that are settings (``--inducing``); None where not given.
    assignments : mapping
        From ``--set``.
    iterations : int or None
        The limit on iterations, if there is one. A scheme that plans its steps must know it, so it is also the value of
        a setting ``max_iterations`` that is not assigned.

    Raises
    ------
    UsageError
        A method named twice, a setting that no method has, one given twice, or a value that is not allowed.
    """
    names = [each.id for each in methods]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"method {name} is named twice")
    given: dict[str, str | int] = {name: value for name, value in flags.items() if value is not None}
    known = {each.id: each.settings() for each in methods}
    every = {name for settings in known.values() for name in settings}
    origin = origin_name(assignments)
    if origin is not None and origin in all_methods():
        every |= all_methods()[origin].settings().keys()
    for name in given:
        if name not in every:
            option = _option(name)
            raise UsageError(f"{option} applies to none of the methods {', '.join(names)}: none has that setting")
    for name, value in assignments.items():
        if name in given:
            option = _option(name)
            raise UsageError(f"{name} is given twice: by {option} and by --set {name}={value}")
        if name not in every:
            raise unknown_name(f"setting (of {', '.join(names)})", name, every)
        given[name] = value
    if iterations is not None:
        given.setdefault("max_iterations", iterations)
    chosen = []
    for each in methods:
        settings = each.resolve({name: value for name, value in given.items() if name in known[each.id]})
        chosen.append(Choice(each, settings, origin_of(each, settings, given=given)))
    return chosen


def _option(name: str) -> str:
    return "--likelihood" if name == "link" else "--" + name.replace("_", "-")
