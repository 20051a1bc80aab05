"""One colour a method, in every picture the same, told apart by colour-blind eyes and in grey print.

The colours are Okabe and Ito's, with Paul Tol's wine, olive and indigo in place of the yellow that white paper swallows
and the sky that is a lighter blue. A
method that is met often has its colour written down here; another one's follows from its id, so that it is the same
in every picture unless two such methods of one picture fall on the same colour: then the later in the alphabet takes
the next. Methods that differ in settings alone share the colour and differ in lightness and line.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from matplotlib.colors import to_hex, to_rgb

from gpbench.report.groups import natural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpbench.report.groups import Group

__all__ = ["Style", "styles_of"]

#: Colours written down.
_FIXED = {"x-gpc": "#0072b2", "linear": "#595959"}
#: Colours for every other method: vermilion, green, purple, orange, wine, olive, indigo.
_OTHERS = ("#d55e00", "#009e73", "#cc79a7", "#e69f00", "#882255", "#999933", "#332288")

_Line = Literal["-"] | tuple[float, tuple[float, ...]]
_LINES: tuple[_Line, ...] = ("-", (0.0, (6.0, 1.5)), (0.0, (6.0, 1.5, 1.5, 1.5)), (0.0, (1.5, 1.5)))
#: How far the lightest of several settings goes towards white.
_LIGHTEST = 0.45


@dataclass(frozen=True)
class Style:
    """How a method is drawn."""

    color: str
    line: _Line


def styles_of(groups: Iterable[Group]) -> dict[str, Style]:
    """A style for each method label among the groups."""
    labels: dict[str, set[str]] = defaultdict(set)
    for group in groups:
        labels[group.method].add(group.method_label)
    colors = _colors(sorted(labels))
    styles = {}
    for method, variants in labels.items():
        for place, label in enumerate(sorted(variants, key=natural)):
            light = _LIGHTEST * place / max(len(variants) - 1, 1)
            styles[label] = Style(_lighter(colors[method], light), _LINES[place % len(_LINES)])
    return styles


def _colors(methods: Iterable[str]) -> dict[str, str]:
    colors = {}
    free = list(_OTHERS)
    for method in methods:
        if method in _FIXED:
            colors[method] = _FIXED[method]
            continue
        if not free:  # more methods than colours: they come round again
            free = list(_OTHERS)
        start = zlib.crc32(method.encode()) % len(_OTHERS)
        color = next(each for each in _OTHERS[start:] + _OTHERS[:start] if each in free)
        free.remove(color)
        colors[method] = color
    return colors


def _lighter(color: str, share: float) -> str:
    red, green, blue = (part + (1.0 - part) * share for part in to_rgb(color))
    return to_hex((red, green, blue))
