"""ep: full expectation propagation with the probit (Rasmussen and Williams 2006, section 3.6).

The EP column of hensman2015, who took it from the GPML toolbox.

========  ===================================================================  ========
symbol    meaning                                                              shape
========  ===================================================================  ========
n         rows; inducing inputs are the rows themselves, Z = X
θ         logarithms of the kernel's hyper-parameters                          (P,)
τ, b      sites exp(-½ τ f² + b f), one for each row                           (n,)
log Z     EP's approximation of log p(y | θ), which L-BFGS-B climbs            scalar
========  ===================================================================  ========

The algorithm is in :mod:`gpbench.schemes.ep.full_sites`, O(n³) for each update of all sites, with an n x n matrix: more
than ``max_rows`` rows are refused. The toolbox visits sites in random order and stops when log Z changes by less than
1e-4; here sites move together, damped and extrapolated, or one after the other (``order = sequential``), to a tighter
tolerance. The fixed point is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gpbench.schemes.base import setting
from gpbench.schemes.batch_settings import LOG_BOUND
from gpbench.schemes.binary import binary_likelihood
from gpbench.schemes.ep.evidence import Climb
from gpbench.schemes.ep.factors import ProbitFactors
from gpbench.schemes.ep.full_sites import FullEP
from gpbench.schemes.ep.settings import EPSettings
from gpbench.schemes.row_limit import check_row_limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.model.inducing import InducingRule
    from gpbench.model.kernels import Kernel
    from gpbench.model.latent import Latent
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.fixed_point import FixedPointOutcome, FixedPointSearch

__all__ = ["EP"]


@dataclass(frozen=True, kw_only=True)
class EP(EPSettings):
    """Full EP; hyper-parameters by L-BFGS-B on the log evidence."""

    order: str = setting("parallel", "all sites at once, or one after the other", choices=("parallel", "sequential"))
    max_rows: int = setting(2000, "more rows are refused, as memory grows with their square", minimum=1)

    name: ClassVar[str] = "ep"

    def likelihood(self, task: str, n_classes: int) -> Likelihood:
        """The probit.

        Raises
        ------
        UsageError
            The task is not binary.
        """
        return binary_likelihood(self.name, "probit", task=task, n_classes=n_classes)

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,  # noqa: ARG002 - Z = X
        likelihood: Likelihood,
        classes: int,
    ) -> Climb:
        """A training run at its beginning.

        Raises
        ------
        UsageError
            There are too many rows.
        """
        check_row_limit(self.name, len(X), max_rows=self.max_rows)
        return Climb(self, _Evidence(self, X[0 : len(X)], y), likelihood, classes)


class _Evidence:
    """log Z as a function of θ."""

    def __init__(self, settings: EP, X: Array, y: Labels) -> None:
        self._kernel = settings.initial_kernel(X)
        self._X = np.asarray(X, dtype=np.float64)
        self._factors = ProbitFactors(np.where(np.asarray(y) == 1, 1.0, -1.0))
        self._learn, self._sequential = settings.hyperparameters == "learned", settings.order == "sequential"
        self.x0 = self._kernel.theta if self._learn else np.empty(0)
        self.box = np.full(len(self.x0), -LOG_BOUND), np.full(len(self.x0), LOG_BOUND)
        self.sites = self._factors.start()

    def at(self, x: Array, *, sites: Array, search: FixedPointSearch, jitters: Sequence[float] | None) -> _State:
        kernel: Kernel = self._kernel.with_theta(x) if self._learn else self._kernel
        run = FullEP(
            kernel,
            self._X,
            self._factors,
            x=sites,
            search=search,
            jitter=None if jitters is None else jitters[0],
            sequential=self._sequential,
        )
        return _State(run)


@dataclass(frozen=True, eq=False)
class _State:
    run: FullEP

    @property
    def log_z(self) -> float:
        return self.run.log_z

    @property
    def outcome(self) -> FixedPointOutcome:
        return self.run.outcome

    @property
    def jitters(self) -> tuple[float, ...]:
        return (self.run.jitter,)

    def slope(self) -> Array:
        return self.run.gradient()

    def latents(self) -> tuple[Latent, ...]:
        return (self.run.latent(),)
