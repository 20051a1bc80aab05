"""Scores of stored cells from the test rows' predicted probabilities in KEY.npz: calibration and order of the rows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from gpbench.bench.metrics import metrics
from gpbench.errors import GpbenchError, PluginError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpbench.bench.result import Result
    from gpbench.bench.store import Store

__all__ = [
    "BINS",
    "MORE_IS_BETTER",
    "RELIABILITY_BINS",
    "SCORED",
    "Calibration",
    "average_precision",
    "brier_score",
    "calibration",
    "calibration_error",
    "overconfidence",
    "roc_auc",
    "scores_of",
    "stored_calibration",
    "with_scores",
    "worst_row",
    "worst_share",
]

#: Bins of the calibration error.
BINS = 15
#: Bins of a reliability diagram.
RELIABILITY_BINS = 10
#: The metrics of this module.
SCORED = frozenset({"brier", "ece", "overconfidence", "auc", "average_precision", "worst", "worst_share"})
#: Metrics of which more is better, of this module and others.
MORE_IS_BETTER = frozenset({"accuracy", "bound", "auc", "average_precision"})

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


def overconfidence(probabilities: Array, y: Labels) -> float:
    """Mean confidence less the share of right predictions: above 0 a method is surer than it is right, below less sure.

    It is the calibration error with its sign and a single bin.

    Parameters
    ----------
    probabilities : (n, C)
    y : (n,)
        Classes 0..C-1.
    """
    return float(np.mean(probabilities.max(axis=1)) - np.mean(probabilities.argmax(axis=1) == y))


def roc_auc(probability: Array, y: Labels) -> float | None:
    """Area under the receiver operating characteristic (Hanley and McNeil 1982).

    It is the chance that a row of class 1 has a higher probability than one of class 0, ties counting half: with R the
    sum of the ranks (ties: mean ranks) of the n1 rows of class 1, (R - n1 (n1 + 1) / 2) / (n0 n1).

    Parameters
    ----------
    probability : (n,)
        Of class 1.
    y : (n,)
        0 or 1.

    Returns
    -------
    float or None
        None where one class is absent.
    """
    positive = y == 1
    n1 = int(positive.sum())
    n0 = len(y) - n1
    if not n0 or not n1:
        return None
    _, place, counts = np.unique(probability, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - 0.5 * (counts - 1))[place]
    return float((ranks[positive].sum() - 0.5 * n1 * (n1 + 1)) / (n0 * n1))


def average_precision(probability: Array, y: Labels) -> float | None:
    """Average precision: sum over thresholds of (R_k - R_(k-1)) P_k, recall R and precision P (not interpolated).

    A threshold is each value that some row's probability has, the highest first; it finds the rows at or above it. This
    is scikit-learn's definition; Zhu (2004) compares it with others.

    Parameters
    ----------
    probability : (n,)
        Of class 1.
    y : (n,)
        0 or 1.

    Returns
    -------
    float or None
        None where no row is of class 1.
    """
    order = np.argsort(-probability, kind="stable")
    hits = np.cumsum(y[order] == 1)
    if not len(y) or not hits[-1]:
        return None
    last = np.flatnonzero(np.append(np.diff(probability[order]) != 0.0, True))  # the last row of each threshold
    precision = hits[last] / (last + 1.0)
    return float(np.sum(np.diff(hits[last], prepend=0) * precision) / hits[-1])


def worst_row(probabilities: Array, y: Labels) -> float:
    """The largest negative log probability of a single row (nats): what one sure and wrong prediction costs.

    A probability that is stored as zero counts as the least positive number, 745 nats.

    Parameters
    ----------
    probabilities : (n, C)
    y : (n,)
        Classes 0..C-1.
    """
    return float(_losses(probabilities, y).max())


def worst_share(probabilities: Array, y: Labels) -> float | None:
    """How much of the rows' NLL one row carries, in [1 / n, 1]; None where no row has any.

    Parameters
    ----------
    probabilities : (n, C)
    y : (n,)
        Classes 0..C-1.
    """
    losses = _losses(probabilities, y)
    whole = losses.sum()
    return float(losses.max() / whole) if whole > 0 else None


def _losses(probabilities: Array, y: Labels) -> Array:
    """The negative log probability of each row (n,)."""
    return -np.log(np.maximum(probabilities[np.arange(len(y)), y], np.nextafter(0.0, 1.0)))


def scores_of(probabilities: Array, y: Labels) -> dict[str, float | None]:
    """Every score of :data:`SCORED`; AUC and average precision of the second of two classes, else None.

    Parameters
    ----------
    probabilities : (n, C)
    y : (n,)
        Classes 0..C-1.
    """
    two = probabilities.shape[1] == 2
    return {
        "brier": brier_score(probabilities, y),
        "ece": calibration_error(probabilities, y),
        "overconfidence": overconfidence(probabilities, y),
        "worst": worst_row(probabilities, y),
        "worst_share": worst_share(probabilities, y),
        "auc": roc_auc(probabilities[:, 1], y) if two else None,
        "average_precision": average_precision(probabilities[:, 1], y) if two else None,
    }


class Calibration(NamedTuple):
    """What a reliability diagram is made of, in bins of equal width: sums that add over cells, each (bins,).

    With two classes of the second one's probability, else of the predicted class's.

    Attributes
    ----------
    rows : array
        Test rows.
    said : array
        Sum of their probabilities.
    happened : array
        How often it came true.
    """

    rows: Array
    said: Array
    happened: Array


def calibration(probabilities: Array, y: Labels, *, bins: int = RELIABILITY_BINS) -> Calibration:
    """The bins of one cell; parameters as of :func:`calibration_error`."""
    if probabilities.shape[1] == 2:
        said, happened = probabilities[:, 1], y == 1
    else:
        predicted = probabilities.argmax(axis=1)
        said, happened = probabilities[np.arange(len(y)), predicted], predicted == y
    bin_of = np.clip((said * bins).astype(np.int64), 0, bins - 1)
    rows, total, true = (
        np.bincount(bin_of, weights=each, minlength=bins).astype(np.float64)
        for each in (np.ones(len(y)), said, happened)
    )
    return Calibration(rows, total, true)


def stored_calibration(key: str, store: Store) -> Calibration | None:
    """The bins of a stored cell; None where it predicts no classes.

    Raises
    ------
    StoreError
        Its arrays cannot be read.
    """
    found = _probabilities(key, store)
    return None if found is None else calibration(*found)


def with_scores(cells: Iterable[AnyResult], store: Store) -> tuple[list[AnyResult], list[str]]:
    """Cells whose ``metrics`` also hold those of :data:`SCORED`; None where a cell predicts no classes.

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
        A sentence for the cells that could not be scored and one for each third party's metric that has no value for
        some: how many cells, and why the first of them.
    """
    scored: list[AnyResult] = []
    problems: dict[str, list[GpbenchError]] = defaultdict(list)
    for cell in cells:
        found: dict[str, float | None] = dict.fromkeys(sorted(SCORED))
        if known := {name: cell.metrics[name] for name in found if name in cell.metrics}:
            found |= known  # of reference results, which have no arrays
        elif cell.finished:
            found |= _scores(cell, store, problems)
        scored.append(replace(cell, metrics={**cell.metrics, **found}))
    return scored, [f"{len(errors)} cells without {what}: {errors[0]}" for what, errors in problems.items()]


def _scores(cell: Result, store: Store, problems: dict[str, list[GpbenchError]]) -> dict[str, float | None]:
    """A cell's scores and third parties' metrics, as far as they can be had; the rest is added to the problems."""
    try:
        predicted = _probabilities(cell.key, store, digest=cell.arrays_sha256)
    except StoreError as error:
        problems["Brier score and calibration error"].append(error)
        return {}
    if predicted is None:  # counts
        return {}
    found = scores_of(*predicted)
    for name, metric in metrics().items():
        try:
            found[name] = metric(*predicted)
        except PluginError as error:
            problems[name].append(error)
    return found


def _probabilities(key: str, store: Store, *, digest: str | None = None) -> tuple[Array, Labels] | None:
    """Predicted probabilities (n, C) and classes (n,) of a cell's test rows; None where it predicts no classes."""
    arrays = store.arrays(key, names=("test_probabilities", "y_test"), digest=digest)
    if "test_probabilities" not in arrays:
        return None
    probabilities, y = arrays["test_probabilities"], arrays.get("y_test", np.empty(0))
    if probabilities.ndim != 2 or y.shape != (len(probabilities),) or not np.issubdtype(y.dtype, np.integer):
        raise StoreError(f"{store.folder / key}.npz holds no probabilities and classes of the same test rows")
    return probabilities, y
