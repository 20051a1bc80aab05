"""The energy of power EP: its gradient by differences, its special cases, and float32 beside float64."""

import numpy as np
import pytest

from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Gaussian, Logit, Ordinal, Poisson, Probit
from gpbench.schemes.pep import energy as module
from gpbench.schemes.pep.energy import Energy, Sites

POWERS = (0.0, 0.5, 1.0)
KERNELS = ("se-ard", "se", "matern12-ard", "matern32-ard", "linear-ard", "quadratic", "se-ard+linear-ard")


def problem(n=60, D=3, M=8, *, seed=0, name="se-ard", log_variance=0.7, noise=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    y = (np.sin(2 * X[:, 0]) + X[:, -1] + 0.5 * rng.normal(size=n) > 0).astype(int)
    kernel = make_kernel(name, D, variance=np.exp(log_variance), lengthscale=1.3, noise=noise)
    return X, y, kernel, X[:M] + 0.1 * rng.normal(size=(M, D))


def random_sites(n, seed=1):
    rng = np.random.default_rng(seed)
    return Sites(rng.normal(size=n), rng.uniform(0.02, 0.4, size=n))


def differences(value, x, step=1e-5):
    """Central differences, entry by entry."""
    return np.array([(value(x + step * e) - value(x - step * e)) / (2 * step) for e in np.eye(x.size)])


def check_gradient(X, y, kernel, Z, *, power, likelihood=None, mean=0.0, tolerance=1e-6, sites=None):
    energy = Energy(X, y, power=power, single=False, size=32)
    likelihood = Logit() if likelihood is None else likelihood
    sites = random_sites(len(X)) if sites is None else sites

    def at(theta, inputs, mean):
        return energy.at(kernel.with_theta(theta), inputs, likelihood=likelihood, sites=sites, mean=mean, updates=0)

    found = at(kernel.theta, Z, mean)
    by_theta = differences(lambda theta: at(theta, Z, mean).value, kernel.theta)
    by_Z = differences(lambda z: at(kernel.theta, z.reshape(Z.shape), mean).value, Z.ravel())
    (by_mean,) = differences(lambda m: at(kernel.theta, Z, m[0]).value, np.array([mean]))
    np.testing.assert_allclose(found.dtheta, by_theta, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.dZ.ravel(), by_Z, rtol=tolerance, atol=tolerance)
    assert found.dmean == pytest.approx(by_mean, rel=tolerance, abs=tolerance)


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
