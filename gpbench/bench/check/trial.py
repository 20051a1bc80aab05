"""A method on generated data of a task: rows, settings of short and settled fits, and what makes two fits the same."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gpbench.bench.location import location
from gpbench.bench.result import Problem
from gpbench.errors import GpbenchError, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.posterior import META
from gpbench.schemes.base import Fit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpbench.bench.method import Method
    from gpbench.model.posterior import Predictor
    from gpbench.model.rows import Array, Labels
    from gpbench.schemes.base import OnStep
    from gpbench.schemes.settings import Learned

__all__ = ["TASKS", "Data", "Exempt", "Failed", "Finding", "Trial", "finding"]

TASKS = {"binary": 2, "multiclass": 3, "count": 0, "ordinal": 3}
"""The tasks, and the number of classes of the data that are generated for each."""

SHORT = {"max_iterations": 12, "inducing": "6", "batch_size": 10, "block_rows": 16, "freeze_iterations": 0}
"""Settings of a fit of a few steps, of those that a method has."""
SETTLED = {
    "inducing": "6",
    "max_iterations": 400,
    "hyperparameters": "fixed",
    "learn_inducing": False,
    "lengthscale": 1.5,
    "variance": 4.0,
    "noise": 0.1,
}
"""Settings of a fit of q alone to its end, likewise."""

REFUSED = ("refused",)
"""The outcome of a fit that there is none of."""


@dataclass(frozen=True)
class Finding:
    """What came of one check.

    Attributes
    ----------
    task, check : str
    outcome : {"ok", "failed", "exempt"}
    reason : str
        What was found, or why it was not looked for.
    seconds : float
        How long that took.
    """

    task: str
    check: str
    outcome: Literal["ok", "failed", "exempt"]
    reason: str
    seconds: float


class Failed(Exception):
    """A check does not hold; the text says what was expected and what was got."""


class Exempt(Exception):
    """A check says nothing about the method; the text says why."""


def finding(task: str, check: str, one: Callable[[], str], *, method: Method) -> Finding:
    """Make a check: a function that says what it found, or raises Failed or Exempt.

    Whatever else it raises is a failure as well, with its place in the method's code: a scheme can raise anything.
    """
    start = time.perf_counter()
    outcome: Literal["ok", "failed", "exempt"] = "failed"
    try:
        reason = one()
        outcome = "ok"
    except Failed as failure:
        reason = str(failure)
    except Exempt as exemption:
        outcome, reason = "exempt", str(exemption)
    except Exception as error:  # noqa: BLE001  # as the docstring says
        reason = str(Problem(type(error).__name__, str(error), place=location(error, method)))
    return Finding(task, check, outcome, reason, time.perf_counter() - start)


@dataclass(frozen=True, eq=False)
class Data:
    """Training rows X (n, d) with targets y (n,)."""

    X: Array
    y: Labels


class Trial:
    """A method on generated data of one task.

    Parameters
    ----------
    method : Method
    task : str

    Attributes
    ----------
    known : mapping of str to Setting
    classes : int
    data : Data
        36 rows whose targets follow a curved function of two inputs, with noise.
    X_test, y_test : (15, 2), (15,)
    """

    def __init__(self, method: Method, task: str) -> None:
        self.method, self.task, self.classes = method, task, TASKS[task]
        self.known = method.settings()
        rng = np.random.default_rng(11)
        X = rng.normal(size=(51, 2))
        f = np.sin(2 * X[:, 0]) + X[:, 1]
        if task == "count":
            y = rng.poisson(np.exp(0.5 + 0.5 * f))
        else:
            y = np.digitize(f + 0.5 * rng.normal(size=51), [0.0] if self.classes == 2 else [-0.5, 0.5])
        self.data, self.X_test, self.y_test = Data(X[:36], y[:36]), X[36:], y[36:]

    def settings(self, *chosen: Mapping[str, Any]) -> dict[str, Any]:
        """All settings: the method's defaults, and of each mapping those that it has, the last one's first."""
        wanted = {name: value for each in chosen for name, value in each.items() if name in self.known}
        return self.method.resolve(wanted)

    @property
    def short(self) -> dict[str, Any]:
        """The settings of a fit of a few steps."""
        return self.settings(SHORT, self.method.checking.short)

    @property
    def settled(self) -> dict[str, Any]:
        """The settings of a fit of q alone, to its end."""
        fit_in = {name: value for name, value in SETTLED.items() if name in self.known and self._takes(name, value)}
        return self.settings(fit_in, self.method.checking.settled)

    def _takes(self, name: str, value: Any) -> bool:
        try:
            self.known[name].check(value)
        except UsageError:
            return False
        return True

    def fit(
        self,
        settings: Mapping[str, Any],
        *,
        data: Data | None = None,
        inducing: Data | None = None,
        on_step: OnStep | None = None,
        learned: Learned | None = None,
    ) -> Fit:
        """Train on the trial's rows or others; ``inducing`` gives Z with targets in place of a rule.

        Raises
        ------
        Failed
            What ``fit`` gave is no Fit.
        GpbenchError
            From the scheme.
        """
        data = self.data if data is None else data
        scheme = self.method.build(settings, learned=learned)
        fitted: Any = scheme.fit(
            data.X.copy(),
            data.y.copy(),
            inducing=self.rule(settings, inducing),
            likelihood=scheme.likelihood_for(self.task, self.classes),
            classes=self.classes,
            rng=np.random.default_rng(5),
            on_step=(lambda _: None) if on_step is None else on_step,
        )
        if not isinstance(fitted, Fit):
            raise Failed(f"fit must give a Fit, which says how training ended; got a {type(fitted).__name__}")
        return fitted

    def rule(self, settings: Mapping[str, Any], given: Data | None = None) -> InducingRule:
        """The rule for inducing inputs of the settings, or these inputs with their targets."""
        active, targets = (None, None) if given is None else (given.X, given.y)
        return InducingRule.of(settings, seed=3, active=active, targets=targets)

    def outcome(self, settings: Mapping[str, Any], *, learned: Learned | None = None) -> tuple[Any, ...]:
        """What two fits that are the same have in common, or how one is refused.

        Values at the edge of a range may overflow on the way to a refusal: no warning is wanted of that.
        """
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                return self.bits(self.fit(settings, learned=learned))
            except GpbenchError:
                return REFUSED

    def bits(self, fit: Fit) -> tuple[Any, ...]:
        """Iterations, predictions and the posterior's numbers."""
        arrays = {name: values.tobytes() for name, values in fit.posterior.arrays().items() if name != META}
        return fit.iterations, self.predicted(fit.posterior).tobytes(), tuple(sorted(arrays.items()))

    def predicted(self, posterior: Predictor) -> Array:
        """Probabilities (k, C), or the mean of counts (k,), of the test rows."""
        return posterior.predict(self.X_test).values
