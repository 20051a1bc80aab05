"""Differences that are none of chance: of two methods over the splits of a data set, and of all over data sets.

===========  ==========================================================================================
symbol       meaning
===========  ==========================================================================================
d_i          metric of the first less metric of the second on split i, i = 1..n
rho          n_test / n_train, the ratio of test to training rows
===========  ==========================================================================================

Training sets of folds, and of random splits of one data set, share rows, so that the d_i are not independent and the
plain variance of their mean, s^2 / n, is too small. Nadeau and Bengio (2003, section 3) correct it to s^2 (1/n + rho),
and Bouckaert and Frank (2004) use that for repeated folds; Student's t has n - 1 degrees of freedom all the same.

Over data sets, each of which is one observation, stand the tests that Demšar (2006) recommends for classifiers:
Wilcoxon's signed-rank test for two methods, Friedman's test for more and Nemenyi's critical difference after it.
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
    from collections.abc import Mapping, Sequence

    from gpbench.bench.result import Result
    from gpbench.report.compare.pairs import Arena, Contender

__all__ = [
    "ALPHA",
    "LEVEL",
    "Difference",
    "Ranking",
    "Signed",
    "average_ranks",
    "critical_difference",
    "difference",
    "holm",
    "means_of",
    "overlap",
    "paired_interval",
    "signed_ranks",
]

#: Of the intervals.
LEVEL = 0.95
#: Level of the tests.
ALPHA = 0.05

Array = npt.NDArray[np.float64]


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
        np.array([cell.metrics[metric] for cell in arena.cells(each, units)], dtype=np.float64)
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
    differences: Sequence[float] | Array, *, rho: float, level: float = LEVEL
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


def overlap(split: str, cells: Sequence[Result]) -> float | None:
    """Ratio of test to training rows of a split protocol.

    Parameters
    ----------
    split : str
        The protocol's text.
    cells : sequence of Result
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
    if protocol.kind == "draws":
        return 0.0
    if protocol.kind in {"folds", "contiguous", "active"}:
        return 1.0 / (protocol.parts - 1) if protocol.parts > 1 else None
    if protocol.kind == "holdout" and protocol.size < 1:
        return protocol.size / (1.0 - protocol.size)
    rows = [cell.provenance.get("data", {}) for cell in cells]
    train = [each.get("rows") for each in rows]
    test = [protocol.size if protocol.kind == "holdout" else each.get("test_rows") for each in rows]
    if not all(train) or not all(test):
        return None
    return float(np.mean(np.array(test, dtype=np.float64) / np.array(train, dtype=np.float64)))


def _known(cell: Result, metric: str) -> bool:
    value = cell.metrics.get(metric)
    return value is not None and math.isfinite(value)


@dataclass(frozen=True, kw_only=True)
class Signed:
    """Two methods over data sets.

    Attributes
    ----------
    first, second : str
        Labels.
    datasets : int
        Data sets where both have a mean.
    first_better, second_better : int
        How many of them each wins.
    median : float
        Of first less second.
    p : float or None
        Wilcoxon's, two-sided; zero differences are split between the signs. None for fewer than two data sets, or where
        all differences are zero.
    p_holm : float or None
        The same after Holm's correction for the number of pairs.
    """

    first: str
    second: str
    datasets: int
    first_better: int
    second_better: int
    median: float
    p: float | None
    p_holm: float | None = None


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Average ranks over data sets; rank 1 is best, ties share their mean rank.

    Attributes
    ----------
    metric : str
    datasets : tuple of str
        Labels of the data sets that count.
    labels : tuple of str
        Contenders, best first.
    ranks : tuple of float
        Their average ranks.
    statistic, p : float or None
        Friedman's chi-squared and its p; None for fewer than three methods or two data sets.
    difference : float or None
        Nemenyi's critical difference at :data:`ALPHA`; None for fewer than two data sets.
    """

    metric: str
    datasets: tuple[str, ...]
    labels: tuple[str, ...]
    ranks: tuple[float, ...]
    statistic: float | None
    p: float | None
    difference: float | None

    def cliques(self) -> list[tuple[int, int]]:
        """First and last position of each longest run of methods that the critical difference does not part."""
        if self.difference is None:
            return []
        runs: list[tuple[int, int]] = []
        for start, rank in enumerate(self.ranks):
            end = max(position for position, other in enumerate(self.ranks) if other - rank <= self.difference)
            if end > start and (not runs or end > runs[-1][1]):
                runs.append((start, end))
        return runs


def means_of(arena: Arena, contenders: Sequence[Contender], metric: str) -> list[float] | None:
    """Each contender's mean over the units that all of them finished; None where there is none or one is unknown."""
    means = []
    units = arena.common(contenders)
    for each in contenders:
        cells = arena.cells(each, units)
        values = [value for cell in cells if (value := cell.metrics.get(metric)) is not None and math.isfinite(value)]
        if not values or len(values) < len(cells):
            return None
        means.append(round(math.fsum(values) / len(values), 12))  # ties are ties, whatever the last bits say
    return means


def average_ranks(arenas: Mapping[str, Sequence[float]], labels: Sequence[str], *, metric: str) -> Ranking:
    """Rank contenders on each data set and average.

    Parameters
    ----------
    arenas : mapping
        Label of a data set -> means (k,) of the contenders, lower is better.
    labels : (k,)
    metric : str
        For the record.
    """
    table = np.array(list(arenas.values()), dtype=np.float64).reshape(len(arenas), len(labels))
    mean = stats.rankdata(table, axis=1).mean(axis=0) if len(table) else np.full(len(labels), np.nan)
    order = np.argsort(mean, kind="stable")
    statistic = p = None
    if len(labels) >= 3 and len(table) >= 2 and not (table == table[:, :1]).all():
        found = stats.friedmanchisquare(*table.T)
        statistic, p = float(found.statistic), float(found.pvalue)
    return Ranking(
        metric=metric,
        datasets=tuple(arenas),
        labels=tuple(labels[index] for index in order),
        ranks=tuple(float(mean[index]) for index in order),
        statistic=statistic,
        p=p,
        difference=critical_difference(len(labels), len(table)) if len(table) >= 2 else None,
    )


def critical_difference(methods: int, datasets: int, *, alpha: float = ALPHA) -> float:
    """Nemenyi's difference of average ranks: q_alpha sqrt(k (k + 1) / (6 N)) (Demšar 2006, section 3.2.2).

    q_alpha is the quantile of the studentised range with infinite degrees of freedom over sqrt(2).
    """
    q = float(stats.studentized_range.ppf(1.0 - alpha, methods, np.inf)) / math.sqrt(2.0)
    return q * math.sqrt(methods * (methods + 1) / (6.0 * datasets))


def signed_ranks(pairs: Mapping[tuple[str, str], Sequence[float]]) -> list[Signed]:
    """Wilcoxon's test for each pair, with Holm's correction over them.

    Parameters
    ----------
    pairs : mapping
        (first, second) -> first less second on each data set.
    """
    found = []
    for (first, second), values in pairs.items():
        d = np.asarray(values, dtype=np.float64)
        if len(d):
            found.append(
                Signed(
                    first=first,
                    second=second,
                    datasets=len(d),
                    first_better=int((d < 0).sum()),
                    second_better=int((d > 0).sum()),
                    median=float(np.median(d)),
                    p=_wilcoxon(d),
                )
            )
    corrected = iter(holm([each.p for each in found if each.p is not None]))
    return [each if each.p is None else Signed(**{**vars(each), "p_holm": next(corrected)}) for each in found]


def holm(p: Sequence[float]) -> list[float]:
    """Holm's (1979) step-down correction of p-values for their number, in the order given."""
    order = np.argsort(p, kind="stable")
    corrected = np.empty(len(p))
    highest = 0.0
    for step, index in enumerate(order):
        highest = max(highest, min(1.0, p[index] * (len(p) - step)))
        corrected[index] = highest
    return [float(value) for value in corrected]


def _wilcoxon(d: Array) -> float | None:
    if len(d) < 2 or not d.any():
        return None
    return float(stats.wilcoxon(d, zero_method="zsplit", method="auto").pvalue)
