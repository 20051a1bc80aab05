"""From a request to its cells: every method on every split of every data set. Nothing runs here.

What cannot be done is refused as a whole before anything runs: unknown names, wrong settings, a task that a method
cannot do, a split that a data set does not have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpbench.bench.cell import Limits, SplitSpec
from gpbench.bench.choices import check_likelihoods
from gpbench.bench.resources import check_threads
from gpbench.bench.runner import Bounds, Task
from gpbench.bench.sources import Source, drawn, opened
from gpbench.data.splits import Protocol, check_seed
from gpbench.errors import UsageError
from gpbench.model.inducing import InducingRule
from gpbench.schemes.settings import KernelSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.bench.choices import Choice
    from gpbench.data.dataset import Dataset
    from gpbench.data.download import Progress

__all__ = ["Request", "check_inducing", "expand", "protocol_of"]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to run.

    Attributes
    ----------
    choices : sequence of Choice
        Methods with their settings.
    sources : sequence of Source
        Data sets.
    split : str
        Protocol: ``"folds:10"``.
    limits : Limits
    seed : int
        Of the splits and of the schemes.
    scaling : str
        See :class:`~gpbench.bench.cell.CellSpec`.
    indices : sequence of int or None
        These splits alone, from 0; all by default.
    threads, jobs : int
        Threads of a cell, and cells at a time.
    bounds : Bounds
        What a cell may not exceed.
    """

    choices: Sequence[Choice]
    sources: Sequence[Source]
    split: str = "folds:10"
    limits: Limits = field(default_factory=Limits)
    seed: int = 0
    scaling: str = "standard"
    indices: Sequence[int] | None = None
    threads: int = 1
    jobs: int = 1
    bounds: Bounds = field(default_factory=Bounds)


def expand(request: Request, progress: Progress | None = None) -> list[Task]:
    """The cells of a request, data set by data set, split by split, so that methods are compared early.

    Parameters
    ----------
    request : Request
    progress : callable, optional
        Told how far the download and preparation of a data set has come.

    Raises
    ------
    UsageError
        The request cannot be done as a whole.
    DataError
        A data set cannot be had or read.
    """
    check_seed(request.seed)
    check_threads(request.threads)
    protocol = Protocol.parse(request.split)
    for choice in request.choices:
        choice.method.build(choice.settings)  # settings that contradict one another are said before data are fetched
    tasks: list[Task] = []
    seen: set[tuple[str, str]] = set()
    for place in request.sources:
        source = drawn(place, request.split)
        dataset = opened(source, progress)
        if (dataset.id, dataset.checksum) in seen:
            raise UsageError(f"data set {dataset.id} is named twice")
        seen.add((dataset.id, dataset.checksum))
        count = protocol.count(dataset)
        indices = _indices(request, count, dataset)
        limit = request.limits.train_rows
        fewest = min((protocol.training_rows(dataset, index, train_rows=limit) for index in indices), default=dataset.n)
        for choice in request.choices:
            _check_choice(choice, dataset, protocol, rows=fewest)
        for index in indices:
            split = SplitSpec(protocol=protocol.text, index=index, count=count, seed=request.seed)
            tasks += [_task(request, choice, dataset, source=source, split=split) for choice in request.choices]
    return tasks


def _task(request: Request, choice: Choice, dataset: Dataset, *, source: Source, split: SplitSpec) -> Task:
    """The cell of a choice on one split, and that of its origin."""
    origin = None
    if choice.origin is not None:
        origin = _task(request, choice.origin, dataset, source=source, split=split)
    spec = choice.cell(dataset, limits=request.limits, split=split, seed=request.seed, scaling=request.scaling)
    return Task(
        spec=spec,
        method=choice.method,
        source=source,
        threads=request.threads,
        jobs=request.jobs,
        bounds=request.bounds,
        origin=origin,
    )


def _check_choice(choice: Choice, dataset: Dataset, protocol: Protocol, *, rows: int) -> None:
    """See that a method, and the one that it has its hyper-parameters from, can do a data set with its settings.

    ``rows`` is the number of training rows of the split that has the fewest.
    """
    choice.method.check_task(dataset.task, dataset.id)
    likelihood = choice.likelihood(dataset)
    _check_kernel(choice, dataset)
    if protocol.kind != "active":  # there the active set gives the inducing inputs
        check_inducing(choice, f"{dataset.id}, {protocol.text}", rows=rows)
    if choice.origin is not None:
        _check_choice(choice.origin, dataset, protocol, rows=rows)
        check_likelihoods(
            choice,
            likelihood,
            choice.origin.likelihood(dataset),
            dataset=dataset.id,
            task=dataset.task,
            classes=len(dataset.classes),
        )


def _indices(request: Request, count: int, dataset: Dataset) -> Sequence[int]:
    if request.indices is None:
        return range(count)
    for index in request.indices:
        if not 0 <= index < count:
            raise UsageError(f"split {request.split} of {dataset.id} has the indices 0..{count - 1}; got {index}")
    return request.indices


def _check_kernel(choice: Choice, dataset: Dataset) -> None:
    """Refuse a kernel that is not known, before its cells fail one by one."""
    scheme = choice.method.build(choice.settings)
    if isinstance(scheme, KernelSettings):
        try:
            scheme.kernel_from(dataset.d, lengthscale=1.0)
        except UsageError as error:
            raise UsageError(f"method {choice.method.id}: {error}") from None


def check_inducing(choice: Choice, where: str, *, rows: int) -> None:
    """See that there are no more inducing points than training rows.

    Raises
    ------
    UsageError
        There are; the message names a number that fits, and begins with the method and ``where``.
    """
    rule = InducingRule.of(choice.settings, seed=0)
    if rule.rule == "none":
        return
    try:
        rule.number(rows)
    except UsageError as error:
        asked = choice.settings["inducing"]
        raise UsageError(
            f"method {choice.method.id} on {where}: fewer training rows than inducing points: "
            f"{rows} training rows, {asked} inducing points; --inducing {rule.fits(rows)} fits"
        ) from error


def protocol_of(split: str | None, folds: int | None) -> str:
    """The protocol that ``--split`` or ``--folds`` asks for; ten folds by default.

    Raises
    ------
    UsageError
        Both are given.
    """
    if split is not None and folds is not None:
        raise UsageError(f"--split {split} and --folds {folds} exclude one another")
    return split if split is not None else f"folds:{10 if folds is None else folds}"
