"""Tables of TOML files, read strictly: plans, the catalogue of data sets, and settings of one's own.

A file is opened once (:func:`read_toml`) and asked typed questions. Whatever is wrong in it is answered in one way: the
file, the line, the table, what was expected and what was got, the nearest known name::

    mine.toml, line 7: [methods.x-gpc]: rate must be a number; got 'fast'
    mine.toml, line 3: unknown key 'center'; did you mean centre?

tomllib itself tells lines of broken syntax only. Where a key stands is therefore looked for in the text, and only once
something is wrong with it.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from gpbench.errors import GpbenchError, UsageError, reason, unknown_name

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Table", "read_toml"]

_T = TypeVar("_T")

#: Of a question without a default: the key is required.
_REQUIRED: Any = MISSING

_KINDS = {str: "text", int: "integer", float: "number", bool: "true or false", NoneType: "nothing"}


def read_toml(path: Path, *, what: str = "", error: type[GpbenchError] = UsageError) -> Table:
    """The top table of a file; a byte order mark before it counts for nothing.

    Parameters
    ----------
    path : Path
    what : str
        What the file is, for messages: ``"the plan"``.
    error : type
        Of all that is wrong with it.

    Raises
    ------
    GpbenchError
        Of the type asked for: the file cannot be read, or is no TOML.
    """
    name = f"{what} {path}".strip()
    try:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
        body = tomllib.loads(text)
    except OSError as failure:
        raise error(f"{name} cannot be read: {reason(failure)}") from failure
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as failure:
        raise error(f"{name} is no TOML: {failure}") from failure
    return Table(body, path=path, text=text, error=error)


class Table(Mapping[str, Any]):
    """A table of a file: a mapping of its values as they stand there, and typed questions for them.

    Parameters
    ----------
    body : mapping
        The values.
    path : Path
        Of the file.
    text : str
        The whole file's.
    names : sequence of str or int
        The table's name, part by part; numbers are places in arrays of tables.
    error : type
        Of all that is wrong.
    """

    def __init__(
        self,
        body: Mapping[str, Any],
        *,
        path: Path,
        text: str,
        names: Sequence[str | int] = (),
        error: type[GpbenchError] = UsageError,
    ) -> None:
        self.path = path
        self.names = tuple(names)
        self._body = body
        self._text = text
        self._error = error

    def __getitem__(self, key: str) -> Any:
        return self._body[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._body)

    def __len__(self) -> int:
        return len(self._body)

    def error(self, message: object, *, key: str | None = None) -> GpbenchError:
        """The error that something is wrong with this table, or with a key of it.

        Parameters
        ----------
        message : object
            What was expected and what was got.
        key : str, optional
        """
        line = self.line(key)
        where = f"{self.path}, line {line}" if line else str(self.path)
        table = f"[{'.'.join(_spelled(self.names))}]: " if self.names else ""
        return self._error(f"{where}: {table}{message}")

    def line(self, key: str | None = None) -> int | None:
        """The line of a key of this table, else of the innermost table around it that is written out; from 1."""
        path = self.names if key is None else (*self.names, key)
        best: tuple[int, int] | None = None
        for number, names in _statements(self._text):
            if names == path[: len(names)] and (best is None or len(names) > best[0]):
                best = len(names), number
        return None if best is None else best[1]

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
            raise self.error(f"{key} must be a text; got {_shown(value)}", key=key)
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
            raise self.error(f"{key} must be a list of texts; got {_shown(self[key])}", key=key)
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
            raise self.error(f"{key} must be an integer >= {least}; got {_shown(value)}", key=key)
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
            raise self.error(f"{key} must be a positive number; got {_shown(value)}", key=key)
        return value

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
            raise self.error(f"{key} must be a list of values; got {_shown(value)}", key=key)
        if len({str(each) for each in value}) < len(value):
            raise self.error(f"{key} gives a value twice: {value!r}", key=key)
        return tuple(value)

    def table(self, key: str) -> Table:
        """A table within this one; an empty one where there is none.

        Raises
        ------
        GpbenchError
            It is something else.
        """
        value = self._body.get(key, {})
        if not isinstance(value, dict):
            raise self.error(f"{key} must be a table; got {_shown(value)}", key=key)
        return self._inside(value, key)

    def tables(self, key: str) -> dict[str, Table]:
        """The tables of a table within this one, by name.

        Raises
        ------
        GpbenchError
            It, or what is in it, is something else.
        """
        around = self.table(key)
        return {name: around.table(name) for name in around}

    def array(self, key: str) -> list[Table]:
        """The tables of a list of tables; none where there is no such key.

        Raises
        ------
        GpbenchError
            It is something else.
        """
        value = self._body.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self.error(f"{key} must be a list of tables; got {_shown(value)}", key=key)
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
        hints = get_type_hints(cls)
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

    def _inside(self, body: Mapping[str, Any], *names: str | int) -> Table:
        return Table(body, path=self.path, text=self._text, names=(*self.names, *names), error=self._error)

    def _value(self, key: str, hint: Any, default: Any, *, expected: str = "") -> Any:
        if key not in self:
            if default is _REQUIRED:
                raise self.error(f"{key} is missing")
            return default
        fits, value = _fitted(self[key], hint)
        if not fits:
            raise self.error(f"{key} must be {expected or _words(hint)}; got {_shown(self[key])}", key=key)
        return value


def _fitted(value: Any, hint: Any) -> tuple[bool, Any]:
    """Whether a value of a TOML file is of an annotated type, and the value as that type has it."""
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
    return type(value) is hint, value


def _shown(value: object) -> str:
    """A value for a message, cut short."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


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


#: A text, a comment, a bracket, a line's end, or what lies between them; in a file that tomllib has read.
_TOKEN = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*|[\[\]{}\n]|[^"'\#\[\]{}\n]+''',
    re.DOTALL,
)
_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_DOTTED = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_STATEMENT = re.compile(rf"[ \t]*(?:(\[\[?)[ \t]*({_DOTTED})[ \t]*\]|({_DOTTED})[ \t]*=)")


def _statements(text: str) -> Iterator[tuple[int, tuple[str | int, ...]]]:
    """(line, full name) of each header and each key that begins a line."""
    table: tuple[str | int, ...] = ()
    counts: dict[tuple[str | int, ...], int] = {}
    place, line = 0, 1
    while place < len(text):
        if found := _STATEMENT.match(text, place):
            if found[1]:
                table = _resolved(_names(found[2]), counts)
                if found[1] == "[[":
                    counts[table] = counts.get(table, -1) + 1
                    table = (*table, counts[table])
                yield line, table
            else:
                yield line, (*table, *_names(found[3]))
        end = _end(text, place)
        line += text.count("\n", place, end)
        place = end


def _resolved(names: tuple[str, ...], counts: Mapping[tuple[str | int, ...], int]) -> tuple[str | int, ...]:
    """A header's name with the number of each array of tables on the way to it, that is its last one so far."""
    path: tuple[str | int, ...] = ()
    for name in names[:-1]:
        path = (*path, name)
        if path in counts:
            path = (*path, counts[path])
    return (*path, names[-1])


def _end(text: str, place: int) -> int:
    """Where the statement that begins at a place ends: behind the first line's end outside brackets and texts."""
    depth = 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:  # no TOML after all; go on with the next line
            return text.find("\n", place) + 1 or len(text)
        place = token.end()
        if token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1
        elif token[0] == "\n" and depth == 0:
            break
    return place


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))


def _spelled(names: Iterable[str | int]) -> Iterator[str]:
    """A table's name for people: places in arrays count from 1."""
    for name in names:
        yield f"{name + 1}" if isinstance(name, int) else name
