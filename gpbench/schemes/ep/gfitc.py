"""gfitc: expectation propagation under FITC priors, for two classes and for several.

Naish-Guzman and Holden (2007): the EPFitc columns of hensman2015 and, with one latent function for each class, the
GFITC columns of villacampa2017 ("EP over the exact factors (1)").

=========  ==================================================================================  ============
symbol     meaning                                                                             shape
=========  ==================================================================================  ============
n, d, M    rows, inputs, inducing inputs
C          latent functions: 1 for two classes (probit), else one for each class
θ, Z       log hyper-parameters and inducing inputs of each latent function                    (P,), (M, d)
τ, b       sites: one for each row (two classes), two for each row and rival class             (n,), (n, C)
log Z      EP's approximation of the log evidence, which L-BFGS-B climbs over all θ and Z      scalar
=========  ==================================================================================  ============

Given u, FITC makes the values f_i independent: row i of the prior's root is [t_i, √s_i]. The sites on f_i integrate to
sites on t_iᵀ v, so that the posterior is a q(u) that predicts as GFITC does. An update of all sites costs O(C n M²), a
gradient as much; see :mod:`gpbench.schemes.ep.fitc` and :mod:`gpbench.schemes.ep.factors`. For several classes the
label noise is the kernels' white noise alone: with ``noise = 0`` the model has none. Each class draws its own Z.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gpbench.schemes.base import setting
from gpbench.schemes.batch_settings import LOG_BOUND
from gpbench.schemes.ep.evidence import Climb
from gpbench.schemes.ep.factors import ProbitFactors, SiteFactors, StepFactors
from gpbench.schemes.ep.fitc import Workspace
from gpbench.schemes.ep.gfitc_state import GfitcState, settle_gfitc
from gpbench.schemes.ep.settings import EPSettings
from gpbench.schemes.settings import GPSettings, ep_likelihood

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.model.inducing import InducingRule
    from gpbench.model.latent import Latent
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.fixed_point import FixedPointSearch

__all__ = ["GFITC"]


@dataclass(frozen=True, kw_only=True)
class GFITC(EPSettings, GPSettings):
    """Generalised FITC; hyper-parameters and inducing inputs by L-BFGS-B on the log evidence."""

    learn_inducing: bool = setting(True, "whether the inducing inputs are optimised")
    block_rows: int = setting(1024, "rows looked at together; bounds the memory", minimum=1)

    name: ClassVar[str] = "gfitc"

    def likelihood(self, task: str, n_classes: int) -> Likelihood:
        """The probit for two classes, the largest latent value for more.

        Raises
        ------
        UsageError
            The task is another one.
        """
        return ep_likelihood(self.name, task, n_classes)

    def start(self, X: Rows, y: Labels, *, inducing: InducingRule, likelihood: Likelihood, classes: int) -> Climb:
        """A training run at its beginning."""
        return Climb(self, _Evidence(self, X, y, inducing=inducing, classes=classes), likelihood, classes)


class _Evidence:
    """log Z as a function of θ and Z of all latent functions, those of the first one coming first.

    Inducing inputs are measured in their own standard deviations, which makes the search indifferent to the units of X.
    """

    def __init__(self, settings: GFITC, X: Rows, y: Labels, *, inducing: InducingRule, classes: int) -> None:
        self._X, self._size, self._work = X, settings.block_rows, Workspace()
        self._kernel = settings.initial_kernel(X)
        F = 1 if classes == 2 else classes
        self._Z = [inducing.for_latent(c).choose(X) for c in range(F)]
        self._factors: SiteFactors
        if classes == 2:
            self._factors = ProbitFactors(np.where(np.asarray(y) == 1, 1.0, -1.0))
        else:
            self._factors = StepFactors(y, classes)
        self._theta, self._moves = settings.hyperparameters == "learned", settings.learn_inducing
        spread = self._Z[0].std(axis=0)
        self._unit = np.where(spread > 0, spread, 1.0)
        first = [(self._kernel.theta, Z / self._unit) for Z in self._Z]
        self.x0 = self._flat(first)
        limit = self._flat([(np.full(len(theta), LOG_BOUND), np.full(Z.shape, np.inf)) for theta, Z in first])
        self.box = -limit, limit
        self.sites = self._factors.start()

    def at(self, x: Array, *, sites: Array, search: FixedPointSearch, jitters: Sequence[float] | None) -> _State:
        kernels, inducing = [], []
        P, place = self._kernel.theta.size, 0
        for first in self._Z:
            kernel, Z = self._kernel, first
            if self._theta:
                kernel = kernel.with_theta(x[place : place + P])
                place += P
            if self._moves:
                Z = x[place : place + Z.size].reshape(first.shape) * self._unit
                place += Z.size
            kernels.append(kernel)
            inducing.append(Z)
        state = settle_gfitc(
            kernels,
            inducing,
            self._X,
            self._factors,
            x=sites,
            search=search,
            jitters=jitters,
            size=self._size,
            work=self._work,
        )
        return _State(self, state)

    def slope(self, state: GfitcState) -> Array:
        """Gradient in the unknowns."""
        pairs = zip(*state.gradient(), strict=True)
        return self._flat([(dtheta, dZ * self._unit) for dtheta, dZ in pairs])

    def _flat(self, parts: Sequence[tuple[Array, Array]]) -> Array:
        pieces = [np.empty(0)]
        for theta, Z in parts:
            if self._theta:
                pieces.append(theta)
            if self._moves:
                pieces.append(Z.reshape(-1))
        return np.concatenate(pieces)


class _State:
    """A settled state; once its slope is known, all that is as long as the rows is let go, since the best is kept."""

    def __init__(self, evidence: _Evidence, state: GfitcState) -> None:
        self._evidence = evidence
        self._state: GfitcState | None = state
        self._latents: tuple[Latent, ...] = ()
        self.log_z, self.outcome = state.log_z, state.outcome
        self.jitters = tuple(prior.basis.jitter for prior in state.priors)

    def slope(self) -> Array:
        state = self._state
        assert state is not None
        gradient = self._evidence.slope(state)
        for prior in state.priors:
            prior.release()
        self._latents, self._state = state.latents(), None
        return gradient

    def latents(self) -> tuple[Latent, ...]:
        return self._latents if self._state is None else self._state.latents()
