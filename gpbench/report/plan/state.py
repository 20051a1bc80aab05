"""``python -m gpbench.report.plan.state FOLDER``: what has been run of every experiment, in full, cut short or not.

Counted from the plans that ship and from the reference results alone, and written as ``FOLDER/state.csv`` and
``FOLDER/state.md``, with the verdicts of the tables among these cells: the headline.
"""

from __future__ import annotations

import csv
import io
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gpbench.bench.plan.plan import DESCRIPTIVE
from gpbench.bench.plan.read import find_plan, shipped
from gpbench.bench.plan.run import PlanCells, look_up
from gpbench.bench.store import Store
from gpbench.errors import GpbenchError
from gpbench.report.files import write_atomically
from gpbench.report.plan.numbers import entries_of
from gpbench.report.plan.verdicts import Headline, Verdict, headline
from gpbench.terminal import echo

__all__ = ["Experiment", "count_experiment", "experiments", "write_state"]

_COLUMNS = ("expected", "full", "cut", "failed", "missing")


@dataclass(frozen=True)
class Experiment:
    """The cells of a plan, counted.

    Attributes
    ----------
    plan : str
    expected : int
        Cells that the plan asks for.
    full, cut, failed : int
        Those that came to the paper's own end, that ended before it, and that failed.
    verdicts : tuple of Verdict
        Of a table whose numbers are printed and count; else none.
    """

    plan: str
    expected: int
    full: int
    cut: int
    failed: int
    verdicts: tuple[Verdict, ...] = ()

    @property
    def missing(self) -> int:
        """Cells that have not been run."""
        return max(self.expected - self.full - self.cut - self.failed, 0)

    @property
    def state(self) -> str:
        """In a word or two: missing, partly missing, failed in part, cut short, or full."""
        if self.missing:
            return "missing" if self.missing == self.expected else "partly missing"
        if self.failed:
            return "failed in part"
        return "cut short" if self.cut else "full"


def count_experiment(found: PlanCells) -> Experiment:
    """Count the cells of one plan."""
    blocks = entries_of(found.plan, found.results) if found.plan.render not in DESCRIPTIVE else []
    cut = sum(block.cut or 0 for block in blocks)
    judged = [block for block in blocks if block.block.table.counted] if found.plan.render == "table" else []
    return Experiment(
        found.plan.id,
        # Divisions that come with the data are counted by the data alone, which are not opened: one at least.
        expected=sum(max(block.expected, 1) for block in blocks),
        full=sum(block.finished for block in blocks) - cut,
        cut=cut,
        failed=sum(block.failed for block in blocks),
        verdicts=tuple(entry.verdict for block in judged for entry in block.entries.values()),
    )


def experiments() -> list[Experiment]:
    """Every plan that ships and runs something, with its reference results; no local store is read."""
    told = []
    with tempfile.TemporaryDirectory() as empty:
        for name in shipped():
            one = count_experiment(look_up(find_plan(name), Store(Path(empty))))
            if one.expected:
                told.append(one)
    return told


def write_state(folder: Path) -> Headline:
    """Write ``state.csv`` and ``state.md``.

    Returns
    -------
    Headline
        Over all tables.

    Raises
    ------
    GpbenchError
        Reference results cannot be read, or a file cannot be written.
    """
    told = experiments()
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("plan", "state", *_COLUMNS))
    lines = ["| plan | state | " + " | ".join(_COLUMNS) + " |", "|---|---|" + "---:|" * len(_COLUMNS)]
    for one in told:
        counts = [getattr(one, name) for name in _COLUMNS]
        rows.writerow((one.plan, one.state, *counts))
        lines.append(f"| {one.plan} | {one.state} | " + " | ".join(map(str, counts)) + " |")
    share = headline(verdict for one in told for verdict in one.verdicts)
    write_atomically(folder / "state.csv", text.getvalue())
    write_atomically(folder / "state.md", "\n".join([*lines, "", str(share)]).rstrip() + "\n")
    return share


if __name__ == "__main__":
    try:
        echo(str(write_state(Path(sys.argv[1]))))
    except GpbenchError as error:
        sys.exit(f"gpbench: {error}")
