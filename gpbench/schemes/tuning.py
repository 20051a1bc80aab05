"""What opponents that are no Gaussian processes share: their fit, logistic regression, and a choice on held-out rows.

A model is trained for each of several candidates on four fifths of the rows, its NLL taken on the rest, and the best
candidate is trained once more on all rows. Each model that is trained counts as one iteration, so that a limit of time
ends the choice between two models with the best so far.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from gpbench.errors import UsageError
from gpbench.model.classes import rows_in_memory
from gpbench.model.likelihoods import Likelihood, likelihood
from gpbench.schemes.base import Training

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from gpbench.model.classes import ClassPosterior
    from gpbench.model.inducing import InducingRule
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.schemes.base import Fit, OnStep, StoppedBy

__all__ = ["SHARE", "Logistic", "Opponent", "Trained", "Tuning", "class_likelihood", "logistic"]

SHARE = 0.2
"""Of the rows, held out for the choice."""

S = TypeVar("S")


class Trained(NamedTuple, Generic[S]):
    """A model for a candidate.

    Attributes
    ----------
    posterior : ClassPosterior
    candidate : object
        With what validation has settled about it, such as a number of trees.
    nll : float
        Of the validation rows; NaN where there were none.
    stopped_by : {"converged", "schedule", "iterations"}
        Its own criterion ended it, its rounds, which are as many as were meant, are over, or a limit cut it.
    """

    posterior: ClassPosterior
    candidate: S
    nll: float
    stopped_by: StoppedBy


class Tuning(Training, Generic[S]):
    """Trains each candidate in turn, then the best one on all rows.

    Parameters
    ----------
    X, y : (n, d), (n,)
        The rows that the last model is trained on.
    classes : int
    candidates : sequence
        A single one is trained at once, without held-out rows.
    most : int
        Rows that the choice uses at most.
    rng : numpy.random.Generator
        Draws them.
    """

    unit = "model"

    def __init__(
        self, X: Array, y: Labels, *, classes: int, candidates: Sequence[S], most: int, rng: np.random.Generator
    ) -> None:
        # three rows at least, so that there is one of each kind to be held out and two to train on
        self.candidates = candidates if len(y) > 2 else candidates[:1]
        self.single = len(self.candidates) == 1
        super().__init__(limit=1 if self.single else len(self.candidates) + 1)
        self.X, self.y, self.classes, self.rng = X, y, classes, rng
        self.absent: npt.NDArray[np.bool_] = np.bincount(y, minlength=classes) == 0
        self._most = most
        self._best: Trained[S] | None = None

    @abstractmethod
    def fit(self, candidate: S, X: Array, y: Labels, *, validation: tuple[Array, Labels] | None) -> Trained[S]:
        """A model for a candidate, trained on X (n, d) and y (n,) alone."""

    @abstractmethod
    def chosen(self, candidate: S) -> dict[str, Any]:
        """A candidate as JSON can hold it."""

    def train(self) -> StoppedBy:
        """The choice, and the last model."""
        final = self.candidates[0]
        if not self.single:
            n = len(self.y)
            order = self.rng.permutation(n)[: min(n, self._most)]
            held = max(1, round(SHARE * len(order)))
            out, left = np.sort(order[:held]), np.sort(order[held:])
            for candidate in self.candidates:
                trained = self.fit(candidate, self.X[left], self.y[left], validation=(self.X[out], self.y[out]))
                if self._best is None or trained.nll < self._best.nll:
                    self._best = trained
                self.trainer.report()
            assert self._best is not None
            final = self._best.candidate
        self._best = self.fit(final, self.X, self.y, validation=None)
        self.trainer.report()
        return self._best.stopped_by

    def posterior(self) -> ClassPosterior:
        """The best model so far."""
        assert self._best is not None
        return self._best.posterior

    def facts(self) -> dict[str, Any]:
        """What was chosen."""
        assert self._best is not None
        return {"absent_classes": int(self.absent.sum()), "chosen": self.chosen(self._best.candidate)}


class Opponent(ABC):
    """A scheme that is no Gaussian process: a library's model of class probabilities, trained on rows in memory.

    A subclass is a frozen dataclass of settings with a ``name``; ``max_rows`` is one of them. What it trains with
    takes longer to import than many a model to train, and whoever only lists settings does without: ``libraries`` are
    what the harness imports before its clock runs.
    """

    name: ClassVar[str]
    libraries: ClassVar[tuple[str, ...]] = ("sklearn.linear_model",)
    max_rows: int

    def likelihood_for(self, task: str, n_classes: int) -> Likelihood:
        """The logit likelihood, which names the model; with more than two classes the softmax takes its place.

        Raises
        ------
        UsageError
            The task has no classes.
        """
        return class_likelihood(self.name, task, n_classes)

    def fit(
        self,
        X: Rows,
        y: npt.NDArray[Any],
        *,
        inducing: InducingRule,  # noqa: ARG002 - there are none
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,
        on_step: OnStep,
    ) -> Fit:
        """Train; see :class:`gpbench.schemes.base.Scheme`.

        Raises
        ------
        UsageError
            Another likelihood than the logit.
        NumericalError
            The inputs are not finite.
        """
        if likelihood.name != "logit":
            raise UsageError(f"{self.name} needs the logit likelihood; got {likelihood.name}")
        inputs, y = rows_in_memory(self.name, X, y, classes=classes, most=self.max_rows, rng=rng)
        return self.train(inputs, y, classes=classes, rng=rng, on_step=on_step)

    @abstractmethod
    def train(self, X: Array, y: Labels, *, classes: int, rng: np.random.Generator, on_step: OnStep) -> Fit:
        """Train on rows X (n, d) and classes y (n,)."""


def class_likelihood(name: str, task: str, n_classes: int) -> Likelihood:
    """The logit likelihood, which names a model of class probabilities; with more than two classes it is the softmax.

    Raises
    ------
    UsageError
        The task has no classes.
    """
    if task not in {"binary", "multiclass"}:
        raise UsageError(f"{name} does binary and multiclass classification; got task {task} with {n_classes} classes")
    return likelihood("logit")


class Logistic(NamedTuple):
    """A fitted logistic regression: weights (C, d) and bias (C,), 0 for classes that are absent."""

    weights: Array
    bias: Array
    iterations: int
    converged: bool


def logistic(X: Array, y: Labels, *, classes: int, penalty: float, max_iterations: int) -> Logistic:
    """scikit-learn's logistic regression with ½ penalty |w|², by L-BFGS.

    Parameters
    ----------
    X, y : (n, d), (n,)
    classes : int
        Of the data set.
    penalty : float
        In nats; 0: none.
    max_iterations : int
    """
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - see Opponent
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    present = np.flatnonzero(np.bincount(y, minlength=classes))
    weights, bias = np.zeros((classes, X.shape[1])), np.zeros(classes)
    if len(present) == 1:
        return Logistic(weights, bias, 1, converged=True)
    model = LogisticRegression(C=1.0 / penalty if penalty > 0 else math.inf, max_iter=max_iterations)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    converged = not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    if len(present) == 2:  # scikit-learn then keeps one column, the log odds of the second class
        weights[present[1]], bias[present[1]] = model.coef_[0], model.intercept_[0]
    else:
        weights[present], bias[present] = model.coef_, model.intercept_
    return Logistic(weights, bias, max(1, int(np.max(model.n_iter_))), converged)
