"""Quadratic replacements of log σ(y f), y = ±1, at expansion points ξ (Izmailov and Kropotov, sections 4.1 and 4.2).

Both have the form a + c f - ½ d f² of :mod:`gpbench.schemes.jaakkola.collapsed`. :func:`jaakkola_jordan` is a lower
bound; :func:`taylor` is a second-order expansion and no bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpbench.model.functions import dlambda_jj, lambda_jj, log_sigmoid, sigmoid
from gpbench.schemes.jaakkola.collapsed import Quadratic

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["jaakkola_jordan", "jaakkola_jordan_slope", "taylor"]


def jaakkola_jordan(y: Array, xi: Array) -> Quadratic:
    """Log σ(y f) ≥ y f/2 - ξ/2 + log σ(ξ) - λ(ξ)(f² - ξ²), λ(ξ) = tanh(ξ/2)/(4ξ); tight at f = ±ξ.

    The paper prints tanh(ξ)/(4ξ), with which the inequality does not hold.
    """
    lam = lambda_jj(xi)
    size = np.abs(xi)  # the bound is even in ξ
    return Quadratic(log_sigmoid(size) - 0.5 * size + lam * np.square(xi), 0.5 * y, 2.0 * lam)


def jaakkola_jordan_slope(xi: Array, mu: Array, s: Array) -> Array:
    """Derivative λ'(ξ)(ξ² - μ² - s) of the bound in ξ where f has mean μ and variance s; zero at (15), ξ² = μ² + s."""
    return dlambda_jj(xi) * (np.square(xi) - np.square(mu) - s)


def taylor(y: Array, xi: Array) -> Quadratic:
    """Log σ(y f) ≈ log σ(yξ) + φ(f - ξ) - ψ(f - ξ)², φ = y σ(-yξ), ψ = ½ σ(ξ) σ(-ξ).

    The constant log σ(yξ) - φξ - ψξ², which (19) leaves out, is kept: values at different ξ can then be compared.
    """
    z = y * xi
    phi = y * sigmoid(-z)
    psi = 0.5 * sigmoid(xi) * sigmoid(-xi)
    return Quadratic(log_sigmoid(z) - phi * xi - psi * np.square(xi), phi + 2.0 * psi * xi, 2.0 * psi)
