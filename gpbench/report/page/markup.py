"""HTML, tables among it, put together so that no name can break out of it: text is escaped unless it was made here.

Names of data sets, methods and settings, and the messages of errors, come from files and plug-ins.
"""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING, Any

from gpbench.report.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.report.tables.table import Display, Line, Number

__all__ = ["Markup", "data_block", "display_table", "element", "join", "note_list", "plain_table", "raw"]

#: Elements without content.
_VOID = frozenset({"meta", "img", "br", "hr", "input", "link"})
#: Letters that stand on one line.
_LONG = 48
#: Words of verdicts that the style sheet colours.
_VERDICTS = frozenset({"better", "worse"})

#: What the style sheet colours in a row -> what it means, and the colour.
_STATES = {
    "failed": "not all cells ended well",
    "busy": "the clocks speak against these times, see below",
}
_COLOURS = {"failed": "Orange rows", "busy": "Yellow rows"}


class Markup(str):
    """HTML that is safe to put into a page; made by :func:`element`, :func:`join` and :func:`raw` alone."""

    __slots__ = ()


def element(name: str, /, *content: str, **attributes: str | bool | None) -> Markup:
    """An element; content that is no :class:`Markup`, and every attribute, is escaped.

    Parameters
    ----------
    name : str
    *content : str
        Text or markup.
    **attributes : str, bool or None
        Underscores stand for hyphens, one at the end is dropped (``class_``). True is an attribute without a value,
        False and None leave it out.
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{_escaped(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        assert not content, name
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(*content)}</{name}>")


def join(*content: str) -> Markup:
    """Pieces one after another, text among them escaped."""
    return Markup("".join(each if isinstance(each, Markup) else _escaped(each) for each in content))


def raw(text: str) -> Markup:
    """Text of our own files (style, script), taken as it is."""
    assert "</script" not in text
    assert "</style" not in text
    return Markup(text)


def data_block(identifier: str, value: Any) -> Markup:
    """A value as JSON in a script element that is not run; it holds no ``<``, so that nothing can end the element."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(f'<script type="application/json" id="{_escaped(identifier)}">{text}</script>')


def _escaped(text: str) -> str:
    return html.escape(printable(text), quote=True)


def display_table(shown: Display, *, caption: str = "") -> Markup:
    """A table of words and numbers, with its notes below."""
    heads = [element("th", head, scope="col") for head in shown.word_heads]
    heads += [element("th", head, scope="col", class_="number") for head in shown.number_heads]
    states = [_state(line) for line in shown.lines]
    rows = [
        element(
            "tr",
            *map(_word, line.words),
            *(element("td", _number(number), class_="number") for number in line.numbers),
            class_=state or None,
            title=_STATES.get(state),
        )
        for line, state in zip(shown.lines, states, strict=True)
    ]
    notes = [f"Bold: {shown.best}."] if shown.best and any(n.best for line in shown.lines for n in line.numbers) else []
    notes += [f"{_COLOURS[state]}: {words}." for state, words in _STATES.items() if state in states]
    return join(_scrolled(caption, heads, rows), note_list([*notes, *shown.notes]))


def _state(line: Line) -> str:
    if any(word.startswith("failed") for word in line.words):
        return "failed"
    return "busy" if line.busy else ""


def plain_table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "") -> Markup:
    """A table of words; markup among them, such as links, stands as it is."""
    return _scrolled(
        caption,
        [element("th", head, scope="col") for head in heads],
        [element("tr", *map(_word, row)) for row in rows],
    )


def note_list(notes: Sequence[str]) -> Markup:
    """Notes, one an item; nothing where there are none."""
    if not notes:
        return Markup("")
    return element("ul", *(element("li", note) for note in notes), class_="notes")


def _word(word: str) -> Markup:
    """A cell of words; a long one is broken into lines, a verdict has its colour."""
    long = len(re.sub("<[^>]*>", "", word) if isinstance(word, Markup) else word) > _LONG
    return element("td", word, class_="long" if long else word if word in _VERDICTS else None)


def _number(number: Number) -> Markup:
    text = number.mean if number.sd is None else f"{number.mean} ± {number.sd}"
    return element("strong", text) if number.best else join(text)


def _scrolled(caption: str, heads: Sequence[Markup], rows: Sequence[Markup]) -> Markup:
    """A table that scrolls in its own box where it is wider than the page."""
    table = element(
        "table",
        *([element("caption", caption)] if caption else []),
        element("thead", element("tr", *heads)),
        element("tbody", *rows),
    )
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption or "table")
