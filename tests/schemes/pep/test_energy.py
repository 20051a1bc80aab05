"""The energy of power EP: its gradient by differences, its special cases, and float32 beside float64."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from gpbench.model.kernels import make_kernel
from gpbench.model.kl_bound import KLBound
from gpbench.model.likelihoods import Gaussian, Logit, Ordinal, Poisson, Probit, RobustMax
from gpbench.optimize.fixed_point import FixedPointSearch
from gpbench.schemes.ep.factors import ProbitFactors
from gpbench.schemes.ep.full import FullEP
from gpbench.schemes.ep.gfitc import settle_gfitc
from gpbench.schemes.pep import energy as module
from gpbench.schemes.pep.energy import Energy, Sites
from gpbench.schemes.pep.rows import Cavity, matched, tilted

POWERS = (0.0, 0.5, 1.0)
KERNELS = ("se-ard", "se", "matern12-ard", "matern32-ard", "linear-ard", "quadratic", "se-ard+linear-ard")


def problem(n=60, D=3, M=8, *, seed=0, name="se-ard", log_variance=0.7, noise=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    y = (np.sin(2 * X[:, 0]) + X[:, -1] + 0.5 * rng.normal(size=n) > 0).astype(int)
    kernel = make_kernel(name, D, variance=np.exp(log_variance), lengthscale=1.3, noise=noise)
    return X, y, kernel, X[:M] + 0.1 * rng.normal(size=(M, D))


def random_sites(n, F=1, seed=1):
    rng = np.random.default_rng(seed)
    return Sites(rng.normal(size=(F, n)), rng.uniform(0.02, 0.4, size=(F, n)))


def equal_sites(c, d):
    """Sites of one latent function, d the same for all."""
    return Sites(np.asarray(c, dtype=float)[None], np.full((1, len(c)), d))


def differences(value, x, step=1e-5):
    """Central differences, entry by entry."""
    return np.array([(value(x + step * e) - value(x - step * e)) / (2 * step) for e in np.eye(x.size)])


def check_gradient(X, y, kernel, Z, *, power, likelihood=None, mean=0.0, tolerance=1e-6, sites=None):
    energy = Energy(X, y, power=power, single=False, size=32)
    likelihood = Logit() if likelihood is None else likelihood
    sites = random_sites(len(X)) if sites is None else sites

    def at(theta, inputs, mean):
        return energy.at([kernel.with_theta(theta)], [inputs], likelihood=likelihood, sites=sites, mean=mean, updates=0)

    found = at(kernel.theta, Z, mean)
    by_theta = differences(lambda theta: at(theta, Z, mean).value, kernel.theta)
    by_Z = differences(lambda z: at(kernel.theta, z.reshape(Z.shape), mean).value, Z.ravel())
    (by_mean,) = differences(lambda m: at(kernel.theta, Z, m[0]).value, np.array([mean]))
    np.testing.assert_allclose(found.gradient["theta0"], by_theta, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.gradient["Z0"].ravel(), by_Z, rtol=tolerance, atol=tolerance)
    assert found.gradient["mean"][0] == pytest.approx(by_mean, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("power", [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("likelihood", [Logit(), Probit()])
def test_the_gradient_at_any_sites_is_that_of_differences(power, likelihood):
    check_gradient(*problem(), power=power, likelihood=likelihood)


@pytest.mark.parametrize("name", KERNELS)
def test_so_it_is_for_every_kernel(name):
    check_gradient(*problem(name=name, noise=0.1), power=0.5)


@pytest.mark.parametrize("power", POWERS)
def test_so_it_is_for_counts_numbers_and_ordered_categories(power):
    X, _, kernel, Z = problem(log_variance=-1.0)
    rng = np.random.default_rng(3)
    check_gradient(X, rng.poisson(2.0, size=60), kernel, Z, power=power, likelihood=Poisson(), mean=0.4)
    check_gradient(X, rng.normal(size=60), kernel, Z, power=power, likelihood=Gaussian(0.7), mean=0.4)
    check_gradient(X, rng.integers(4, size=60), kernel, Z, power=power, likelihood=Ordinal((-1.0, 0.2, 1.5)))


@pytest.mark.parametrize("power", POWERS)
def test_so_it_is_where_all_rows_are_inducing_inputs_or_some_all_but_coincide(power):
    X, y, kernel, _ = problem(n=20)
    check_gradient(X, y, kernel, X.copy(), power=power, tolerance=2e-5)
    X, y, kernel, Z = problem()
    Z[1] = Z[0] + 1e-2
    check_gradient(X, y, kernel, Z, power=power, tolerance=2e-5)


@pytest.mark.parametrize("power", [0.0, 0.5])
@pytest.mark.parametrize("likelihood", [Gaussian(0.7), Ordinal((-1.0, 0.2, 1.5), slope=1.3)])
def test_the_gradient_in_the_likelihoods_own_parameters(likelihood, power):
    X, _, kernel, Z = problem(log_variance=-1.0)
    y = np.random.default_rng(3).integers(4, size=60)
    energy, sites = Energy(X, y, power=power, single=False, size=32), random_sites(60)

    def at(free):
        return energy.at([kernel], [Z], likelihood=likelihood.with_free(free), sites=sites, updates=0)

    by_free = differences(lambda free: at(free).value, likelihood.free)
    np.testing.assert_allclose(at(likelihood.free).gradient["free"], by_free, rtol=1e-6, atol=1e-6)


def settled(X, y, kernel, Z, *, power, likelihood, updates=300):
    start = equal_sites(y - 0.5, 0.25)
    return Energy(X, y, power=power, single=False, size=32).at(
        [kernel], [Z], likelihood=likelihood, sites=start, updates=updates
    )


def gfitc(X, y, kernel, Z):
    factors = ProbitFactors(np.where(y == 1, 1.0, -1.0))
    search = FixedPointSearch(damping=0.8, tolerance=1e-12, limit=500, memory=10)
    return settle_gfitc([kernel], [Z], X, factors, x=factors.start(), search=search)


def test_power_one_settled_is_gfitc():
    X, y, kernel, Z = problem()
    found, other = settled(X, y, kernel, Z, power=1.0, likelihood=Probit()), gfitc(X, y, kernel, Z)
    (dtheta,), (dZ,) = other.gradient()
    assert found.value == pytest.approx(other.log_z, abs=1e-8)
    np.testing.assert_allclose(found.gradient["Z0"], dZ, atol=1e-8)
    # gfitc holds the jitter, which is a part of the variance here
    np.testing.assert_allclose(found.gradient["theta0"][1:], dtheta[1:], atol=1e-8)
    assert found.gradient["theta0"][0] == pytest.approx(dtheta[0], abs=1e-4)


def test_power_one_with_all_rows_as_inducing_inputs_is_full_ep():
    X, y, kernel, _ = problem(n=30)
    start = equal_sites(np.zeros(30), 0.0)
    energy = Energy(X, y, power=1.0, single=False)
    found = energy.at([kernel], [X], likelihood=Probit(), sites=start, updates=300, jitter=1e-9)
    search = FixedPointSearch(damping=0.8, tolerance=1e-12, limit=500, memory=10)
    factors = ProbitFactors(np.where(y == 1, 1.0, -1.0))
    full = FullEP(kernel, X, factors, x=factors.start(), search=search)
    assert found.value == pytest.approx(full.log_z, abs=1e-5)


def test_power_zero_settled_is_the_optimum_of_the_sparse_bound_and_below_the_evidence():
    X, y, kernel, Z = problem()
    found = settled(X, y, kernel, Z, power=0.0, likelihood=Logit())
    bound = KLBound(kernel, Logit(), whitened=True, size=32)
    root = found.qs[0].covariance_root()
    at = {"m": found.qs[0].mean, "L": root, "theta": kernel.theta, "Z": Z}
    value, gradient = bound.at(at, X, y, basis=bound.basis(at, jitter=found.bases[0].jitter), kernel_gradient=True)
    assert value == pytest.approx(found.value, abs=1e-6)
    assert np.abs(gradient["m"]).max() < 1e-6
    assert np.abs(gradient["L"]).max() < 1e-6
    np.testing.assert_allclose(gradient["Z"], found.gradient["Z0"], atol=1e-6)
    assert found.value < settled(X, y, kernel, Z, power=1.0, likelihood=Logit()).value


def test_power_zero_with_normal_noise_is_titsias_bound_after_one_update():
    X, _, kernel, Z = problem()
    y, v = np.random.default_rng(5).normal(size=60), 0.3
    start = equal_sites(np.zeros(60), 2.0)
    found = Energy(X, y, power=0.0, single=False).at([kernel], [Z], likelihood=Gaussian(v), sites=start)
    L = found.bases[0].L
    T = np.linalg.solve(L, kernel.cross(X, Z).T).T
    Q = T @ T.T
    collapsed = multivariate_normal(np.zeros(60), Q + v * np.eye(60)).logpdf(y)
    collapsed -= (kernel.diag(X) - np.diag(Q)).sum() / (2 * v)
    assert found.value == pytest.approx(collapsed, abs=1e-9)


def test_any_power_with_normal_noise_is_exact_where_all_rows_are_inducing_inputs():
    X, _, kernel, _ = problem(n=30)
    y, v = np.random.default_rng(5).normal(size=30), 0.3
    exact = multivariate_normal(np.zeros(30), kernel.gram(X) + v * np.eye(30)).logpdf(y)
    for power in POWERS:
        energy = Energy(X, y, power=power, single=False)
        start = equal_sites(np.zeros(30), 1.0)
        found = energy.at([kernel], [X], likelihood=Gaussian(v), sites=start, updates=60, jitter=1e-9)
        assert found.value == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("log_variance", [0.7, 3.0])
@pytest.mark.parametrize("likelihood", [Logit(), Probit()])
def test_at_a_half_updates_raise_the_energy_and_the_cavity_is_never_far(log_variance, likelihood):
    X, y, kernel, Z = problem(log_variance=log_variance)
    energy, sites = Energy(X, y, power=0.5, single=False), equal_sites(y - 0.5, 0.25)
    values = []
    for _ in range(10):
        found = energy.at([kernel], [Z], likelihood=likelihood, sites=sites)
        sites = found.sites
        values.append(found.value)
        assert 0.5 < found.least_left <= 1.0
        assert found.clipped == 0
    assert np.diff(values).min() > -1e-9 * abs(values[-1])


def test_float32_blocks_give_the_same_energy_and_gradient():
    X, y, kernel, Z = problem(n=300, D=5, M=40)
    sites = equal_sites(y - 0.5, 0.25)
    single, double = (
        Energy(X, y, power=0.5, single=which, size=64).at([kernel], [Z], likelihood=Logit(), sites=sites, updates=3)
        for which in (True, False)
    )
    assert single.value == pytest.approx(double.value, rel=1e-4)
    for name in ("theta0", "Z0"):
        scale = np.abs(double.gradient[name]).max()
        np.testing.assert_allclose(single.gradient[name], double.gradient[name], atol=0.02 * scale)
    assert single.value != double.value


@pytest.mark.parametrize("name", KERNELS)
def test_float32_blocks_serve_every_kernel(name):
    X, y, kernel, Z = problem(name=name, noise=0.1)
    sites = equal_sites(y - 0.5, 0.25)
    single, double = (
        Energy(X, y, power=0.5, single=which).at([kernel], [Z], likelihood=Logit(), sites=sites)
        for which in (True, False)
    )
    assert single.value == pytest.approx(double.value, rel=1e-4)


def test_what_is_not_kept_is_made_again(monkeypatch):
    X, y, kernel, Z = problem()
    sites = random_sites(60)
    kept = Energy(X, y, power=0.5, size=32).at([kernel], [Z], likelihood=Logit(), sites=sites)
    monkeypatch.setattr(module, "KEEP_BYTES", 0)
    again = Energy(X, y, power=0.5, size=32).at([kernel], [Z], likelihood=Logit(), sites=sites)
    assert again.value == kept.value
    np.testing.assert_array_equal(again.gradient["Z0"], kept.gradient["Z0"])


def test_sites_of_another_q_are_those_that_it_itself_as_cavity_gives():
    X, y, kernel, Z = problem()
    energy = Energy(X, y, power=0.5, single=False)
    at = energy.at([kernel], [Z], likelihood=Logit(), sites=random_sites(60))
    found = energy.sites_of(at.bases, at.qs, likelihood=Logit())
    T, rest = at.bases[0].whiten(X)
    mu, s = at.qs[0].marginals(T, rest)
    g, h = (tilted(Logit(), y, Cavity(np.ones(60), mu, s, s - rest), power=0.5)[i] for i in (1, 2))
    beta = np.square(0.5 * g) - h
    d = beta / (0.5 * (1 - beta * (s - rest)))
    np.testing.assert_allclose(found.d[0], d, rtol=1e-9)


@pytest.mark.parametrize("likelihood", [Logit(), Probit()])
@pytest.mark.parametrize("power", [0.25, 0.5, 1.0])
def test_the_tilted_integral_is_that_of_the_trapezoid_rule(power, likelihood):
    y, mean, var = np.array([1, 0, 1]), np.array([0.3, 1.0, -2.0]), np.array([0.5, 2.0, 4.0])
    found = tilted(likelihood, y, Cavity(np.ones(3), mean, var, var), power=power, nodes=64)
    for i in range(3):
        f = mean[i] + np.sqrt(var[i]) * np.linspace(-10, 10, 20_001)
        density = norm(mean[i], np.sqrt(var[i])).pdf(f)
        p = np.exp(power * likelihood.log_density(np.full(f.shape, y[i]), f)) * density
        assert found.e[i] == pytest.approx(np.log(np.trapezoid(p, f)) / power, abs=1e-8)


@pytest.mark.parametrize("power", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("count", [0, 1, 30, 1000, 100_000])
def test_so_it_is_for_counts_of_any_size(power, count):
    spread = np.array([0.01, 0.3, 1.0])
    mean, y = np.log(count + 0.5) + np.array([1.0, 0.0, -2.0]) * np.sqrt(spread), np.full(3, count)
    found = tilted(Poisson(), y, Cavity(np.ones(3), mean, spread, spread), power=power)
    for i in range(3):
        f = mean[i] + np.sqrt(spread[i]) * np.linspace(-12, 12, 400_001)
        p = power * Poisson().log_density(np.full(f.shape, count), f) + norm(mean[i], np.sqrt(spread[i])).logpdf(f)
        top = p.max()
        p = np.exp(p - top)
        whole = np.trapezoid(p, f)
        slope = count - np.exp(f)
        assert found.e[i] == pytest.approx((np.log(whole) + top) / power, rel=2e-6, abs=2e-6)
        assert found.g[i] == pytest.approx(np.trapezoid(p * slope, f) / whole, rel=2e-6, abs=2e-6)
        by_var = np.trapezoid(p * slope * (f - mean[i]), f) / whole / (2 * spread[i])
        assert found.h[i] == pytest.approx(by_var, rel=2e-6, abs=2e-6)


def test_clipped_rows_are_integrated_with_more_nodes_and_counted():
    y, mean, var = np.array([1, 1]), np.array([-20.0, 0.3]), np.array([400.0, 1.0])
    at = Cavity(np.ones(2), mean, var, var)
    c, d, clipped = matched(Logit(), y, at, power=0.5)
    assert np.isfinite(c).all()
    assert (d >= 0).all()
    assert clipped <= 1


@pytest.mark.parametrize("power", POWERS)
def test_several_classes_have_an_exact_gradient_in_each_latent_function(power):
    X, _, _, Z = problem()
    rng = np.random.default_rng(4)
    y = rng.integers(3, size=60)
    kernels = [make_kernel("se-ard", 3, variance=1.0 + k, lengthscale=1.0 + 0.2 * k, noise=0.0) for k in range(3)]
    inducing = [Z + 0.1 * k for k in range(3)]
    energy, sites = Energy(X, y, power=power, single=False, size=32), random_sites(60, F=3)
    likelihood = RobustMax(epsilon=0.05, rule="hermite", nodes=20, noise=1.0)

    def at(theta, own):
        moved = [kernels[0], kernels[1].with_theta(theta), kernels[2]]
        return energy.at(moved, [inducing[0], own, inducing[2]], likelihood=likelihood, sites=sites, updates=0)

    found = at(kernels[1].theta, inducing[1])
    by_theta = differences(lambda theta: at(theta, inducing[1]).value, kernels[1].theta)
    by_Z = differences(lambda z: at(kernels[1].theta, z.reshape(Z.shape)).value, inducing[1].ravel())
    np.testing.assert_allclose(found.gradient["theta1"], by_theta, atol=1e-6)
    np.testing.assert_allclose(found.gradient["Z1"].ravel(), by_Z, atol=1e-6)


def test_several_classes_settle_at_rate_seven_tenths():
    X, _, kernel, Z = problem()
    y = (X[:, 0] > 0.5).astype(int) + (X[:, 0] > -0.5)
    energy, sites = Energy(X, y, power=0.5, single=False, size=32), Sites(np.zeros((3, 60)), np.zeros((3, 60)))
    values = []
    for _ in range(40):
        found = energy.at([kernel] * 3, [Z] * 3, likelihood=RobustMax(rule="hermite", noise=1.0), sites=sites, rate=0.7)
        sites = found.sites
        values.append(found.value)
    assert abs(values[-1] - values[-2]) < 1e-4
    assert values[-1] > values[1]
