"""Tables of the page: what a :class:`gpbench.report.tables.display.Display` says, and plain ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpbench.report.page.markup import Markup, element, join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.report.tables.display import Display, Number

__all__ = ["display_table", "note_list", "plain_table"]

#: Letters that stand on one line.
_LONG = 48
#: Words of verdicts that the style sheet colours.
_VERDICTS = frozenset({"better", "worse"})


def display_table(shown: Display, *, caption: str = "") -> Markup:
    """A table of words and numbers, with its notes below."""
    heads = [element("th", head, scope="col") for head in shown.word_heads]
    heads += [element("th", head, scope="col", class_="number") for head in shown.number_heads]
    rows = [
        element(
            "tr",
            *map(_word, line.words),
            *(element("td", _number(number), class_="number") for number in line.numbers),
        )
        for line in shown.lines
    ]
    notes = [f"Bold: {shown.best}."] if shown.best else []
    return join(_scrolled(caption, heads, rows), note_list([*notes, *shown.notes]))


def plain_table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "") -> Markup:
    """A table of words."""
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
    return element("td", word, class_="long" if len(word) > _LONG else word if word in _VERDICTS else None)


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
