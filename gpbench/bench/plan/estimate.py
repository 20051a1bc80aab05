"""How long a plan will take: from stored cells of the same kind where there are any, else from sizes alone.

From sizes, a cell trains for the seconds of a step times the steps that its method usually takes, capped by a limit on
seconds; loading, scaling and scoring take 1 s beside.

===========  ==================================================================================================
symbol       meaning
===========  ==================================================================================================
n, d         training rows and inputs
b            rows of a step: the mini-batch, the subset that a scheme trains on, or all
M            inducing inputs; n where a scheme has none
F            latent functions
===========  ==================================================================================================

For each latent function a step takes 10 b M² + 4 b M d + 5 M³ floating point operations (3 n³ where n x n matrices
are factored). What that comes to in seconds, and how many steps there are, stands with the method
(:class:`gpbench.bench.method.Timing`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from statistics import fmean
from typing import TYPE_CHECKING, Any

from gpbench.bench.cell import CONTENT, SEEDS, SPLIT
from gpbench.data.catalogue import entries
from gpbench.data.splits import Protocol
from gpbench.errors import UsageError
from gpbench.model.inducing import InducingRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpbench.bench.cell import Identity
    from gpbench.bench.choices import Choice
    from gpbench.bench.method import Method, Timing
    from gpbench.bench.plan.blocks import Block
    from gpbench.bench.result import Result

__all__ = ["Estimate", "Outlook", "Size", "estimate", "training_seconds"]

#: Loading, scaling and scoring (seconds).
_BESIDE = 1.0
#: Splits of a publisher, where the data set is not open to be counted.
_GIVEN = 1
#: Floating point operations of a core in a second, of which Timing.load is a multiple.
_RATE = 4e9
#: Steps of a scheme that says neither how many it makes at most nor how many it usually makes.
_STEPS = 1000
#: Steps where there are no inducing inputs to move: as many rows as inducing inputs, few hyper-parameters.
_FEW = 15


@dataclass(frozen=True)
class Estimate:
    """What is left to do of a block.

    Attributes
    ----------
    block : Block
    cells, stored : int
        Cells, and those among them that are done.
    seconds : float or None
        For the others, one after another; None where the data set's size is not known.
    basis : str
        ``"stored cells"`` or ``"estimate"``.
    """

    block: Block
    cells: int
    stored: int
    seconds: float | None
    basis: str


@dataclass(frozen=True, kw_only=True)
class Size:
    """What the work depends on.

    Attributes
    ----------
    n, d : int
        Training rows and inputs.
    M : int
        Inducing inputs.
    latents : int
        Latent functions.
    """

    n: int
    d: int
    M: int
    latents: int


@dataclass(frozen=True)
class Outlook:
    """What running a plan would mean.

    Attributes
    ----------
    estimates : list of Estimate
        One a block.
    absent : tuple of str
        Data sets that are neither here nor in a mirror that is a folder: they would be asked for at an http mirror and
        at their publishers.
    files : mapping
        The user's own files that could be read -> what is in them, in words.
    faults : tuple of str
        What will fail, and why; so far as the user's own files tell.
    """

    estimates: list[Estimate]
    absent: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()


def estimate(stored: Sequence[tuple[Block, Sequence[Result]]], others: Iterable[Result] = ()) -> list[Estimate]:
    """Cells to do and seconds that they will take.

    Parameters
    ----------
    stored : sequence of (Block, list of Result)
        From :func:`gpbench.bench.plan.cells.stored_results`.
    others : iterable of Result
        Cells of other seeds, versions and contents too, whose times say what the block's will be: all of the store.
    """
    took: dict[str, list[float]] = defaultdict(list)
    for result in others:
        if result.finished and (seconds := _wall(result)) is not None:
            took[_kind(result.identity())].append(seconds)
    planned = {_kind(block.identity()) for block, _ in stored}
    return [_of_block(block, results, took, planned) for block, results in stored]


def training_seconds(
    method: Method, settings: Mapping[str, Any], size: Size, *, iterations: int | None = None
) -> float:
    """Seconds that a cell trains, without any limit on them.

    Parameters
    ----------
    method : Method
    settings : mapping
        Every setting with its value.
    size : Size
    iterations : int or None
        The limit on them.
    """
    timing = method.timing
    if "kernel" not in settings:  # no Gaussian process: a few passes over the rows
        return timing.overhead + 100.0 * timing.load * size.n * size.d / _RATE
    b = _rows(settings, size)
    if "inducing" in settings:
        M = min(size.M, size.n)
        work = 10.0 * b * M**2 + 4.0 * b * M * size.d + 5.0 * float(M) ** 3
    else:
        b = M = min(size.n, int(settings.get("max_rows") or size.n))
        work = 3.0 * float(M) ** 3
    step = size.latents * (timing.overhead + timing.load * work / _RATE) + timing.per_input * b * size.d
    return _steps(timing, settings, iterations, full=size.n == M and "batch_size" not in settings) * step


def _of_block(block: Block, results: Sequence[Result], took: Mapping[str, list[float]], planned: set[str]) -> Estimate:
    done = [result for result in results if result.finished]
    number = _splits(block, results)
    left = max(number - len(done), 0)
    own = [seconds for result in done if (seconds := _wall(result)) is not None]
    like = own or took.get(_kind(block.identity()), [])
    if like:
        return Estimate(block, number, len(done), left * fmean(like), "stored cells")
    seconds = _cell_seconds(block, block.choice)
    if block.origin is not None and _kind(block.identity(block.origin)) not in planned:  # its cells run first
        first = _cell_seconds(block, block.origin)
        seconds = None if seconds is None or first is None else seconds + first
    return Estimate(block, number, len(done), None if seconds is None else left * seconds, "estimate")


def _kind(identity: Identity) -> str:
    """The same for cells that take about as long: of one method with one choice of settings on one data set."""
    return identity.but_for(*CONTENT, *SPLIT, *SEEDS, "version", "scaling", "origin")


def _splits(block: Block, results: Sequence[Result]) -> int:
    number = results[0].split.count if results else Protocol.parse(block.split).parts or block.planned or _GIVEN
    return min(number, block.splits or number)


def _wall(result: Result) -> float | None:
    """Seconds from a cell's start to its end; None where they were not recorded."""
    start, end = (result.provenance.get(name) for name in ("start", "end"))
    try:
        return (datetime.fromisoformat(str(end)) - datetime.fromisoformat(str(start))).total_seconds()
    except (ValueError, TypeError):  # no times, or one with and one without a zone
        return None


def _cell_seconds(block: Block, choice: Choice) -> float | None:
    """Seconds of one cell, from its size."""
    size = _size(block, choice)
    if size is None:
        return None
    training = training_seconds(choice.method, choice.settings, size, iterations=block.limits.iterations)
    if block.limits.seconds is not None:
        training = min(training, block.limits.seconds)
    return training + _BESIDE


def _size(block: Block, choice: Choice) -> Size | None:
    """Training rows, inputs, inducing inputs and latent functions, as the catalogue has them."""
    base, _, rows = block.dataset.partition(":")
    entry = entries().get(base)
    n = int(rows) if rows.isdecimal() else None if entry is None else entry.n
    if entry is None or n is None:
        return None
    protocol = Protocol.parse(block.split)
    if protocol.kind in {"holdout", "draws"}:
        train = n - (protocol.size if protocol.size >= 1 else protocol.size * n)
    elif protocol.kind == "given":
        train = entry.train or 0.8 * n
    else:
        train = (n - protocol.size) * (1 - 1 / protocol.parts)
    capped = min(train, block.limits.train_rows or train)
    latents = len(entry.classes) if entry.task == "multiclass" else 1
    number = max(int(capped), 1)
    M = _inducing(str(choice.settings.get("inducing", "all")), number, protocol)
    return Size(n=number, d=entry.d or 1, M=M, latents=max(latents, 1))


def _inducing(count: str, n: int, protocol: Protocol) -> int:
    if protocol.kind == "active":
        return int(protocol.size)
    try:
        return InducingRule("kmeans", count=count).number(n)
    except UsageError:  # fewer rows than that: the cell will say so
        return n


def _rows(settings: Mapping[str, Any], size: Size) -> int:
    """Rows of a step."""
    if "inducing" in settings and "max_rows" in settings:  # a subset of the rows, which is its own inducing inputs
        return min(size.n, size.M)
    return min(size.n, int(settings["batch_size"])) if settings.get("batch_size") else size.n


def _steps(timing: Timing, settings: Mapping[str, Any], iterations: int | None, *, full: bool) -> int:
    """Steps until a scheme usually converges, or until the limit."""
    if "samples" in settings:
        most = int(settings["samples"]) + int(settings.get("burn_in") or 0)
    else:
        most = int(settings.get("max_iterations") or iterations or timing.steps or _STEPS)
    most = min(most, iterations or most)
    usual = timing.steps
    if timing.steps_fixed is not None and settings.get("hyperparameters", "learned") != "learned":
        usual = timing.steps_fixed
    if usual is None:
        return most
    if settings.get("stop") == "none":  # it runs to its limit
        return most
    return min(most, usual, _FEW) if full else min(most, usual)
