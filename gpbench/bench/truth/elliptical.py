"""Exact posteriors by elliptical slices about a Gaussian, and their evidence by annealed importance sampling.

=======  =================================================================================  =======
symbol   meaning                                                                            shape
=======  =================================================================================  =======
n, R     rows, chains
K        k(X, X) with jitter; K = L Lᵀ                                                      (n, n)
f, v     latent values at the rows, whitened: f = L v                                       (n, R)
τ, b     sites of the base: exp(b f - ½ τ f²) a row, τ >= 0                                 (n,)
Z_0      ∫ N(f; 0, K) exp(bᵀf - ½ fᵀ diag(τ) f) df
m, C     mean and root of the base, N(m, C Cᵀ) with (C Cᵀ)⁻¹ = K⁻¹ + diag(τ)                (n,), (n, n)
r(f)     log p(y | f) - bᵀf + ½ fᵀ diag(τ) f: what the base leaves out                      (R,)
β        inverse temperature, from 0 (the base) to 1 (the posterior)
=======  =================================================================================  =======

Whatever τ and b are, N(f; 0, K) p(y | f) = Z_0 N(f; m, C Cᵀ) e^r(f): a Gaussian times a factor, which elliptical slice
sampling takes (Murray, Adams and MacKay 2010; about a Gaussian near the posterior: Nishihara, Murray and Adams 2014,
Fagan, Bhandari and Cunningham 2016). Near the posterior r hardly varies, so that draws are nearly independent; with
τ = b = 0 the base is the prior. A move leaves N(m, C Cᵀ) e^{βr} as it is: with h = f - m, another draw g ~ N(0, C Cᵀ)
and a level log u below β r(f), the angle θ is drawn from all round and, as long as h cos θ + g sin θ lies below the
level, from the bracket that shrinks towards θ = 0. R chains move together, so that the work is products of matrices.

The evidence (Neal 2001): from draws of the base, β rises in steps; with f_k the state before step k,
log w = log Z_0 + Σ_k (β_{k+1} - β_k) r(f_k), and the mean of w over independent runs is unbiased for p(y).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpbench.errors import NumericalError, UsageError
from gpbench.model.linalg import add_to_diagonal, potrf, trsm, trsv

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpbench.model.rows import Array

    LogDensity = Callable[[Array], Array]

__all__ = ["Base", "Evidence", "annealed_evidence", "elliptical_move", "laplace_base"]

FULL = 2.0 * np.pi
NEWTON = 100
"""Steps of Newton's method at most; a concave log density takes ten."""


class Base:
    """A Gaussian N(m, C Cᵀ) that is the prior times sites.

    Parameters
    ----------
    L : (n, n)
        Lower Cholesky factor of K.
    tau, b : (n,)
        Sites.

    Attributes
    ----------
    mean : (n,)
    root : (n, n)
        C; Cᵀ is no triangle.
    log_normaliser : float
        log Z_0 (nats).

    Raises
    ------
    UsageError
        A site precision is negative.
    """

    def __init__(self, L: Array, *, tau: Array, b: Array) -> None:
        if not (tau >= 0.0).all():
            raise UsageError(f"site precisions must be 0 or more; got {tau.min():.3g}")
        self.L, self.tau, self.b = L, tau, b
        # v has precision A = I + Lᵀ diag(τ) L = P Pᵀ and natural mean Lᵀ b
        half = np.asfortranarray(L * np.sqrt(tau)[:, None])
        A = np.asfortranarray(half.T @ half)
        add_to_diagonal(A, 1.0)
        P = potrf(A, what="I + Lᵀ T L", overwrite=True)
        P = np.asfortranarray(np.tril(P))
        x = trsv(P, L.T @ b)
        self.mean = L @ trsv(P, x, trans=True)
        self.root = np.ascontiguousarray(trsm(P, np.asfortranarray(L), side="right", trans=True))  # L P⁻ᵀ
        self.log_normaliser = float(0.5 * x @ x - np.log(np.diag(P)).sum())

    def draw(self, R: int, *, rng: np.random.Generator, spread: float = 1.0) -> Array:
        """R draws (n, R), with ``spread`` times the base's standard deviation."""
        return self.mean[:, None] + spread * (self.root @ rng.standard_normal((len(self.mean), R)))

    def remainder(self, f: Array, log_density: LogDensity) -> Array:
        """The remainders r of states (n, R), shape (R,)."""
        return np.asarray(log_density(f).sum(axis=0) - self.b @ f + 0.5 * (self.tau @ (f * f)))


def laplace_base(L: Array, derivatives: Callable[[Array], tuple[Array, Array]], *, tolerance: float = 1e-8) -> Base:
    """The base at the posterior's mode, by Newton's method, for a log density that is concave in each f.

    Parameters
    ----------
    L : (n, n)
    derivatives : callable
        First and second derivative of log p(y | f) at f (n,).
    tolerance : float
        Largest change of f at the end.

    Raises
    ------
    NumericalError
        The mode was not found.
    """
    f = np.zeros(len(L))
    for _ in range(NEWTON):
        slope, curvature = derivatives(f)
        tau = np.maximum(-curvature, 0.0)
        base = Base(L, tau=tau, b=slope + tau * f)
        step = base.mean - f
        # a full step from afar may overshoot; the mode's neighbourhood is reached with steps of at most 3 a row
        f = f + step * min(1.0, 3.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < tolerance:
            return base
    moved = float(np.abs(step).max())
    raise NumericalError(f"the mode was not found in {NEWTON} Newton steps; the last moved f by {moved:.3g}")


def elliptical_move(
    f: Array, r: Array, base: Base, log_density: LogDensity, *, beta: float = 1.0, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Move each of R chains once, by a slice round an ellipse.

    Parameters
    ----------
    f, r : (n, R), (R,)
        States and their remainders.
    base : Base
    log_density : callable
        log p(y_n | f_n) of states (n, r), a column a chain, of the same shape.
    beta : float
    rng : numpy.random.Generator

    Returns
    -------
    f, r
        New arrays.
    """
    n, R = f.shape
    h = f - base.mean[:, None]
    g = base.root @ rng.standard_normal((n, R))
    level = beta * r + np.log(rng.random(R))
    angle = np.asarray(FULL * rng.random(R))
    low, high = angle - FULL, angle.copy()
    moved, value = np.empty_like(f), np.empty(R)
    open_ = np.arange(R)
    while open_.size:
        at = angle[open_]
        proposed = base.mean[:, None] + h[:, open_] * np.cos(at) + g[:, open_] * np.sin(at)
        found = base.remainder(proposed, log_density)
        # an angle of 0 is the state itself, which lies above the level whatever rounding says
        taken = (beta * found > level[open_]) | (np.abs(at) < 1e-12)
        inside = open_[taken]
        moved[:, inside], value[inside] = proposed[:, taken], found[taken]
        open_ = open_[~taken]
        low[open_] = np.where(angle[open_] < 0.0, angle[open_], low[open_])
        high[open_] = np.where(angle[open_] >= 0.0, angle[open_], high[open_])
        angle[open_] = low[open_] + (high[open_] - low[open_]) * rng.random(open_.size)
    return moved, value


class Evidence(NamedTuple):
    """An estimate of log p(y).

    Attributes
    ----------
    value, error : float
        log of the mean weight (nats), and its standard error.
    spread : float
        Standard deviation of the runs' log weights; far above 1 the error cannot be trusted.
    """

    value: float
    error: float
    spread: float


def annealed_evidence(
    base: Base,
    log_density: LogDensity,
    *,
    betas: Sequence[float] | Array,
    runs: int,
    moves: int = 1,
    rng: np.random.Generator,
) -> Evidence:
    """Estimate log p(y) by annealed importance sampling.

    Parameters
    ----------
    base : Base
    log_density : callable
        As for :func:`elliptical_move`.
    betas : (k,)
        Inverse temperatures, rising from 0 to 1.
    runs : int
        At least 2.
    moves : int
        Moves at each temperature between the two ends.
    rng : numpy.random.Generator

    Raises
    ------
    UsageError
        ``betas`` does not rise from 0 to 1, or there are fewer than two runs.
    """
    betas = np.asarray(betas, dtype=np.float64)
    if len(betas) < 2 or betas[0] != 0.0 or betas[-1] != 1.0 or not (np.diff(betas) > 0.0).all():
        raise UsageError(f"inverse temperatures must rise from 0 to 1; got {betas.tolist()}")
    if runs < 2:
        raise UsageError(f"an error needs two runs at least; got {runs}")
    f = base.draw(runs, rng=rng)
    r = base.remainder(f, log_density)
    log_w = np.zeros(runs)
    for before, beta in pairwise(betas.tolist()):
        log_w += (beta - before) * r
        if beta < 1.0:
            for _ in range(moves):
                f, r = elliptical_move(f, r, base, log_density, beta=beta, rng=rng)
    top = log_w.max()
    w = np.exp(log_w - top)
    value = base.log_normaliser + top + np.log(w.mean())
    return Evidence(float(value), float(w.std(ddof=1) / (w.mean() * np.sqrt(runs))), float(log_w.std(ddof=1)))
