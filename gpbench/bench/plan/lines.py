"""Where in a TOML file something stands: tomllib tells lines of broken syntax only, people need them for all faults."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["Place"]


@dataclass(frozen=True)
class Place:
    """A table of a file, for messages.

    Attributes
    ----------
    path : Path
    text : str
        The file's content.
    table : tuple of str
        Names of the table and of those around it; empty for the top.
    """

    path: Path
    text: str
    table: tuple[str, ...] = ()

    def inside(self, *names: str) -> Place:
        """A table within this one."""
        return Place(self.path, self.text, (*self.table, *names))

    def error(self, message: object, *, key: str | None = None) -> UsageError:
        """The error that something is wrong here, or with a key of this table: ``FILE, line 12: [methods.x-gpc]: ...``.

        Parameters
        ----------
        message : object
            What was expected and what was got.
        key : str, optional
        """
        line = self.line(key)
        where = f"{self.path}, line {line}" if line else str(self.path)
        table = f"[{'.'.join(self.table)}]: " if self.table else ""
        return UsageError(f"{where}: {table}{message}")

    def line(self, key: str | None = None) -> int | None:
        """The line of a key of this table, else of the innermost table around it that is written out; from 1."""
        path = self.table if key is None else (*self.table, key)
        best: tuple[int, int] | None = None
        for number, names in _lines(self.text):
            depth = len(_common(names, path))
            if depth == len(names) and (best is None or depth > best[0]):
                best = depth, number
        return None if best is None else best[1]


def _lines(text: str) -> list[tuple[int, tuple[str, ...]]]:
    """(line, full name) of each header and each key that begins a line."""
    found = []
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$", line):
            table = _names(header[1])
            found.append((number, table))
        elif key := re.match(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""", line):
            found.append((number, table + _names(key[1])))
    return found


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in re.findall(r"""[\w-]+|"[^"]*"|'[^']*'""", dotted))


def _common(names: Sequence[str], path: Sequence[str]) -> tuple[str, ...]:
    shared = []
    for one, other in zip(names, path, strict=False):
        if one != other:
            break
        shared.append(one)
    return tuple(shared)
