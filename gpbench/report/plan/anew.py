"""``python -m gpbench.report.plan.anew FOLDER``: the tables of ``results/reproduced`` judged by today's rule.

Each ``FOLDER/PAPER/ITEM/table.csv`` is read, its numbers are judged, and table.csv, table.txt and table.md are written
again, and ``FOLDER/verdicts.md``, which counts the verdicts of each table and of all. The numbers stay as they are: no
cell is read, and none is run. Claims, which rest on cells, read "not measured".
"""

from __future__ import annotations

import sys
from pathlib import Path

from gpbench.bench.plan.read import find_plan, shipped
from gpbench.errors import GpbenchError, UsageError
from gpbench.report.files import write_atomically
from gpbench.report.plan.claims import claims_of, unjudged
from gpbench.report.plan.numbers import entries_of_table
from gpbench.report.plan.table import write_table
from gpbench.report.plan.verdicts import DECIDED, OTHERS, Headline, Verdict, headline
from gpbench.terminal import echo

__all__ = ["judge_anew"]


def judge_anew(folder: Path) -> list[tuple[str, Headline]]:
    """Judge the tables of a folder of results anew.

    Returns
    -------
    list of (str, Headline)
        Plan, and its verdicts counted.

    Raises
    ------
    GpbenchError
        A table cannot be read, is none of its plan, or cannot be written.
    """
    told: list[tuple[str, Headline]] = []
    everything: list[Verdict] = []
    for name in shipped():
        path = folder / name / "table.csv"
        if path.is_file():
            plan = find_plan(name)
            try:
                results = entries_of_table(plan, path.read_text(encoding="utf-8"))
            except UsageError as error:
                raise UsageError(f"{path}: {error}") from None
            write_table(plan, results, path.parent, claims=[unjudged(claim) for claim in claims_of(name)])
            counting = [each for each in results if each.block.table.counted]
            own = [entry.verdict for each in counting for entry in each.entries.values()]
            everything += own
            told.append((name, headline(own)))
    write_atomically(folder / "verdicts.md", _counted([*told, ("all", headline(everything))]))
    return told


def _counted(told: list[tuple[str, Headline]]) -> str:
    """Every table's verdicts as a table of Markdown."""
    columns = (*DECIDED, *OTHERS)
    lines = [
        "Printed numbers against ours, by the rule below each table; the share is agrees / (agrees + lower + higher).",
        "",
        "| table | share | " + " | ".join(columns) + " |",
        "|---|" + "---:|" * (len(columns) + 1),
    ]
    for name, found in told:
        if found.counts:
            share = "–" if found.share is None else f"{100 * found.share:.0f} %"
            lines.append(f"| {name} | {share} | " + " | ".join(str(found.counts[word]) for word in columns) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    try:
        for name, found in judge_anew(Path(sys.argv[1])):
            echo(f"{name}: {found}")
    except GpbenchError as error:
        sys.exit(f"gpbench: {error}")
