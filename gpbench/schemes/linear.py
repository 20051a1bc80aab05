"""The yardsticks: scikit-learn's logistic regression, which a Gaussian process must pass, and the classes' frequencies.

Neither is a Gaussian process: what ``fit`` returns is a :class:`LinearPosterior`, which predicts, scores and is saved
like one; the frequencies are one whose weights are 0, which is what can be had without the inputs. Two classes or more;
classes that the training rows lack get a small probability instead of none, so that a fold without a class still has a
finite score.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from gpbench.model.classes import ClassPosterior
from gpbench.model.likelihoods.base import check_classes
from gpbench.model.posterior import register_posterior
from gpbench.schemes.base import Fit, Step, StopTraining, setting
from gpbench.schemes.tuning import Opponent, class_likelihood, logistic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.schemes.base import OnStep

__all__ = ["ClassFrequencies", "Linear", "LinearPosterior"]


@dataclass(frozen=True, kw_only=True)
class Linear(Opponent):
    """Logistic regression with a Gaussian prior on the weights, by L-BFGS."""

    penalty: float = setting(1.0, "weight of ½|w|², in nats; 0: none", minimum=0.0, maximum=1e12)
    max_rows: int = setting(1_000_000, "random rows that are used at most; all of them are held in memory", minimum=10)
    max_iterations: int = setting(1000, "iterations of L-BFGS at most", minimum=1)

    name: ClassVar[str] = "linear"

    def train(
        self,
        X: Array,
        y: Labels,
        *,
        classes: int,
        rng: np.random.Generator,  # noqa: ARG002 - L-BFGS draws nothing
        on_step: OnStep,
    ) -> Fit:
        """Train; ``on_step`` is called once, at the end."""
        fit = self._fit(X, y, classes)
        with contextlib.suppress(StopTraining):
            on_step(Step(fit.iterations, bound=None, posterior=lambda: fit.posterior))
        return fit

    def _fit(self, X: Array, y: Labels, classes: int) -> Fit:
        fitted = logistic(X, y, classes=classes, penalty=self.penalty, max_iterations=self.max_iterations)
        absent = np.bincount(y, minlength=classes) == 0
        return Fit(
            posterior=LinearPosterior(fitted.weights, fitted.bias, absent=absent, rows=len(y)),
            stopped_by="converged" if fitted.converged else "iterations",
            iterations=fitted.iterations,
            facts={"absent_classes": int(absent.sum())},
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
        return class_likelihood("class-frequencies", task, n_classes)

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
class LinearPosterior(ClassPosterior):
    """A linear model of class probabilities.

    Parameters
    ----------
    weights : (C, d)
    bias : (C,)
    absent : (C,)
        Classes that training did not see.
    rows : int
        Number of training rows.
    """

    weights: Array
    bias: Array
    absent: npt.NDArray[np.bool_]
    rows: int

    kind: ClassVar[str] = "linear"

    @property
    def inputs(self) -> int:
        """Number of columns, d."""
        return int(self.weights.shape[1])

    def scores(self, X: Array) -> Array:
        """Scores (b, K) of the classes that training has seen."""
        seen = ~self.absent
        return np.asarray(X @ self.weights[seen].T + self.bias[seen])

    def parts(self) -> dict[str, npt.NDArray[Any]]:
        """Weights, bias, and the classes that are absent."""
        return {"weights": self.weights, "bias": self.bias, "absent": self.absent}


def _build(meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> LinearPosterior:
    return LinearPosterior(arrays["weights"], arrays["bias"], absent=arrays["absent"], rows=meta["rows"])


register_posterior(LinearPosterior.kind, _build)
