"""Elliptical slices and annealed evidence: against quadrature, a Gaussian case, and one another."""

import numpy as np
import pytest

from gpbench.bench.truth.elliptical import Base, annealed_evidence, elliptical_move, laplace_base
from gpbench.errors import NumericalError, UsageError
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Logit, Probit
from gpbench.model.linalg import cholesky

Y = np.array([1, 0, 1])
K = make_kernel("se", 1, variance=4.0, lengthscale=1.0, noise=0.0).gram(np.array([[0.0], [0.8], [1.9]]))


def exact(likelihood):
    """Mean, sd and log evidence of three rows by the trapezoid rule on a grid of whitened values."""
    L = np.linalg.cholesky(K + 4e-6 * np.eye(3))
    grid = np.linspace(-7.0, 7.0, 101)
    v = np.stack(np.meshgrid(grid, grid, grid, indexing="ij")).reshape(3, -1)
    f = L @ v
    w = np.exp(likelihood.log_density(Y[:, None], f).sum(0) - 0.5 * (v * v).sum(0)) * (grid[1] - grid[0]) ** 3
    Z = w.sum() / (2 * np.pi) ** 1.5
    mean = f @ w / w.sum()
    return mean, np.sqrt((f * f) @ w / w.sum() - mean**2), np.log(Z)


def problem(likelihood):
    L, _ = cholesky(np.asfortranarray(K), what="K")
    return np.tril(L), lambda f: likelihood.log_density(Y[:, None], f)


@pytest.mark.parametrize("likelihood", [Logit(), Probit()], ids=lambda each: each.name)
@pytest.mark.parametrize("about", ["mode", "prior"])
def test_moments_are_those_of_quadrature(likelihood, about):
    L, log_density = problem(likelihood)
    base = laplace_base(L, lambda f: likelihood.derivatives(Y, f))
    if about == "prior":
        base = Base(L, tau=np.zeros(3), b=np.zeros(3))
    rng = np.random.default_rng(3)
    f = base.draw(500, rng=rng, spread=2.0)
    r = base.remainder(f, log_density)
    kept = []
    for count in range(250):
        f, r = elliptical_move(f, r, base, log_density, rng=rng)
        if count >= 50:
            kept.append(f)
    np.testing.assert_allclose(r, base.remainder(f, log_density), atol=1e-10)
    mean, sd, _ = exact(likelihood)
    draws = np.stack(kept)
    error = draws.mean(axis=0).std(axis=1) / np.sqrt(500)  # of the mean, from the spread of the chains
    assert (error < 0.03 * sd).all()
    np.testing.assert_array_less(np.abs(draws.mean(axis=(0, 2)) - mean), 4.5 * error)
    np.testing.assert_allclose(draws.std(axis=(0, 2)), sd, rtol=0.02)


@pytest.mark.parametrize("likelihood", [Logit(), Probit()], ids=lambda each: each.name)
def test_evidence_is_that_of_quadrature_from_the_prior_and_from_the_mode(likelihood):
    L, log_density = problem(likelihood)
    for base, betas in (
        (laplace_base(L, lambda f: likelihood.derivatives(Y, f)), np.linspace(0, 1, 41)),
        (Base(L, tau=np.zeros(3), b=np.zeros(3)), np.linspace(0, 1, 61) ** 2),
    ):
        found = annealed_evidence(base, log_density, betas=betas, runs=800, moves=2, rng=np.random.default_rng(5))
        assert found.error < 0.02
        assert found.value == pytest.approx(exact(likelihood)[2], abs=4.5 * found.error)


def test_a_gaussian_likelihood_leaves_nothing_out_and_its_evidence_is_exact():
    L, _ = problem(Logit())
    y, noise = np.array([0.3, -1.0, 2.0]), 0.5
    base = Base(L, tau=np.full(3, 1.0 / noise), b=y / noise)

    def log_density(f):
        return -0.5 * ((y[:, None] - f) ** 2 / noise + np.log(2 * np.pi * noise))

    found = annealed_evidence(base, log_density, betas=[0.0, 1.0], runs=5, rng=np.random.default_rng(0))
    C = L @ L.T + noise * np.eye(3)
    expected = -0.5 * (y @ np.linalg.solve(C, y) + np.linalg.slogdet(C)[1] + 3 * np.log(2 * np.pi))
    assert found.value == pytest.approx(expected, abs=1e-9)
    assert found.spread < 1e-9
    np.testing.assert_allclose(base.mean, L @ L.T @ np.linalg.solve(C, y), atol=1e-9)
    S = L @ L.T - L @ L.T @ np.linalg.solve(C, L @ L.T)
    np.testing.assert_allclose(base.root @ base.root.T, S, atol=1e-9)


def test_the_base_is_at_the_mode():
    likelihood = Logit()
    L, _ = problem(likelihood)
    base = laplace_base(L, lambda f: likelihood.derivatives(Y, f))
    slope, curvature = likelihood.derivatives(Y, base.mean)
    np.testing.assert_allclose(np.linalg.solve(L @ L.T, base.mean), slope, atol=1e-6)
    np.testing.assert_allclose(base.tau, -curvature, atol=1e-6)


def test_a_mode_that_is_not_found_is_an_error():
    L, _ = problem(Logit())
    with pytest.raises(NumericalError, match="the mode was not found in 100 Newton steps"):
        laplace_base(L, lambda f: (np.where(f > 0.0, -50.0, 50.0), -np.ones(3)))  # steps to and fro


@pytest.mark.parametrize("betas", [[0.0], [0.1, 1.0], [0.0, 0.9], [0.0, 0.5, 0.5, 1.0]])
def test_temperatures_rise_from_0_to_1(betas):
    L, log_density = problem(Logit())
    base = Base(L, tau=np.ones(3), b=np.zeros(3))
    with pytest.raises(UsageError, match="must rise from 0 to 1"):
        annealed_evidence(base, log_density, betas=betas, runs=3, rng=np.random.default_rng(0))


def test_negative_precisions_and_single_runs_are_refused():
    L, log_density = problem(Logit())
    with pytest.raises(UsageError, match="site precisions must be 0 or more"):
        Base(L, tau=np.array([1.0, -0.1, 1.0]), b=np.zeros(3))
    base = Base(L, tau=np.ones(3), b=np.zeros(3))
    with pytest.raises(UsageError, match="two runs at least"):
        annealed_evidence(base, log_density, betas=[0.0, 1.0], runs=1, rng=np.random.default_rng(0))
