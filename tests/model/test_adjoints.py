"""Adjoints and pullback together: the gradient of a bound in every hyper-parameter, by finite differences."""

import numpy as np
import pytest

from gpbench.model.adjoints import cross_adjoint, gram_adjoint
from gpbench.model.basis_old import Basis
from gpbench.model.kernels import make_kernel

KERNELS = ["se", "se-ard", "matern32", "matern32-ard", "linear-ard", "se-ard+linear-ard", "matern32-ard+linear-ard"]
STEP = 1e-5


def problem(name, *, n=14, M=5, d=3, seed=0):
    rng = np.random.default_rng(seed)
    kernel = make_kernel(name, d, variance=1.3, lengthscale=1.4, noise=0.2)
    kernel = kernel.with_theta(kernel.theta + 0.3 * rng.normal(size=kernel.theta.size))
    X, Z = rng.normal(size=(n, d)), rng.normal(size=(M, d))
    root = np.linalg.qr(rng.normal(size=(M, M)))[0] * rng.uniform(0.3, 1.2, M)
    return kernel, X, Z, rng.normal(size=M), root @ root.T, rng.normal(size=n), -rng.uniform(0.1, 1.0, n)


def kl(m, S, K):
    M = len(m)
    quadratic = np.trace(np.linalg.solve(K, S)) + m @ np.linalg.solve(K, m)
    return 0.5 * (quadratic - M + np.linalg.slogdet(K)[1] - np.linalg.slogdet(S)[1])


def value(kernel, at, *, hold):
    """Σ a_n μ_n + b_n (s_n + μ_n²/5) - KL, for q(u) = N(m, S) or q(v) = N(m, S), by dense algebra."""
    X, Z, m, S, a, b = at
    K = kernel.gram(Z) + 1e-6 * np.eye(len(Z))
    k = kernel.cross(X, Z)
    if hold == "v":
        L = np.linalg.cholesky(K)
        m, S = L @ m, L @ S @ L.T
    A = np.linalg.solve(K, k.T)
    mu = A.T @ m
    s = kernel.diag(X) - np.sum(k.T * A, axis=0) + np.sum(A * (S @ A), axis=0)
    return a @ mu + b @ (s + mu * mu / 5) - kl(m, S, K)


def gradient(kernel, at, *, hold):
    X, Z, m, S, a, b = at
    basis = Basis(kernel, Z, jitter=1e-6)
    if hold == "u":
        m, S = basis.L_inv @ m, basis.L_inv @ S @ basis.L_inv.T
    T, _ = basis.whiten(X)
    g, h = a + 0.4 * b * (T @ m), b
    shared = {"m_w": m, "S_w": S, "L_inv": basis.L_inv}
    cross = cross_adjoint(T, g=g, h=h, **shared)
    gram = gram_adjoint(P=T.T @ (T * h[:, None]), p=T.T @ g, hold=hold, **shared)
    assert gram == pytest.approx(gram.T)
    return basis.pullback(X, cross=cross, gram=gram, diagonal=h)


@pytest.mark.parametrize("hold", ["u", "v"])
@pytest.mark.parametrize("name", KERNELS)
def test_gradient_is_the_finite_difference(name, hold):
    kernel, *at = problem(name)
    expected = [
        (
            value(kernel.with_theta(kernel.theta + STEP * e), at, hold=hold)
            - value(kernel.with_theta(kernel.theta - STEP * e), at, hold=hold)
        )
        / (2 * STEP)
        for e in np.eye(kernel.theta.size)
    ]
    assert gradient(kernel, at, hold=hold) == pytest.approx(expected, rel=2e-6, abs=2e-7)


def test_blocks_of_rows_give_the_rows_of_one_piece():
    kernel, X, Z, m, S, a, b = problem("se-ard")
    basis = Basis(kernel, Z)
    T = basis.whiten(X)[0].copy(order="F")
    shared = {"m_w": m, "S_w": S, "L_inv": basis.L_inv}
    whole = cross_adjoint(T, g=a, h=b, **shared)
    parts = [
        cross_adjoint(np.asfortranarray(T[i : i + 5]), g=a[i : i + 5], h=b[i : i + 5], **shared) for i in (0, 5, 10)
    ]
    assert np.concatenate(parts) == pytest.approx(whole, rel=1e-12)


def test_move_gives_the_map_between_whitened_coordinates():
    kernel, _, Z, *_ = problem("matern32-ard")
    basis = Basis(kernel, Z)
    before = basis.L
    J = basis.move(kernel.with_theta(kernel.theta + 0.1))
    assert before @ J == pytest.approx(basis.L, rel=1e-10)
    assert np.abs(np.triu(J, 1)).max() < 1e-12


def test_whitened_features_reproduce_the_projected_kernel():
    kernel, X, Z, *_ = problem("se-ard+linear-ard")
    basis = Basis(kernel, Z, jitter=1e-6)
    T, remainder = basis.whiten(X)
    k = kernel.cross(X, Z)
    Q = k @ np.linalg.solve(kernel.gram(Z) + 1e-6 * np.eye(len(Z)), k.T)
    projected = T @ T.T
    assert projected == pytest.approx(Q, abs=1e-10)
    assert remainder == pytest.approx(kernel.diag(X) - np.diag(Q), abs=1e-10)
