"""Full EP against the oracles, against GFITC with all rows as inducing inputs, and one row against quadrature."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from gpbench.model.kernels import SE, Sum, White, make_kernel
from gpbench.model.likelihoods import likelihood
from gpbench.model.posterior import Posterior
from gpbench.optimize.fixed_point import FixedPointSearch
from gpbench.schemes.ep import full
from gpbench.schemes.ep.factors import ProbitFactors
from gpbench.schemes.ep.full import FullEP
from gpbench.schemes.ep.gfitc import settle_gfitc

TIGHT = {"tolerance": 1e-12, "limit": 2000}


def run(kernel, X, y, *, tolerance=1e-12, **options):
    factors = ProbitFactors(np.asarray(y, dtype=float))
    search = FixedPointSearch(tolerance=tolerance, limit=2000)
    return FullEP(kernel, X, factors, x=factors.start(), search=search, **options)


def rows(n=25, *, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)


@pytest.mark.parametrize("name", ["full_ep_binary_a", "full_ep_binary_b"])
@pytest.mark.parametrize("sequential", [False, True])
def test_oracle(read_oracle, name, sequential):
    inputs, expected = read_oracle(f"ep/{name}")
    X, hyper = inputs["X"], inputs["hyper"]
    parts = [SE.of(variance=hyper["amp2"], lengthscales=hyper["ls"])]
    wanted = [expected["grad"]["log_amp2"], *expected["grad"]["log_ls"]]
    if hyper["noise2"] > 0:
        parts.append(White.of(variance=hyper["noise2"]))
        wanted.append(expected["grad"]["log_noise2"])
    state = run(Sum(tuple(parts)), X, inputs["y"], jitter=0.0, sequential=sequential)
    tau, b = np.split(state.outcome.x, 2)
    assert state.outcome.settled
    assert tau == pytest.approx(expected["tau"], abs=1e-7)
    assert b == pytest.approx(expected["nu"], abs=1e-7)
    assert state.mean == pytest.approx(expected["post_mean"], abs=1e-8)
    assert state.var == pytest.approx(expected["post_var"], abs=1e-8)
    assert state.log_z == pytest.approx(expected["logZ"], abs=1e-8)
    assert state.gradient()["theta"] == pytest.approx(np.array(wanted), abs=1e-7)
    posterior = Posterior(state.latents(), likelihood("probit"), classes=2)
    mean, var = posterior.latent(inputs["X_test"])
    assert mean[:, 0] == pytest.approx(expected["test_mean"], abs=1e-8)
    assert var[:, 0] == pytest.approx(expected["test_var"], abs=1e-8)
    plus = posterior.predict(inputs["X_test"]).probabilities[:, 1]
    assert plus == pytest.approx(expected["test_prob_plus"], abs=1e-8)


def test_means_that_settle_first_save_sweeps(monkeypatch):
    X, y = rows(80)
    factors = ProbitFactors(y)

    def settled(variance, x):
        kernel = make_kernel("se", 2, variance=variance, lengthscale=1.5, noise=0.0)
        return FullEP(kernel, X, factors, x=x, search=FixedPointSearch(tolerance=1e-6), jitter=1e-4)

    near = settled(100.0, factors.start()).outcome.x
    quick = settled(150.0, near)
    monkeypatch.setattr(full, "_MEANS", 0)
    slow = settled(150.0, near)
    assert quick.log_z == pytest.approx(slow.log_z, abs=1e-9)
    assert quick.outcome.iterations < 0.75 * slow.outcome.iterations


def test_the_state_belongs_to_the_sites_that_are_handed_back():
    X, y = rows()
    kernel = make_kernel("se", 2, variance=100.0, lengthscale=1.5, noise=0.0)
    factors = ProbitFactors(y)
    first = np.ones(2 * len(y))
    state = FullEP(kernel, X, factors, x=first, search=FixedPointSearch(limit=2), jitter=1e-6)
    assert not state.outcome.settled
    assert (first == 1.0).all()
    tau, b = np.split(state.outcome.x, 2)
    K = kernel.gram(X) + 1e-6 * np.eye(len(X))
    assert state.mean == pytest.approx(K @ np.linalg.solve(np.eye(len(X)) + tau[:, None] * K, b), abs=1e-8)


def test_gfitc_with_all_rows_as_inducing_inputs_is_full_ep():
    X, y = rows()
    kernel = make_kernel("matern32-ard", 2, variance=2.0, lengthscale=0.8, noise=0.0)
    full = run(kernel, X, y, jitter=1e-10)
    factors = ProbitFactors(y)
    sparse = settle_gfitc(
        [kernel], [X], X, factors, x=factors.start(), search=FixedPointSearch(**TIGHT), jitters=[1e-10]
    )
    assert sparse.log_z == pytest.approx(full.log_z, abs=1e-7)
    assert sparse.posteriors[0].mean == pytest.approx(full.mean, abs=1e-6)
    assert sparse.posteriors[0].var == pytest.approx(full.var, abs=1e-6)
    new = np.random.default_rng(1).normal(size=(7, 2))
    for ours, theirs in zip(sparse.latents()[0].marginals()(new), full.latents()[0].marginals()(new), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("name", ["se", "se-ard", "matern32", "matern32-ard", "linear-ard", "se-ard+linear-ard"])
def test_converged_gradients_by_finite_differences(name):
    X, y = rows()
    kernel = make_kernel(name, 2, variance=1.7, lengthscale=0.8, noise=0.1)
    gradient, step = run(kernel, X, y, jitter=1e-6).gradient()["theta"], 1e-5
    for index, shift in enumerate(step * np.eye(len(kernel.theta))):
        up = run(kernel.with_theta(kernel.theta + shift), X, y, jitter=1e-6).log_z
        down = run(kernel.with_theta(kernel.theta - shift), X, y, jitter=1e-6).log_z
        assert gradient[index] == pytest.approx((up - down) / (2 * step), abs=1e-7)


@pytest.mark.parametrize(("variance", "near"), [(1.7, 2e-3), (40.0, 2e-2)])
def test_evidence_is_near_the_orthant_probability(variance, near):
    X, y = rows(5)
    kernel = make_kernel("se", 2, variance=variance, lengthscale=1.0, noise=0.0)
    state = run(kernel, X, y, jitter=0.0)
    covariance = kernel.gram(X) + np.eye(5)
    truth = np.log(multivariate_normal(cov=covariance * np.outer(y, y), seed=0).cdf(np.zeros(5)))
    assert state.log_z == pytest.approx(truth, abs=near)


def test_one_row_is_exact():
    kernel = make_kernel("se", 1, variance=3.0, lengthscale=1.0, noise=0.0)
    state = run(kernel, np.zeros((1, 1)), [1.0], jitter=0.0)
    assert state.log_z == pytest.approx(np.log(0.5), abs=1e-12)
    # moments of a normal law times Φ, from its skew-normal form
    assert state.mean[0] == pytest.approx(2 * 3.0 / np.sqrt(2 * np.pi * 4.0), abs=1e-12)
    assert state.var[0] == pytest.approx(3.0 - (2 * 3.0) ** 2 / (2 * np.pi * 4.0), abs=1e-12)


@pytest.mark.parametrize("variance", [160.0**2, 1e6])
def test_large_signals_duplicate_rows_and_contrary_labels(variance):
    X, y = rows(40)
    X[20:] = X[:20]
    state = run(make_kernel("se", 2, variance=variance, lengthscale=0.7, noise=0.05), X, y, tolerance=1e-6)
    assert state.outcome.settled
    assert np.isfinite(state.gradient()["theta"]).all()
    mean, var = state.latents()[0].marginals()(X)
    assert mean == pytest.approx(state.mean, rel=1e-3, abs=1.0)
    assert (var > 0).all()


@pytest.mark.parametrize("seed", range(12))
def test_it_settles_where_means_swing_while_precisions_are_held(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(40, 120)), int(rng.integers(2, 7))
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] > 1.2, 1.0, -1.0)  # few of one class: at first every mean is off to the same side
    kernel = make_kernel("se", d, variance=30.0, lengthscale=40.0, noise=0.0)
    settled = run(kernel, X, y, tolerance=1e-6)
    assert settled.outcome.settled
    assert settled.log_z == pytest.approx(run(kernel, X, y, sequential=True, tolerance=1e-6).log_z, abs=1e-6)
