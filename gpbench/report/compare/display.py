"""A comparison as tables for people; each goes through the renderers of :mod:`gpbench.report.tables.table`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpbench.errors import unknown_name
from gpbench.report.compare.attainment import FACTOR
from gpbench.report.compare.comparison import METRICS
from gpbench.report.compare.significance import ALPHA, LEVEL
from gpbench.report.tables.table import METRICS as HEADS
from gpbench.report.tables.table import NONE, RENDERERS, Display, Line, Number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.report.compare.attainment import Attainment
    from gpbench.report.compare.comparison import Comparison, Meeting
    from gpbench.report.compare.significance import Difference, Ranking

__all__ = ["FORMATS", "comparison_text", "tables"]

#: Formats that a comparison is written in.
FORMATS = ("text", "markdown", "latex")
#: Marks of headings in each.
_HEADINGS = {"text": "{}\n", "markdown": "## {}\n\n", "latex": "% {}\n"}


def comparison_text(found: Comparison, *, format: str = "text", metrics: Sequence[str] = METRICS) -> str:  # noqa: A002
    """All tables of a comparison, ending in a newline.

    Parameters
    ----------
    found : Comparison
    format : str
        One of :data:`FORMATS`.
    metrics : sequence of str
        Of :data:`gpbench.report.compare.comparison.METRICS`; those that no cell has are left out.

    Raises
    ------
    UsageError
        An unknown format or metric.
    """
    if format not in FORMATS:
        raise unknown_name("format of a comparison", format, FORMATS)
    parts = [_HEADINGS[format].format(title) + RENDERERS[format](shown) for title, shown in tables(found, metrics)]
    return "\n".join(parts)


def tables(found: Comparison, metrics: Sequence[str] = METRICS) -> list[tuple[str, Display]]:
    """Title and table: scores, paired differences, signed ranks and average ranks.

    Raises
    ------
    UsageError
        An unknown metric.
    """
    for name in metrics:
        if name not in METRICS:
            raise unknown_name("metric", name, METRICS)
    known = [name for name in metrics if name in found.rankings]
    return [
        ("Scores on the splits that all have finished", _scores(found, known)),
        ("Paired differences, first less second", _differences(found, known)),
        ("Pairs over data sets", _signed(found, known)),
        ("Average ranks over data sets", _ranks(found, known)),
    ]


def _scores(found: Comparison, metrics: Sequence[str]) -> Display:
    lines = []
    for meeting in found.meetings:
        times = {each.label: each for each in meeting.attainment}
        for label in meeting.contenders:
            numbers = [_mean(meeting, metric, label) for metric in metrics]
            lines.append(Line(_words(meeting, label, meeting.splits), (*numbers, *_time(times.get(label)))))
    return Display(
        word_heads=("data set", "split", "method", "splits"),
        number_heads=(*(HEADS[name] for name in metrics), "goal (s)", "reached"),
        lines=tuple(lines),
        best="lowest of the data set",
        notes=(
            (
                f"Goal: {FACTOR:g} times the lowest NLL that any of these methods measured on the split; median of the "
                "training seconds until a method first measured it, if more than half of the splits reached it."
            ),
            *found.notes,
        ),
    )


def _differences(found: Comparison, metrics: Sequence[str]) -> Display:
    lines = []
    plain, single = [], False
    for meeting in found.meetings:
        for pair in meeting.pairings:
            known = list(pair.differences.values())
            single = single or any(each.low is None for each in known)
            if any(each.rho is None and each.low is not None for each in known):
                plain.append(f"{meeting.label}, {meeting.split}")
            numbers = tuple(_difference(pair.differences.get(metric)) for metric in metrics)
            lines.append(Line(_words(meeting, f"{pair.first} - {pair.second}", known[0].splits), numbers))
    notes = [
        (
            f"Mean and {LEVEL:.0%} interval of Student's t over paired splits, variance corrected for the training "
            "rows that splits share (Nadeau and Bengio 2003); below 0 the first is better."
        )
    ]
    if plain:
        where = "; ".join(dict.fromkeys(plain))
        notes.append(f"Numbers of test rows are not recorded, so that intervals are plain and too narrow: {where}.")
    if single:
        notes.append("One split in common tells a difference and no interval.")
    return Display(
        word_heads=("data set", "split", "pair", "splits"),
        number_heads=tuple(HEADS[name] for name in metrics),
        lines=tuple(lines),
        best="0 lies outside the interval",
        notes=tuple(notes),
    )


def _signed(found: Comparison, metrics: Sequence[str]) -> Display:
    lines = []
    for metric in metrics:
        for each in found.signed[metric]:
            significant = each.p_holm is not None and each.p_holm < ALPHA
            lines.append(
                Line(
                    (HEADS[metric], f"{each.first} - {each.second}", str(each.datasets)),
                    (
                        Number(f"{each.first_better} : {each.second_better}"),
                        Number(f"{each.median:+.4f}"),
                        Number(_p(each.p)),
                        Number(_p(each.p_holm), best=significant),
                    ),
                )
            )
    return Display(
        word_heads=("metric", "pair", "data sets"),
        number_heads=("better", "median", "Wilcoxon p", "Holm"),
        lines=tuple(lines),
        best=f"below {ALPHA:g}",
        notes=(
            (
                "A data set counts once, by the difference of its means. Holm: p corrected for the number of pairs. "
                "With fewer than six data sets no p can fall below 0.05."
            ),
        ),
    )


def _ranks(found: Comparison, metrics: Sequence[str]) -> Display:
    lines = []
    notes = []
    for metric in metrics:
        ranking = found.rankings[metric]
        if not ranking.datasets:
            continue
        lines += [
            Line((HEADS[metric], label), (Number(f"{rank:.2f}"),))
            for label, rank in zip(ranking.labels, ranking.ranks, strict=True)
        ]
        notes.append(_ranking_note(metric, ranking))
    if not lines:
        notes = ["There is no data set where all methods meet."]
    return Display(
        word_heads=("metric", "method"),
        number_heads=("rank",),
        lines=tuple(lines),
        best="",
        notes=tuple(notes),
    )


def _ranking_note(metric: str, ranking: Ranking) -> str:
    text = f"{HEADS[metric]} on {len(ranking.datasets)} data sets"
    if ranking.statistic is not None:
        text += f"; Friedman chi-squared {ranking.statistic:.2f}, p {_p(ranking.p)}"
    if ranking.difference is not None:
        text += f"; ranks differ if by more than {ranking.difference:.2f} (Nemenyi, {ALPHA:g})"
    return f"{text}."


def _words(meeting: Meeting, label: str, splits: int) -> tuple[str, ...]:
    return meeting.label, meeting.split, label, str(splits)


def _mean(meeting: Meeting, metric: str, label: str) -> Number:
    values = meeting.means[metric]
    value = values[label]
    if value is None:
        return Number(NONE)
    lowest = min(round(each, 4) for each in values.values() if each is not None)
    return Number(f"{value:.4f}", best=round(value, 4) == lowest)


def _time(each: Attainment | None) -> tuple[Number, Number]:
    if each is None:
        return Number(NONE), Number(NONE)
    shown = NONE if each.median is None else f"{each.median:.3g}"
    return Number(shown), Number(f"{each.reached}/{each.splits}")


def _difference(each: Difference | None) -> Number:
    if each is None:
        return Number(NONE)
    if each.low is None or each.high is None:
        return Number(f"{each.mean:+.4f}")
    outside = each.low > 0 or each.high < 0
    return Number(f"{each.mean:+.4f} [{each.low:+.4f}, {each.high:+.4f}]", best=outside)


def _p(p: float | None) -> str:
    return NONE if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
