"""A table for a paper: booktabs' rules, siunitx's columns, no wider than the line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from gpbench.report.text import escape_latex, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.report.tables.table import Display, Number

__all__ = ["latex"]

_NUMERAL = re.compile(r"[-+]?\d+(\.\d+)?")
_MINUS = re.compile(r"(?<![\w.)])([-+]\d+(?:\.\d+)?)")
_WORDS = re.compile(r"(?P<mean>[-+]?\d+(?:\.\d+)?)(?: ± (?P<sd>\d+(?:\.\d+)?))?(?P<best> \*)?")
#: Mean, spread (empty for none) and whether it is the best; or words.
_Entry: TypeAlias = "tuple[str, str, bool] | str"


def latex(shown: Display) -> str:
    """A tabular of booktabs' rules and siunitx's columns, no wider than the line; what it needs is said on top.

    Mean and standard deviation are columns of their own with ± between, so that points and signs stand under one
    another whatever the digits are, and a bold mean is bold alone.
    """
    columns = [_Column(shown, at) for at in range(len(shown.word_heads) + len(shown.number_heads))]
    written = [
        r"% \usepackage{booktabs, graphicx, siunitx}",
        *([f"% bold: {shown.best}"] if shown.best else []),
        *(f"% {printable(note)}" for note in shown.notes),
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        r"\sisetup{detect-weight}%",
        rf"\begin{{tabular}}{{{''.join(column.kind for column in columns)}}}",
        r"\toprule",
        " & ".join(column.head for column in columns) + r" \\",
        r"\midrule",
        *(" & ".join(column.cells[row] for column in columns) + r" \\" for row in range(len(shown.lines))),
    ]
    return "\n".join([*written, r"\bottomrule", r"\end{tabular}}%"]) + "\n"


class _Column:
    """A column of a display as LaTeX has it: one column of words, one of numbers, or two about a ±."""

    def __init__(self, shown: Display, at: int) -> None:
        words = len(shown.word_heads)
        keys = words if shown.keys is None else shown.keys
        head = escape_latex((*shown.word_heads, *shown.number_heads)[at])
        entries = [
            _parsed(line.words[at]) if at < words else _numbers(line.numbers[at - words]) for line in shown.lines
        ]
        means = [entry[0] for entry in entries if not isinstance(entry, str)]
        spreads = [entry[1] for entry in entries if not isinstance(entry, str) and entry[1]]
        if at < keys or not means:
            self.kind = "l" if at < keys else "c" if at < words else "r"
            self.head = head
            self.cells = [
                _in_words(line.words[at] if at < words else _said(line.numbers[at - words])) for line in shown.lines
            ]
            return
        self.kind, self.head = f"S[table-format={_format(means)}]", f"{{{head}}}"
        span = "{{{}}}"
        if spreads:
            self.kind += rf"@{{\,}}c@{{\,}}S[table-format={_format(spreads)}]"
            self.head = rf"\multicolumn{{3}}{{c}}{{{head}}}"
            span = r"\multicolumn{{3}}{{c}}{{{}}}"
        self.cells = []
        for entry in entries:
            if isinstance(entry, str):
                self.cells.append(span.format(_in_words(entry)))
                continue
            mean, spread, best = entry
            cell = rf"\bfseries {mean}" if best else mean
            if spreads:
                cell += rf" & {{$\pm$}} & {spread}" if spread else " & & "
            self.cells.append(cell.rstrip())


def _parsed(words: str) -> _Entry:
    """Mean, spread and whether it is the best, of words that say just that; else the words."""
    found = _WORDS.fullmatch(words)
    return (found["mean"], found["sd"] or "", bool(found["best"])) if found else words


def _numbers(number: Number) -> _Entry:
    if _NUMERAL.fullmatch(number.mean) and (number.sd is None or _NUMERAL.fullmatch(number.sd)):
        return number.mean, number.sd or "", number.best
    return _said(number)


def _said(number: Number) -> str:
    words = number.mean if number.sd is None else f"{number.mean} ± {number.sd}"
    return f"{words} *" if number.best else words


def _in_words(words: str) -> str:
    """Words with numbers in math mode; bold where they bear the mark."""
    plain = words.removesuffix(" *")
    escaped = _MINUS.sub(r"$\1$", escape_latex(plain)).replace("±", r"$\pm$").replace("–", "--")
    escaped = escaped.replace(r"\textgreater{}", "$>$").replace(r"\textless{}", "$<$")
    return escaped if plain == words else rf"{{\boldmath\textbf{{{escaped}}}}}"


def _format(numbers: Sequence[str]) -> str:
    """Digits before and after the point, and a sign where one has it."""
    parts = [number.lstrip("-+").partition(".") for number in numbers]
    before, after = (max(len(part[side]) for part in parts) for side in (0, 2))
    signs = {number[0] for number in numbers} & {"+", "-"}
    sign = "+" if "+" in signs else "-" if signs else ""
    return f"{sign}{before}.{after}"
