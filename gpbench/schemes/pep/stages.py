"""pep's stages: how many evaluations on how many rows, as they are written in a setting or chosen by the rows.

"8x2000,40xmost,20xmost@0.9,8xall": 8 evaluations on 2,000 rows, 40 on all but a tenth, 20 more at power .9 that are
kept where that tenth says so, and 8 on all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HELD_OUT_SHARE", "Stage", "held_out", "parse_stages"]

SMALL, MIDDLING = 10_000, 50_000
"""Rows up to which training has one stage before all rows are looked at, and up to which all of them ever are."""
HELD_OUT, HELD_OUT_SHARE = 2_000, 10
"""Rows that are held out at most, and one of how many, where a stage is on most rows."""


class Stage(NamedTuple):
    """So many evaluations on so many rows (None: all), or so many steps on mini-batches.

    ``most``: on all rows but those held out. ``power``: one that is tried, and kept where the rows held out say so.
    """

    steps: int
    rows: int | None
    tail: bool = False
    most: bool = False
    power: float | None = None


def parse_stages(text: str | None, n: int, *, tail: bool = True, tries: bool = True) -> tuple[Stage, ...]:
    """The stages of training on n rows; those on no fewer rows than there are become part of the one on all.

    Parameters
    ----------
    text : str or None
        None: by the number of rows.
    n : int
    tail, tries : bool
        Whether there can be a tail, as there is for one latent function, and whether another power is tried where the
        text is None: .9 for one latent function from 10,000 rows on, .5 for several.

    Raises
    ------
    UsageError
        The text does not name stages, or names a tail where there is none.
    """
    if text is None:
        text = _usual(n, tail=tail, tries=tries)
    if "tail" in text and not tail:
        raise UsageError(f"the tail is for one latent function alone, not for several classes; got stages {text!r}")
    stages: list[Stage] = []
    for piece in text.split(","):
        count, _, what = piece.strip().partition("x")
        rows, at, power = what.partition("@")
        known = rows in {"all", "most", "tail"} or (rows.isdecimal() and int(rows) > 0)
        if not (count.isdecimal() and int(count) > 0 and known and (not at or (rows == "most" and _is_power(power)))):
            raise UsageError(f"stages must be like 8x2000,40xall or 40xmost,20xmost@0.9,8xall; got {text!r}")
        if at and not stages:
            raise UsageError(f"another power needs a stage before it; got stages {text!r}")
        most = rows == "most" and n >= HELD_OUT_SHARE
        stage = Stage(
            int(count),
            int(rows) if rows.isdecimal() and int(rows) < n else None,
            tail=rows == "tail",
            most=most,
            power=float(power) if at and most else None,
        )
        last = stages[-1] if stages else None
        if last is not None and last.tail:
            raise UsageError(f"the tail must be the last of the stages; got {text!r}")
        if last is not None and not stage.tail and last._replace(steps=0) == stage._replace(steps=0):
            stages[-1] = stage._replace(steps=last.steps + stage.steps)
        else:
            stages.append(stage)
    if stages[0].tail:
        raise UsageError(f"the tail needs a stage before it; got {text!r}")
    return tuple(stages)


def _usual(n: int, *, tail: bool, tries: bool) -> str:
    """The stages of training on n rows where none are named."""
    first = "8x2000,12x8000," if n > SMALL else "8x2000,"
    if not tail:
        return first + ("20xmost,24xmost@0.5,8xall" if tries else "40xall")
    if n > MIDDLING:
        return first + "1000xtail"
    if n > SMALL:
        return first + ("40xmost,20xmost@0.9,8xall" if tries else "40xall")
    return first + "56xall"


def held_out(stages: Sequence[Stage], n: int) -> int:
    """How many of n rows are held out, for stages on most of them."""
    return min(HELD_OUT, n // HELD_OUT_SHARE) if any(stage.most for stage in stages) else 0


def _is_power(text: str) -> bool:
    try:
        return 0.0 <= float(text) <= 1.0
    except ValueError:
        return False
