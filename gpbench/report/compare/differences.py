"""The paired difference of two methods on one data set, with an interval that knows how the splits overlap.

===========  ==========================================================================================
symbol       meaning
===========  ==========================================================================================
d_i          metric of the first less metric of the second on split i, i = 1..n
rho          n_test / n_train, the ratio of test to training rows
===========  ==========================================================================================

Training sets of folds, and of random splits of one data set, share rows, so that the d_i are not independent and the
plain variance of their mean, s^2 / n, is too small. Nadeau and Bengio (2003, section 3) correct it to s^2 (1/n + rho),
and Bouckaert and Frank (2004) use that for repeated folds; Student's t has n - 1 degrees of freedom all the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import stats

from gpbench.data.splits import Protocol
from gpbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.report.compare.pairs import Arena, Contender
    from gpbench.report.groups import Cell

__all__ = ["LEVEL", "Difference", "difference", "overlap", "paired_interval"]

#: Of the intervals.
LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Difference:
    """First less second on one data set; below 0 the first is better.

    Attributes
    ----------
    metric : str
    splits : int
        Units in common.
    first, second : float
        Means over these.
    mean : float
    low, high : float or None
        Of the interval at :data:`LEVEL`; None with one split.
    p : float or None
        Two-sided, of the hypothesis that there is no difference.
    rho : float or None
        The correction; None where it is not known and the interval is the plain, too narrow one.
    lower, higher : int
        On how many splits the first is lower, and higher, than the second.
    """

    metric: str
    splits: int
    first: float
    second: float
    mean: float
    low: float | None
    high: float | None
    p: float | None
    rho: float | None
    lower: int
    higher: int


def difference(arena: Arena, first: Contender, second: Contender, *, metric: str) -> Difference | None:
    """Compare two contenders in an arena.

    Returns
    -------
    Difference or None
        None where no unit in common has a finite number of both.
    """
    units = [
        unit
        for unit in arena.common((first, second))
        if all(_known(arena.finished[each][unit], metric) for each in (first, second))
    ]
    if not units:
        return None
    a, b = (
        np.array([cell["metrics"][metric] for cell in arena.cells(each, units)], dtype=np.float64)
        for each in (first, second)
    )
    rho = overlap(arena.split, arena.cells(first, units))
    differences = a - b
    low, high, p = paired_interval(differences, rho=rho or 0.0)
    return Difference(
        metric=metric,
        splits=len(units),
        first=float(a.mean()),
        second=float(b.mean()),
        mean=float(differences.mean()),
        low=low,
        high=high,
        p=p,
        rho=rho,
        lower=int((differences < 0).sum()),
        higher=int((differences > 0).sum()),
    )


def paired_interval(
    differences: Sequence[float] | npt.NDArray[np.float64], *, rho: float, level: float = LEVEL
) -> tuple[float | None, float | None, float | None]:
    """Ends of the interval and two-sided p of Student's t with the corrected variance s^2 (1/n + rho).

    Parameters
    ----------
    differences : (n,)
    rho : float
        Ratio of test to training rows; 0 for independent differences.
    level : float
        Of the interval.
    """
    d = np.asarray(differences, dtype=np.float64)
    n = len(d)
    if n < 2:
        return None, None, None
    mean, error = float(d.mean()), float(d.std(ddof=1)) * math.sqrt(1.0 / n + rho)
    if error == 0.0:  # the same on every split: no difference at all, or one without any doubt
        return mean, mean, 1.0 if mean == 0.0 else 0.0
    half = float(stats.t.ppf(0.5 + level / 2.0, n - 1)) * error
    return mean - half, mean + half, 2.0 * float(stats.t.sf(abs(mean) / error, n - 1))


def overlap(split: str, cells: Sequence[Cell]) -> float | None:
    """Ratio of test to training rows of a split protocol.

    Parameters
    ----------
    split : str
        The protocol's text.
    cells : sequence of dict
        Of that protocol; numbers of rows are looked for in their provenance where the protocol does not tell.

    Returns
    -------
    float or None
        None where the numbers are not recorded.
    """
    try:
        protocol = Protocol.parse(split)
    except UsageError:  # from a later version, or another program
        protocol = Protocol("given")
    if protocol.kind in {"folds", "contiguous", "active"}:
        return 1.0 / (protocol.parts - 1) if protocol.parts > 1 else None
    if protocol.kind == "holdout" and protocol.size < 1:
        return protocol.size / (1.0 - protocol.size)
    rows = [cell["provenance"].get("data", {}) for cell in cells]
    train = [each.get("rows") for each in rows]
    test = [protocol.size if protocol.kind == "holdout" else each.get("test_rows") for each in rows]
    if not all(train) or not all(test):
        return None
    return float(np.mean(np.array(test, dtype=np.float64) / np.array(train, dtype=np.float64)))


def _known(cell: Cell, metric: str) -> bool:
    value = cell["metrics"].get(metric)
    return value is not None and math.isfinite(value)
