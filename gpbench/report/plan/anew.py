"""``python -m gpbench.report.plan.anew FOLDER``: the tables of ``results/reproduced`` judged by today's rule.

Each ``FOLDER/PAPER/ITEM/table.csv`` is read, its numbers are judged, and table.csv, table.txt and table.md are written
again. The numbers stay as they are: no cell is read, and none is run.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gpbench.bench.plan.read import find_plan, shipped
from gpbench.errors import GpbenchError, UsageError
from gpbench.report.plan.numbers import entries_of_table
from gpbench.report.plan.table import write_table
from gpbench.report.plan.verdicts import tally
from gpbench.terminal import echo

__all__ = ["judge_anew"]


def judge_anew(folder: Path) -> list[tuple[str, str]]:
    """Judge the tables of a folder of results anew.

    Returns
    -------
    list of (str, str)
        Plan, and its verdicts in a sentence.

    Raises
    ------
    GpbenchError
        A table cannot be read, is none of its plan, or cannot be written.
    """
    told = []
    for name in shipped():
        path = folder / name / "table.csv"
        if path.is_file():
            plan = find_plan(name)
            try:
                results = entries_of_table(plan, path.read_text(encoding="utf-8"))
            except UsageError as error:
                raise UsageError(f"{path}: {error}") from None
            write_table(plan, results, path.parent)
            counting = [each for each in results if each.block.table.counted]
            told.append((name, tally(entry.verdict for each in counting for entry in each.entries.values())))
    return told


if __name__ == "__main__":
    try:
        for name, words in judge_anew(Path(sys.argv[1])):
            echo(f"{name}: {words}")
    except GpbenchError as error:
        sys.exit(f"gpbench: {error}")
