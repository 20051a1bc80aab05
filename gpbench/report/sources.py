"""Where a report's cells come from: results folders, stored cells, reference results, what ``run --json`` printed."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from gpbench.bench.methods import methods as known_methods
from gpbench.bench.methods import outdated
from gpbench.bench.reference import read_reference, reference_files, stands_in
from gpbench.bench.result import Result
from gpbench.bench.store import Store
from gpbench.data.catalogue import entries
from gpbench.data.splits import Protocol
from gpbench.errors import StoreError, UsageError, reason, unknown_name
from gpbench.report.groups import distinct, facts_of, is_quick, natural, processors_of
from gpbench.report.scores import Calibration, stored_calibration, with_scores

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "beside",
    "calibrations",
    "choose",
    "matches",
    "method_of",
    "needed",
    "no_results",
    "read_cells",
    "reference_beside",
    "reference_words",
    "without_quick",
]


def read_cells(paths: Iterable[Path], *, scored: bool = False) -> tuple[list[Result], list[str]]:
    """All cells of some folders and files.

    Parameters
    ----------
    paths : iterable of Path
        A store, a results folder with a store ``runs`` in it, a cell's JSON file, a file of reference results
        (``.parquet``), or one of JSON that ``gpbench run --json`` printed.
    scored : bool
        Whether the cells' metrics are to hold Brier score and calibration error, see :mod:`gpbench.report.scores`.

    Returns
    -------
    list of Result
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
    cells: list[Result] = []
    problems: list[str] = []
    for path in paths:
        found, store = _read(path)
        problems += store.problems
        if scored:
            found, unscored = with_scores(found, store)
            problems += unscored
        cells += found
    return cells, problems


def beside(cells: Sequence[Result], datasets: Sequence[str]) -> tuple[list[Result], list[str]]:
    """Reference results to be shown beside a store's own: on data sets that are asked for, else on those of the store.

    Parameters
    ----------
    cells : sequence of Result
        The store's; without any, all reference results are beside them.
    datasets : sequence of str
        That are asked for.

    Returns
    -------
    list of Result
        Those that :func:`gpbench.bench.reference.stands_in`.
    list of str
        A sentence that says so, where there are any.

    Raises
    ------
    StoreError
        A file of reference results cannot be read.
    """
    wanted = set(datasets) or {cell.dataset for cell in cells}
    found = [cell for cell in reference_beside(cells) if not wanted or cell.dataset in wanted]
    return found, [reference_words(found)] if found else []


def needed(
    cells: Sequence[Result], *, datasets: Sequence[str], methods: Sequence[str]
) -> tuple[list[Result], list[str]]:
    """Reference results of what is asked for by name and is not in the store: of a data set, a method, or the two.

    Parameters
    ----------
    cells : sequence of Result
        The store's.
    datasets, methods : sequence of str
        As for :func:`choose`.

    Returns
    -------
    list of Result
    list of str
        As for :func:`beside`.

    Raises
    ------
    StoreError
        A file of reference results cannot be read.
    """
    if not (datasets or methods):
        return [], []

    def of(cell: Result, dataset: str, name: str) -> bool:
        return (not dataset or cell.dataset == dataset) and (not name or matches(cell, name))

    asked = list(product(datasets or [""], methods or [""]))
    lacking = [pair for pair in asked if not any(of(cell, *pair) for cell in cells)]
    if not lacking:
        return [], []
    found = [cell for cell in reference_beside(cells) if any(of(cell, *pair) for pair in lacking)]
    return found, [reference_words(found)] if found else []


def reference_beside(cells: Sequence[Result]) -> list[Result]:
    """All reference results that stand in for what these cells lack or have not finished.

    Raises
    ------
    StoreError
        A file of reference results cannot be read.
    """
    own = {cell.key: cell for cell in cells}
    return distinct(cell for path in reference_files() for cell in read_reference(path) if stands_in(cell, own))


def no_results(paths: Iterable[Path], *, fresh: bool) -> StoreError:
    """That there is nothing to report, and where there would be something."""
    shipped = "" if fresh or not reference_files() else "; --with-reference shows those that come with gpbench"
    return StoreError(f"there are no results in {', '.join(map(str, paths))}; `gpbench run` makes some{shipped}")


def without_quick(cells: Sequence[Result]) -> tuple[list[Result], list[str]]:
    """The cells but those of plans' quick forms, on data sets where there are others: they are not for their numbers.

    Returns
    -------
    list of Result
    list of str
        A sentence that says so, where there are any.
    """
    whole = {cell.dataset for cell in cells if not is_quick(cell)}
    kept = [cell for cell in cells if not is_quick(cell) or cell.dataset not in whole]
    if len(kept) == len(cells):
        return kept, []
    left = f"{len(cells) - len(kept)} cells of plans' quick forms are left out"
    return kept, [f"{left}; METHOD:limits.iterations=N names them"]


def reference_words(cells: Iterable[Result]) -> str:
    """That cells are reference results, and which of their methods have another version by now."""
    every = list(cells)
    old = {f"{name} (now version {known_methods()[name].latest})": own for name, own in outdated(every).items()}
    words = f"{len(every)} cells are reference results, which come with gpbench; --fresh does without"
    if not old:
        return words
    earlier = "; ".join(f"{name}: version {', '.join(map(str, sorted(own)))}" for name, own in sorted(old.items()))
    return f"{words}; of earlier versions: {earlier}"


def calibrations(paths: Iterable[Path], cells: Iterable[Result]) -> dict[str, Calibration]:
    """The bins of reliability diagrams, by key, of those cells whose arrays are in these places.

    A cell whose arrays are missing or damaged is not among them: it is drawn without.
    """
    wanted = {cell.key for cell in cells if cell.finished}
    bins: dict[str, Calibration] = {}
    for path in paths:
        found, store = _read(path)
        for key in wanted.intersection(cell.key for cell in found).difference(bins):
            with suppress(StoreError):
                one = stored_calibration(key, store)
                if one is not None:
                    bins[key] = one
    return bins


def _read(path: Path) -> tuple[list[Result], Store]:
    """The cells of a folder or file, and the store that has their arrays."""
    if path.is_dir():
        store = Store(path / "runs" if (path / "runs").is_dir() else path)
        return store.results(), store
    if path.suffix == ".parquet" and path.exists():
        return read_reference(path), Store(path.parent)
    if path.exists():
        return _cells_of_file(path)
    raise UsageError(f"there is no results folder or file {path}")


def choose(
    cells: Sequence[Result],
    *,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
    split: str | None = None,
    processor: str | None = None,
) -> list[Result]:
    """The cells of some data sets, methods, split protocols and processors; all, where none are named.

    Parameters
    ----------
    cells : sequence of Result
    datasets, methods : sequence of str
        Ids; a method's may go on with settings, limits or a version, such as ``x-gpc:inducing=50,limits.seconds=10``.
    split : str or None
        A protocol's text.
    processor : str or None
        Part of a processor's name, in any case.

    Raises
    ------
    UsageError
        A name that no cell bears; the message gives the nearest, where there is no such method or data set.
    """
    wanted_methods = [method_of(name) for name in methods]
    ids = [each for each, _ in wanted_methods]
    _check_names("data set", datasets, {cell.dataset for cell in cells}, where="")
    _check_names("method", ids, {cell.method for cell in cells}, where=f" on {', '.join(datasets)}" if datasets else "")
    chosen = [cell for cell in cells if not datasets or cell.dataset in datasets]
    if datasets and (absent := [name for name in ids if all(cell.method != name for cell in chosen)]):
        raise UsageError(f"no results of {', '.join(absent)} on {', '.join(datasets)}")
    if methods:
        chosen = _of_methods(chosen, wanted_methods)
    if split is not None:
        protocols = {cell.split.protocol for cell in chosen}
        wanted_split = Protocol.parse(split).text
        if wanted_split not in protocols:
            raise UsageError(f"no results under split {wanted_split}; there are: {', '.join(sorted(protocols))}")
        chosen = [cell for cell in chosen if cell.split.protocol == wanted_split]
    if processor is None:
        return chosen
    cpus = processors_of(chosen)
    wanted = {cpu for cpu in cpus if processor.casefold() in cpu.casefold()}
    if not wanted:
        raise UsageError(f"no results of a processor {processor!r}; there are: {'; '.join(cpus)}")
    return [cell for cell in chosen if cell.cpu in wanted]


def _check_names(kind: str, names: Sequence[str], known: set[str], *, where: str) -> None:
    """See that there are results of all names; what exists and has none is told from what does not exist."""
    for name in names:
        if name in known:
            continue
        if kind == "method" and name in known_methods():
            raise UsageError(f"no results of {name}{where}")
        if kind == "data set" and (name.partition(":")[0] in entries() or Path(name.partition("::")[0]).is_file()):
            raise UsageError(f"no results on {name}")
        raise UsageError(f"no results: {unknown_name(kind, name, known)}")


def method_of(text: str) -> tuple[str, dict[str, str]]:
    """A method's id and the settings that are asked for with it: of ``x-gpc:inducing=50``.

    Raises
    ------
    UsageError
        What follows the colon is no ``name=value`` with commas between.
    """
    name, colon, rest = text.partition(":")
    pairs = [part.partition("=") for part in rest.split(",")] if colon else []
    if not all(key.strip() and equals and value.strip() for key, equals, value in pairs):
        raise UsageError(f"expected METHOD or METHOD:name=value,name=value; got {text!r}")
    return name, {key.strip(): value.strip() for key, _, value in pairs}


def _of_methods(cells: Sequence[Result], wanted: Sequence[tuple[str, dict[str, str]]]) -> list[Result]:
    """The cells of any of these methods with these settings."""
    facts = {id(cell): facts_of(cell) for cell in cells}
    chosen: set[int] = set()
    for name, asked in wanted:
        left = [cell for cell in cells if cell.method == name]
        for key, value in asked.items():
            known = {each for cell in left for each in facts[id(cell)]}
            if left and key not in known:
                raise UsageError(f"no results: {unknown_name(f'setting (of {name})', key, known)}")
            values = {facts[id(cell)].get(key, "unset") for cell in left}
            left = [cell for cell in left if _same(facts[id(cell)].get(key), value)]
            if values and not left:
                there = ", ".join(sorted(values, key=natural))
                raise UsageError(f"no results of {name} with {key}={value}; there are: {there}")
        chosen.update(map(id, left))
    return [cell for cell in cells if id(cell) in chosen]


def matches(cell: Result, text: str) -> bool:
    """Whether a cell is of the method and settings that a text names, as :func:`method_of` reads it."""
    name, asked = method_of(text)
    if cell.method != name:
        return False
    facts = facts_of(cell) if asked else {}
    return all(_same(facts.get(key), value) for key, value in asked.items())


def _same(has: str | None, asked: str) -> bool:
    """Whether a value is the one that was typed: ``0.10`` is 0.1."""
    if has is None or has == asked:
        return has is not None
    try:
        return float(has) == float(asked)
    except ValueError:
        return False


def _cells_of_file(path: Path) -> tuple[list[Result], Store]:
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
    try:
        cells = [Result.from_json(each) for each in found]
    except StoreError as error:
        raise StoreError(f"{path} holds something that is no cell: {error}") from error
    folder = content.get("store") if isinstance(content, dict) else None
    return cells, Store(Path(folder) if isinstance(folder, str) else path.parent)
