"""The full Gaussian approximation: oracle, brute force in Z = X form, finite differences, hard kernels."""

import numpy as np
import pytest
from flat_bound import FlatBound

from gpbench.errors import NumericalError
from gpbench.model.kernels import make_kernel
from gpbench.model.kl_bound import KLBound
from gpbench.model.likelihoods import Logit, Probit, likelihood
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.schemes.nested.kl import Prior, best_gaussian, full_kl_gradient

KERNELS = ["se", "se-ard", "matern32", "matern32-ard", "linear-ard", "se-ard+linear-ard", "matern32-ard+linear-ard"]
LINKS = {"probit": Probit, "logit": Logit}
EXACT = {"tolerance": 1e-9, "limit": 500}


def problem(*, n=14, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (np.sin(2 * X[:, 0]) + X[:, -1] + 0.5 * rng.normal(size=n) > 0).astype(int)


def some_kernel(name="se-ard", *, variance=1.3, noise=0.1):
    return make_kernel(name, 2, variance=variance, lengthscale=1.1, noise=noise)


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_the_optimum_is_the_oracles(read_oracle, link):
    inputs, expected = read_oracle("full_kl_optimum")
    kernel, jitter = inputs["kernel"]
    prior = Prior(kernel, inputs["X"], jitter=jitter)
    best = best_gaussian(prior, (inputs["y"] > 0).astype(int), LINKS[link](nodes=120), **EXACT)
    want = expected[link]
    assert best.settled
    assert best.value == pytest.approx(want["bound"], abs=1e-8)
    assert best.alpha == pytest.approx(want["alpha"], abs=1e-4)
    assert best.lam == pytest.approx(want["lam"], abs=1e-4)
    latent = best.latent()
    assert prior.L @ latent.m_w == pytest.approx(want["m"], abs=1e-6)
    assert prior.L @ latent.covariance() @ prior.L.T == pytest.approx(want["S"], abs=1e-6)


@pytest.mark.parametrize("link", ["probit", "logit"])
@pytest.mark.parametrize("variance", [1.3, 160.0])
def test_an_unrestricted_q_does_no_better(variance, link):
    """klsp with Z = X is free in N + N(N+1)/2 unknowns; its κ̃ is no more than the jitter, which costs κ̃/2 a row."""
    X, y = problem()
    kernel = some_kernel(variance=variance, noise=0.0)
    jitter = 1e-7 * variance
    prior = Prior(kernel, X, jitter=jitter)
    best = best_gaussian(prior, y, likelihood(link), **EXACT)
    bound = FlatBound(KLBound(kernel, likelihood(link)), X)
    x, q = bound.x, bound.q
    basis = bound.basis(x, jitter=jitter)

    def objective(values):
        at = bound.at(np.concatenate([values, x[q.stop :]]), X, y, basis=basis, kernel_gradient=False)
        return at.value, at.gradient[q]

    search = LBFGSB(memory=50, gradient_tolerance=1e-7, value_tolerance=0.0)
    free = search.maximise(objective, x[q], max_evaluations=5000)
    assert best.value == pytest.approx(free.value, abs=0.5 * jitter * len(y) + 1e-6)
    assert best.latent().m_w == pytest.approx(free.x[: len(X)], abs=2e-3)


@pytest.mark.parametrize("link", ["probit", "logit"])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("variance", [1.3, 160.0])
def test_gradients_at_the_optimum_are_central_differences(name, link, variance):
    X, y = problem()
    kernel = some_kernel(name, variance=variance)

    def best(theta):
        return best_gaussian(Prior(kernel.with_theta(theta), X, jitter=1e-5), y, likelihood(link), **EXACT)

    gradient = full_kl_gradient(best(kernel.theta))
    for index in range(gradient.size):
        step = np.zeros(gradient.size)
        step[index] = 1e-4
        difference = (best(kernel.theta + step).value - best(kernel.theta - step).value) / 2e-4
        assert gradient[index] == pytest.approx(difference, rel=2e-6, abs=2e-6)


def test_the_value_is_the_dense_formula_and_its_maximum():
    X, y = problem()
    prior = Prior(some_kernel(), X)
    model = Probit()
    best = best_gaussian(prior, y, model, **EXACT)
    K = prior.K

    def dense(alpha, lam):
        S = np.linalg.inv(np.linalg.inv(K) + np.diag(lam))
        e, _, _ = model.expectations(y, K @ alpha, np.diag(S))
        kl = np.trace(np.linalg.solve(K, S)) + alpha @ K @ alpha - len(y)
        kl += np.linalg.slogdet(K)[1] - np.linalg.slogdet(S)[1]
        return e.sum() - 0.5 * kl

    assert best.value == pytest.approx(dense(best.alpha, best.lam), abs=1e-8)
    rng = np.random.default_rng(1)
    for scale in (1e-3, 0.05, 0.3):
        for _ in range(10):
            moved = best.lam * np.exp(scale * rng.normal(size=14))
            assert dense(best.alpha + scale * rng.normal(size=14), moved) < best.value


@pytest.mark.parametrize("link", ["probit", "logit"])
@pytest.mark.parametrize("variance", [160.0, 1e4])
def test_large_signal_variances_from_a_cold_and_a_bad_start(variance, link):
    X, y = problem(n=30)
    prior = Prior(some_kernel(variance=variance), X)
    cold = best_gaussian(prior, y, likelihood(link), tolerance=1e-8, limit=300)
    start = (np.full(30, 3.0), np.full(30, 1e-3))
    bad = best_gaussian(prior, y, likelihood(link), tolerance=1e-8, limit=300, start=start)
    assert cold.settled
    assert bad.value == pytest.approx(cold.value, abs=1e-6)


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_an_absurd_signal_variance_stays_finite(link):
    X, y = problem(n=20)
    best = best_gaussian(Prior(some_kernel(variance=1e7), X), y, likelihood(link), tolerance=1e-8, limit=40)
    assert np.isfinite(best.value)
    assert np.isfinite(full_kl_gradient(best)).all()
    assert best.factorisations <= 40


def test_a_warm_start_is_quick_and_ends_at_the_same_place():
    X, y = problem(n=40)
    prior = Prior(some_kernel(variance=20.0), X)
    cold = best_gaussian(prior, y, Probit(), tolerance=1e-8, limit=100)
    near = best_gaussian(Prior(some_kernel(variance=21.0), X), y, Probit(), tolerance=1e-8, limit=100)
    warm = best_gaussian(prior, y, Probit(), tolerance=1e-8, limit=100, start=(near.alpha, near.lam))
    assert warm.factorisations < cold.factorisations
    assert warm.value == pytest.approx(cold.value, abs=1e-9)


def test_a_kernel_matrix_that_is_none_is_an_error():
    X, _ = problem()
    with pytest.raises(NumericalError, match="K of all rows"):
        Prior(some_kernel(), np.where(np.arange(28).reshape(14, 2) == 5, np.nan, X))
