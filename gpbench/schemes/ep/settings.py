"""Settings of schemes that climb the log evidence of converged expectation propagation, and their ``fit``."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gpbench.optimize.fixed_point import FixedPointSearch
from gpbench.schemes.base import setting
from gpbench.schemes.binary import trained
from gpbench.schemes.settings import FROM, LEARNING, KernelSettings, check_ep_targets

if TYPE_CHECKING:
    import numpy as np

    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.posterior import Posterior
    from gpbench.model.rows import Labels, Rows
    from gpbench.schemes.base import OnStep
    from gpbench.schemes.binary import TrainingRun

__all__ = ["EPSettings"]

_TOLERANCE_BINARY = 1e-6
_TOLERANCE_CLASSES = 1e-3
"""From 1e-6 to 1e-3, half the updates are saved and log Z after 40 evaluations stays within 0.2 nats (vehicle)."""


@dataclass(frozen=True, kw_only=True)
class EPSettings(KernelSettings):
    """What a scheme that runs EP to its fixed point at each evaluation can be told."""

    hyperparameters: str = setting("learned", LEARNING, choices=("learned", "fixed"), rules=(FROM,))
    max_iterations: int = setting(
        250, "evaluations of the log evidence at most, each with EP run to its end", minimum=1
    )
    memory: int = setting(20, "L-BFGS-B: pairs that the Hessian is approximated from", minimum=1, maximum=100)
    gradient_tolerance: float = setting(1e-3, "L-BFGS-B: largest gradient at the end (nats)", minimum=0.0, maximum=1e6)
    value_tolerance: float = setting(
        1e-5, "L-BFGS-B: relative rise of the log evidence at the end", minimum=0.0, maximum=1.0
    )
    damping: float = setting(0.8, "share of each parallel site update that is taken", minimum=0.01, maximum=1.0)
    ep_tolerance: float | None = setting(
        None,
        "EP has settled when no site would change the posterior by more, in its units; none: 1e-6 for two classes, "
        "1e-3 for more, whose evidence is flat along the slow directions",
        kind=float,
        minimum=1e-13,
        maximum=0.1,
    )
    ep_iterations: int = setting(200, "site updates of all rows at most, at each evaluation", minimum=1)
    mixing: int = setting(
        10,
        "site updates that the next one is extrapolated from (Anderson); 0: damped updates alone",
        minimum=0,
        maximum=20,
    )

    name: ClassVar[str]

    @abstractmethod
    def start(self, X: Rows, y: Labels, *, inducing: InducingRule, likelihood: Likelihood, classes: int) -> TrainingRun:
        """A training run at its beginning; arguments as in ``fit``."""

    @abstractmethod
    def likelihood(self, task: str, n_classes: int) -> Likelihood:
        """The likelihood of a task.

        Raises
        ------
        UsageError
            The scheme cannot do the task.
        """

    def fixed_point(self, classes: int) -> FixedPointSearch:
        """How EP is run to its end."""
        tolerance = self.ep_tolerance
        if tolerance is None:
            tolerance = _TOLERANCE_BINARY if classes == 2 else _TOLERANCE_CLASSES
        return FixedPointSearch(damping=self.damping, tolerance=tolerance, limit=self.ep_iterations, memory=self.mixing)

    def fit(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,  # noqa: ARG002 - nothing here is random
        on_step: OnStep,
    ) -> Posterior:
        """Train; see :class:`gpbench.schemes.base.Scheme`.

        Raises
        ------
        UsageError
            The likelihood is not EP's.
        DataError
            A label is none of the classes.
        """
        needed = self.likelihood("binary" if classes == 2 else "multiclass", classes)
        check_ep_targets(self.name, y, needed=needed.name, given=likelihood, classes=classes)
        return trained(
            self.name,
            lambda: self.start(X, y, inducing=inducing, likelihood=likelihood, classes=classes),
            on_step,
        )
