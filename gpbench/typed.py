"""Tables of files, read strictly: typed questions for their values, and one way to say what is wrong.

A table is what TOML and JSON call one: names with values. Whatever is wrong in it is answered with what was expected,
what was got, and the nearest known name. :mod:`gpbench.toml` adds the file and the line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Self, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from gpbench.errors import GpbenchError, UsageError, unknown_name

__all__ = ["Table", "shortened"]

_T = TypeVar("_T")

#: Of a question without a default: the key is required.
_REQUIRED: Any = MISSING

_KINDS = {str: "text", int: "integer", float: "number", bool: "true or false", NoneType: "nothing"}


class Table(Mapping[str, Any]):
    """A table: a mapping of its values as they stand in the file, and typed questions for them.

    Parameters
    ----------
    body : mapping
        The values.
    names : sequence of str or int
        The table's name, part by part; numbers count the tables of an array, from 0.
    error : type
        Of all that is wrong.
    """

    def __init__(
        self, body: Mapping[str, Any], *, names: Sequence[str | int] = (), error: type[GpbenchError] = UsageError
    ) -> None:
        self.names = tuple(names)
        self._body = body
        self._error = error

    def __getitem__(self, key: str) -> Any:
        return self._body[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._body)

    def __len__(self) -> int:
        return len(self._body)

    @property
    def name(self) -> str:
        """The table's name for people, in which the tables of an array count from 1."""
        return ".".join(f"{name + 1}" if isinstance(name, int) else name for name in self.names)

    def error(self, message: object, *, key: str | None = None) -> GpbenchError:
        """The error that something is wrong with this table, or with a key of it.

        Parameters
        ----------
        message : object
            What was expected and what was got.
        key : str, optional
        """
        del key  # says where in a file, which is not known here
        return self._error(f"{self.name}: {message}" if self.names else str(message))

    def only(self, known: Iterable[str], *, kind: str = "key") -> None:
        """See that the table holds nothing else.

        Raises
        ------
        GpbenchError
            It does; the message names the nearest known key.
        """
        names = list(known)
        for name in self:
            if name not in names:
                raise self.error(unknown_name(kind, name, names), key=name)

    @overload
    def text(self, key: str, *, among: Iterable[str] | None = None) -> str: ...

    @overload
    def text(self, key: str, default: _T, *, among: Iterable[str] | None = None) -> str | _T: ...

    def text(self, key: str, default: Any = _REQUIRED, *, among: Iterable[str] | None = None) -> Any:
        """A text, which may be empty only where that is the default.

        Parameters
        ----------
        key : str
        default
            Where the key is absent; it is required where none is given.
        among : iterable of str, optional
            The words that are allowed.

        Raises
        ------
        GpbenchError
            It is missing, or something else.
        """
        value = self._value(key, str, default)
        if key in self and not (value.strip() or default == ""):
            raise self.error(f"{key} must be a text; got {shortened(value)}", key=key)
        if key in self and among is not None and value not in (words := list(among)):
            raise self.error(unknown_name(key, value, words), key=key)
        return value

    @overload
    def texts(self, key: str, *, among: Iterable[str] | None = None, kind: str = "") -> tuple[str, ...]: ...

    @overload
    def texts(
        self, key: str, default: _T, *, among: Iterable[str] | None = None, kind: str = ""
    ) -> tuple[str, ...] | _T: ...

    def texts(self, key: str, default: Any = _REQUIRED, *, among: Iterable[str] | None = None, kind: str = "") -> Any:
        """A list of texts that are not empty; one text alone counts as a list.

        Parameters
        ----------
        key : str
        default
            Where the key is absent; it is required where none is given.
        among : iterable of str, optional
            The words that are allowed.
        kind : str
            What such a word is, for messages; the key by default.

        Raises
        ------
        GpbenchError
            It is missing, or something else.
        """
        value = self._value(key, tuple[str, ...], default)
        if key not in self:
            return value
        if not all(each.strip() for each in value):
            raise self.error(f"{key} must be a list of texts; got {shortened(self[key])}", key=key)
        words = None if among is None else list(among)
        for each in value:
            if words is not None and each not in words:
                raise self.error(unknown_name(kind or key, each, words), key=key)
        return value

    @overload
    def integer(self, key: str, *, least: int = 1) -> int: ...

    @overload
    def integer(self, key: str, default: _T, *, least: int = 1) -> int | _T: ...

    def integer(self, key: str, default: Any = _REQUIRED, *, least: int = 1) -> Any:
        """An integer of at least ``least``.

        Raises
        ------
        GpbenchError
            It is missing where there is no default, or something else.
        """
        value = self._value(key, int, default, expected=f"an integer >= {least}")
        if key in self and value < least:
            raise self.error(f"{key} must be an integer >= {least}; got {shortened(value)}", key=key)
        return value

    @overload
    def positive(self, key: str) -> float: ...

    @overload
    def positive(self, key: str, default: _T) -> float | _T: ...

    def positive(self, key: str, default: Any = _REQUIRED) -> Any:
        """A positive number.

        Raises
        ------
        GpbenchError
            It is missing where there is no default, or something else.
        """
        value = self._value(key, float, default, expected="a positive number")
        if key in self and not (math.isfinite(value) and value > 0):
            raise self.error(f"{key} must be a positive number; got {shortened(value)}", key=key)
        return value

    def flag(self, key: str, default: bool) -> bool:  # noqa: FBT001  # as the other readers take theirs
        """True or false.

        Raises
        ------
        GpbenchError
            It is something else.
        """
        return bool(self._value(key, bool, default))

    def scalars(self, key: str) -> tuple[str | int | float, ...]:
        """A list of numbers, texts, and true or false: not empty, each once.

        Raises
        ------
        GpbenchError
            It is missing, or something else.
        """
        if key not in self:
            raise self.error(f"{key} is missing")
        value = self[key]
        if not isinstance(value, list) or not value or not all(isinstance(each, str | int | float) for each in value):
            raise self.error(f"{key} must be a list of values; got {shortened(value)}", key=key)
        if len({str(each) for each in value}) < len(value):
            raise self.error(f"{key} gives a value twice: {value!r}", key=key)
        return tuple(value)

    def table(self, key: str) -> Self:
        """A table within this one; an empty one where there is none.

        Raises
        ------
        GpbenchError
            It is something else.
        """
        value = self._body.get(key, {})
        if not isinstance(value, dict):
            raise self.error(f"{key} must be a table; got {shortened(value)}", key=key)
        return self._inside(value, key)

    def tables(self, key: str) -> dict[str, Self]:
        """The tables of a table within this one, by name.

        Raises
        ------
        GpbenchError
            It, or what is in it, is something else.
        """
        around = self.table(key)
        return {name: around.table(name) for name in around}

    def array(self, key: str) -> list[Self]:
        """The tables of a list of tables; none where there is no such key.

        Raises
        ------
        GpbenchError
            It is something else.
        """
        value = self._body.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self.error(f"{key} must be a list of tables; got {shortened(value)}", key=key)
        return [self._inside(each, key, number) for number, each in enumerate(value)]

    def build(self, cls: type[_T], **settled: Any) -> _T:
        """A dataclass whose fields are this table's keys, each checked against its field's annotation.

        Lists become tuples, and one value alone counts as a list where a list is expected.

        Parameters
        ----------
        cls : type
            A dataclass; its annotations are made of text, integer, number, bool, None, unions, tuples and mappings.
        **settled
            Fields that the table cannot give.

        Raises
        ------
        GpbenchError
            An unknown or missing key, a value of another type, or one that the dataclass itself refuses.
        """
        hints = _hints(cls)  # type: ignore[arg-type]  # mypy takes a type variable for unhashable
        given = [each for each in fields(cls) if each.name not in settled]  # type: ignore[arg-type]  # a dataclass
        self.only(each.name for each in given)
        found = {}
        for each in given:
            required = each.default is MISSING and each.default_factory is MISSING
            if each.name in self or required:
                found[each.name] = self._value(each.name, hints[each.name], _REQUIRED)
        try:
            return cls(**settled, **found)
        except GpbenchError as error:
            raise self.error(error) from error

    def _inside(self, body: Mapping[str, Any], *names: str | int) -> Self:
        """A table within this one."""
        return type(self)(body, names=(*self.names, *names), error=self._error)

    def _value(self, key: str, hint: Any, default: Any, *, expected: str = "") -> Any:
        if key not in self:
            if default is _REQUIRED:
                raise self.error(f"{key} is missing")
            return default
        fits, value = _fitted(self[key], hint)
        if not fits:
            raise self.error(f"{key} must be {expected or _words(hint)}; got {shortened(self[key])}", key=key)
        return value


@cache
def _hints(cls: type) -> dict[str, Any]:
    """Annotations of a dataclass; a tenth of a millisecond to work out, and asked for with each of many results."""
    return get_type_hints(cls)


def _fitted(value: Any, hint: Any) -> tuple[bool, Any]:
    """Whether a value of a TOML file is of an annotated type, and the value as that type has it."""
    if type(value) is hint:  # most are plain
        return True, value
    kind, members = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        tried = [_fitted(value, member) for member in members if member is not NoneType]
        fitting = [one for fits, one in tried if fits]
        exact = [one for one in fitting if not isinstance(one, tuple) or isinstance(value, list)]
        return bool(fitting), (exact or fitting or [value])[0]
    if kind is tuple:
        if not isinstance(value, list):
            fits, one = _fitted(value, members[0])
            return fits and members[-1] is Ellipsis, (one,)
        each = members[:1] * len(value) if members[-1] is Ellipsis else members
        found = [_fitted(one, member) for one, member in zip(value, each, strict=False)]
        return len(value) == len(each) and all(fits for fits, _ in found), tuple(one for _, one in found)
    if kind is Mapping:
        if not isinstance(value, dict):
            return False, value
        within = {name: _fitted(one, members[1]) for name, one in value.items()}
        return all(fits for fits, _ in within.values()), {name: one for name, (_, one) in within.items()}
    if hint is Any:
        return True, value
    if hint is float:
        return type(value) in (int, float), float(value) if type(value) in (int, float) else value
    return False, value


def _words(hint: Any) -> str:
    """A type in words: ``a list of texts``."""
    kind, members = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return " or ".join(dict.fromkeys(_words(member) for member in members if member is not NoneType))
    if kind is tuple and members[-1] is Ellipsis:
        return f"a list of {_plural(members[0])}"
    if kind is tuple:
        return f"a list of {', '.join(_words(member) for member in members)}"
    if kind is Mapping:
        return "a table"
    word = _KINDS[hint]
    return word if hint is bool else f"an {word}" if word[0] in "aeiou" else f"a {word}"


def _plural(hint: Any) -> str:
    kind, members = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return " or ".join(_plural(member) for member in members)
    return "lists" if kind is tuple else f"{_KINDS[hint]}s"


def shortened(value: object) -> str:
    """A value for a message, cut short."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
