"""Posteriors of models that are no Gaussian processes: class probabilities from one score for each class.

Classes that the training rows lack get a small probability instead of none, so that a fold without a class still has a
finite score.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from gpbench.errors import NumericalError, UsageError
from gpbench.model.likelihoods.base import Prediction, Score, check_classes
from gpbench.model.posterior import npz_arrays, write_npz

if TYPE_CHECKING:
    from pathlib import Path

    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["ClassPosterior", "rows_in_memory"]


class ClassPosterior(ABC):
    """Probabilities proportional to exp(score) among the classes that training has seen.

    A subclass is a frozen dataclass with the fields below, a ``kind`` that it is registered under, ``inputs``,
    ``scores`` and ``parts``.

    Attributes
    ----------
    absent : (C,)
        Classes that training did not see; each is given the probability 1/(rows + C).
    rows : int
        Number of training rows.
    """

    kind: ClassVar[str]
    block: ClassVar[int] = 100_000
    """Rows predicted at a time."""

    absent: npt.NDArray[np.bool_]
    rows: int

    @property
    @abstractmethod
    def inputs(self) -> int:
        """Number of columns, d."""

    @abstractmethod
    def scores(self, X: Array) -> Array:
        """Scores (b, K) of the K classes that training has seen, at rows X (b, d); a constant may be missing."""

    @abstractmethod
    def parts(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that the model is made of, ``absent`` among them."""

    def predict(self, X: Rows) -> Prediction:
        """Class probabilities and the most probable class of each row of X (n, d)."""
        log_probabilities = self._log_probabilities(X)
        return Prediction(log_probabilities.argmax(axis=1), np.exp(log_probabilities))

    def score(self, X: Rows, y: Labels) -> Score:
        """Log predictive probability (nats) and error of the targets y (n,) of X (n, d), and the probabilities."""
        y = np.asarray(y)
        check_classes(y, len(self.absent))
        log_probabilities = self._log_probabilities(X)
        observed = np.take_along_axis(log_probabilities, y[:, None], axis=1)[:, 0]
        error = (log_probabilities.argmax(axis=1) != y).astype(np.float64)
        return Score(observed, error, np.exp(log_probabilities))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that ``load_posterior`` reads, to be saved together with others."""
        return npz_arrays(self.kind, {"rows": self.rows}, self.parts())

    def save(self, path: Path) -> None:
        """Write an npz file that ``load_posterior`` reads."""
        write_npz(path, self.arrays())

    def _log_probabilities(self, X: Rows) -> Array:
        n, d = len(X), self.inputs
        if len(X.shape) != 2 or X.shape[1] != d:
            raise UsageError(f"expected rows with {d} columns, as in training; got shape {tuple(X.shape)}")
        out = np.empty((n, len(self.absent)))
        for start in range(0, n, self.block):
            block = slice(start, min(start + self.block, n))
            out[block] = self.normalised(self.scores(X[block]))
        return out

    def normalised(self, scores: Array) -> Array:
        """Log probabilities (b, C) of all classes from the scores (b, K) of those that were seen."""
        C, rare, seen = len(self.absent), int(self.absent.sum()), ~self.absent
        out = np.empty((len(scores), C))
        out[:, seen] = log_softmax(scores, axis=1) + np.log1p(-rare / (self.rows + C))
        out[:, self.absent] = -np.log(self.rows + C)
        return out


def rows_in_memory(
    name: str, X: Rows, y: Labels, *, classes: int, most: int, rng: np.random.Generator
) -> tuple[Array, Labels]:
    """All rows as an array, or ``most`` random ones, with their labels: what a library's model is trained on.

    Raises
    ------
    DataError
        A label is out of range.
    NumericalError
        The inputs are not finite; the message begins with ``name``.
    """
    y = np.asarray(y)
    check_classes(y, classes)
    n = len(X)
    if n > most:
        chosen = np.sort(rng.choice(n, size=most, replace=False, shuffle=False))
        inputs, y = X[chosen], y[chosen]
    else:
        inputs = X[0:n]
    if not np.isfinite(inputs).all():
        raise NumericalError(f"{name}: {int((~np.isfinite(inputs)).sum())} of the inputs are NaN or infinite")
    return inputs, y
