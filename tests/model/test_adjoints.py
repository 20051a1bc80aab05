"""Adjoints and pullback together: the gradient of a bound in kernel and inducing inputs, by finite differences."""

import numpy as np
import pytest

from gpbench.model.basis import Basis, KernelGradient, marginals
from gpbench.model.gaussian import GaussianQ
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


def gradient(kernel, at, *, hold, size=5, inverse=True):
    """In theta and Z, by blocks of rows."""
    X, Z, m, S, a, b = at
    basis = Basis(kernel, Z, jitter=1e-6, inverse=inverse)
    if hold == "u":
        m, S = basis.L_inv @ m, basis.L_inv @ S @ basis.L_inv.T
    q = GaussianQ(m, np.asfortranarray(np.linalg.cholesky(S)), "covariance")
    found, P, p = KernelGradient(basis, q), np.zeros((len(Z), len(Z))), np.zeros(len(Z))
    for block in marginals(basis, X, q, size=size):
        g, h = a[block.rows] + 0.4 * b[block.rows] * block.mu, b[block.rows]
        found.add(block.X, block.T, g=g, h=h)
        P += block.T.T @ (block.T * h[:, None])
        p += block.T.T @ g
    return found.total(P=P, p=p, hold=hold)


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
    dtheta, dZ = gradient(kernel, at, hold=hold)
    assert dtheta == pytest.approx(expected, rel=2e-6, abs=2e-7)
    for index in np.ndindex(dZ.shape):
        step = np.zeros(dZ.shape)
        step[index] = STEP
        up, down = (value(kernel, [at[0], at[1] + sign * step, *at[2:]], hold=hold) for sign in (1.0, -1.0))
        assert dZ[index] == pytest.approx((up - down) / (2 * STEP), rel=2e-6, abs=2e-7)


@pytest.mark.parametrize("hold", ["u", "v"])
def test_blocks_of_rows_and_the_inverse_make_no_difference(hold):
    kernel, *at = problem("se-ard")
    one = gradient(kernel, at, hold=hold, size=100)
    for other in (gradient(kernel, at, hold=hold), gradient(kernel, at, hold=hold, inverse=False)):
        for ours, theirs in zip(other, one, strict=True):
            assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-10)
