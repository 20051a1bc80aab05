"""Settings and ``fit`` of scalable expectation propagation, for two classes and for several."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gpbench.schemes.base import setting
from gpbench.schemes.binary import trained
from gpbench.schemes.scalable_ep.factors import BinaryFactors, Factors, PairFactors
from gpbench.schemes.scalable_ep.unknowns import Unknowns
from gpbench.schemes.settings import GPSettings, check_ep_targets, ep_likelihood
from gpbench.schemes.stochastic_settings import MinibatchSettings

if TYPE_CHECKING:
    import numpy.typing as npt

    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.posterior import Posterior
    from gpbench.model.rows import Labels, Rows
    from gpbench.schemes.base import OnStep
    from gpbench.schemes.binary import TrainingRun

__all__ = ["MGPCSettings", "Problem"]

BATCH_UP_TO = 10_000
"""Rows up to which mode ``auto`` looks at all of them at each iteration."""
BATCH_ITERATIONS, STOCHASTIC_ITERATIONS = 250, 10_000


@dataclass(frozen=True)
class Problem:
    """What a training run begins with.

    Attributes
    ----------
    X, y : (n, d), (n,)
    unknowns : Unknowns
    likelihood : Likelihood
    classes : int
    rng : numpy.random.Generator
    """

    X: Rows
    y: Labels
    unknowns: Unknowns
    likelihood: Likelihood
    classes: int
    rng: np.random.Generator

    def factors(self, rows: npt.NDArray[np.int64] | slice) -> Factors:
        """The factors of some rows, scalable EP's for two classes or for more."""
        y = np.asarray(self.y[rows])
        return BinaryFactors(y) if self.classes == 2 else PairFactors(y, self.classes)


@dataclass(frozen=True, kw_only=True)
class MGPCSettings(MinibatchSettings, GPSettings):
    """What scalable EP can be told, whether factors are kept or tied."""

    mode: str = setting(
        "auto",
        "all rows at each iteration, or Adam on mini-batches; auto: batch up to 10,000 rows",
        choices=("auto", "batch", "stochastic"),
    )
    learn_inducing: bool = setting(True, "whether the inducing inputs are optimised")
    max_iterations: int | None = setting(
        None, "at most (none: 250 on all rows, 10,000 mini-batches)", kind=int, minimum=1
    )
    batch_size: int = setting(200, "rows in a mini-batch", minimum=1)
    damping: float | None = setting(
        None,
        "share of each site update that is taken (none: 0.5 on all rows, 1 on mini-batches)",
        kind=float,
        minimum=0.001,
        maximum=1.0,
    )
    rate: float = setting(
        0.01, "first rate of ascent on all rows, or rate of Adam (0.001 in villacampa2017)", minimum=1e-7, maximum=1.0
    )
    damping_decay: float = setting(
        1.0, "batch: ratio by which damping falls each iteration (0.99 in villacampa2017)", minimum=0.5, maximum=1.0
    )
    growth: float = setting(
        1.1, "batch: ratio by which rates of ascent grow (1.02 in villacampa2017)", minimum=1.0, maximum=2.0
    )
    rise: float = setting(
        0.02,
        "batch: training ends when the median of log Z over 25 iterations changes by less, relatively; 0: never",
        minimum=0.0,
    )
    longest_step: float = setting(
        0.5, "batch: largest step of a log hyper-parameter or a scaled inducing input", minimum=1e-6, maximum=1e6
    )

    name: ClassVar[str]

    @abstractmethod
    def start(self, problem: Problem) -> TrainingRun:
        """A training run at its beginning."""

    def is_batch(self, n: int) -> bool:
        """Whether each iteration looks at all n rows."""
        return self.mode == "batch" or (self.mode == "auto" and n <= BATCH_UP_TO)

    def iterations(self, *, batch: bool) -> int:
        """Iterations at most."""
        if self.max_iterations is not None:
            return self.max_iterations
        return BATCH_ITERATIONS if batch else STOCHASTIC_ITERATIONS

    def likelihood(self, task: str, n_classes: int) -> Likelihood:
        """The probit for two classes, the largest latent value for more.

        Raises
        ------
        UsageError
            The task is another one.
        """
        return ep_likelihood(self.name, task, n_classes)

    def fit(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,
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
        y = np.asarray(y)

        def start() -> TrainingRun:
            F = 1 if classes == 2 else classes
            Z = [inducing.for_latent(c).choose(X) for c in range(F)]
            learned = self.hyperparameters == "learned"
            unknowns = Unknowns(self.initial_kernel(X), Z, theta=learned, inducing=self.learn_inducing)
            return self.start(Problem(X, y, unknowns, likelihood, classes, rng))

        return trained(self.name, start, on_step)
