"""Methods over several data sets: signed ranks of two, average ranks of all, and by how much ranks must differ.

The tests are those that Demšar (2006) recommends for classifiers over data sets: Wilcoxon's signed-rank test for two
methods, Friedman's test for more and Nemenyi's critical difference after it. A data set is one observation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpbench.report.compare.pairs import Arena, Contender

__all__ = ["ALPHA", "Ranking", "Signed", "average_ranks", "critical_difference", "holm", "means_of", "signed_ranks"]

#: Level of the tests.
ALPHA = 0.05

Array = npt.NDArray[np.float64]


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
        """First and last place of each longest run of methods that the critical difference does not part."""
        if self.difference is None:
            return []
        runs: list[tuple[int, int]] = []
        for start, rank in enumerate(self.ranks):
            end = max(place for place, other in enumerate(self.ranks) if other - rank <= self.difference)
            if end > start and (not runs or end > runs[-1][1]):
                runs.append((start, end))
        return runs


def means_of(arena: Arena, contenders: Sequence[Contender], metric: str) -> list[float] | None:
    """Each contender's mean over the units that all of them finished; None where there is none or one is unknown."""
    means = []
    units = arena.common(contenders)
    for each in contenders:
        values = [cell["metrics"].get(metric) for cell in arena.cells(each, units)]
        if not values or any(value is None or not math.isfinite(value) for value in values):
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
        labels=tuple(labels[place] for place in order),
        ranks=tuple(float(mean[place]) for place in order),
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
    for place, index in enumerate(order):
        highest = max(highest, min(1.0, p[index] * (len(p) - place)))
        corrected[index] = highest
    return [float(value) for value in corrected]


def _wilcoxon(d: Array) -> float | None:
    if len(d) < 2 or not d.any():
        return None
    return float(stats.wilcoxon(d, zero_method="zsplit", method="auto").pvalue)
