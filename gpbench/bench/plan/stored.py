"""The cells of a plan that are in the store, without a look at the data: what is there can be rendered anywhere."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpbench.bench.cell import canonical
from gpbench.bench.origin import origin_entry
from gpbench.data import generators
from gpbench.data.catalogue import entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpbench.bench.plan.blocks import Block
    from gpbench.bench.plan.plan import Plan

__all__ = ["dataset_id", "shown", "stored_cells"]


def stored_cells(
    plan: Plan, found: Sequence[Block], cells: Iterable[Mapping[str, Any]]
) -> list[tuple[Block, list[dict[str, Any]]]]:
    """Stored results of each block, in the order of their splits.

    All that describes a cell must agree, but for the content of the data, which is not opened: where the store holds
    results on several versions of a data set, those of the latest are taken.

    Parameters
    ----------
    plan : Plan
    found : sequence of Block
    cells : iterable of dict
        All of the store.
    """
    known: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for cell in cells:
        known[_pattern_of(cell)].append(cell)
    return [(block, _latest(known[_pattern(plan, block)], block)) for block in found]


def shown(cell: Mapping[str, Any], block: Block, plan: Plan, folder: Path) -> dict[str, Any]:
    """A stored result with how the plan shows it, see :mod:`gpbench.report.plan.renderers`.

    Parameters
    ----------
    cell : dict
        A stored result of the block.
    block, plan
        Which of what.
    folder : Path
        The store's.
    """
    return {
        **cell,
        "shown": {
            "dataset": plan.dataset_label(block.dataset),
            "method": block.label,
            "variant": block.variant,
            "printed": block.printed,
            "name": block.table.name,
            "place": list(block.place),
            "sweep": dict(block.sweep),
            "arrays": str(folder / f"{cell['key']}.npz"),
        },
    }


def dataset_id(name: str) -> str:
    """The id that results bear for a data set that a plan names: the catalogue's, or a file's name."""
    if name.startswith("openml:"):
        return name
    base = name.partition(":")[0]
    if base not in entries():
        return Path(name).name
    base, rows = generators.parse(name)
    return base if rows is None or rows == entries()[base].n else f"{base}:{rows}"


def _pattern(plan: Plan, block: Block) -> str:
    method = block.table.method
    return canonical(
        [
            *(dataset_id(block.dataset), method.id, method.version, dict(block.settings), block.limits.description()),
            *(plan.scaling, block.split, plan.seed, plan.seed, _origin(block)),
        ]
    )


def _pattern_of(cell: Mapping[str, Any]) -> str:
    return canonical(
        [
            *(cell["dataset"], cell["method"], cell.get("version"), cell["settings"], cell.get("limits", {})),
            *(cell.get("scaling"), cell["split"]["protocol"], cell["split"]["seed"], cell["seed"]),
            {name: value for name, value in (cell.get("origin") or {}).items() if name != "key"},
        ]
    )


def _origin(block: Block) -> dict[str, Any]:
    """An origin as it stands in results, less its key, which depends on the content of the data."""
    if block.origin is None:
        return {}
    entry = origin_entry("", block.origin.method, block.origin.settings)
    return {name: value for name, value in entry.items() if name != "key"}


def _latest(cells: Sequence[Mapping[str, Any]], block: Block) -> list[dict[str, Any]]:
    by_content: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for cell in cells:
        if block.splits is None or cell["split"]["index"] < block.splits:
            by_content[str(cell.get("checksum")), str(cell.get("likelihood"))].append(cell)
    if not by_content:
        return []
    chosen = max(by_content.values(), key=lambda same: max(str(cell["provenance"].get("end", "")) for cell in same))
    return [dict(cell) for cell in sorted(chosen, key=lambda cell: cell["split"]["index"])]
