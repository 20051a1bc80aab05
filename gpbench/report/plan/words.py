"""What a plan's table and pictures say in words: its head, its cells, its notes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpbench.report.plan.verdicts import NOT_COMPARABLE, tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.bench.plan.plan import Plan
    from gpbench.report.plan.numbers import Result

__all__ = ["cell_words", "head_notes", "plan_notes", "rounded", "verdict_notes"]

_SPREADS = {
    "sd": "one standard deviation over splits",
    "2sd": "two standard deviations over splits",
    "se": "one standard error over splits",
    "2se": "two standard errors over splits",
}


def head_notes(plan: Plan) -> list[str]:
    """The head of a plan's output: what it is, and first of all whether it is the whole plan."""
    name = f"{plan.paper}, {plan.title}" if plan.paper else plan.title
    return [name, *([plan.reduction.words] if plan.reduction.words else [])]


def plan_notes(plan: Plan) -> list[str]:
    """What a reader must know of the plan: its own notes, and which data could not be had."""
    missing = [f"{plan.dataset_label(name)}: {why}" for name, why in plan.missing.items()]
    return [*plan.notes, *(f"{one}." for one in missing)]


def verdict_notes(plan: Plan, results: Sequence[Result], *, timed: bool) -> list[str]:
    """Notes beneath a table: the verdicts counted, why numbers do not compare, what the spread is, times, failures."""
    notes = []
    if counted := tally(entry.verdict for result in results for entry in result.entries.values()):
        notes.append(counted)
        notes.append("Agrees: |ours − printed| ≤ 2 √(se² + se²) + 0.005; lower is better. Times are not judged.")
    reasons = {
        plan.dataset_label(result.block.dataset): entry.verdict.why
        for result in results
        for metric, entry in result.entries.items()
        if metric != "train_seconds" and entry.verdict.word == NOT_COMPARABLE and entry.verdict.why != "quick form"
    }
    notes += [f"{dataset}: not comparable: {why}." for dataset, why in reasons.items()]
    if any(entry.spread is not None for result in results for entry in result.entries.values()):
        centre = "Mean" if plan.centre == "mean" else "Median"
        notes.append(f"{centre} ± {_SPREADS[plan.spread]}. * lowest of the row.")
    if "train_seconds" in plan.metrics:
        cpus = sorted({cpu for result in results for cpu in result.processors})
        if not timed:
            notes.append(f"No times are shown: the cells ran on different processors ({'; '.join(cpus)}).")
        elif cpus:
            notes.append(f"Times were taken on {cpus[0]}.")
    return notes + plan_notes(plan)


def cell_words(plan: Plan, result: Result, metric: str, *, best: bool, timed: bool) -> str:
    """A number as the table shows it, with what went wrong beside it."""
    if result.absent:
        return result.absent
    entry = result.entries[metric]
    if metric == "train_seconds" and not timed:
        return "–"
    if entry.centre is None:
        return result.note or "–"
    digits = _digits(metric, entry.centre)
    words = rounded(entry.centre, digits)
    if entry.spread is not None:
        words += f" ± {rounded(entry.spread, digits)}"
    if plan.centre == "median" and metric == "nll" and entry.centre > 1.0:
        words = f"large ({words})"
    return words + (" *" if best else "") + (f" ({result.note})" if result.note else "")


def rounded(value: float, digits: int) -> str:
    """A number with so many decimals."""
    return f"{value:.{digits}f}"


def _digits(metric: str, centre: float) -> int:
    if metric == "bound":
        return 1
    if metric != "train_seconds":
        return 3
    return min(max(2 - math.floor(math.log10(centre)), 0), 4) if centre > 0 else 2
