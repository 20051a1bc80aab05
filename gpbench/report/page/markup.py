"""HTML put together so that no name can break out of it: text is escaped unless it was made here.

Names of data sets, methods and settings, and the messages of errors, come from files and plug-ins.
"""

from __future__ import annotations

import html
import json
from typing import Any

from gpbench.report.text import printable

__all__ = ["Markup", "data_block", "element", "join", "raw"]

#: Elements without content.
_VOID = frozenset({"meta", "img", "br", "hr", "input", "link"})


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
