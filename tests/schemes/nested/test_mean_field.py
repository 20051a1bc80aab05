"""The mean-field bound (12) of hensman2015: oracles, both inner loops, finite differences, and where it lies."""

import numpy as np
import pytest
from scipy.stats import truncnorm

from gpbench.model.basis import Basis
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Probit
from gpbench.model.posterior import Posterior
from gpbench.model.sampled import SampledPosterior
from gpbench.schemes.nested.mfsp import CutNormals, mean_field_gradient, mean_field_rows, newton, solve_z, sweep

KERNELS = ["se", "se-ard", "matern32", "matern32-ard", "linear-ard", "se-ard+linear-ard", "matern32-ard+linear-ard"]
EXACT = {"tolerance": 1e-9, "limit": 5000}


def problem(*, n=23, M=5, d=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.integers(0, 2, n), rng.normal(size=(M, d))


def some_rows(name="se-ard", *, variance=1.3, noise=0.1, size=7, jitter=1e-6, **options):
    X, y, Z = problem(**options)
    kernel = make_kernel(name, X.shape[1], variance=variance, lengthscale=1.1, noise=noise)
    return mean_field_rows(Basis(kernel, Z, jitter=jitter), X, y, size=size)


def oracle(read_oracle):
    inputs, expected = read_oracle("mfsp_bound")
    kernel, jitter = inputs["kernel"]
    basis = Basis(kernel, inputs["Z"], jitter=jitter)
    return mean_field_rows(basis, inputs["X"], (inputs["y"] > 0).astype(int), size=5), inputs, expected


def test_the_bound_anywhere_is_the_oracles(read_oracle):
    rows, inputs, expected = oracle(read_oracle)
    value, gradient = rows.at(inputs["a"])
    assert 1.0 / rows.pi == pytest.approx(expected["sigma2_tilde"], abs=1e-9)
    assert value == pytest.approx(expected["bound_at_a"], abs=1e-9)
    assert gradient == pytest.approx(expected["grad_a"], abs=1e-7)


@pytest.mark.parametrize("inner", [newton, sweep])
def test_the_optimum_its_gradient_and_predictions_are_the_oracles(read_oracle, inner):
    rows, inputs, expected = oracle(read_oracle)
    best = inner(rows, **EXACT)
    assert best.settled
    assert best.value == pytest.approx(expected["bound_opt"], abs=1e-9)
    assert rows.signs * best.z / np.sqrt(rows.pi) == pytest.approx(expected["a_opt"], abs=1e-6)
    assert best.factors().mean == pytest.approx(expected["g_mean_opt"], abs=1e-6)
    dtheta, dZ = mean_field_gradient(best)
    hyper = [np.atleast_1d(values) for values in expected["hyper_grad_at_optimum"].values()]
    assert dtheta == pytest.approx(np.concatenate(hyper), abs=1e-6)
    assert pytest.approx(expected["Z_grad_at_optimum"], abs=1e-6) == dZ
    latent = best.latent()
    L = rows.basis.L
    assert L @ latent.m_w == pytest.approx(expected["u_mean_gauss_approx"], abs=1e-6)
    assert L @ latent.covariance() @ L.T == pytest.approx(expected["u_cov_gauss_approx"], abs=1e-6)
    posterior = Posterior((latent,), Probit(), 2)
    mean, var = posterior.latent(inputs["X_test"])
    assert mean[:, 0] == pytest.approx(expected["test_latent_mean"], abs=1e-6)
    assert var[:, 0] == pytest.approx(expected["test_latent_var"], abs=1e-6)
    probabilities = posterior.predict(inputs["X_test"]).probabilities[:, 1]
    assert probabilities == pytest.approx(expected["test_prob_gauss_approx"], abs=1e-7)


def test_the_monte_carlo_prediction_is_the_oracles(read_oracle):
    rows, inputs, expected = oracle(read_oracle)
    best = newton(rows, **EXACT)
    count = 40_000
    draws = best.draws(np.random.default_rng(0), count)
    posterior = SampledPosterior.of_means(best.latent(), draws, likelihood=Probit(), classes=2)
    got = posterior.predict(inputs["X_test"]).probabilities[:, 1]
    error = expected["test_prob_monte_carlo_std_per_sample"] / np.sqrt(count)
    assert (np.abs(got - expected["test_prob_monte_carlo"]) < 4.0 * error + 1.7e-4).all()
    assert draws.mean(axis=0) == pytest.approx(best.m_w, abs=0.03)


def test_the_gradient_in_a_is_a_central_difference():
    rows = some_rows()
    a = np.random.default_rng(1).normal(size=23)
    _, gradient = rows.at(a)
    for index in range(23):
        step = np.zeros(23)
        step[index] = 1e-5
        difference = (rows.at(a + step)[0] - rows.at(a - step)[0]) / 2e-5
        assert gradient[index] == pytest.approx(difference, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("variance", [1.3, 160.0])
@pytest.mark.parametrize("name", KERNELS)
def test_gradients_at_the_optimum_are_central_differences(name, variance):
    X, y, Z = problem()
    kernel = make_kernel(name, 2, variance=variance, lengthscale=1.1, noise=0.1)
    P = kernel.theta.size

    def best(x):
        basis = Basis(kernel.with_theta(x[:P]), x[P:].reshape(Z.shape), jitter=1e-5)
        return newton(mean_field_rows(basis, X, y, size=7), **EXACT)

    x = np.concatenate([kernel.theta, Z.ravel()])
    gradient = np.concatenate([part.ravel() for part in mean_field_gradient(best(x))])
    for index in range(x.size):
        step = np.zeros(x.size)
        step[index] = 1e-5
        difference = (best(x + step).value - best(x - step).value) / 2e-5
        assert gradient[index] == pytest.approx(difference, rel=2e-6, abs=2e-6)


@pytest.mark.parametrize("variance", [0.1, 1.3, 160.0])
def test_newton_and_the_papers_sweeps_meet(variance):
    rows = some_rows(variance=variance)
    fast, slow = newton(rows, **EXACT), sweep(rows, **EXACT)
    assert fast.settled
    assert slow.settled
    assert fast.walks < slow.walks
    assert fast.value == pytest.approx(slow.value, abs=1e-9)
    assert fast.m_w == pytest.approx(slow.m_w, abs=1e-5)
    assert np.abs(rows.at(rows.signs * fast.z / np.sqrt(rows.pi))[1]).max() < 1e-8


def test_nothing_nearby_or_far_is_better():
    rows = some_rows()
    best = newton(rows, **EXACT)
    a = rows.signs * best.z / np.sqrt(rows.pi)
    rng = np.random.default_rng(3)
    for scale in (1e-3, 0.1, 1.0, 10.0):
        assert all(rows.at(a + scale * rng.normal(size=a.size))[0] < best.value for _ in range(20))


def test_where_it_starts_makes_no_difference():
    rows = some_rows(variance=30.0)
    cold = newton(rows, **EXACT)
    for start in (cold.m_w, 100.0 * np.ones(5), -1e4 * np.ones(5)):
        warm = newton(rows, **EXACT, m_w=start)
        assert warm.value == pytest.approx(cold.value, abs=1e-9)


@pytest.mark.parametrize("variance", [1e3, 1e6])
def test_very_large_signal_variances(variance):
    rows = some_rows(variance=variance, n=60, M=20, noise=0.0, jitter=1e-6 * variance)
    best = newton(rows, tolerance=1e-6, limit=200)
    assert best.settled
    assert np.isfinite(best.value)
    assert all(np.isfinite(part).all() for part in mean_field_gradient(best))


def test_features_made_anew_give_the_same_bits_as_kept_ones(monkeypatch):
    kept = newton(some_rows(), **EXACT)
    monkeypatch.setattr("gpbench.schemes.nested.mfsp.KEPT_BYTES", 0)
    anew = newton(some_rows(), **EXACT)
    assert kept.rows.kept
    assert not anew.rows.kept
    assert anew.value == kept.value
    for one, other in zip(mean_field_gradient(anew), mean_field_gradient(kept), strict=True):
        assert np.array_equal(one, other)


def test_blocks_make_no_difference():
    small, whole = newton(some_rows(size=4), **EXACT), newton(some_rows(size=100), **EXACT)
    assert small.value == pytest.approx(whole.value, rel=1e-12)
    for one, other in zip(mean_field_gradient(small), mean_field_gradient(whole), strict=True):
        assert one == pytest.approx(other, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("start", [None, 1e3, -1e3])
def test_the_scalar_equation_from_any_start(start):
    pi, b = (values.ravel() for values in np.meshgrid(10.0 ** np.arange(-7.0, 0.1), [-500.0, -3.0, 0.0, 2.0, 50.0]))
    z = solve_z(b, pi=pi, start=None if start is None else np.full(b.shape, start))
    q = CutNormals.of(z, pi=pi, signs=np.ones(len(z)))
    assert (np.abs(z + (1.0 - pi) * q.r - b) < 1e-13 + 4e-16 * np.abs(z)).all()


@pytest.mark.parametrize("z", [-2e4, -300.0, -30.0, -1.0, 0.0, 2.0, 40.0])
def test_moments_of_a_cut_normal(z):
    q = CutNormals.of(np.array([z]), pi=np.array([0.25]), signs=np.array([-1.0]))
    scale, shift = 2.0, -2.0 * z
    if abs(z) < 35:  # beyond, scipy's own moments lose their digits
        law = truncnorm(-np.inf, z, loc=shift, scale=scale)
        assert q.mean[0] == pytest.approx(law.mean(), rel=1e-9)
        assert (1.0 - q.c[0]) / 0.25 == pytest.approx(law.var(), rel=1e-6)
    elif z < 0:  # nearly exponential
        assert q.mean[0] == pytest.approx(2.0 / z * (1.0 - 2.0 / z**2), rel=2e-9)
    else:
        assert q.mean[0] == pytest.approx(shift)


@pytest.mark.parametrize("z", [-1e5, -40.0, -1.0, 3.0])
def test_draws_follow_the_cut_normal(z):
    rows = some_rows(n=1, M=1)
    best = newton(rows, **EXACT)
    object.__setattr__(best, "z", np.array([z]))
    count = 20_000
    draws = best.draws(np.random.default_rng(1), count)[:, 0]
    q = best.factors()
    gain = rows.solve(rows.projected(np.ones(1)))[0]
    mean, sd = gain * q.mean[0], abs(gain) * np.sqrt((1.0 - q.c[0]) / rows.pi[0])
    assert abs(draws.mean() - mean) < 4.0 * sd / np.sqrt(count)
    assert draws.std() == pytest.approx(sd, rel=0.05)
    assert (np.sign(draws) == np.sign(gain) * rows.signs[0]).all()
