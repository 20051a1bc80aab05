"""Every cell, of the store and of the reference results, as one tidy table: ``gpbench results``, ``load_results``."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpbench.bench.plan.cells import look_up
from gpbench.bench.plan.read import find_plan
from gpbench.bench.plan.reduce import asked_for
from gpbench.bench.reference import arrow_of, tidy
from gpbench.bench.store import Store
from gpbench.config import load_config
from gpbench.report.groups import distinct
from gpbench.report.plan.output import scored
from gpbench.report.sources import choose, read_cells, reference_beside, reference_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    import pyarrow as pa

    from gpbench.bench.result import Result

__all__ = ["Results", "all_results", "load_results", "plan_results", "results_csv", "results_parquet"]


@dataclass(frozen=True)
class Results:
    """Cells of all places.

    Attributes
    ----------
    cells : list of Result
    own : frozenset of str
        Keys of those that are the store's.
    problems : list of str
        What was passed over, and how many are reference results.
    traces : bool
        Whether their table has the traces.
    labels : mapping or None
        Of a plan's cells, by key: data set and method as its table calls them.
    """

    cells: list[Result]
    own: frozenset[str]
    problems: list[str]
    traces: bool
    labels: Mapping[str, tuple[str, str]] | None = None

    def beside(self, keys: Sequence[str]) -> dict[str, list[str]]:
        """The columns that are no cell's own, by name."""
        columns = {"place": self.places(keys)}
        if self.labels is not None:
            columns |= {
                name: [self.labels[key][index] for key in keys]
                for index, name in enumerate(("dataset_label", "method_label"))
            }
        return columns

    def places(self, keys: Sequence[str]) -> list[str]:
        """Where cells come from: store or reference."""
        return ["store" if key in self.own else "reference" for key in keys]


def all_results(
    *,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
    fresh: bool = False,
    traces: bool = False,
    store: Path | None = None,
) -> Results:
    """Every cell, with all scores.

    Parameters
    ----------
    datasets, methods : sequence of str
        Only those; all by default.
    fresh : bool
        Without reference results.
    traces : bool
        Whether the table is to have the traces.
    store : Path, optional
        A results folder, in place of the configured one.

    Raises
    ------
    StoreError
        A place cannot be read.
    UsageError
        A data set or method of which there is nothing.
    """
    place = load_config().store if store is None else store
    cells, problems = read_cells([place] if place.exists() or store is not None else [], scored=True)
    own = frozenset(cell.key for cell in cells)
    if not fresh:
        added = [cell for cell in reference_beside(cells) if not datasets or cell.dataset in datasets]
        own -= {cell.key for cell in added}
        cells += added
        problems += [reference_words(added)] if added else []
    return Results(choose(distinct(cells), datasets=datasets, methods=methods), own, problems, traces)


def plan_results(
    name: str, *, datasets: Sequence[str] = (), methods: Sequence[str] = (), fresh: bool = False, traces: bool = False
) -> Results:
    """The cells of a plan, whose means or medians its table shows, with the table's labels.

    Parameters
    ----------
    name : str
        ``PAPER/ITEM`` or the path of a file.
    datasets, methods : sequence of str
        Of the plan, by any of their names.
    fresh, traces : bool
        As for :func:`all_results`.

    Raises
    ------
    StoreError
        A place cannot be read.
    UsageError
        There is no such plan, or it has no such data set or method.
    """
    plan = asked_for(find_plan(name), datasets=",".join(datasets) or None, methods=",".join(methods) or None)
    config = load_config()
    store = Store(config.store)
    found = look_up(plan, store, config=config, fresh=fresh)
    labels: dict[str, tuple[str, str]] = {}
    for cell in found.results:
        labels.setdefault(cell.key, (cell.shown.dataset, cell.shown.method))
    cells: list[Result] = distinct(scored(found).results)
    return Results(cells, frozenset(labels) - found.borrowed, [*store.problems, *found.remarks], traces, labels)


def load_results(place: str | Path | None = None, *, fresh: bool = False, traces: bool = True) -> pd.DataFrame:
    """Every cell of the store and of the reference results, one row each.

    Parameters
    ----------
    place : str or Path, optional
        A results folder, in place of the configured one.
    fresh : bool
        Without the reference results that come with gpbench.
    traces : bool
        With five columns ``trace_...`` of lists.

    Returns
    -------
    DataFrame
        Sorted by key. Columns as :mod:`gpbench.bench.reference` says, and ``place``: store or reference.

    Raises
    ------
    StoreError
        A place cannot be read.

    Examples
    --------
    >>> import gpbench
    >>> gpbench.load_results().groupby(["dataset", "method"])["nll"].mean()  # doctest: +SKIP
    """
    found = all_results(fresh=fresh, traces=traces, store=None if place is None else Path(place))
    table = tidy(found.cells, traces=traces)
    table["place"] = found.places(table["key"].tolist())
    return table


def results_csv(found: Results) -> str:
    """The table as CSV; a trace is JSON."""
    table = tidy(found.cells, traces=found.traces)
    for name in table.columns:
        if name.startswith("trace_"):
            table[name] = [json.dumps(each) for each in table[name]]
    for name, column in found.beside(table["key"].tolist()).items():
        table[name] = column
    text: str = table.to_csv(index=False, lineterminator="\n")
    return text


def results_parquet(found: Results) -> bytes:
    """The table as the content of a parquet file."""
    import pyarrow as pa  # noqa: PLC0415  # heavy, and only this needs it
    import pyarrow.parquet as pq  # noqa: PLC0415

    table: pa.Table = arrow_of(found.cells, traces=found.traces)
    for name, column in found.beside(table.column("key").to_pylist()).items():
        table = table.append_column(name, pa.array(column, type=pa.string()))
    file = io.BytesIO()
    pq.write_table(table, file, compression="zstd")
    return file.getvalue()
