"""The yardsticks: scikit-learn's logistic regression, which a Gaussian process must pass, and the classes' frequencies.

Neither is a Gaussian process: what ``fit`` returns is a :class:`LinearPosterior`, which predicts, scores and is saved
like one; the frequencies are one whose weights are 0, which is what can be had without the inputs. Two classes or more;
classes that the training rows lack get a small probability instead of none, so that a fold without a class still has a
finite score.
"""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from gpbench.errors import NumericalError, UsageError
from gpbench.model.likelihoods import Likelihood, Prediction, Score, likelihood
from gpbench.model.likelihoods.base import check_classes
from gpbench.model.posterior import npz_arrays, register_posterior, write_npz
from gpbench.schemes.base import Fit, Step, StopTraining, setting

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpbench.model.inducing import InducingRule
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.schemes.base import OnStep, StoppedBy

__all__ = ["ClassFrequencies", "Linear", "LinearPosterior"]

BLOCK = 100_000
"""Rows predicted at a time."""


@dataclass(frozen=True, kw_only=True)
class Linear:
    """Logistic regression with a Gaussian prior on the weights, by L-BFGS."""

    penalty: float = setting(1.0, "weight of ½|w|², in nats; 0: none", minimum=0.0, maximum=1e12)
    max_rows: int = setting(1_000_000, "random rows that are used at most; all of them are held in memory", minimum=10)
    max_iterations: int = setting(1000, "iterations of L-BFGS at most", minimum=1)

    def likelihood_for(self, task: str, n_classes: int) -> Likelihood:
        """The logit likelihood, which names the model; with more than two classes the softmax takes its place.

        Raises
        ------
        UsageError
            The task has no classes.
        """
        if task not in {"binary", "multiclass"}:
            raise UsageError(
                f"linear does binary and multiclass classification; got task {task} with {n_classes} classes"
            )
        return likelihood("logit")

    def fit(
        self,
        X: Rows,
        y: npt.NDArray[Any],
        *,
        inducing: InducingRule,  # noqa: ARG002 - a linear model has none
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,
        on_step: OnStep,
    ) -> Fit:
        """Train; see :class:`gpbench.schemes.base.Scheme`. Calls ``on_step`` once, at the end.

        Raises
        ------
        UsageError
            Another likelihood than the logit.
        NumericalError
            The inputs are not finite.
        """
        if likelihood.name != "logit":
            raise UsageError(f"linear needs the logit likelihood; got {likelihood.name}")
        y = np.asarray(y)
        check_classes(y, classes)
        n = len(X)
        if n > self.max_rows:
            rows = np.sort(rng.choice(n, size=self.max_rows, replace=False, shuffle=False))
            inputs, y = X[rows], y[rows]
        else:
            inputs = X[0:n]
        if not np.isfinite(inputs).all():
            raise NumericalError(f"linear: {int((~np.isfinite(inputs)).sum())} of the inputs are NaN or infinite")
        fit = self._fit(inputs, y, classes)
        with contextlib.suppress(StopTraining):
            on_step(Step(fit.iterations, bound=None, posterior=lambda: fit.posterior))
        return fit

    def _fit(self, X: Array, y: Labels, classes: int) -> Fit:
        counts = np.bincount(y, minlength=classes)
        present = np.flatnonzero(counts)
        weights, bias = np.zeros((classes, X.shape[1])), np.zeros(classes)
        stopped_by: StoppedBy = "converged"
        iterations = 1
        if len(present) > 1:
            C = 1.0 / self.penalty if self.penalty > 0 else np.inf
            model = LogisticRegression(C=C, max_iter=self.max_iterations)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model.fit(X, y)
            if any(issubclass(warning.category, ConvergenceWarning) for warning in caught):
                stopped_by = "iterations"
            iterations = max(1, int(np.max(model.n_iter_)))
            if len(present) == 2:  # scikit-learn then keeps one column, the log odds of the second class
                weights[present[1]], bias[present[1]] = model.coef_[0], model.intercept_[0]
            else:
                weights[present], bias[present] = model.coef_, model.intercept_
        return Fit(
            posterior=LinearPosterior(weights, bias, absent=counts == 0, rows=len(y)),
            stopped_by=stopped_by,
            iterations=iterations,
            facts={"absent_classes": classes - len(present)},
        )


@dataclass(frozen=True, kw_only=True)
class ClassFrequencies:
    """The training rows' class frequencies, predicted for every row: no settings, no inputs."""

    def likelihood_for(self, task: str, n_classes: int) -> Likelihood:
        """The logit likelihood, which is not used.

        Raises
        ------
        UsageError
            The task has no classes.
        """
        if task not in {"binary", "multiclass"}:
            raise UsageError(
                f"class-frequencies does binary and multiclass classification; got task {task} with {n_classes} classes"
            )
        return likelihood("logit")

    def fit(
        self,
        X: Rows,
        y: npt.NDArray[Any],
        *,
        inducing: InducingRule,  # noqa: ARG002 - a linear model has none
        likelihood: Likelihood,  # noqa: ARG002 - nor this
        classes: int,
        rng: np.random.Generator,  # noqa: ARG002 - nothing is drawn
        on_step: OnStep,
    ) -> Fit:
        """Count; see :class:`gpbench.schemes.base.Scheme`. Calls ``on_step`` once, at the end."""
        y = np.asarray(y)
        check_classes(y, classes)
        counts = np.bincount(y, minlength=classes)
        bias = np.log(np.maximum(counts, 1) / len(y))
        posterior = LinearPosterior(np.zeros((classes, X.shape[1])), bias, absent=counts == 0, rows=len(y))
        with contextlib.suppress(StopTraining):
            on_step(Step(1, bound=None, posterior=lambda: posterior))
        return Fit(posterior=posterior, stopped_by="converged", iterations=1)


@dataclass(frozen=True, eq=False)
class LinearPosterior:
    """A linear model of class probabilities.

    Parameters
    ----------
    weights : (C, d)
    bias : (C,)
    absent : (C,)
        Classes that training did not see; each is given the probability 1/(rows + C).
    rows : int
        Number of training rows.
    """

    weights: Array
    bias: Array
    absent: npt.NDArray[np.bool_]
    rows: int

    def predict(self, X: Rows) -> Prediction:
        """Class probabilities and the most probable class of each row of X (n, d)."""
        log_probabilities = self._log_probabilities(X)
        return Prediction(log_probabilities.argmax(axis=1), np.exp(log_probabilities))

    def score(self, X: Rows, y: Labels) -> Score:
        """Log predictive probability (nats) and error of the targets y (n,) of X (n, d), and the probabilities."""
        y = np.asarray(y)
        check_classes(y, len(self.bias))
        log_probabilities = self._log_probabilities(X)
        observed = np.take_along_axis(log_probabilities, y[:, None], axis=1)[:, 0]
        error = (log_probabilities.argmax(axis=1) != y).astype(np.float64)
        return Score(observed, error, np.exp(log_probabilities))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that ``load_posterior`` reads, to be saved together with others."""
        parts = {"weights": self.weights, "bias": self.bias, "absent": self.absent}
        return npz_arrays("linear", {"rows": self.rows}, parts)

    def save(self, path: Path) -> None:
        """Write an npz file that ``load_posterior`` reads."""
        write_npz(path, self.arrays())

    def _log_probabilities(self, X: Rows) -> Array:
        n, (C, d) = len(X), self.weights.shape
        if len(X.shape) != 2 or X.shape[1] != d:
            raise UsageError(f"expected rows with {d} columns, as in training; got shape {tuple(X.shape)}")
        out = np.empty((n, C))
        rare = int(self.absent.sum())
        seen = ~self.absent
        for start in range(0, n, BLOCK):
            block = slice(start, min(start + BLOCK, n))
            scores = X[block] @ self.weights[seen].T + self.bias[seen]
            out[block, seen] = log_softmax(scores, axis=1) + np.log1p(-rare / (self.rows + C))
        out[:, self.absent] = -np.log(self.rows + C)
        return out


def _build(meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> LinearPosterior:
    return LinearPosterior(arrays["weights"], arrays["bias"], absent=arrays["absent"], rows=meta["rows"])


register_posterior("linear", _build)
