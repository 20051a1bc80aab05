"""Differences that are none of chance: of two methods over the splits of a data set, and of all over data sets.

===========  ==========================================================================================
symbol       meaning
===========  ==========================================================================================
d_i          metric of the first less metric of the second on split i, i = 1..n
rho          n_test / n_train, the ratio of test to training rows
===========  ==========================================================================================

Training sets of folds, and of random splits of one data set, share rows, so that the d_i are not independent and the
plain variance of their mean, s^2 / n, is too small. Nadeau and Bengio (2003, section 3) correct it to s^2 (1/n + rho),
and Bouckaert and Frank (2004) use that for repeated folds; Student's t has n - 1 degrees of freedom all the same. The
correction assumes that training sets are nearly the same; where two of them share half of their rows or less (400 of
7,400 train, as on IDA's realisations) it would widen intervals manifold, and the plain variance stands.

Corani and Benavoli (2015) read the same t as a posterior: the chance that the difference is below, inside or above a
region of practical equivalence (Benavoli, Corani, Demšar and Zaffalon 2017), which says how large it is, and not only
that it is not 0.

Over data sets stand the tests that Demšar (2006) recommends for classifiers: Wilcoxon's signed-rank test for two
methods, Friedman's test for more and Nemenyi's critical difference after it; beside them shares of wins and ranks with
intervals of the bootstrap. Data sets that share rows are one family, and a family is one observation.
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
    "ROPE",
    "Difference",
    "Ranking",
    "Signed",
    "WinRates",
    "average_ranks",
    "correction",
    "correlated_t",
    "critical_difference",
    "difference",
    "holm",
    "means_of",
    "paired_interval",
    "signed_ranks",
    "unpaired_interval",
    "win_rates",
]

#: Of the intervals.
LEVEL = 0.95
#: Level of the tests.
ALPHA = 0.05
#: Half width of the region of practical equivalence: a hundredth of a nat, one row in a hundred.
ROPE = 0.01

#: Samples of the bootstrap, and the seed that they are drawn from.
_SAMPLES, _SEED = 10_000, 20170101

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
        The correction; None where it is not known and the interval is the plain one, which may be too narrow.
    practical : (float, float, float) or None
        Chances that the difference is below, inside and above the region of practical equivalence.
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
    practical: tuple[float, float, float] | None
    lower: int
    higher: int


def difference(
    arena: Arena, first: Contender, second: Contender, *, metric: str, rope: float = ROPE
) -> Difference | None:
    """Compare two contenders in an arena; ``rope`` is half the width of the region of practical equivalence.

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
    rho = correction(arena.split, arena.cells(first, units))
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
        practical=correlated_t(differences, rho=rho or 0.0, rope=rope),
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


def unpaired_interval(
    first: Sequence[float] | Array, second: Sequence[float] | Array, *, rho: float, level: float = LEVEL
) -> tuple[float | None, float | None]:
    """Ends of Welch's interval for a difference of two means on unlike splits, each with the variance s^2 (1/n + rho).

    Parameters
    ----------
    first, second : (n,), (k,)
    rho : float
        As for :func:`paired_interval`, which is narrower wherever the splits are the same.
    level : float
        Of the interval.
    """
    both = [np.asarray(each, dtype=np.float64) for each in (first, second)]
    if min(map(len, both)) < 2:
        return None, None
    mean = float(both[0].mean() - both[1].mean())
    squares = [float(each.var(ddof=1)) * (1.0 / len(each) + rho) for each in both]
    whole = sum(squares)
    if whole == 0.0:
        return mean, mean
    freedom = whole**2 / sum(square**2 / (len(each) - 1) for square, each in zip(squares, both, strict=True))
    half = float(stats.t.ppf(0.5 + level / 2.0, freedom)) * math.sqrt(whole)
    return mean - half, mean + half


def correlated_t(
    differences: Sequence[float] | Array, *, rho: float, rope: float = ROPE
) -> tuple[float, float, float] | None:
    """Chances that the mean difference lies below -rope, inside, and above: the correlated Bayesian t test.

    With the prior that knows nothing the posterior is Student's t with n - 1 degrees of freedom, the mean difference as
    its centre and the variance s^2 (1/n + rho) as the square of its scale (Corani and Benavoli 2015, equation 9, where
    rho / (1 - rho) of the correlation n_test / n is the rho of this module).

    Parameters
    ----------
    differences : (n,)
    rho : float
        Ratio of test to training rows; 0 for independent differences.
    rope : float
        Half the width of the region of practical equivalence.

    Returns
    -------
    (float, float, float) or None
        None for fewer than two differences.
    """
    d = np.asarray(differences, dtype=np.float64)
    if len(d) < 2:
        return None
    mean, scale = float(d.mean()), float(d.std(ddof=1)) * math.sqrt(1.0 / len(d) + rho)
    if scale == 0.0:
        return float(mean < -rope), float(-rope <= mean <= rope), float(mean > rope)
    below = float(stats.t.cdf((-rope - mean) / scale, len(d) - 1))
    above = float(stats.t.sf((rope - mean) / scale, len(d) - 1))
    return below, 1.0 - below - above, above


def correction(split: str, cells: Sequence[Result]) -> float | None:
    """Ratio of test to training rows of a split protocol, where training sets share more than half of their rows.

    Two training sets of K folds share (K - 2) / (K - 1) of their rows, random ones of a share s of all rows s of them;
    of sets that are limited to a random part of these, that part of the share. Where limits of rows bound, the rows
    that were counted tell the ratio; the rows that there would have been without are told by the test rows alone, and
    where those were limited, too, the training sets count as sharing what whole ones would.

    Parameters
    ----------
    split : str
        The protocol's text.
    cells : sequence of Result
        Of that protocol; numbers of rows are looked for in their provenance where the protocol does not tell.

    Returns
    -------
    float or None
        0 where they share half or less, as draws of a generator do; None where the numbers are not recorded.
    """
    try:
        protocol = Protocol.parse(split)
    except UsageError:  # from a later version, or another program
        protocol = Protocol("given")
    if protocol.kind == "draws":
        return 0.0
    if protocol.kind in {"folds", "contiguous", "active"}:
        if protocol.parts < 2:
            return None
        shared, ratio = (protocol.parts - 2) / (protocol.parts - 1), 1.0 / (protocol.parts - 1)
    elif protocol.kind == "holdout" and protocol.size < 1:
        shared, ratio = 1.0 - protocol.size, protocol.size / (1.0 - protocol.size)
    else:
        counted = _counted(protocol, cells)
        return None if counted is None else counted if counted < 1.0 else 0.0
    if not any(_is_limited(cell, "test_rows") or _is_limited(cell, "train_rows") for cell in cells):
        return ratio if shared > 0.5 else 0.0
    counted = _counted(protocol, cells)
    if counted is None:
        return None
    if not any(_is_limited(cell, "test_rows") for cell in cells):
        shared *= ratio / counted  # the training rows that there are, over those that a split would have without limit
    return counted if shared > 0.5 else 0.0


def _counted(protocol: Protocol, cells: Sequence[Result]) -> float | None:
    """Mean ratio of test to training rows as cells have counted them; None where some have not."""
    rows = [cell.provenance.get("data", {}) for cell in cells]
    train = [each.get("rows") for each in rows]
    fixed = protocol.size if protocol.kind == "holdout" and protocol.size >= 1 else None
    test = [fixed or each.get("test_rows") for each in rows]
    if not all(train) or not all(test):
        return None
    return float(np.mean(np.array(test, dtype=np.float64) / np.array(train, dtype=np.float64)))


def _is_limited(cell: Result, kind: str) -> bool:
    """Whether a cell has fewer ``test_rows`` or ``train_rows`` than its split has, as far as is recorded."""
    limit = getattr(cell.limits, kind)
    there = cell.provenance.get("data", {}).get("test_rows" if kind == "test_rows" else "rows")
    return limit is not None and (there is None or there >= limit)


def _known(cell: Result, metric: str) -> bool:
    value = cell.metrics.get(metric)
    return value is not None and math.isfinite(value)


@dataclass(frozen=True, kw_only=True)
class Signed:
    """Two methods over families of data sets.

    Attributes
    ----------
    first, second : str
        Labels.
    families : int
        Where both have a mean.
    first_better, second_better : int
        How many of them each wins.
    median : float
        Of first less second.
    p : float or None
        Wilcoxon's, two-sided; zero differences are split between the signs. None for fewer than two families, or where
        all differences are zero.
    p_holm : float or None
        The same after Holm's correction for the number of pairs.
    """

    first: str
    second: str
    families: int
    first_better: int
    second_better: int
    median: float
    p: float | None
    p_holm: float | None = None


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Average ranks over families of data sets; rank 1 is best, ties share their mean rank.

    Attributes
    ----------
    metric : str
    datasets : tuple of str
        Labels of the data sets that count, one of each family.
    labels : tuple of str
        Contenders, best first.
    ranks : tuple of float
        Their average ranks.
    low, high : tuple of float or None
        Ends of the ranks' intervals at :data:`LEVEL`, by the bootstrap over families; None for fewer than two.
    statistic, p : float or None
        Friedman's chi-squared and its p; None for fewer than three methods or two data sets.
    difference : float or None
        Nemenyi's critical difference at :data:`ALPHA`; None for fewer than two data sets.
    """

    metric: str
    datasets: tuple[str, ...]
    labels: tuple[str, ...]
    ranks: tuple[float, ...]
    low: tuple[float, ...] | None
    high: tuple[float, ...] | None
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
    ranks = stats.rankdata(table, axis=1) if len(table) else np.full((1, len(labels)), np.nan)
    mean = ranks.mean(axis=0)
    ends = _bootstrap(ranks) if len(table) >= 2 else None
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
        low=None if ends is None else tuple(float(ends[0][index]) for index in order),
        high=None if ends is None else tuple(float(ends[1][index]) for index in order),
        statistic=statistic,
        p=p,
        difference=critical_difference(len(labels), len(table)) if len(table) >= 2 else None,
    )


@dataclass(frozen=True, kw_only=True)
class WinRates:
    """How often each method is better than each other one, over families of data sets.

    Attributes
    ----------
    metric : str
    labels : tuple of str
        Contenders, in the order of rows and columns.
    families : int
    share : tuple of tuple of float
        ``share[i][j]``: families where i is better than j, a tie counting half, by their number; 1/2 where i is j.
    low, high : tuple of tuple of float or None
        Ends of the intervals at :data:`LEVEL`, by the bootstrap over families; None for fewer than two.
    """

    metric: str
    labels: tuple[str, ...]
    families: int
    share: tuple[tuple[float, ...], ...]
    low: tuple[tuple[float, ...], ...] | None
    high: tuple[tuple[float, ...], ...] | None


def win_rates(arenas: Mapping[str, Sequence[float]], labels: Sequence[str], *, metric: str) -> WinRates | None:
    """The matrix of wins.

    Parameters
    ----------
    arenas : mapping
        Label of a data set, one of each family -> means (k,) of the contenders, lower is better.
    labels : (k,)
    metric : str
        For the record.

    Returns
    -------
    WinRates or None
        None without data sets.
    """
    if not arenas:
        return None
    table = np.array(list(arenas.values()), dtype=np.float64).reshape(len(arenas), len(labels))
    left, right = table[:, :, None], table[:, None, :]
    wins = (left < right) + 0.5 * (left == right)
    ends = _bootstrap(wins) if len(table) >= 2 else None
    return WinRates(
        metric=metric,
        labels=tuple(labels),
        families=len(table),
        share=_nested(wins.mean(axis=0)),
        low=None if ends is None else _nested(ends[0]),
        high=None if ends is None else _nested(ends[1]),
    )


def _nested(matrix: Array) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(map(float, row)) for row in matrix)


def _bootstrap(values: Array, *, level: float = LEVEL) -> tuple[Array, Array]:
    """Ends of the percentile interval of a mean over the first axis (Efron 1979): families are drawn with replacement.

    The seed is fixed, so that the same numbers give the same interval.
    """
    n = len(values)
    counts = np.random.default_rng(_SEED).multinomial(n, np.full(n, 1.0 / n), size=_SAMPLES)
    means = np.tensordot(counts / n, values, axes=1)
    low, high = np.quantile(means, [0.5 - level / 2.0, 0.5 + level / 2.0], axis=0)
    return low, high


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
        (first, second) -> first less second on each family.
    """
    found = []
    for (first, second), values in pairs.items():
        d = np.asarray(values, dtype=np.float64)
        if len(d):
            found.append(
                Signed(
                    first=first,
                    second=second,
                    families=len(d),
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
