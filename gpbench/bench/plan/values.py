"""Single values of a plan's tables, checked."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from gpbench.bench.cell import Limits
from gpbench.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpbench.bench.plan.lines import Place

__all__ = ["integer", "known_keys", "limits", "number", "one_of", "scalars", "table", "text", "texts"]


def text(place: Place, body: Mapping[str, Any], key: str, default: str | None = None) -> str:
    """A text; required where there is no default.

    Raises
    ------
    UsageError
        It is missing, or no text.
    """
    if key not in body and default is not None:
        return default
    value = _required(place, body, key)
    if not isinstance(value, str) or not (value.strip() or default == ""):
        raise place.error(f"{key} must be a text; got {value!r}", key=key)
    return value


def texts(place: Place, body: Mapping[str, Any], key: str, default: Sequence[str] | None = None) -> tuple[str, ...]:
    """A list of texts; one text alone counts as a list.

    Raises
    ------
    UsageError
        It is missing, or holds something else.
    """
    if key not in body and default is not None:
        return tuple(default)
    value = _required(place, body, key)
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(each, str) and each.strip() for each in listed):
        raise place.error(f"{key} must be a list of texts; got {value!r}", key=key)
    return tuple(listed)


def one_of(place: Place, body: Mapping[str, Any], key: str, allowed: Sequence[str], default: str) -> str:
    """One of some words.

    Raises
    ------
    UsageError
        It is another.
    """
    value = text(place, body, key, default)
    if value not in allowed:
        raise place.error(unknown_name(key, value, allowed), key=key)
    return value


def integer(place: Place, body: Mapping[str, Any], key: str, *, least: int = 1) -> int | None:
    """An integer of at least ``least``; None where there is none.

    Raises
    ------
    UsageError
        It is something else.
    """
    value = body.get(key)
    if key in body and (type(value) is not int or value < least):
        raise place.error(f"{key} must be an integer >= {least}; got {value!r}", key=key)
    return value


def number(place: Place, body: Mapping[str, Any], key: str) -> float | None:
    """A positive number; None where there is none.

    Raises
    ------
    UsageError
        It is something else.
    """
    if key not in body:
        return None
    value = body[key]
    if type(value) not in (int, float) or not (math.isfinite(value) and value > 0):
        raise place.error(f"{key} must be a positive number; got {value!r}", key=key)
    return float(value)


def table(around: Mapping[str, Any], place: Place, key: str) -> dict[str, Any]:
    """A table within a table; an empty one where there is none.

    Raises
    ------
    UsageError
        It is something else.
    """
    value = around.get(key, {})
    if not isinstance(value, dict):
        raise place.error(f"{key} must be a table; got {value!r}", key=key)
    return value


def limits(around: Mapping[str, Any], place: Place) -> Limits:
    """The limits that a table gives under ``limits``.

    Raises
    ------
    UsageError
        An unknown limit, or a value that is not allowed.
    """
    given = table(around, place, "limits")
    known_keys(given, [each.name for each in fields(Limits)], place.inside("limits"))
    try:
        return Limits(**given)
    except UsageError as error:
        raise place.error(error, key="limits") from None


def known_keys(body: Mapping[str, Any], allowed: Sequence[str], place: Place) -> None:
    """See that a table holds nothing else.

    Raises
    ------
    UsageError
        It does; the message names the nearest key.
    """
    for name in body:
        if name not in allowed:
            raise place.error(unknown_name("key", name, allowed), key=name)


def scalars(place: Place, body: Mapping[str, Any], key: str) -> tuple[Any, ...]:
    """A list of numbers or texts, not empty, each once.

    Raises
    ------
    UsageError
        It is something else.
    """
    value = body[key]
    if not isinstance(value, list) or not value or not all(isinstance(each, str | int | float) for each in value):
        raise place.error(f"{key} must be a list of values; got {value!r}", key=key)
    if len({str(each) for each in value}) < len(value):
        raise place.error(f"{key} gives a value twice: {value!r}", key=key)
    return tuple(value)


def _required(place: Place, body: Mapping[str, Any], key: str) -> Any:
    if key not in body:
        raise place.error(f"{key} is missing")
    return body[key]
