"""Tables of results that ship with gpbench, in a checkout or in the wheel: where they are, and how they are read."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from gpbench.errors import UsageError, reason

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["read_rows", "shipped_folder"]


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
