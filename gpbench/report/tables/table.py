"""The table of a summary, for a terminal, a page, a paper or a program.

Text, Markdown and LaTeX show mean ± standard deviation over splits and mark the best mean NLL of each data set; csv
holds every number in full. Times are left out where they come from different processors, and the table says so.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from gpbench.errors import unknown_name
from gpbench.report.tables.display import METRICS, NONE, SHOWN, Display, display
from gpbench.report.tables.summary import Row, Statistics, processors
from gpbench.report.text import columns, escape_latex, escape_markdown, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["ENDINGS", "RENDERERS", "table"]

#: Format -> the ending of its files.
ENDINGS = {"text": ".txt", "csv": ".csv", "markdown": ".md", "latex": ".tex"}


def table(
    summary: Sequence[Row],
    *,
    format: str = "text",  # noqa: A002  # named as on the command line
    metrics: Sequence[str] = SHOWN,
) -> str:
    """A summary as a table, ending in a newline.

    Parameters
    ----------
    summary : list of dict
        From :func:`gpbench.report.tables.summary.summarise`; the rows keep their order.
    format : str
        One of :data:`ENDINGS`.
    metrics : sequence of str
        Columns of numbers, of :data:`gpbench.report.tables.display.METRICS`; csv has them all.

    Raises
    ------
    UsageError
        An unknown format or metric.
    """
    for name in metrics:
        if name not in METRICS:
            raise unknown_name("metric", name, METRICS)
    if format not in ENDINGS:
        raise unknown_name("table format", format, ENDINGS)
    return _csv(summary) if format == "csv" else RENDERERS[format](display(summary, metrics=metrics))


def _text(shown: Display) -> str:
    numbers = [_aligned(shown, place) for place in range(len(shown.number_heads))]
    body = [(*map(printable, line.words), *(column[row] for column in numbers)) for row, line in enumerate(shown.lines)]
    head, *laid = columns([(*map(printable, shown.word_heads), *shown.number_heads), *body])
    rule = "─" * max(map(len, [head, *laid]))
    best = [f"* {shown.best}."] if shown.best else []
    return "\n".join([head, rule, *laid, rule, *best, *map(printable, shown.notes)]) + "\n"


def _aligned(shown: Display, place: int) -> list[str]:
    """A column of numbers whose ± stand under one another; the marks hang on the right."""
    numbers = [line.numbers[place] for line in shown.lines]
    tails = ["" if number.sd is None else f" ± {number.sd}" for number in numbers]
    before = max((len(number.mean) for number in numbers), default=0)
    after = max(map(len, tails), default=0)
    return [
        number.mean.rjust(before) + (tail.ljust(after) + " *" if number.best else tail)
        for number, tail in zip(numbers, tails, strict=True)
    ]


def _markdown(shown: Display) -> str:
    written = [
        "| " + " | ".join((*map(escape_markdown, shown.word_heads), *shown.number_heads)) + " |",
        "|" + "---|" * len(shown.word_heads) + "---:|" * len(shown.number_heads),
    ]
    for line in shown.lines:
        cells = [escape_markdown(word) for word in line.words]
        for number in line.numbers:
            mean = f"**{number.mean}**" if number.best else number.mean
            cells.append(mean if number.sd is None else f"{mean} ± {number.sd}")
        written.append("| " + " | ".join(cells) + " |")
    best = [f"- Bold: {shown.best}."] if shown.best else []
    return "\n".join([*written, "", *best, *(f"- {escape_markdown(note)}" for note in shown.notes)]) + "\n"


def _latex(shown: Display) -> str:
    best = [f"% bold: {shown.best}"] if shown.best else []
    kinds = "l" * len(shown.word_heads) + "r" * len(shown.number_heads)
    heads = (*map(escape_latex, shown.word_heads), *shown.number_heads)
    written = [
        *best,
        *(f"% {printable(note)}" for note in shown.notes),
        rf"\begin{{tabular}}{{{kinds}}}",
        r"\hline",
        " & ".join(heads) + r" \\",
        r"\hline",
    ]
    for line in shown.lines:
        cells = [escape_latex(word) for word in line.words]
        for number in line.numbers:
            if number.mean == NONE:
                cells.append("--")
                continue
            mean = rf"\mathbf{{{number.mean}}}" if number.best else number.mean
            cells.append(f"${mean}$" if number.sd is None else rf"${mean} \pm {number.sd}$")
        written.append(" & ".join(cells) + r" \\")
    return "\n".join([*written, r"\hline", r"\end{tabular}"]) + "\n"


def _csv(summary: Sequence[Row]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(
        [
            *("dataset", "dataset_label", "method", "method_label", "split", "seeds", "cells", "failed", "stopped_by"),
            *("nll_mean", "nll_sd", "error_mean", "error_sd", "brier_mean", "brier_sd", "ece_mean", "ece_sd"),
            *("train_seconds_mean", "train_seconds_sd"),
            *("processors", "threads", "jobs"),
        ]
    )
    timed = len(processors(summary)) <= 1
    for row in summary:
        seconds: Statistics = row["train_seconds"] if timed else {"mean": None, "sd": None}
        stopped_by = "; ".join(f"{reason} {count}" for reason, count in row["stopped_by"].items())
        statistics = (row["nll"], row["error"], row["brier"], row["ece"], seconds)
        writer.writerow(
            [
                *(row["dataset"], row["dataset_label"], row["method"], row["method_label"], row["split"]),
                *(" ".join(map(str, row["seeds"])), row["cells"], row["failed"], stopped_by),
                *(number for values in statistics for number in (values["mean"], values["sd"])),
                *("; ".join(row["processors"]), "; ".join(map(str, row["threads"])), row["jobs"]),
            ]
        )
    return file.getvalue()


#: Format -> how a display is written in it. Tables of every kind share these.
RENDERERS: dict[str, Callable[[Display], str]] = {"text": _text, "markdown": _markdown, "latex": _latex}
