"""TOML files, read strictly: plans, the catalogue of data sets, and settings of one's own.

A file is opened once (:func:`read_toml`) and asked typed questions (:class:`gpbench.typed.Table`). Whatever is wrong in
it is answered in one way: the file, the line, the table, what was expected and what was got, the nearest known name::

    mine.toml, line 7: [methods.x-gpc]: rate must be a number; got 'fast'
    mine.toml, line 3: unknown key 'center'; did you mean centre?

tomllib itself tells lines of broken syntax only. Where a key stands is therefore looked for in the text, and only once
something is wrong with it.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, Self

from gpbench.errors import GpbenchError, UsageError, reason
from gpbench.typed import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["TomlTable", "read_toml"]


def read_toml(path: Path, *, what: str = "", error: type[GpbenchError] = UsageError) -> TomlTable:
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
    return TomlTable(body, path=path, text=text, error=error)


class TomlTable(Table):
    """A table of a TOML file, which knows where it stands.

    Parameters
    ----------
    body, names, error
        As for :class:`gpbench.typed.Table`.
    path : Path
        Of the file.
    text : str
        The whole file's.
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
        super().__init__(body, names=names, error=error)
        self.path = path
        self._text = text

    def error(self, message: object, *, key: str | None = None) -> GpbenchError:
        """The error that something is wrong with this table, or with a key of it: with file and line.

        Parameters
        ----------
        message : object
            What was expected and what was got.
        key : str, optional
        """
        line = self.line(key)
        where = f"{self.path}, line {line}" if line else str(self.path)
        table = f"[{self.name}]: " if self.names else ""
        return self._error(f"{where}: {table}{message}")

    def line(self, key: str | None = None) -> int | None:
        """The line of a key of this table, else of the innermost table around it that is written out; from 1."""
        path = self.names if key is None else (*self.names, key)
        best: tuple[int, int] | None = None
        for number, names in _statements(self._text):
            if names == path[: len(names)] and (best is None or len(names) > best[0]):
                best = len(names), number
        return None if best is None else best[1]

    def _inside(self, body: Mapping[str, Any], *names: str | int) -> Self:
        return type(self)(body, path=self.path, text=self._text, names=(*self.names, *names), error=self._error)


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
    position, line = 0, 1
    while position < len(text):
        if found := _STATEMENT.match(text, position):
            if found[1]:
                table = _resolved(_names(found[2]), counts)
                if found[1] == "[[":
                    counts[table] = counts.get(table, -1) + 1
                    table = (*table, counts[table])
                yield line, table
            else:
                yield line, (*table, *_names(found[3]))
        end = _end(text, position)
        line += text.count("\n", position, end)
        position = end


def _resolved(names: tuple[str, ...], counts: Mapping[tuple[str | int, ...], int]) -> tuple[str | int, ...]:
    """A header's name with the number of each array of tables on the way to it, that is its last one so far."""
    path: tuple[str | int, ...] = ()
    for name in names[:-1]:
        path = (*path, name)
        if path in counts:
            path = (*path, counts[path])
    return (*path, names[-1])


def _end(text: str, position: int) -> int:
    """Where the statement that begins at a position ends: behind the first line's end outside brackets and texts."""
    depth = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:  # no TOML after all; go on with the next line
            return text.find("\n", position) + 1 or len(text)
        position = token.end()
        if token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1
        elif token[0] == "\n" and depth == 0:
            break
    return position


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))
