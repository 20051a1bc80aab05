"""Brier score and calibration error of stored cells, from the test rows' predicted probabilities in KEY.npz."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from gpbench.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpbench.bench.result import Result
    from gpbench.bench.store import Store

__all__ = ["BINS", "SCORED", "brier_score", "calibration_error", "with_scores"]

#: Bins of the calibration error.
BINS = 15
#: The metrics of this module.
SCORED = frozenset({"brier", "ece"})

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.integer]
AnyResult = TypeVar("AnyResult", bound="Result")


def brier_score(probabilities: Array, y: Labels) -> float:
    """Mean squared distance of the predicted probabilities from what was observed.

    With two classes (p - y)^2 of the second, which lies in [0, 1]; with more the sum of the squares over the classes,
    which lies in [0, 2], as Brier (1950) defined it. scikit-learn counts in the same way.

    Parameters
    ----------
    probabilities : (n, C)
    y : (n,)
        Classes 0..C-1.
    """
    distance = probabilities - (np.arange(probabilities.shape[1]) == y[:, None])
    squares = np.einsum("nc,nc->n", distance, distance)
    return float(np.mean(squares)) / (2.0 if probabilities.shape[1] == 2 else 1.0)


def calibration_error(probabilities: Array, y: Labels, *, bins: int = BINS) -> float:
    """Expected calibration error (Guo et al. 2017, equation 3).

    Rows are put into bins (k/bins, (k+1)/bins] by the probability of the class that is predicted, their confidence. The
    error is the mean over rows of |share of right predictions - mean confidence| of the row's bin.

    Parameters
    ----------
    probabilities : (n, C)
    y : (n,)
        Classes 0..C-1.
    bins : int
        Of equal width.
    """
    predicted = probabilities.argmax(axis=1)
    confidence = probabilities[np.arange(len(y)), predicted]
    bin_of = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    surplus = np.bincount(bin_of, weights=(predicted == y) - confidence, minlength=bins)
    return float(np.abs(surplus).sum() / len(y))


def with_scores(cells: Iterable[AnyResult], store: Store) -> tuple[list[AnyResult], list[str]]:
    """Cells whose ``metrics`` also hold ``brier`` and ``ece``; None where a cell predicts no classes.

    Parameters
    ----------
    cells : iterable of Result
        They are left as they are.
    store : Store
        Where their arrays are.

    Returns
    -------
    list of Result
        Copies, of the same type.
    list of str
        At most one sentence: how many cells could not be scored, and why the first of them.
    """
    scored: list[AnyResult] = []
    problems: list[StoreError] = []
    for cell in cells:
        found: dict[str, float | None] = {"brier": None, "ece": None}
        if cell.finished:
            try:
                found = _scores(cell, store)
            except StoreError as error:
                problems.append(error)
        scored.append(replace(cell, metrics={**cell.metrics, **found}))
    if not problems:
        return scored, []
    return scored, [f"{len(problems)} cells without Brier score and calibration error: {problems[0]}"]


def _scores(cell: Result, store: Store) -> dict[str, float | None]:
    arrays = store.arrays(cell.key, names=("test_probabilities", "y_test"), digest=cell.arrays_sha256)
    if "test_probabilities" not in arrays:  # counts
        return {"brier": None, "ece": None}
    probabilities, y = arrays["test_probabilities"], arrays.get("y_test", np.empty(0))
    if probabilities.ndim != 2 or y.shape != (len(probabilities),) or not np.issubdtype(y.dtype, np.integer):
        raise StoreError(f"{store.folder / cell.key}.npz holds no probabilities and classes of the same test rows")
    return {"brier": brier_score(probabilities, y), "ece": calibration_error(probabilities, y)}
