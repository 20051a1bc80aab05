"""How long a plan will take: from stored cells of the same kind where there are any, else from a model of the work.

The model counts floating point operations. A step of a scheme with M inducing inputs on b rows (the mini-batch, or all)
of d inputs takes 10 b M^2 + 4 b M d + 5 M^3 of them for each latent function, one of the at most 100 steps of a scheme
that factors n x n matrices (it has a kernel and no inducing inputs) 3 n^3, and a scheme without either 100 n d in all.
A core does 4e9 in a second, a step takes no less than 0.3 ms, and a cell 1 s beside its training. ``max_iterations``
(or 1,000) steps are taken, since when a scheme converges is not known, and a limit on seconds is kept.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import TYPE_CHECKING, Any

from gpbench.data.catalogue import entries
from gpbench.data.splits import Protocol
from gpbench.errors import UsageError
from gpbench.model.inducing import InducingRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpbench.bench.plan_blocks import Block

__all__ = ["Estimate", "estimate"]

_RATE = 4e9
_LEAST_STEP = 3e-4
_BESIDE = 1.0
_STEPS = 1000
_FEW = 100
#: Splits of a publisher, where the data set is not open to be counted.
_GIVEN = 1


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
        ``"stored cells"`` or ``"model"``.
    """

    block: Block
    cells: int
    stored: int
    seconds: float | None
    basis: str


def estimate(
    stored: Sequence[tuple[Block, Sequence[Mapping[str, Any]]]], others: Iterable[Mapping[str, Any]] = ()
) -> list[Estimate]:
    """Cells to do and seconds that they will take.

    Parameters
    ----------
    stored : sequence of (Block, list of dict)
        From :func:`gpbench.bench.plan_stored.stored_cells`.
    others : iterable of dict
        Finished cells of other splits and seeds, whose times say what the block's will be: all of the store.
    """
    took = _took(others)
    return [_of_block(block, cells, took) for block, cells in stored]


def _of_block(block: Block, cells: Sequence[Mapping[str, Any]], took: Mapping[str, list[float]]) -> Estimate:
    done = [cell for cell in cells if cell["status"] == "ok"]
    counts = [cell["split"]["count"] for cell in cells]
    number = _splits(block, counts)
    left = max(number - len(done), 0)
    own = [seconds for cell in done if (seconds := _wall(cell)) is not None]
    like = own or took.get(_kind(block.table.method.id, block.dataset, block.settings, block.limits.description()), [])
    if like:
        return Estimate(block, number, len(done), left * fmean(like), "stored cells")
    seconds = _model(block)
    return Estimate(block, number, len(done), None if seconds is None else left * seconds, "model")


def _splits(block: Block, counts: Sequence[int]) -> int:
    protocol = Protocol.parse(block.split)
    number = counts[0] if counts else protocol.parts or block.splits or _GIVEN
    return min(number, block.splits or number)


def _took(cells: Iterable[Mapping[str, Any]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for cell in cells:
        seconds = _wall(cell)
        if cell["status"] == "ok" and seconds is not None:
            found[_kind(cell["method"], cell["dataset"], cell["settings"], cell.get("limits", {}))].append(seconds)
    return found


def _kind(*parts: Any) -> str:
    method, dataset, settings, limits = parts
    return repr((method, dataset, sorted(settings.items()), sorted(limits.items())))


def _wall(cell: Mapping[str, Any]) -> float | None:
    """Seconds from a cell's start to its end."""
    start, end = (cell["provenance"].get(name) for name in ("start", "end"))
    try:
        return (datetime.fromisoformat(str(end)) - datetime.fromisoformat(str(start))).total_seconds()
    except ValueError:
        return None


def _model(block: Block) -> float | None:
    """Seconds of one cell."""
    size = _size(block)
    if size is None:
        return None
    n, d, latents = size
    settings = block.settings
    steps = int(settings.get("max_iterations") or block.limits.iterations or _STEPS)
    b = min(n, int(settings["batch_size"])) if "batch_size" in settings else n
    if "inducing" in settings:
        M = _inducing(settings["inducing"], n, block.split)
        work = latents * (10.0 * b * M**2 + 4.0 * b * M * d + 5.0 * M**3)
    elif "kernel" in settings:
        rows = min(n, int(settings.get("max_rows") or n))
        work, steps = 3.0 * float(rows) ** 3, min(steps, _FEW)
    else:
        work, steps = 100.0 * n * d, 1
    training = steps * max(work / _RATE, _LEAST_STEP)
    if block.limits.seconds is not None:
        training = min(training, block.limits.seconds)
    return training + _BESIDE


def _size(block: Block) -> tuple[int, int, int] | None:
    """Training rows, inputs and latent functions, as the catalogue has them."""
    base, _, rows = block.dataset.partition(":")
    entry = entries().get(base)
    n = int(rows) if rows.isdigit() else None if entry is None else entry.n
    if entry is None or n is None:
        return None
    protocol = Protocol.parse(block.split)
    if protocol.kind == "holdout":
        train = n - (protocol.size if protocol.size >= 1 else protocol.size * n)
    elif protocol.kind == "given":
        train = 0.8 * n
    else:
        train = (n - protocol.size) * (1 - 1 / protocol.parts)
    capped = min(train, block.limits.train_rows or train)
    latents = len(entry.classes) if entry.task == "multiclass" else 1
    return max(int(capped), 1), entry.d or 1, max(latents, 1)


def _inducing(count: str, n: int, split: str) -> int:
    protocol = Protocol.parse(split)
    if protocol.kind == "active":
        return int(protocol.size)
    try:
        return InducingRule("kmeans", count=count).number(n)
    except UsageError:  # fewer rows than that: the cell will say so
        return n
