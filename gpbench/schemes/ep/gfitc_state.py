"""GFITC at given kernels and inducing inputs: EP run to its fixed point, log Z and its gradient, latent functions.

One FITC prior for each latent function (one for two classes, C for C), factors over their values at the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpbench.model.whitened import BLOCK_ROWS
from gpbench.schemes.ep.fitc import KEEP_BYTES, FitcPosterior, FitcPrior, Workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.model.kernels import Kernel
    from gpbench.model.latent import Latent
    from gpbench.model.rows import Array, Rows
    from gpbench.optimize.fixed_point import FixedPointOutcome, FixedPointSearch, Proposal
    from gpbench.schemes.ep.factors import SiteFactors

__all__ = ["GfitcState", "settle_gfitc"]


@dataclass(frozen=True, eq=False)
class GfitcState:
    """EP at its fixed point.

    Attributes
    ----------
    priors, posteriors : tuple
        One for each latent function.
    log_z : float
        Log evidence (nats).
    outcome : FixedPointOutcome
        The sites and how they settled.
    """

    priors: tuple[FitcPrior, ...]
    posteriors: tuple[FitcPosterior, ...]
    log_z: float
    outcome: FixedPointOutcome

    @property
    def jitter(self) -> float:
        """The largest jitter of the latent functions' K_mm."""
        return max(prior.basis.jitter for prior in self.priors)

    def gradient(self) -> tuple[list[Array], list[Array]]:
        """Gradients of log Z in each latent function's ``theta`` (P,) and Z (M, d)."""
        pairs = [prior.gradient(at) for prior, at in zip(self.priors, self.posteriors, strict=True)]
        return [dtheta for dtheta, _ in pairs], [dZ for _, dZ in pairs]

    def latents(self) -> tuple[Latent, ...]:
        """The latent functions."""
        return tuple(prior.latent(at) for prior, at in zip(self.priors, self.posteriors, strict=True))


def settle_gfitc(
    kernels: Sequence[Kernel],
    inducing: Sequence[Array],
    X: Rows,
    factors: SiteFactors,
    *,
    x: Array,
    search: FixedPointSearch,
    jitters: Sequence[float] | None = None,
    size: int = BLOCK_ROWS,
    work: Workspace | None = None,
) -> GfitcState:
    """Run EP to its fixed point.

    Parameters
    ----------
    kernels, inducing : sequences
        Kernel and Z (M, d) of each latent function.
    X : (n, d)
    factors : SiteFactors
    x : (k,)
        Sites to start from.
    search : FixedPointSearch
    jitters : sequence of float, optional
        Absolute jitters; by default the ladder.
    size : int
        Rows in a block.
    work : Workspace, optional
        Buffers to go on with from one call to the next.

    Raises
    ------
    NumericalError
        A K_mm is not positive definite, or a number is not finite.
    """
    F = len(kernels)
    keep = 8 * len(X) * sum(len(Z) for Z in inducing) <= KEEP_BYTES
    fixed = [None] * F if jitters is None else list(jitters)
    buffers = Workspace() if work is None else work
    priors = tuple(
        FitcPrior(kernel, Z, X, jitter=jitter, size=size, keep=keep, work=buffers)
        for kernel, Z, jitter in zip(kernels, inducing, fixed, strict=True)
    )
    mean, var = np.empty((len(X), F), order="F"), np.empty((len(X), F), order="F")
    posteriors: tuple[FitcPosterior, ...] = ()

    def update(sites: Array) -> Proposal:
        nonlocal posteriors
        tau, b = factors.totals(sites)
        posteriors = tuple(prior.posterior(tau[:, c], b[:, c]) for c, prior in enumerate(priors))
        for c, at in enumerate(posteriors):
            mean[:, c], var[:, c] = at.mean, at.var
        return factors.propose(sites, mean, var)

    outcome = search.settle(update, x)
    log_z = sum(at.log_z for at in posteriors) + factors.evidence(outcome.x, mean, var)
    return GfitcState(priors, posteriors, log_z, outcome)
