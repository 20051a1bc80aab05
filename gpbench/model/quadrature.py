"""Gauss-Hermite quadrature for expectations under a normal law.

Expectations of a log likelihood ℓ follow one rule for all (hensman2015 (22) and below, with the derivative in the
variance taken of the quadrature rule itself):

    e = Σ w ℓ(f_q),  g = Σ w ℓ'(f_q),  h = Σ w t_q ℓ'(f_q) / (2 √var),  f_q = mu + √var t_q.

h is then the exact derivative of the e that is computed, needs no second derivative, and is never positive where ℓ is
concave.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from gpbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpbench.model.rows import Array

__all__ = ["concave_expectations", "hermite"]

_SMALL_VARIANCE = 1e-8
"""Below it h is ℓ''(mu)/2: the quotient by √var loses its digits."""


@lru_cache(maxsize=32)
def hermite(Q: int) -> tuple[Array, Array]:
    """Nodes and weights with E f(t) = Σ_q w_q f(t_q) for t ~ N(0, 1) and polynomials f up to degree 2Q - 1.

    Parameters
    ----------
    Q : int
        Number of nodes, 1 to 1000.

    Returns
    -------
    nodes, weights : (Q,)
        Read-only; the nodes come in pairs ±t and the weights sum to 1.

    Raises
    ------
    UsageError
        Q is out of range.
    """
    if not 1 <= Q <= 1000:
        raise UsageError(f"the number of quadrature nodes must be in [1, 1000]; got {Q}")
    nodes, weights = (np.asarray(values, dtype=np.float64) for values in special.roots_hermitenorm(Q))
    weights = weights / weights.sum()
    nodes.setflags(write=False)
    weights.setflags(write=False)
    return nodes, weights


def concave_expectations(
    value_and_slope: Callable[[Array], tuple[Array, Array]],
    curvature: Callable[[Array], Array],
    mu: Array,
    var: Array,
    *,
    nodes: int,
) -> tuple[Array, Array, Array]:
    """E ℓ under f ~ N(mu, var), each of shape (n,), and its derivatives, for a concave ℓ; in memory for n nodes values.

    Parameters
    ----------
    value_and_slope : callable
        ℓ and ℓ' of an array, of its shape.
    curvature : callable
        ℓ'' likewise.
    mu, var : (n,)
    nodes : int
        Q of :func:`hermite`.

    Returns
    -------
    e, g, h : (n,)
        E ℓ, ∂e/∂mu and ∂e/∂var <= 0.
    """
    t, weights = hermite(nodes)
    root = np.sqrt(var)
    values, slopes = value_and_slope(mu[:, None] + root[:, None] * t)
    small = var < _SMALL_VARIANCE
    h = slopes @ (weights * t) / (2.0 * np.where(small, 1.0, root))
    if small.any():
        h[small] = 0.5 * curvature(mu[small])
    return values @ weights, slopes @ weights, np.minimum(h, 0.0, out=h)  # rounding, where ℓ is all but linear
