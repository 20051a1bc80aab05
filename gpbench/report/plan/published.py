"""Numbers that the papers print: the files of ``results/published``, or of the user's own beside a plan.

A file has the columns ``dataset, method, metric, value``; ``spread`` is what follows the ±, ``paper`` says whose row it
is where a file holds several papers', ``note`` is for people. Any other column is a setting that tells rows of one
method apart (``inducing_fraction`` is the setting ``inducing`` as a share of the rows).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gpbench.errors import UsageError, reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpbench.bench.plan.blocks import Block
    from gpbench.bench.plan.plan import Plan

__all__ = ["LARGE", "Printed", "find_printed", "published_folder", "read_published", "read_rows", "shipped_folder"]

#: What hensman2015 prints for a median above 1.
LARGE = "large"

_METRICS = {"nlp": "nll", "seconds": "train_seconds"}
_NEEDED = ("dataset", "method", "metric", "value")
_APART = {*_NEEDED, "spread", "paper", "note"}


@dataclass(frozen=True)
class Printed:
    """One printed number.

    Attributes
    ----------
    dataset, method : str
        As the paper has them.
    metric : str
        As gpbench has it.
    value, spread : float or None
        The value is None for ``large``.
    text : str
        As it is printed.
    unit : float
        Of the last printed digit: 0.01 for 0.17, and 1 for 47.
    settings : mapping
        Further columns.
    """

    dataset: str
    method: str
    metric: str
    value: float | None
    spread: float | None
    text: str
    unit: float = 0.0
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)


def published_folder() -> Path:
    """The folder of the papers' numbers: in a checkout, or in the wheel."""
    return shipped_folder("published")


def read_published(plan: Plan) -> list[Printed]:
    """The printed numbers that a plan names.

    Raises
    ------
    UsageError
        A file is not there, or holds something else; the message gives the line.
    """
    found = []
    for name in plan.published:
        beside = plan.path.parent / name
        path = beside if beside.is_file() else published_folder() / name
        rows = read_rows(path, _NEEDED, whose=f"{plan.path}: published = {name!r}: ")
        for number, row in enumerate(rows, 2):
            if row.get("paper") in {None, "", plan.paper}:
                found += _printed(row, f"{path}, line {number}")
    return found


def find_printed(printed: Sequence[Printed], plan: Plan, block: Block, metric: str) -> Printed | None:
    """The number that the paper prints for a block; None where it prints none.

    Raises
    ------
    UsageError
        It prints several.
    """
    dataset = plan.printed_dataset(block.dataset)
    same = [
        each
        for each in printed
        if (each.dataset, each.method, each.metric) == (dataset, block.printed, metric)
        and all(_agrees(block, name, value) for name, value in each.settings.items())
    ]
    if len(same) > 1:
        raise UsageError(f"{plan.path}: {len(same)} printed numbers for {block.label} on {dataset}, {metric}")
    return same[0] if same else None


def _agrees(block: Block, name: str, value: str) -> bool:
    """Whether a block has the setting of a printed row."""
    if name == "inducing_fraction":
        count = str(block.settings.get("inducing", ""))
        return count.endswith("%") and abs(float(count[:-1]) / 100 - float(value)) < 1e-9
    own = str(block.sweep.get(name, block.settings.get(name, "")))
    try:
        return float(own) == float(value)
    except ValueError:
        return own == value


def _printed(row: Mapping[str, str], where: str) -> list[Printed]:
    metric = _METRICS.get(row["metric"], row["metric"])
    spread = row.get("spread") or ""
    settings = {name: value for name, value in row.items() if name not in _APART and value}
    try:
        value = None if row["value"] == LARGE else float(row["value"])
        width = float(spread) if spread else None
    except ValueError:
        raise UsageError(
            f"{where}: expected a number or {LARGE!r}, and a number or nothing as spread; "
            f"got {row['value']!r} and {spread!r}"
        ) from None
    text = row["value"] + (f" ± {spread}" if spread else "")
    unit = 0.0 if value is None else 10.0 ** -len(row["value"].partition(".")[2])
    one = Printed(row["dataset"], row["method"], metric, value, width, text, unit, settings)
    if metric != "accuracy" or value is None:
        return [one]
    return [one, Printed(one.dataset, one.method, "error", 1.0 - value, width, f"1 − {text}", unit, settings)]


def shipped_folder(name: str) -> Path:
    """The folder ``results/NAME`` of a checkout, or what the wheel holds of it."""
    package = Path(__file__).resolve().parents[2]
    inside = package / "_data" / name
    return inside if inside.is_dir() else package.parent / "results" / name


def read_rows(path: Path, columns: Sequence[str], *, whose: str = "") -> list[dict[str, str]]:
    """The rows of a csv file that must have these columns; the first one stands in line 2.

    Parameters
    ----------
    path : Path
    columns : sequence of str
        That must be there; others may be.
    whose : str
        Begins the message where the file cannot be read: who named it.

    Raises
    ------
    UsageError
        It cannot be read, or a column is missing.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"{whose}{path} cannot be read: {reason(error)}") from error
    reader = csv.DictReader(lines)
    if lacking := [each for each in columns if each not in (reader.fieldnames or ())]:
        raise UsageError(f"{path}: expected the columns {', '.join(columns)}; {', '.join(lacking)} missing")
    return list(reader)
