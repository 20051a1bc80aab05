"""Whether the fixed-point operator T(V) contracts: random pairs before and after it (sheth2015, figure 1).

=========  ===================================================================================  ==========
symbol     meaning                                                                              shape
=========  ===================================================================================  ==========
U          the active set: the first M of the random inputs; the others are the rows            (M, d)
L          K_mm = L Lᵀ                                                                          (M, M)
T_w        whitened features of the rows, row t_n = L⁻¹ k(U, x_n)                               (n, M)
κ̃          k(x_n, x_n) - t_nᵀ t_n                                                               (n,)
V          L W Lᵀ with W = Q diag(u) Qᵀ, Q Haar, u uniform in (0, 1): 0 ≼ V ≼ K_mm               (M, M)
λ          E ∂²ℓ/∂f² under q(f_n) = N(t_nᵀ m_w, κ̃ + t_nᵀ W t_n), (10b); twice ∂(E ℓ)/∂var       (n,)
T(V)       L (I - T_wᵀ diag(λ) T_w)⁻¹ Lᵀ, (13)                                                  (M, M)
=========  ===================================================================================  ==========

The paper leaves the law of the random matrices and the mean open; here the mean is the latent function's own value at
the active set, and targets are drawn from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigvalsh, solve_triangular

from gpbench.errors import UsageError
from gpbench.model.basis import Basis
from gpbench.model.likelihoods import Logit, Ordinal, Poisson
from gpbench.model.linalg import cholesky

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpbench.model.kernels import Kernel
    from gpbench.model.likelihoods.base import Expecting
    from gpbench.model.rows import Array, Labels

__all__ = ["Distances", "contraction_distances", "draw_targets", "operator"]


@dataclass(frozen=True, eq=False)
class Distances:
    """2-norms of U - V and of T(U) - T(V) for random pairs.

    Attributes
    ----------
    before, after : (pairs,)
    """

    before: Array
    after: Array

    @property
    def ratios(self) -> Array:
        """The second by the first; above 1 the operator has not contracted."""
        return self.after / self.before


def contraction_distances(
    kernel: Kernel,
    likelihoods: Mapping[str, Expecting],
    *,
    sizes: Sequence[int],
    rows: int,
    inputs: int,
    repeats: int,
    seed: int,
) -> dict[tuple[str, int], Distances]:
    """Distances for each likelihood and size of the active set.

    Parameters
    ----------
    kernel : Kernel
        For inputs of the unit cube.
    likelihoods : mapping
        Name -> likelihood, of those that :func:`draw_targets` knows.
    sizes : sequence of int
        Less than ``rows``.
    rows, inputs : int
        Random inputs, the active set among them, and their dimensions.
    repeats : int
        Each draws inputs, a latent function, targets, and one pair for each size.
    seed : int

    Raises
    ------
    UsageError
        Sizes that leave no rows.
    """
    if not sizes or max(sizes) >= rows or min(sizes) < 1 or repeats < 1:
        raise UsageError(
            f"active set sizes must be 1 to {rows - 1} and repeats at least 1; got {list(sizes)}, {repeats}"
        )
    found: dict[tuple[str, int], list[tuple[float, float]]] = {
        (name, size): [] for name in likelihoods for size in sizes
    }
    for child in np.random.SeedSequence(seed).spawn(repeats):
        rng = np.random.default_rng(child)
        X = rng.random((rows, inputs))
        root, _ = cholesky(kernel.bind(X).gram(), what="the prior covariance")
        f = np.tril(root) @ rng.standard_normal(rows)
        targets = {name: draw_targets(each, f, rng) for name, each in likelihoods.items()}
        for size in sizes:
            basis = Basis(kernel, X[:size])
            L = np.tril(basis.L)
            features, rest = basis.whiten(X[size:], keep=False)
            m_w: Array = solve_triangular(L, f[:size], lower=True)
            pair = [_random_root(size, rng) for _ in range(2)]
            before = _norm(L, pair[0] @ pair[0].T - pair[1] @ pair[1].T)
            for name, each in likelihoods.items():
                first, second = (
                    operator(each, targets[name][size:], features=features, rest=rest, m_w=m_w, root=root_w)
                    for root_w in pair
                )
                found[name, size].append((before, _norm(L, first - second)))
    return {key: Distances(*np.array(values).T) for key, values in found.items()}


def operator(likelihood: Expecting, y: Labels, *, features: Array, rest: Array, m_w: Array, root: Array) -> Array:
    """W of T(V), shape (M, M), for V = L W Lᵀ with W = root rootᵀ.

    Parameters
    ----------
    likelihood : Expecting
    y : (n,)
    features, rest : (n, M), (n,)
        T_w and κ̃.
    m_w : (M,)
        Mean of the whitened inducing values.
    root : (M, M)
    """
    var = rest + np.einsum("nm,nm->n", features @ root, features @ root)
    _, _, h = likelihood.expectations(y, features @ m_w, var)
    precision = features.T @ ((-2.0 * h)[:, None] * features)
    precision[np.diag_indices_from(precision)] += 1.0
    return np.asarray(cho_solve(cho_factor(precision, lower=True), np.eye(len(m_w))))


def draw_targets(likelihood: object, f: Array, rng: np.random.Generator) -> Labels:
    """Targets y (n,) from p(y | f).

    Raises
    ------
    UsageError
        Another likelihood than logit, Poisson and ordinal.
    """
    if isinstance(likelihood, Poisson):
        return rng.poisson(np.exp(f))
    if isinstance(likelihood, Logit):
        return (rng.random(len(f)) < 1.0 / (1.0 + np.exp(-f))).astype(np.int64)
    if isinstance(likelihood, Ordinal):
        # Above edge φ with probability σ(k (f - φ)): one logistic draw decides for all edges.
        noise = rng.logistic(size=len(f)) / likelihood.slope
        return np.searchsorted(np.asarray(likelihood.edges), f + noise).astype(np.int64)
    raise UsageError(f"targets can be drawn for logit, poisson and ordinal; got {type(likelihood).__name__}")


def _random_root(size: int, rng: np.random.Generator) -> Array:
    """A root of W = Q diag(u) Qᵀ."""
    Q, R = np.linalg.qr(rng.standard_normal((size, size)))
    signs = np.where(np.diag(R) < 0.0, -1.0, 1.0)  # makes Q uniform over the orthogonal matrices
    root: Array = (Q * signs) * np.sqrt(rng.random(size))
    return root


def _norm(L: Array, W: Array) -> float:
    """2-norm of L W Lᵀ, W symmetric."""
    values = eigvalsh(L @ W @ L.T)
    return float(max(-values[0], values[-1]))
