"""The inner tables of a plan, checked: a method, what is swept, what is different on a data set, the quick form."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from gpbench.bench.cell import Limits
from gpbench.bench.methods import methods
from gpbench.bench.plan.plan import Override, PlanMethod, Quick
from gpbench.bench.plan.values import integer, known_keys, limits, number, scalars, table, text, texts
from gpbench.data.splits import Protocol
from gpbench.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpbench.bench.method import Method
    from gpbench.bench.plan.lines import Place

__all__ = ["Names", "check_settings", "check_split", "read_method", "read_override", "read_quick", "read_sweep"]

_METHOD_KEYS = ("method", "label", "printed", "limits", "split")
_OVERRIDE_KEYS = tuple(each.name for each in fields(Override))
_QUICK_KEYS = tuple(each.name for each in fields(Quick))
_LIMITS = tuple(each.name for each in fields(Limits))


@dataclass(frozen=True)
class Names:
    """What the names in a plan can mean.

    Attributes
    ----------
    datasets : tuple of str
    tables : mapping
        Table of [methods] -> its method.
    sweep : mapping
        Swept name -> values.
    """

    datasets: tuple[str, ...]
    tables: Mapping[str, Method]
    sweep: Mapping[str, tuple[Any, ...]]

    @property
    def settings(self) -> dict[str, list[Method]]:
        """Setting -> the methods that have it."""
        found: dict[str, list[Method]] = {}
        for method in self.tables.values():
            for name in method.settings():
                found.setdefault(name, []).append(method)
        return found


def read_method(name: str, body: Any, around: Place) -> PlanMethod:
    """A table of [methods].

    Raises
    ------
    UsageError
        An unknown method or setting, or a value that is not allowed.
    """
    place = around.inside(name)
    table({name: body}, around, name)
    wanted = text(place, body, "method", name)
    if wanted not in methods():
        raise place.error(unknown_name("method", wanted, methods()), key="method")
    found = methods()[wanted]
    settings = {key: value for key, value in body.items() if key not in _METHOD_KEYS}
    known = found.settings()
    for key in settings:
        if key not in known:
            raise place.error(unknown_name(f"setting of {wanted}", key, (*known, *_METHOD_KEYS)), key=key)
    check_settings(settings, place, {key: [found] for key in known})
    label = text(place, body, "label", name)
    limits(body, place)
    return PlanMethod(
        name=name,
        method=found,
        label=label,
        printed=text(place, body, "printed", label),
        settings=settings,
        limits=body.get("limits", {}),
        split=text(place, body, "split") if "split" in body else None,
    )


def read_override(name: str, body: Any, around: Place, *, names: Names) -> Override:
    """A table of [overrides].

    Raises
    ------
    UsageError
        An unknown name, or a value that is not allowed.
    """
    place = around.inside(name)
    if name not in names.datasets:
        raise place.error(unknown_name("data set of this plan", name, names.datasets))
    table({name: body}, around, name)
    known_keys(body, _OVERRIDE_KEYS, place)
    chosen = texts(place, body, "methods") if "methods" in body else None
    for each in chosen or ():
        if each not in names.tables:
            raise place.error(unknown_name("method of this plan", each, names.tables), key="methods")
    split = text(place, body, "split") if "split" in body else None
    if split is not None:
        check_split(split, names.sweep, place)
    limits(body, place)
    return Override(
        label=text(place, body, "label") if "label" in body else None,
        printed=text(place, body, "printed") if "printed" in body else None,
        incomparable=text(place, body, "incomparable") if "incomparable" in body else None,
        methods=chosen,
        split=split,
        splits=integer(place, body, "splits"),
        limits=body.get("limits", {}),
        settings=_override_settings(table(body, place, "settings"), place.inside("settings"), names),
    )


def _override_settings(settings: Mapping[str, Any], place: Place, names: Names) -> dict[str, Any]:
    """Settings for all methods, and tables of settings for one."""
    shared = {key: value for key, value in settings.items() if not isinstance(value, dict)}
    check_settings(shared, place, names.settings)
    for key, value in settings.items():
        if isinstance(value, dict):
            if key not in names.tables:
                raise place.error(unknown_name("method of this plan", key, names.tables), key=key)
            method = names.tables[key]
            check_settings(value, place.inside(key), {each: [method] for each in method.settings()})
    return dict(settings)


def read_quick(body: Mapping[str, Any], place: Place, *, names: Names) -> Quick:
    """The table [quick].

    Raises
    ------
    UsageError
        An unknown name, or a value that is not allowed.
    """
    known_keys(body, _QUICK_KEYS, place)
    chosen = texts(place, body, "datasets") if "datasets" in body else None
    for each in chosen or ():
        if each not in names.datasets:
            raise place.error(unknown_name("data set of this plan", each, names.datasets), key="datasets")
    swept, inner = table(body, place, "sweep"), place.inside("sweep")
    for key in swept:
        if key not in names.sweep:
            raise inner.error(unknown_name("swept name of this plan", key, names.sweep), key=key)
    settings = table(body, place, "settings")
    check_settings(settings, place.inside("settings"), names.settings)
    default = Quick()
    return Quick(
        splits=integer(place, body, "splits") or default.splits,
        train_rows=integer(place, body, "train_rows") or default.train_rows,
        test_rows=integer(place, body, "test_rows") or default.test_rows,
        iterations=integer(place, body, "iterations") or default.iterations,
        seconds=number(place, body, "seconds") or default.seconds,
        datasets=chosen,
        sweep={key: scalars(inner, swept, key) for key in swept},
        settings=settings,
    )


def read_sweep(body: Mapping[str, Any], place: Place, *, names: Names, splits: Sequence[str]) -> dict[str, Any]:
    """The table [sweep].

    Parameters
    ----------
    body, place
        The table and where it stands.
    names : Names
        Without a sweep.
    splits : sequence of str
        The plan's splits, whose words in braces can be swept.

    Raises
    ------
    UsageError
        A name that means nothing, or a value that is not allowed.
    """
    words = {word for split in splits for word in re.findall(r"\{(\w+)\}", split)}
    known = names.settings
    found = {}
    for name in body:
        if name not in known and name not in _LIMITS and name not in words:
            kinds = "setting, limit or word of the split"
            raise place.error(unknown_name(kinds, name, (*known, *_LIMITS, *words)), key=name)
        found[name] = scalars(place, body, name)
        for value in found[name]:
            if name in _LIMITS:
                limits({"limits": {name: value}}, place)
            elif name in known:
                check_settings({name: value}, place, known)
    return found


def check_settings(body: Mapping[str, Any], place: Place, known: Mapping[str, list[Method]]) -> None:
    """See that at least one method has each setting, and that those that have it take its value.

    Raises
    ------
    UsageError
        One is unknown, or its value not allowed.
    """
    for name, value in body.items():
        if name not in known:
            raise place.error(unknown_name("setting (of this plan's methods)", name, known), key=name)
        for method in known[name]:
            try:
                method.resolve({name: value})
            except UsageError as error:
                raise place.error(error, key=name) from None


def check_split(split: str, sweep: Mapping[str, tuple[Any, ...]], place: Place) -> None:
    """See that a split is one, whose words in braces are swept.

    Raises
    ------
    UsageError
        It is none.
    """
    try:
        Protocol.parse(split.format(**{word: values[0] for word, values in sweep.items()}))
    except (KeyError, IndexError, ValueError) as error:
        raise place.error(f"split {split!r}: [sweep] gives no values for {error}", key="split") from None
    except UsageError as error:
        raise place.error(error, key="split") from None
