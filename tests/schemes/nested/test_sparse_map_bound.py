"""The abandoned bound of hensman2015's section 3.2: oracle, optimum, finite differences, and its known limits."""

import numpy as np
import pytest
from flat_bound import FlatBound

from gpbench.model.basis import Basis
from gpbench.model.kernels import make_kernel
from gpbench.model.kl_bound import KLBound
from gpbench.model.likelihoods import Probit
from gpbench.model.likelihoods.bernoulli import log_ndtr, mills
from gpbench.schemes.nested.sparse_map import sparse_map, sparse_map_gradient

KERNELS = ["se", "se-ard", "matern32", "matern32-ard", "linear-ard", "se-ard+linear-ard", "matern32-ard+linear-ard"]
EXACT = {"tolerance": 1e-9, "limit": 300}


class Abandoned:
    """log Φ(y μ) - ½ s in the place of E log Φ(y f): what the KL bound then is."""

    def expectations(self, y, mu, var):
        z = (2.0 * y - 1.0) * mu
        return log_ndtr(z) - 0.5 * var, (2.0 * y - 1.0) * mills(z), np.full(len(mu), -0.5)


def problem(*, n=23, M=5, d=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.integers(0, 2, n), rng.normal(size=(M, d))


def some_kernel(name="se-ard", *, variance=1.3, noise=0.1):
    return make_kernel(name, 2, variance=variance, lengthscale=1.1, noise=noise)


def as_kl_bound(kernel, X, y, *, Z, jitter, likelihood=None):
    bound = FlatBound(KLBound(kernel, likelihood or Abandoned(), size=7), Z)
    x = bound.x
    return bound, x, lambda x: bound.at(x, X, y, basis=bound.basis(x, jitter=jitter))


def test_the_value_at_a_given_q_is_the_oracles(read_oracle):
    """The bound is klsp's with this likelihood, which ties the optimum below to the oracle."""
    inputs, expected = read_oracle("mfsp_bound")
    kernel, jitter = inputs["kernel"]
    y = (inputs["y"] > 0).astype(int)
    bound, x, at = as_kl_bound(kernel, inputs["X"], y, Z=inputs["Z"], jitter=jitter)
    L = bound.basis(x, jitter=jitter).L
    parts = bound.split(x)
    parts["m"][:], parts["L"][:] = np.linalg.solve(L, inputs["abandoned_m"]), np.linalg.solve(L, inputs["abandoned_L"])
    assert at(x).value == pytest.approx(expected["abandoned_bound"], abs=1e-9)


@pytest.mark.parametrize("variance", [1.3, 160.0])
def test_the_optimum_is_stationary_in_q_and_has_that_value(variance):
    X, y, Z = problem()
    kernel = some_kernel(variance=variance)
    best = sparse_map(Basis(kernel, Z, jitter=1e-6), X, y, size=7, **EXACT)
    bound, x, at = as_kl_bound(kernel, X, y, Z=Z, jitter=1e-6)
    parts = bound.split(x)
    parts["m"][:], parts["L"][:] = best.q.mean, best.q.covariance_root()
    found = at(x)
    assert best.settled
    assert best.value == pytest.approx(found.value, abs=1e-9)
    assert found.gradient[bound.q] == pytest.approx(np.zeros(bound.q.stop), abs=1e-7)
    gradient = np.concatenate([part.ravel() for part in sparse_map_gradient(best, X, y, size=7)])
    assert gradient == pytest.approx(found.gradient[bound.q.stop :], rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("variance", [1.3, 160.0])
@pytest.mark.parametrize("name", KERNELS)
def test_gradients_at_the_optimum_are_central_differences(name, variance):
    X, y, Z = problem()
    kernel = some_kernel(name, variance=variance)
    P = kernel.theta.size

    def best(x):
        return sparse_map(Basis(kernel.with_theta(x[:P]), x[P:].reshape(Z.shape), jitter=1e-5), X, y, size=7, **EXACT)

    x = np.concatenate([kernel.theta, Z.ravel()])
    gradient = np.concatenate([part.ravel() for part in sparse_map_gradient(best(x), X, y, size=7)])
    for index in range(x.size):
        step = np.zeros(x.size)
        step[index] = 1e-5
        difference = (best(x + step).value - best(x - step).value) / 2e-5
        assert gradient[index] == pytest.approx(difference, rel=2e-6, abs=2e-6)


def test_it_lies_below_the_kl_bound_at_the_same_q():
    X, y, Z = problem()
    for variance in (0.3, 5.0, 160.0):
        kernel = some_kernel(variance=variance)
        best = sparse_map(Basis(kernel, Z, jitter=1e-6), X, y, **EXACT)
        bound, x, at = as_kl_bound(kernel, X, y, Z=Z, jitter=1e-6, likelihood=Probit(nodes=100))
        parts = bound.split(x)
        parts["m"][:], parts["L"][:] = best.q.mean, best.q.covariance_root()
        assert best.value < at(x).value


def test_with_inducing_inputs_at_all_rows_it_is_the_map_and_a_covariance_without_labels():
    X, y, _ = problem(n=12)
    kernel = some_kernel(noise=0.0)
    best = sparse_map(Basis(kernel, X, jitter=1e-9), X, y, **EXACT)
    K = kernel.gram(X) + 1e-9 * np.eye(12)
    L = best.basis.L
    m = L @ best.q.mean
    signs = 2.0 * y - 1.0
    # the mode of Σ log Φ(y f) - ½ fᵀK⁻¹f solves f = K ∇
    assert m == pytest.approx(K @ (signs * mills(signs * m)), abs=1e-6)
    S = L @ best.q.covariance @ L.T
    assert pytest.approx(K - K @ np.linalg.solve(K + np.eye(12), K), abs=1e-7) == S


@pytest.mark.parametrize("start", [1e3, -1e4])
def test_where_it_starts_makes_no_difference(start):
    X, y, Z = problem()
    basis = Basis(some_kernel(variance=160.0), Z)
    cold = sparse_map(basis, X, y, **EXACT)
    warm = sparse_map(basis, X, y, m_w=np.full(5, start), **EXACT)
    assert warm.value == pytest.approx(cold.value, abs=1e-8)
