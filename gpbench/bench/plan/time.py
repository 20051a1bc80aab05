"""How long a plan will take: from stored cells of the same kind where there are any, else an estimate from sizes.

The estimate is :mod:`gpbench.bench.plan.work_model`'s, capped by a limit on seconds, and 1 s a cell beside its
training.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import fmean
from typing import TYPE_CHECKING, Any

from gpbench.bench.plan.work_model import Size, training_seconds
from gpbench.data.catalogue import entries
from gpbench.data.splits import Protocol
from gpbench.errors import UsageError
from gpbench.model.inducing import InducingRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpbench.bench.plan.blocks import Block

__all__ = ["Estimate", "estimate"]

#: Loading, scaling and scoring.
_BESIDE = 1.0
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
        ``"stored cells"`` or ``"estimate"``.
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
        From :func:`gpbench.bench.plan.stored.stored_cells`.
    others : iterable of dict
        Finished cells of other splits and seeds, whose times say what the block's will be: all of the store.
    """
    took = _took(others)
    own = {_kind_of(block) for block, _ in stored}
    return [_of_block(block, cells, took, own) for block, cells in stored]


def _of_block(
    block: Block, cells: Sequence[Mapping[str, Any]], took: Mapping[str, list[float]], own_kinds: set[str]
) -> Estimate:
    done = [cell for cell in cells if cell["status"] == "ok"]
    counts = [cell["split"]["count"] for cell in cells]
    number = _splits(block, counts)
    left = max(number - len(done), 0)
    own = [seconds for cell in done if (seconds := _wall(cell)) is not None]
    like = own or took.get(_kind_of(block), [])
    if like:
        return Estimate(block, number, len(done), left * fmean(like), "stored cells")
    seconds = _estimated(block)
    if block.origin is not None and seconds is not None:  # its cells run first
        table = replace(block.table, method=block.origin.method)
        first = replace(block, table=table, settings=block.origin.settings, origin=None)
        seconds += 0.0 if _kind_of(first) in own_kinds else _estimated(first) or 0.0
    return Estimate(block, number, len(done), None if seconds is None else left * seconds, "estimate")


def _splits(block: Block, counts: Sequence[int]) -> int:
    protocol = Protocol.parse(block.split)
    number = counts[0] if counts else protocol.parts or block.planned or _GIVEN
    return min(number, block.splits or number)


def _took(cells: Iterable[Mapping[str, Any]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for cell in cells:
        seconds = _wall(cell)
        if cell["status"] == "ok" and seconds is not None:
            found[_kind(cell["method"], cell["dataset"], cell["settings"], cell.get("limits", {}))].append(seconds)
    return found


def _kind_of(block: Block) -> str:
    return _kind(block.table.method.id, block.dataset, block.settings, block.limits.description())


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


def _estimated(block: Block) -> float | None:
    """Seconds of one cell."""
    size = _size(block)
    if size is None:
        return None
    training = training_seconds(block.table.method.id, block.settings, size, iterations=block.limits.iterations)
    if block.limits.seconds is not None:
        training = min(training, block.limits.seconds)
    return training + _BESIDE


def _size(block: Block) -> Size | None:
    """Training rows, inputs, inducing inputs and latent functions, as the catalogue has them."""
    base, _, rows = block.dataset.partition(":")
    entry = entries().get(base)
    n = int(rows) if rows.isdigit() else None if entry is None else entry.n
    if entry is None or n is None:
        return None
    protocol = Protocol.parse(block.split)
    if protocol.kind == "holdout":
        train = n - (protocol.size if protocol.size >= 1 else protocol.size * n)
    elif protocol.kind == "given":
        train = entry.train or 0.8 * n
    else:
        train = (n - protocol.size) * (1 - 1 / protocol.parts)
    capped = min(train, block.limits.train_rows or train)
    latents = len(entry.classes) if entry.task == "multiclass" else 1
    number = max(int(capped), 1)
    M = _inducing(str(block.settings.get("inducing", "all")), number, block.split)
    return Size(n=number, d=entry.d or 1, M=M, latents=max(latents, 1))


def _inducing(count: str, n: int, split: str) -> int:
    protocol = Protocol.parse(split)
    if protocol.kind == "active":
        return int(protocol.size)
    try:
        return InducingRule("kmeans", count=count).number(n)
    except UsageError:  # fewer rows than that: the cell will say so
        return n
