"""Gauss-Hermite quadrature for expectations under a normal law."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from gpbench.errors import UsageError

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["hermite"]


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
