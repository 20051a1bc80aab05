"""Numbers that the papers print: the files of ``results/published``, or of the user's own beside a plan.

A file has the columns ``dataset, method, metric, value``; ``spread`` is what follows the ±, ``paper`` says whose row it
is where a file holds several papers', ``note`` is for people. Any other column is a setting that tells rows of one
method apart (``inducing_fraction`` is the setting ``inducing`` as a share of the rows).
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from io import StringIO
from typing import TYPE_CHECKING

from gpbench.config import shipped
from gpbench.errors import UsageError, reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gpbench.bench.plan.blocks import Block
    from gpbench.bench.plan.plan import Plan

__all__ = [
    "LARGE",
    "Printed",
    "find_printed",
    "published_folder",
    "read_published",
    "read_rows",
    "unit_of",
]

#: What hensman2015 prints for a median above 1.
LARGE = "large"

_METRICS = {"nlp": "nll", "seconds": "train_seconds"}
_NEEDED = ("dataset", "method", "metric", "value")
_APART = {*_NEEDED, "spread", "paper", "note"}
_FRACTION = "inducing_fraction"


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
    return shipped("published")


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
        for number, row in read_rows(path, _NEEDED, whose=f"{plan.path}: published = {name!r}: "):
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
    if name == _FRACTION:
        count = str(block.settings.get("inducing", ""))
        return count.endswith("%") and abs(float(count[:-1]) / 100 - float(value)) < 1e-9
    own = str(block.sweep.get(name, block.settings.get(name, "")))
    try:
        return float(own) == float(value)
    except ValueError:
        return own == value


def unit_of(text: str) -> float:
    """The unit of a printed number's last digit: 0.01 for 0.17 and for 17e-2, 0.001 for 0.070, 1 for 47.

    Raises
    ------
    UsageError
        It is no number, or none that is finite.
    """
    try:
        exponent = Decimal(text).as_tuple().exponent
    except InvalidOperation:
        exponent = "n"
    if not isinstance(exponent, int) or math.isinf(float(text)):
        raise UsageError(f"expected a number; got {text!r}")
    return float(f"1e{exponent}")


def _printed(row: Mapping[str, str], where: str) -> list[Printed]:
    metric = _METRICS.get(row["metric"], row["metric"])
    printed, spread = row["value"], row.get("spread", "")
    settings = {name: value for name, value in row.items() if name not in _APART and value}
    try:
        unit = 0.0 if printed == LARGE else unit_of(printed)
        if spread:
            unit_of(spread)
    except UsageError:
        raise UsageError(
            f"{where}: expected a number or {LARGE!r}, and a number or nothing as spread; "
            f"got {printed!r} and {spread!r}"
        ) from None
    try:
        unit_of(settings.get(_FRACTION, "0"))
    except UsageError as error:
        raise UsageError(f"{where}: {_FRACTION}: {error}") from None
    value = None if printed == LARGE else float(printed)
    width = float(spread) if spread else None
    text = printed + (f" ± {spread}" if spread else "")
    one = Printed(row["dataset"], row["method"], metric, value, width, text, unit, settings)
    if metric != "accuracy" or value is None:
        return [one]
    return [one, Printed(one.dataset, one.method, "error", 1.0 - value, width, f"1 − {text}", unit, settings)]


def read_rows(path: Path, columns: Sequence[str], *, whose: str = "") -> list[tuple[int, dict[str, str]]]:
    """The rows of a csv file that must have these columns, each with the line that it ends in.

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
        It cannot be read, is no text in UTF-8, a column is missing or there twice, or a row is longer or shorter than
        the first, which names the columns; the message gives the line.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{whose}{path} cannot be read: {reason(error)}") from error
    try:
        text = content.decode("utf-8-sig")  # spreadsheets begin with a byte order mark
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}, line {line}: expected text in UTF-8; got byte {content[error.start]:#x}") from None
    reader = csv.reader(StringIO(text, newline=""), strict=True)
    try:
        names = next(reader, [])
        if lacking := [each for each in columns if each not in names]:
            raise UsageError(f"{path}: expected the columns {', '.join(columns)}; {', '.join(lacking)} missing")
        if twice := [each for each in names if each and names.count(each) > 1]:
            raise UsageError(f"{path}: expected columns of different names; got {twice[0]} twice")
        found = []
        for values in filter(None, reader):
            if len(values) != len(names):
                raise UsageError(f"{path}, line {reader.line_num}: expected {len(names)} values; got {len(values)}")
            found.append((reader.line_num, dict(zip(names, values, strict=True))))
    except csv.Error as error:
        raise UsageError(f"{path}, line {reader.line_num}: {error}") from None
    return found
