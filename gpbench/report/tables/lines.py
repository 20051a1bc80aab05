"""A table as lines of text, which fit a terminal's width.

Where the width does not hold a table, less is said in its rows, in this order: columns that are the same in all rows
go below; three digits after the point, then two; a block for each data set; at last names are broken into several
lines and columns of numbers that find no room stand in a further table beneath, with the names of the rows again.
"""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from gpbench.report.notes import head_notes
from gpbench.report.text import columns, escape_markdown, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.bench.plan.plan import Plan
    from gpbench.report.tables.table import Display, Line, Number

__all__ = ["head_words", "text", "wrapped"]

#: Columns that name the row and stay in it, though they may be the same in all rows.
_NAMES = ("data set", "method", "pair", "metric")
#: Names are broken into no shorter pieces while there is another way.
_SHORTEST = 10
_NUMERAL = re.compile(r"\d+\.\d+")


def text(shown: Display, width: int | None = None) -> str:
    """A display as lines, ending in a newline; within a width where one is given."""
    if width is None:
        return _plain(shown)
    forms = [
        shown,
        short := _without_constants(shown),
        three := _fewer_digits(short, 3),
        two := _fewer_digits(three, 2),
    ]
    for form in forms:
        if _width(_plain(form, notes=False)) <= width:
            return _plain(form, wrap=width)
    for fold in (False, True):
        for form in (three, two):
            if _width(blocks := _blocks(form, wrap=width, fold=fold)) <= width:
                return blocks
    return blocks


def wrapped(lines: Sequence[str], width: int | None) -> list[str]:
    """Lines broken at the width, if there is one; what goes on is indented."""
    if width is None:
        return list(lines)
    return [
        part
        for line in lines
        for part in textwrap.wrap(line, width, subsequent_indent="  ", break_on_hyphens=False) or [""]
    ]


def head_words(plan: Plan, form: str, *, width: int | None = None) -> str:
    """The head above a plan's table, in a format: safe to print, and in LaTeX a comment as its notes are."""
    lines = head_notes(plan)
    if form == "markdown":
        return "\n".join(f"> {escape_markdown(line)}  " for line in lines)
    if form == "latex":
        return "\n".join(f"% {printable(line)}" for line in lines)
    return "\n".join(wrapped([printable(line) for line in lines], width))


def _width(lines: str) -> int:
    return max(map(len, lines.splitlines()), default=0)


def _plain(shown: Display, *, notes: bool = True, wrap: int | None = None) -> str:
    head, *laid = columns([_head(shown), *_body(shown)])
    rule = "─" * max(map(len, [head, *laid]))
    return "\n".join([head, rule, *laid, rule, *(_below(shown, wrap) if notes else [])]) + "\n"


def _head(shown: Display) -> list[str]:
    return [*map(printable, shown.word_heads), *map(printable, shown.number_heads)]


def _body(shown: Display) -> list[list[str]]:
    numbers = [_aligned(shown, index) for index in range(len(shown.number_heads))]
    return [[*map(printable, line.words), *(column[row] for column in numbers)] for row, line in enumerate(shown.lines)]


def _below(shown: Display, wrap: int | None) -> list[str]:
    best = [f"* {shown.best}."] if shown.best else []
    return wrapped([*best, *map(printable, shown.notes)], wrap)


def _without_constants(shown: Display) -> Display:
    """Split, cells and the like, where they are the same in all of several rows, said once below."""
    if not shown.number_heads and shown.keys is None:  # it is nothing but words
        return shown
    keys = len(shown.word_heads) if shown.keys is None else shown.keys
    same = [
        index
        for index, head in enumerate(shown.word_heads[:keys])
        if head and head not in _NAMES and len({line.words[index] for line in shown.lines}) == 1
    ]
    if not same:
        return shown
    said = ", ".join(f"{shown.word_heads[index]} {shown.lines[0].words[index]}" for index in same)
    kept = [index for index in range(len(shown.word_heads)) if index not in same]
    return replace(
        shown,
        word_heads=tuple(shown.word_heads[index] for index in kept),
        lines=tuple(replace(line, words=tuple(line.words[index] for index in kept)) for line in shown.lines),
        notes=(f"In all rows: {said}.", *shown.notes),
        keys=keys - len(same),
    )


def _fewer_digits(shown: Display, digits: int) -> Display:
    def cut(words: str) -> str:
        return _NUMERAL.sub(lambda found: _cut(found.group(), digits), words)

    def shorter(number: Number) -> Number:
        return replace(number, mean=cut(number.mean), sd=None if number.sd is None else cut(number.sd))

    return replace(shown, lines=tuple(replace(line, numbers=tuple(map(shorter, line.numbers))) for line in shown.lines))


def _cut(numeral: str, digits: int) -> str:
    return f"{float(numeral):.{digits}f}" if len(numeral.partition(".")[2]) > digits else numeral


def _blocks(shown: Display, *, wrap: int, fold: bool = False) -> str:
    """A block for each data set, whose name stands above it."""
    if shown.word_heads[:1] != ("data set",) or shown.keys == 1:
        return _folded(shown, wrap) if fold else _plain(shown, wrap=wrap)
    rows: dict[str, list[Line]] = defaultdict(list)
    name = ""
    for line in shown.lines:
        name = line.words[0] or name  # a data set is named in the first of its rows
        rows[name].append(replace(line, words=line.words[1:]))
    parts = []
    for name, lines in rows.items():
        keys = None if shown.keys is None else shown.keys - 1
        block = replace(shown, word_heads=shown.word_heads[1:], lines=tuple(lines), best="", notes=(), keys=keys)
        laid = _folded(block, wrap) if fold else _plain(block, notes=False)
        parts.append("\n".join(wrapped([printable(name)], wrap)) + f"\n{laid}")
    return "\n".join([*parts, *(["\n".join(below) + "\n"] if (below := _below(shown, wrap)) else [])])


def _folded(shown: Display, width: int) -> str:
    """Names broken into lines, and tables beneath one another for columns of numbers that find no room."""
    head, body = _head(shown), _body(shown)
    keys = len(shown.word_heads) if shown.keys is None else shown.keys
    every = range(len(head))
    # A number is never broken, but for words about it; a head is, at its blanks.
    wide = [max([*(len(row[at]) for row in body), min(len(head[at]), _longest(head[at]) + 1)]) for at in every]
    named = list(range(keys))
    room = width - max((min(wide[at], width // 2) + 2 for at in every if at >= keys), default=0)
    sizes = _shrunk([max(wide[at], min(len(head[at]), _SHORTEST)) for at in named], room)
    left = width - sum(sizes) - 2 * len(sizes) + (2 if keys == len(head) else 0)
    parts: list[list[int]] = [[]]
    used = 0
    for at in every[keys:]:
        size = min(wide[at], left)
        if parts[-1] and used + size + 2 > left + 2:
            parts.append([])
            used = 0
        parts[-1].append(at)
        used += size + 2
    tables = []
    for own in parts:
        chosen = [*named, *own]
        limits = [*sizes, *(min(wide[at], left) for at in own)]
        rows = [_broken([row[at] for at in chosen], limits) for row in (head, *body)]
        lines = columns([line for row in rows for line in row])
        rule = "─" * max(map(len, lines), default=0)
        tables.append("\n".join([*lines[: len(rows[0])], rule, *lines[len(rows[0]) :], rule]) + "\n")
    return "\n".join(tables) + "".join(f"{line}\n" for line in _below(shown, width))


def _longest(words: str) -> int:
    return max(map(len, words.split()), default=0)


def _shrunk(sizes: list[int], room: int) -> list[int]:
    """Widths of columns that stand two apart in the room: the widest give way, until they are as narrow as may be."""
    sizes = list(sizes)
    while sizes and sum(sizes) + 2 * (len(sizes) - 1) > room and max(sizes) > _SHORTEST:
        sizes[sizes.index(max(sizes))] -= 1
    return sizes


def _broken(cells: Sequence[str], sizes: Sequence[int]) -> list[tuple[str, ...]]:
    """A row as lines whose cells are no wider than this."""
    parts = [
        [cell] if len(cell) <= size else textwrap.wrap(cell, size, subsequent_indent=" ", break_on_hyphens=False)
        for cell, size in zip(cells, sizes, strict=True)
    ]
    return list(zip_longest(*parts, fillvalue=""))


def _aligned(shown: Display, index: int) -> list[str]:
    """A column of numbers whose ± stand under one another; the marks hang on the right."""
    numbers = [line.numbers[index] for line in shown.lines]
    tails = ["" if number.sd is None else f" ± {number.sd}" for number in numbers]
    before = max((len(number.mean) for number in numbers), default=0)
    after = max(map(len, tails), default=0)
    return [
        number.mean.rjust(before) + (tail.ljust(after) + " *" if number.best else tail)
        for number, tail in zip(numbers, tails, strict=True)
    ]
