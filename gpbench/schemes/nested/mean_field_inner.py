"""The inner loop of hensman2015's mean-field bound, in the paper's way and by Newton's method.

Symbols are those of :mod:`gpbench.schemes.nested.mean_field`.
``sweep`` iterates a ← ḡ - σ̃² β for all rows at once, as the paper has it. A fixed point of it has
z + (1 - π) r(z) = y √π μ. ``newton`` solves that row by row for given μ (the left side is convex and rises), which
leaves one equation in M unknowns, Λ m_w = Tᵀḡ(T m_w): the zero gradient of

    ψ(m_w) = ½ |m_w|² + Σ [½ μ² - log Φ(z) - ½ z² - ½ (1 - π) ḡ²],

whose Hessian I + Tᵀ diag(π c / (1 - (1 - π) c)) T has no eigenvalue below 1. So the optimum is unique, and Newton's
method with a line search finds it in a handful of walks over the rows, however large the signal variance is (sweeps
then take hundreds).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import blas

from gpbench.model.functions import log_ndtr, mills, probit_curvature
from gpbench.model.whitened import Moments
from gpbench.schemes.nested.inner_newton import climb_newton
from gpbench.schemes.nested.mean_field import CutNormals, MeanField

if TYPE_CHECKING:
    from gpbench.model.rows import Array
    from gpbench.schemes.nested.mean_field import MeanFieldRows

__all__ = ["newton", "solve_z", "sweep"]

_ROUNDING = 1e-12


def sweep(rows: MeanFieldRows, *, tolerance: float, limit: int, z: Array | None = None) -> MeanField:
    """The paper's inner loop: a ← ḡ - σ̃² β for all rows at once, half the way where F falls.

    Parameters
    ----------
    rows : MeanFieldRows
    tolerance : float
        Converged when no a_n moves by more.
    limit : int
        Sweeps at most.
    z : (n,), optional
        Where to start.
    """
    root = np.sqrt(rows.pi)
    z = np.zeros(len(root)) if z is None else z
    step, value, settled = 1.0, -np.inf, False
    m_w = np.zeros(len(rows.G))
    good, delta, walks = z, np.zeros(len(z)), 0
    while walks < limit and not settled:
        walks += 1
        q = CutNormals.of(z, pi=rows.pi, signs=rows.signs)
        p = rows.projected(q.mean)
        found = rows.value(z, q, p=p)
        if found < value - _ROUNDING * abs(value):
            step *= 0.5
            z = good + step * delta
            continue
        value, good, step = found, z, min(1.0, 2.0 * step)
        m_w = rows.solve(p)
        a = q.mean - (q.mean - rows.times(m_w)) / rows.pi
        delta = rows.signs * a * root - z
        settled = float(np.abs(delta / root).max()) <= tolerance
        z = good + step * delta
    return MeanField(rows, value, good, m_w, walks, settled)


def newton(rows: MeanFieldRows, *, tolerance: float, limit: int, m_w: Array | None = None) -> MeanField:
    """Newton's method on ψ, to the same optimum.

    Parameters
    ----------
    rows : MeanFieldRows
    tolerance : float
        Converged after the step that was foretold to gain less than half its square; that step squares the error.
    limit : int
        Walks over the rows at most.
    m_w : (M,), optional
        Where to start.
    """
    start = _Point(rows, np.zeros(len(rows.G)) if m_w is None else m_w, z=None)
    here, walks, settled = climb_newton(
        start, lambda before, m: _Point(rows, m, z=before.z), tolerance=tolerance, limit=limit
    )
    q = CutNormals.of(here.z, pi=rows.pi, signs=rows.signs)
    value = rows.value(here.z, q, p=here.p)
    return MeanField(rows, value, here.z, here.m_w, walks, settled)


class _Point:
    """-ψ at m_w, with its gradient and Hessian; one walk over the rows."""

    def __init__(self, rows: MeanFieldRows, m_w: Array, *, z: Array | None) -> None:
        self.m_w, self.p = m_w, np.zeros(len(m_w))
        self.z = np.empty(len(rows.pi))
        self.sums = Moments(len(m_w))
        psi = 0.5 * float(m_w @ m_w)
        for part, T in rows.walk():
            pi, signs = rows.pi[part], rows.signs[part]
            mu = blas.dgemv(1.0, T, m_w)
            root = solve_z(signs * np.sqrt(pi) * mu, pi=pi, start=None if z is None else z[part])
            q = CutNormals.of(root, pi=pi, signs=signs)
            self.z[part] = root
            psi += 0.5 * float(
                (np.square(mu) - np.square(root) - (1.0 - pi) * np.square(q.mean) - 2.0 * log_ndtr(root)).sum()
            )
            self.p += blas.dgemv(1.0, T, q.mean, trans=1)
            self.sums.add(T, weights=pi * q.c / (1.0 - (1.0 - pi) * q.c), targets=q.mean - mu)
        self.value, self.ascent = -psi, self.sums.r - m_w


def solve_z(b: Array, *, pi: Array, start: Array | None = None) -> Array:
    """Solve z + (1 - π) r(z) = b for each row, all (n,).

    The left side is convex and rises with a slope between π and 1: after its first step Newton's method comes down to
    the root from the right, from any start.
    """
    z = b.copy() if start is None else start.copy()
    for _ in range(100):
        slope = 1.0 - (1.0 - pi) * probit_curvature(z)
        rest = z + (1.0 - pi) * mills(z) - b
        z -= rest / slope
        if (np.abs(rest) <= 1e-15 * (4.0 + np.abs(z))).all():  # what rounding leaves of it
            break
    return z
