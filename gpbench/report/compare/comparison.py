"""Methods against one another on the same splits: what :command:`gpbench compare` finds, as numbers.

Within a data set differences are paired over splits; over data sets a family is one observation: data sets that share
rows count once. Only splits that
both have finished are paired, nothing is imputed, and what was left out is said.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from gpbench.errors import UsageError
from gpbench.report.compare.attainment import (
    FACTOR,
    Attainment,
    Profile,
    attainment,
    goal_times,
    profiles,
    timing_fault,
)
from gpbench.report.compare.pairs import Arena, Contender, arenas_of, complete, contenders_of, one_per_family
from gpbench.report.compare.significance import (
    ALPHA,
    LEVEL,
    ROPE,
    Difference,
    Ranking,
    Signed,
    WinRates,
    average_ranks,
    difference,
    means_of,
    signed_ranks,
    win_rates,
)
from gpbench.report.scores import MORE_IS_BETTER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpbench.bench.result import Result

__all__ = ["METRICS", "SHOWN", "Comparison", "Meeting", "Pairing", "compare", "wins_over"]

#: What is compared.
METRICS = ("nll", "error", "brier", "ece", "auc", "average_precision")
#: Of these, what tables show unless others are asked for.
SHOWN = ("nll", "error", "brier", "ece")


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """Two contenders in an arena; a metric that is not known of both is absent."""

    first: str
    second: str
    differences: dict[str, Difference]


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """All contenders of one data set under one split protocol.

    Attributes
    ----------
    dataset, label, split : str
    splits : int
        Finished by all of ``contenders``.
    contenders : tuple of str
        Those that finished any.
    means : dict
        Metric -> label -> mean over these splits; None where it is not known.
    pairings : tuple of Pairing
        Each on the splits that its two have finished.
    attainment : tuple of Attainment
        Empty where times do not compare.
    """

    dataset: str
    label: str
    split: str
    splits: int
    contenders: tuple[str, ...]
    means: dict[str, dict[str, float | None]]
    pairings: tuple[Pairing, ...]
    attainment: tuple[Attainment, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All that is found.

    Attributes
    ----------
    contenders : tuple of Contender
    meetings : tuple of Meeting
    signed : dict
        Metric -> Wilcoxon's test for each pair over families of data sets.
    rankings : dict
        Metric -> average ranks over the families where all contenders meet.
    wins : dict
        Metric -> how often each is better than each other one over the same families; without a metric where there are
        none.
    profiles : tuple of Profile
    profiled : tuple of str
        The data sets that the profiles rest on.
    rope : float
        Half the width of the region of practical equivalence.
    notes : tuple of str
        What a reader must know, one sentence each.
    """

    contenders: tuple[Contender, ...]
    meetings: tuple[Meeting, ...]
    signed: dict[str, list[Signed]]
    rankings: dict[str, Ranking]
    wins: dict[str, WinRates]
    profiles: tuple[Profile, ...]
    profiled: tuple[str, ...]
    rope: float
    notes: tuple[str, ...]

    def json(self) -> dict[str, Any]:
        """For :func:`json.dumps`."""
        return {
            "contenders": [asdict(each) for each in self.contenders],
            "level": LEVEL,
            "alpha": ALPHA,
            "factor": FACTOR,
            "rope": self.rope,
            "meetings": [asdict(each) for each in self.meetings],
            "over_datasets": {metric: [asdict(each) for each in found] for metric, found in self.signed.items()},
            "ranks": {metric: asdict(found) for metric, found in self.rankings.items()},
            "wins": {metric: asdict(found) for metric, found in self.wins.items()},
            "profiles": {
                "datasets": list(self.profiled),
                "curves": [
                    {"label": each.label, "ratio": each.ratio.tolist(), "share": each.share.tolist()}
                    for each in self.profiles
                ],
            },
            "notes": list(self.notes),
        }


def compare(cells: Iterable[Result], *, methods: Sequence[str] = (), rope: float = ROPE) -> Comparison:
    """Compare all methods among some cells.

    Parameters
    ----------
    cells : iterable of Result
        With Brier score and calibration error where they come from
        :func:`gpbench.report.scores.with_scores`.
    methods : sequence of str
        Ids, in the order in which they are to be shown.
    rope : float
        Half the width of the region of practical equivalence, of every metric.

    Raises
    ------
    UsageError
        A region that is none; fewer than two contenders, or no two that finished the same split.
    """
    if not (math.isfinite(rope) and rope >= 0.0):
        raise UsageError(f"the region of practical equivalence must be a number of at least 0; got {rope}")
    arenas, notes = arenas_of(cells)
    contenders = contenders_of(arenas, methods)
    metrics = [name for name in METRICS if _is_known(arenas, name)]
    pairs = list(combinations(contenders, 2))
    meetings = [_meeting(arena, contenders, metrics, rope=rope) for arena in arenas]
    notes += _faults(arenas, contenders)
    over = [arena for arena in arenas if arena.common(contenders)]
    chosen, left_out = one_per_family(arenas, contenders)
    notes += left_out
    away = sorted({arena.dataset for arena in arenas} - {arena.dataset for arena in over})
    if away:
        notes.append(f"Average ranks and profiles leave out where not all methods meet: {', '.join(away)}.")
    return Comparison(
        contenders=tuple(contenders),
        meetings=tuple(each for each in meetings if each is not None),
        signed={metric: _signed(arenas, pairs, metric) for metric in metrics},
        rankings={metric: _ranking(chosen, contenders, metric) for metric in metrics},
        wins={metric: found for metric in metrics if (found := _wins(chosen, contenders, metric)) is not None},
        **_profiles(chosen, contenders),
        rope=rope,
        notes=tuple(dict.fromkeys(notes)),
    )


def wins_over(cells: Iterable[Result], metrics: Sequence[str] = ("nll", "error")) -> list[WinRates]:
    """How often each method among some cells is better than each other one, a matrix a metric.

    None of a metric where fewer than two methods meet on fewer than two families of data sets.
    """
    arenas, _ = arenas_of(cells)
    try:
        contenders = contenders_of(arenas)
    except UsageError:  # nothing pairs up
        return []
    chosen, _ = one_per_family(arenas, contenders)
    found = [_wins(chosen, contenders, metric) for metric in metrics] if len(chosen) > 1 else []
    return [each for each in found if each is not None and each.families > 1]


def _meeting(arena: Arena, contenders: Sequence[Contender], metrics: Sequence[str], *, rope: float) -> Meeting | None:
    here = [each for each in contenders if arena.finished.get(each)]
    pairings = []
    for first, second in combinations(here, 2):
        found = {metric: difference(arena, first, second, metric=metric, rope=rope) for metric in metrics}
        known = {metric: each for metric, each in found.items() if each is not None}
        if known:
            pairings.append(Pairing(first=first.label, second=second.label, differences=known))
    if not pairings:
        return None
    means = {}
    for metric in (*metrics, "train_seconds"):
        values = means_of(arena, here, metric)
        means[metric] = {
            each.label: None if values is None else value
            for each, value in zip(here, values or [0.0] * len(here), strict=True)
        }
    return Meeting(
        dataset=arena.dataset,
        label=arena.label,
        split=arena.split,
        splits=len(arena.common(here)),
        contenders=tuple(each.label for each in here),
        means=means,
        pairings=tuple(pairings),
        attainment=() if timing_fault(arena, here) else tuple(attainment(arena, here)),
    )


def _signed(arenas: Sequence[Arena], pairs: Sequence[tuple[Contender, Contender]], metric: str) -> list[Signed]:
    values = {}
    for pair in pairs:
        chosen, _ = one_per_family(arenas, pair)
        values[pair[0].label, pair[1].label] = [
            first - second for first, second in _losses(chosen, pair, metric).values()
        ]
    return signed_ranks(values)


def _ranking(arenas: Sequence[Arena], contenders: Sequence[Contender], metric: str) -> Ranking:
    return average_ranks(_losses(arenas, contenders, metric), [each.label for each in contenders], metric=metric)


def _wins(arenas: Sequence[Arena], contenders: Sequence[Contender], metric: str) -> WinRates | None:
    return win_rates(_losses(arenas, contenders, metric), [each.label for each in contenders], metric=metric)


def _losses(arenas: Sequence[Arena], contenders: Sequence[Contender], metric: str) -> dict[str, list[float]]:
    """Means of the contenders in each arena where all are known, with the sign that makes less the better."""
    sign = -1.0 if metric in MORE_IS_BETTER else 1.0
    return {
        arena.label: [sign * each for each in found]
        for arena in arenas
        if (found := means_of(arena, contenders, metric)) is not None
    }


def _profiles(arenas: Sequence[Arena], contenders: Sequence[Contender]) -> dict[str, Any]:
    timed = [arena for arena in complete(arenas, contenders) if not timing_fault(arena, contenders)]
    tables = [(arena.label, goal_times(arena, contenders)[0]) for arena in timed]
    tables = [(label, table) for label, table in tables if table.shape[1]]
    return {
        "profiles": tuple(profiles([table for _, table in tables], [each.label for each in contenders])),
        "profiled": tuple(label for label, _ in tables),
    }


def _faults(arenas: Sequence[Arena], contenders: Sequence[Contender]) -> list[str]:
    """What is left out in each arena, and which intervals are too narrow."""
    notes = []
    for arena in arenas:
        here = [each for each in contenders if arena.finished.get(each)]
        lost: dict[str, int] = defaultdict(int)
        for each in contenders:
            lost[each.label] = len(arena.started.get(each, ())) - len(arena.finished.get(each, {}))
        notes += [
            f"{label} failed on {count} of the splits that it began of {arena.name}; they are in no pair."
            for label, count in lost.items()
            if count
        ]
        if fault := timing_fault(arena, here):
            notes.append(f"No time to the goal is shown: {fault}.")
    return notes


def _is_known(arenas: Sequence[Arena], metric: str) -> bool:
    return any(
        cell.metrics.get(metric) is not None
        for arena in arenas
        for own in arena.finished.values()
        for cell in own.values()
    )
