"""What a cell trains and is tested on: the rows of its split, scaled, and their targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpbench.bench.mapped import mapped
from gpbench.data.scaling import ScaledRows, scaling_of
from gpbench.data.splits import Protocol

if TYPE_CHECKING:
    from gpbench.bench.cell import CellSpec
    from gpbench.data.dataset import Dataset
    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["MATERIALISED_BYTES", "Division", "divide"]

#: Scaled inputs up to this size become one array; larger ones are mapped from a file.
MATERIALISED_BYTES = 512 * 2**20


@dataclass(frozen=True, eq=False)
class Division:
    """A split's rows, ready for a scheme.

    Attributes
    ----------
    X, X_test : (n, d), (n_test, d)
        Scaled inputs.
    y, y_test : (n,), (n_test,)
        Targets.
    active : (M, d) or None
        The split's active set, scaled: the inducing inputs of methods that have any.
    y_active : (M,) or None
        Its targets.
    rows : str
        Where the training rows are: ``"memory"``, ``"memory-mapped"`` (scaled beforehand, in a temporary file), or
        ``"scaled on demand"`` (there was no room for that file; scaling is then on the clock).
    constant_columns : int
        Columns that do not vary over the training rows; scaled, they are 0.
    """

    X: Rows
    y: Labels
    X_test: Rows
    y_test: Labels
    active: Array | None
    y_active: Labels | None
    rows: str
    constant_columns: int


def divide(dataset: Dataset, spec: CellSpec) -> Division:
    """Training and test rows, scaled, their targets, and the active set.

    Raises
    ------
    UsageError
        The split or the scaling does not exist.
    DataError
        Inputs too large to scale.
    """
    protocol = Protocol.parse(spec.split.protocol)
    split = protocol.split(
        dataset,
        spec.split.index,
        seed=spec.split.seed,
        test_rows=spec.limits.test_rows,
        train_rows=spec.limits.train_rows,
    )
    scaling = scaling_of(spec.scaling, dataset.X, rows=split.train)
    test = ScaledRows(dataset.X, split.test, scaling)
    X_test = test.array() if _fits(test) else test  # tested off the clock in any case
    X, where = _training_rows(dataset, ScaledRows(dataset.X, split.train, scaling))
    active = None if split.active is None else ScaledRows(dataset.X, split.active, scaling).array()
    return Division(
        X=X,
        y=np.asarray(dataset.y[split.train]),
        X_test=X_test,
        y_test=np.asarray(dataset.y[split.test]),
        active=active,
        y_active=None if split.active is None else np.asarray(dataset.y[split.active]),
        rows=where,
        constant_columns=int(scaling.constant.sum()),
    )


def _training_rows(dataset: Dataset, rows: ScaledRows) -> tuple[Rows, str]:
    if _fits(rows):
        return rows.array(), "memory"
    found = mapped(dataset.X, rows)
    return (rows, "scaled on demand") if found is None else (found, "memory-mapped")


def _fits(rows: ScaledRows) -> bool:
    n, d = rows.shape
    return n * d * 8 <= MATERIALISED_BYTES
