"""One look a method, in every picture the same, told apart by colour-blind eyes and in grey print.

The colours are Okabe and Ito's, with Paul Tol's wine, olive, indigo and teal in place of the yellow that white paper
swallows and the sky that is a lighter blue. There are more methods than colours, so that a look is a colour, a line and
a marker: methods of one paper, which meet in its figures, differ in colour; variants of one idea share the colour and
differ in line (the subset-of-data schemes are the sparse schemes' colours, dashed). The built-in methods' looks are
written down here; another one's follows from its id, so that it is the same in every picture unless its colour is
taken: then it takes the next that is free. Where methods of several papers meet and two have colour and line in common,
the later in the alphabet changes its line. Methods that differ in settings alone share the colour and differ in
lightness and line.
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

__all__ = ["CLASS_COLORS", "Style", "styles", "styles_of"]

BLUE, VERMILION, GREEN, PURPLE, ORANGE = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"
WINE, OLIVE, INDIGO, TEAL, GREY, BLACK = "#882255", "#999933", "#332288", "#44aa99", "#595959", "#1a1a1a"

#: Of classes in pictures of data: the first two are told apart in grey print too.
CLASS_COLORS = (ORANGE, BLUE, GREEN, PURPLE, WINE, OLIVE, INDIGO, TEAL, VERMILION, GREY)

_Line = Literal["-"] | tuple[float, tuple[float, ...]]
_SOLID: _Line = "-"
_DASHED: _Line = (0.0, (5.0, 1.5))
_DOTTED: _Line = (0.0, (1.5, 1.5))
_DASHDOT: _Line = (0.0, (5.0, 1.5, 1.5, 1.5))
_LINES: tuple[_Line, ...] = (_SOLID, (0.0, (6.0, 1.5)), (0.0, (6.0, 1.5, 1.5, 1.5)), _DOTTED)

#: Method -> colour, line, marker.
_FIXED: dict[str, tuple[str, _Line, str]] = {
    # wenzel2019
    "x-gpc": (BLUE, _SOLID, "o"),
    "svgpc": (VERMILION, _SOLID, "s"),
    "epgpc": (TEAL, _SOLID, "D"),
    "gibbs": (BLACK, _SOLID, "X"),
    "linear": (GREY, _SOLID, "P"),
    # hensman2015
    "klsp": (INDIGO, _SOLID, "^"),
    "klsp-sgd": (PURPLE, _SOLID, "v"),
    "kl": (OLIVE, _SOLID, "<"),
    "mfsp": (ORANGE, _SOLID, "p"),
    "sparse-map": (OLIVE, _DASHED, ">"),
    "ep": (WINE, _SOLID, "h"),
    "gfitc": (GREEN, _SOLID, "d"),
    # villacampa2017
    "ep-mgpc": (WINE, _SOLID, "H"),
    "sep-mgpc": (ORANGE, _SOLID, "8"),
    "vi-mgpc": (BLUE, _SOLID, "v"),
    "vi-mgpc-learned": (BLUE, _DASHED, "^"),
    # izmailov2016
    "vi-jj": (GREEN, _DASHED, "o"),
    "vi-taylor": (ORANGE, _DOTTED, "s"),
    "vi-jj-hybrid": (BLUE, _DASHDOT, "D"),
    "vi-jj-full": (WINE, _DOTTED, "^"),
    "svi-adadelta": (VERMILION, _DASHED, "v"),
    "klsp-batch-z-fixed": (GREY, _DASHED, "P"),
    # sheth2015
    "gvi-fixed-point": (BLUE, _SOLID, "H"),
    "gvi-gradient": (VERMILION, _SOLID, "<"),
    "gvi-dual": (GREEN, _SOLID, ">"),
    "gvi-sgd": (PURPLE, _SOLID, "p"),
    "sod-fixed-point": (BLUE, _DASHED, "H"),
    "sod-gradient": (VERMILION, _DASHED, "<"),
    "sod-dual": (GREEN, _DASHED, ">"),
    "sod-laplace": (BLACK, _DASHED, "X"),
    # rivals
    "gpflow-svgp": (VERMILION, _DOTTED, "D"),
    "gpytorch-svgp": (GREEN, _DOTTED, "o"),
    "gpytorch-pg": (BLUE, _DOTTED, "D"),
    "sklearn-gpc": (BLACK, _DOTTED, "s"),
}
#: Colours for every other method: vermilion, green, purple, orange, wine, olive, indigo, teal.
_OTHERS = (VERMILION, GREEN, PURPLE, ORANGE, WINE, OLIVE, INDIGO, TEAL)
_MARKERS = "osD^vPX"

#: How far the lightest of several settings goes towards white.
_LIGHTEST = 0.45


@dataclass(frozen=True)
class Style:
    """How a method is drawn: colour, line and marker, as matplotlib takes them."""

    color: str
    line: _Line
    marker: str = "o"


def styles_of(groups: Iterable[Group]) -> dict[str, Style]:
    """A style for each method label among the groups."""
    return styles((group.method, group.method_label) for group in groups)


def styles(names: Iterable[tuple[str, str]]) -> dict[str, Style]:
    """A style for each label.

    Parameters
    ----------
    names : iterable of (str, str)
        Method's id and label; a method has several labels where it stands there with several settings.
    """
    labels: dict[str, set[str]] = defaultdict(set)
    for method, label in names:
        labels[method].add(label)
    looks = _looks(sorted(labels))
    found = {}
    for method, variants in labels.items():
        color, line, marker = looks[method]
        for place, label in enumerate(sorted(variants, key=natural)):
            light = _LIGHTEST * place / max(len(variants) - 1, 1)
            lines = line if len(variants) == 1 else _LINES[place % len(_LINES)]
            found[label] = Style(_lighter(color, light), lines, marker)
    return found


def _looks(methods: Iterable[str]) -> dict[str, tuple[str, _Line, str]]:
    methods = list(methods)
    looks = {method: _FIXED[method] for method in methods if method in _FIXED}
    taken = {color for color, _, _ in looks.values()}
    free = [color for color in _OTHERS if color not in taken]
    for method in methods:
        if method in looks:
            continue
        number = zlib.crc32(method.encode())
        if not free:  # more methods than colours: they come round again
            free = list(_OTHERS)
        start = number % len(_OTHERS)
        color = next(each for each in _OTHERS[start:] + _OTHERS[:start] if each in free)
        free.remove(color)
        looks[method] = (color, _SOLID, _MARKERS[number % len(_MARKERS)])
    return _apart(looks)


def _apart(looks: dict[str, tuple[str, _Line, str]]) -> dict[str, tuple[str, _Line, str]]:
    """The same looks, but for lines of methods that would have colour and line in common with an earlier one."""
    used: set[tuple[str, _Line]] = set()
    found = {}
    for method, (color, own, marker) in sorted(looks.items()):
        line = next((each for each in (own, *_LINES) if (color, each) not in used), own)
        used.add((color, line))
        found[method] = (color, line, marker)
    return found


def _lighter(color: str, share: float) -> str:
    red, green, blue = (part + (1.0 - part) * share for part in to_rgb(color))
    return to_hex((red, green, blue))
