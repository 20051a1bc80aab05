"""The rows that a stored cell was trained and tested on, and its posterior: what pictures of the data need."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from gpbench.bench.cell import CellSpec, Limits, SplitSpec
from gpbench.bench.division import divide
from gpbench.bench.plan.tasks import source_of
from gpbench.bench.sources import opened
from gpbench.config import load_config
from gpbench.errors import DataError
from gpbench.model.posterior import load_posterior

if TYPE_CHECKING:
    from typing import Protocol

    from gpbench.bench.division import Division
    from gpbench.bench.plan.plan import Plan
    from gpbench.model.likelihoods import Prediction
    from gpbench.model.rows import Array, Rows
    from gpbench.report.groups import Cell

    class LatentPredictor(Protocol):
        """A posterior of latent functions."""

        def latent(self, X: Rows) -> tuple[Array, Array]:
            """Mean and variance of each latent function, (n, F) each."""

        def predict(self, X: Rows) -> Prediction:
            """Predictive distribution of each row."""


__all__ = ["posterior_of", "rows_of"]


def rows_of(plan: Plan, cell: Cell) -> Division:
    """The scaled rows of a cell's split, from the data set itself.

    Raises
    ------
    DataError
        The data set cannot be had here, or it is not the one that the cell was run on.
    """
    name = plan.datasets[cell["shown"]["place"][0]]
    dataset = opened(source_of(plan, name, load_config()))
    if dataset.checksum != cell.get("checksum"):
        raise DataError(
            f"data set {name} is not the one that the cell was run on: "
            f"expected checksum {cell.get('checksum')}, got {dataset.checksum}"
        )
    split = cell["split"]
    spec = CellSpec(
        method=cell["method"],
        version=cell["version"],
        settings=cell["settings"],
        limits=Limits(**cell.get("limits", {})),
        dataset=cell["dataset"],
        checksum=cell["checksum"],
        split=SplitSpec(protocol=split["protocol"], index=split["index"], count=split["count"], seed=split["seed"]),
        seed=cell["seed"],
        likelihood=cell["likelihood"],
        scaling=cell["scaling"],
    )
    return divide(dataset, spec)


def posterior_of(cell: Cell) -> LatentPredictor:
    """The posterior that a finished cell left.

    Raises
    ------
    DataError
        It cannot be read, or has no latent functions (logistic regression has none).
    """
    path = Path(cell["shown"]["arrays"])
    found = load_posterior(path)
    if not hasattr(found, "latent"):
        raise DataError(f"{path}, of {cell['method']}, holds a model without latent functions")
    return cast("LatentPredictor", found)
