"""A comparison as tables for people; each goes through the renderers of :mod:`gpbench.report.tables.table`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpbench.errors import unknown_name
from gpbench.report.compare.attainment import FACTOR
from gpbench.report.compare.comparison import METRICS
from gpbench.report.compare.significance import ALPHA, LEVEL
from gpbench.report.scores import MORE_IS_BETTER
from gpbench.report.tables.lines import text, wrapped
from gpbench.report.tables.table import METRICS as HEADS
from gpbench.report.tables.table import NONE, RENDERERS, Display, Line, Number
from gpbench.report.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.report.compare.attainment import Attainment
    from gpbench.report.compare.comparison import Comparison, Meeting
    from gpbench.report.compare.significance import Difference, Ranking, WinRates

__all__ = ["FORMATS", "WINS", "comparison_text", "tables", "wins_display"]

#: Formats that a comparison is written in.
FORMATS = ("text", "markdown", "latex")
#: Families of which all wins tell a difference at 0.05: with fewer the bootstrap knows nothing of a defeat.
_FEWEST = 6
#: Title of the matrix of wins.
WINS = "Share of data sets where the row's method is better than the column's"
#: Marks of headings in each.
_HEADINGS = {"markdown": "## {}\n\n", "latex": "% {}\n"}


def comparison_text(
    found: Comparison,
    *,
    format: str = "text",  # noqa: A002  # named as on the command line
    metrics: Sequence[str] = METRICS,
    width: int | None = None,
) -> str:
    """All tables of a comparison, ending in a newline.

    Parameters
    ----------
    found : Comparison
    format : str
        One of :data:`FORMATS`.
    metrics : sequence of str
        Of :data:`gpbench.report.compare.comparison.METRICS`; those that no cell has are left out.
    width : int, optional
        Of the terminal, for text.

    Raises
    ------
    UsageError
        An unknown format or metric.
    """
    if format not in FORMATS:
        raise unknown_name("format of a comparison", format, FORMATS)
    parts = []
    for title, shown in tables(found, metrics):
        if format == "text":
            parts.append("\n".join([*wrapped([title], width), text(shown, width)]))
        else:
            parts.append(_HEADINGS[format].format(title) + RENDERERS[format](shown))
    return "\n".join(parts)


def tables(found: Comparison, metrics: Sequence[str] = METRICS) -> list[tuple[str, Display]]:
    """Title and table: scores, times to the goal, paired differences, and over data sets pairs, ranks and wins.

    Ranks and wins are left out where not all methods meet on a data set, which the notes of the first table say.

    Raises
    ------
    UsageError
        An unknown metric.
    """
    for name in metrics:
        if name not in METRICS:
            raise unknown_name("metric", name, METRICS)
    known = [name for name in metrics if name in found.rankings]
    within = [
        ("Scores on the splits that all have finished", _scores(found, known)),
        (f"Time to {FACTOR:g} times the best NLL", _times(found)),
        ("Paired differences, first less second", _differences(found, known)),
        ("How large the differences are", _practical(found, known)),
        ("Pairs over data sets", _signed(found, known)),
    ]
    over = [
        ("Average ranks over data sets", _ranks(found, known)),
        (
            WINS,
            wins_display(
                [found.wins[name] for name in known if name in found.wins], [each.label for each in found.contenders]
            ),
        ),
    ]
    return [*within, *((title, shown) for title, shown in over if shown.lines)]


def _scores(found: Comparison, metrics: Sequence[str]) -> Display:
    lines = []
    for meeting in found.meetings:
        for label in meeting.contenders:
            numbers = [_mean(meeting, metric, label) for metric in metrics]
            lines.append(Line(_words(meeting, label, meeting.splits), tuple(numbers)))
    return Display(
        word_heads=("data set", "split", "method", "splits"),
        number_heads=tuple(HEADS[name] for name in metrics),
        lines=tuple(lines),
        best="best of the data set",
        notes=found.notes,
    )


def _times(found: Comparison) -> Display:
    lines = []
    for meeting in found.meetings:
        fastest = min((each.median for each in meeting.attainment if each.median is not None), default=None)
        lines += [Line(_words(meeting, each.label, each.splits), _time(each, fastest)) for each in meeting.attainment]
    notes = [
        (
            f"Goal: {FACTOR:g} times the lowest NLL at which any of these methods ended on the split (the median of "
            "its last three looks). Median of the training seconds until a method's curve is there, by the median of "
            "three looks. >: on half of the splits or more it had not come there at its end; the median is above this."
        )
    ]
    return Display(
        word_heads=("data set", "split", "method", "splits"),
        number_heads=("goal (NLL)", "time (s)", "times the fastest", "reached"),
        lines=tuple(lines),
        best="fastest of the data set",
        notes=tuple(notes if lines else ["There are no times that compare."]),
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
            f"Mean and {LEVEL:.0%} interval of Student's t over paired splits; variance corrected for shared training "
            "rows where splits share more than half of them (Nadeau and Bengio 2003); below 0 the first is lower."
        )
    ]
    if plain:
        where = "; ".join(dict.fromkeys(plain))
        notes.append(f"Numbers of rows are not recorded, so that intervals are plain and may be too narrow: {where}.")
    if single:
        notes.append("One split in common tells a difference and no interval.")
    return Display(
        word_heads=("data set", "split", "pair", "splits"),
        number_heads=tuple(HEADS[name] for name in metrics),
        lines=tuple(lines),
        best="0 lies outside the interval",
        notes=tuple(notes),
    )


def _practical(found: Comparison, metrics: Sequence[str]) -> Display:
    lines = []
    for meeting in found.meetings:
        for pair in meeting.pairings:
            for metric in metrics:
                each = pair.differences.get(metric)
                if each is not None and each.practical is not None:
                    words = (*_words(meeting, f"{pair.first} - {pair.second}", each.splits), HEADS[metric])
                    numbers = [Number(f"{chance:.3f}", best=chance > LEVEL) for chance in each.practical]
                    lines.append(Line(words, tuple(numbers)))
    return Display(
        word_heads=("data set", "split", "pair", "splits", "metric"),
        number_heads=("lower", "the same", "higher"),
        lines=tuple(lines),
        best=f"above {LEVEL:g}",
        notes=(
            (
                f"Chances that the first is lower than the second by more than {found.rope:g}, within {found.rope:g} "
                "of it, or higher by more: the correlated Bayesian t test (Corani and Benavoli 2015)."
            ),
        ),
    )


def _signed(found: Comparison, metrics: Sequence[str]) -> Display:
    lines = []
    for metric in metrics:
        for each in found.signed[metric]:
            significant = each.p_holm is not None and each.p_holm < ALPHA
            lines.append(
                Line(
                    (HEADS[metric], f"{each.first} - {each.second}", str(each.families)),
                    (
                        Number(f"{each.first_better} : {each.second_better}"),
                        Number(f"{each.median:+.4f}"),
                        Number(_p(each.p)),
                        Number(_p(each.p_holm), best=significant),
                    ),
                )
            )
    return Display(
        word_heads=("metric", "pair", "families"),
        number_heads=("better", "median", "Wilcoxon p", "Holm"),
        lines=tuple(lines),
        best=f"below {ALPHA:g}",
        notes=(
            (
                "A family of data sets (they share rows) counts once, by the difference of its means; of AUC and AP by "
                "its negative. Holm: p corrected for the number of pairs. With fewer than six families no p can fall "
                "below 0.05."
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
            Line((HEADS[metric], label), (Number(f"{rank:.2f}"), Number(interval)))
            for label, rank, interval in zip(ranking.labels, ranking.ranks, _intervals(ranking), strict=True)
        ]
        notes.append(_ranking_note(metric, ranking))
    return Display(
        word_heads=("metric", "method"),
        number_heads=("rank", f"{LEVEL:.0%} of the bootstrap"),
        lines=tuple(lines),
        best="",
        notes=tuple(notes),
    )


def _intervals(ranking: Ranking) -> list[str]:
    if ranking.low is None or ranking.high is None:
        return [NONE] * len(ranking.labels)
    return [f"[{low:.2f}, {high:.2f}]" for low, high in zip(ranking.low, ranking.high, strict=True)]


def wins_display(found: Sequence[WinRates], labels: Sequence[str]) -> Display:
    """The matrices of wins of some metrics beneath one another; ``labels`` head the columns."""
    lines = []
    for wins in found:
        for row, label in enumerate(wins.labels):
            numbers = [Number(NONE) if row == column else _share(wins, row, column) for column in range(len(labels))]
            lines.append(Line((HEADS[wins.metric], label), tuple(numbers)))
    return Display(
        word_heads=("metric", "method"),
        number_heads=tuple(map(printable, labels)),
        lines=tuple(lines),
        best=f"1/2 lies outside the interval of {_FEWEST} families or more",
        notes=(
            (
                f"Over the families of data sets where all methods meet; a tie counts half. {LEVEL:.0%} intervals of "
                "the bootstrap over families."
            ),
        ),
    )


def _share(wins: WinRates, row: int, column: int) -> Number:
    share = f"{wins.share[row][column]:.2f}"
    if wins.low is None or wins.high is None:
        return Number(share)
    low, high = wins.low[row][column], wins.high[row][column]
    told = wins.families >= _FEWEST and (low > 0.5 or high < 0.5)
    return Number(f"{share} [{low:.2f}, {high:.2f}]", best=told)


def _ranking_note(metric: str, ranking: Ranking) -> str:
    text = f"{HEADS[metric]} on {len(ranking.datasets)} families of data sets"
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
    pick = max if metric in MORE_IS_BETTER else min
    best = pick(round(each, 4) for each in values.values() if each is not None)
    return Number(f"{value:.4f}", best=round(value, 4) == best)


def _time(each: Attainment, fastest: float | None) -> tuple[Number, ...]:
    """The goal, the median time, how many times the fastest, and how many splits arrived."""
    time, mark = (each.at_least, "> ") if each.median is None else (each.median, "")
    ratio = NONE if not fastest else f"{mark}{time / fastest:.3g}"
    return (
        Number(f"{each.goal:.4f}"),
        Number(f"{mark}{time:.3g}", best=each.median is not None and each.median == fastest),
        Number(ratio),
        Number(f"{each.reached}/{each.splits}"),
    )


def _difference(each: Difference | None) -> Number:
    if each is None:
        return Number(NONE)
    if each.low is None or each.high is None:
        return Number(f"{each.mean:+.4f}")
    outside = each.low > 0 or each.high < 0
    return Number(f"{each.mean:+.4f} [{each.low:+.4f}, {each.high:+.4f}]", best=outside)


def _p(p: float | None) -> str:
    return NONE if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
