"""Where a report's cells come from: results folders, stored cells, and what ``gpbench run --json`` printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpbench.bench.cell import FORMAT
from gpbench.bench.store import REQUIRED, STATUSES, Store
from gpbench.data.splits import Protocol
from gpbench.errors import StoreError, UsageError, reason, unknown_name
from gpbench.report.scores import with_scores

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpbench.report.groups import Cell

__all__ = ["choose", "fault_of", "read_cells"]


def read_cells(paths: Iterable[Path], *, scored: bool = False) -> tuple[list[dict[str, Any]], list[str]]:
    """All cells of some folders and files.

    Parameters
    ----------
    paths : iterable of Path
        A store, a results folder with a store ``runs`` in it, a cell's JSON file, or a file of JSON that
        ``gpbench run --json`` printed.
    scored : bool
        Whether the cells' metrics are to hold Brier score and calibration error, see :mod:`gpbench.report.scores`.

    Returns
    -------
    list of dict
        The cells; one that stands in two of them comes twice (summaries count it once).
    list of str
        What was passed over as damaged or could not be scored, one sentence each.

    Raises
    ------
    UsageError
        A path does not exist.
    StoreError
        It cannot be read, or a file holds no cells.
    """
    cells: list[dict[str, Any]] = []
    problems: list[str] = []
    for path in paths:
        if path.is_dir():
            store = Store(path / "runs" if (path / "runs").is_dir() else path)
            found = []
            for cell in store.cells():
                fault = fault_of(cell)
                if fault:
                    problems.append(f"{store.folder / cell['key']}.json is passed over: {fault}")
                else:
                    found.append(cell)
            problems += store.problems
        elif path.exists():
            found, store = _cells_of_file(path)
        else:
            raise UsageError(f"there is no results folder or file {path}")
        if scored:
            found, unscored = with_scores(found, store)
            problems += unscored
        cells += found
    return cells, problems


def choose(
    cells: Sequence[Cell],
    *,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
    split: str | None = None,
    processor: str | None = None,
) -> list[Cell]:
    """The cells of some data sets, methods, split protocols and processors; all, where none are named.

    Parameters
    ----------
    cells : sequence of dict
    datasets, methods : sequence of str
        Ids.
    split : str or None
        A protocol's text.
    processor : str or None
        Part of a processor's name, in any case.

    Raises
    ------
    UsageError
        A name that no cell bears; the message gives the nearest.
    """
    for kind, field, names in (("data set", "dataset", datasets), ("method", "method", methods)):
        known = {str(cell[field]) for cell in cells}
        for name in names:
            if name not in known:
                raise UsageError(f"no results: {unknown_name(kind, name, known)}")
    chosen = [
        cell
        for cell in cells
        if (not datasets or cell["dataset"] in datasets) and (not methods or cell["method"] in methods)
    ]
    if split is not None:
        protocols = {str(cell["split"]["protocol"]) for cell in chosen}
        wanted_split = Protocol.parse(split).text
        if wanted_split not in protocols:
            raise UsageError(f"no results under split {wanted_split}; there are: {', '.join(sorted(protocols))}")
        chosen = [cell for cell in chosen if cell["split"]["protocol"] == wanted_split]
    if processor is None:
        return chosen
    cpus = {str(cell["provenance"].get("cpu", "unknown")) for cell in chosen}
    wanted = {cpu for cpu in cpus if processor.casefold() in cpu.casefold()}
    if not wanted:
        raise UsageError(f"no results of a processor {processor!r}; there are: {'; '.join(sorted(cpus))}")
    return [cell for cell in chosen if str(cell["provenance"].get("cpu", "unknown")) in wanted]


def _cells_of_file(path: Path) -> tuple[list[dict[str, Any]], Store]:
    """Cells, and the store that has their arrays."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"cannot read {path}: {reason(error)}") from error
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} is no JSON: expected a stored cell, or what `gpbench run --json` printed") from error
    found = content.get("cells", [content]) if isinstance(content, dict) else content
    if not isinstance(found, list):
        raise StoreError(f"{path} holds no cells: expected a stored cell, or what `gpbench run --json` printed")
    for cell in found:
        fault = fault_of(cell)
        if fault:
            raise StoreError(f"{path} holds something that is no cell: {fault}")
    folder = content.get("store") if isinstance(content, dict) else None
    return found, Store(Path(folder) if isinstance(folder, str) else path.parent)


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
