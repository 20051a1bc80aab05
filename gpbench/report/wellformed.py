"""What a report may rely on in a cell; files from elsewhere can hold anything."""

from __future__ import annotations

from typing import Any

from gpbench.bench.cell import FORMAT
from gpbench.bench.result import STATUSES

__all__ = ["fault_of"]

#: Fields that every stored result has.
REQUIRED = (
    "format", "key", "status", "dataset", "method", "settings", "split", "seed", "stopped_by", "metrics", "trace",
    "provenance", "problem",
)  # fmt: skip

_TEXTS = ("key", "dataset", "method")
_TABLES = ("settings", "split", "metrics", "trace", "provenance")
_METRICS = ("nll", "error", "train_seconds")


def fault_of(cell: Any) -> str:
    """What is wrong with a cell, in words that follow its place; empty if nothing is.

    Parameters
    ----------
    cell : object
        What stands in a file of JSON in a cell's place.
    """
    missing = [name for name in REQUIRED if not isinstance(cell, dict) or name not in cell]
    if missing:
        return f"it lacks {', '.join(missing)}"
    if cell["format"] != FORMAT or cell["status"] not in STATUSES:
        return (
            f"expected format {FORMAT} and a status of {', '.join(STATUSES)}; "
            f"got format {cell['format']!r} and status {cell['status']!r}"
        )
    for names, kind, word in ((_TEXTS, str, "a text"), (_TABLES, dict, "a table")):
        for name in names:
            if not isinstance(cell[name], kind):
                return f"{name} must be {word}; got {str(cell[name])[:40]!r}"
    if not isinstance(cell.get("limits", {}), dict):
        return f"limits must be a table; got {str(cell['limits'])[:40]!r}"
    origin = cell.get("origin")
    if "origin" in cell and not (isinstance(origin, dict) and isinstance(origin.get("settings"), dict)):
        return f"origin must be a table with settings; got {str(origin)[:40]!r}"
    if type(cell["seed"]) is not int or not _is_split(cell["split"]):
        return "seed must be an integer, and split must hold protocol, index, count and seed"
    if cell["problem"] is not None and not isinstance(cell["problem"], dict):
        return f"problem must be a table or null; got {str(cell['problem'])[:40]!r}"
    return _fault_of_numbers(cell["metrics"], cell["trace"]) if cell["status"] == "ok" else ""


def _is_split(split: dict[str, Any]) -> bool:
    numbers = all(type(split.get(name)) is int for name in ("index", "count", "seed"))
    return numbers and isinstance(split.get("protocol"), str)


def _fault_of_numbers(metrics: dict[str, Any], trace: dict[str, Any]) -> str:
    for name in _METRICS:
        if name not in metrics or not _is_number(metrics[name]):
            return f"metrics must hold the number {name}; got {str(metrics.get(name))[:40]!r}"
    columns = [trace.get(name) for name in ("seconds", "nll", "error")]
    if not all(isinstance(column, list) and all(_is_number(value) for value in column) for column in columns):
        return "trace must hold lists of numbers: seconds, nll and error"
    if len({len(column) for column in columns if column is not None}) > 1 or None in trace["seconds"]:
        return "the lists of trace must be equally long, and every measurement needs its seconds"
    return ""


def _is_number(value: Any) -> bool:
    """A number, or null, which stands for one that was not finite."""
    return value is None or type(value) in (int, float)
