"""The bound for any likelihood against the oracles, its gradients, and both kinds of rows."""

import numpy as np
import pytest

from gpbench.model.basis import Basis
from gpbench.model.gaussian import GaussianQ
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Poisson
from gpbench.schemes.general.bound import (
    SparseRows,
    SubsetRows,
    bound_at,
    bound_gradient,
    maximise_mean,
    precision_of,
    root_gradient,
)
from gpbench.schemes.general.settings import Observation

OPTIMA = ["sheth_poisson_optimum", "sheth_ordinal_optimum", "sheth_logit_optimum"]


def q_of(basis, m, V):
    """q(v) of q(u) = N(m, V), m without the constant mean."""
    L_inv = np.linalg.inv(basis.L)
    S = L_inv @ V @ L_inv.T
    return GaussianQ(L_inv @ m, np.asfortranarray(np.linalg.cholesky(np.linalg.inv(S))), "precision")


@pytest.mark.parametrize("name", OPTIMA)
@pytest.mark.parametrize("keep", [0, 10**9])
def test_optimum_of_the_oracle(problem, name, keep):
    rows, observation, inputs, expected = problem(name, size=5, keep=keep)
    q = q_of(rows.basis, expected["m"] - observation.mean, expected["V"])
    at = bound_at(rows, observation, q)
    assert at.value == pytest.approx(expected["vlb"], abs=1e-9)
    assert at.g == pytest.approx(expected["rho"], abs=1e-9)
    assert 2 * at.h == pytest.approx(expected["lam"], abs=1e-9)
    sums = rows.moments(weights=-2 * at.h, targets=at.g)
    assert sums.r == pytest.approx(q.mean, abs=1e-9)  # (12a)
    assert root_gradient(q, precision_of(sums)) == pytest.approx(np.zeros((4, 4)), abs=1e-9)  # (12b)
    dtheta, dfree = bound_gradient(rows, observation, at)
    wanted = np.concatenate([np.atleast_1d(each) for each in expected["hyper_grad_at_optimum"].values()])
    assert dtheta == pytest.approx(wanted, abs=1e-8)
    if "grad_mean_constant" in expected:
        assert dfree == pytest.approx([expected["grad_mean_constant"]], abs=1e-8)
    if "grad_edges" in expected:
        by_edges = expected["grad_edges"]
        gap = inputs["edges"][1] - inputs["edges"][0]
        wanted = [by_edges.sum(), gap * by_edges[1], inputs["slope"] * expected["grad_slope"]]
        assert dfree == pytest.approx(wanted, abs=1e-8)


@pytest.mark.parametrize("name", OPTIMA)
def test_derivatives_at_any_q(problem, name):
    rows, observation, inputs, expected = problem(name)
    at = bound_at(rows, observation, q_of(rows.basis, inputs["m0"], inputs["V0"]))
    assert at.g == pytest.approx(expected["rho_at_m0_V0"], abs=1e-8)
    assert 2 * at.h == pytest.approx(expected["lam_at_m0_V0"], abs=1e-8)


@pytest.mark.parametrize("form", ["precision", "covariance"])
def test_gradients_in_q_are_finite_differences(form):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = rng.poisson(3.0, 30)
    basis = Basis(make_kernel("se", 2, variance=0.8, lengthscale=1.2, noise=0.1), X[:5].copy())
    rows, observation = SparseRows(basis, y, X=X), Observation(Poisson(), 0.7, has_mean=True)
    root = np.asfortranarray(np.tril(0.2 * rng.normal(size=(5, 5))) + np.eye(5))
    q = GaussianQ(rng.normal(size=5), root, form)
    covariance = GaussianQ(q.mean, q.covariance_root(), "covariance")
    at = bound_at(rows, observation, q)
    assert at.value == pytest.approx(bound_at(rows, observation, covariance).value, abs=1e-10)
    sums = rows.moments(weights=-2 * at.h, targets=at.g)
    by_mean, by_root = sums.r - q.mean, root_gradient(covariance, precision_of(sums))
    for j in range(5):
        step = 1e-5 * np.eye(5)[j]
        values = [bound_at(rows, observation, q.with_mean(q.mean + sign * step)).value for sign in (1, -1)]
        assert by_mean[j] == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-6, abs=1e-6)
        for i in range(j, 5):
            step = np.zeros((5, 5), order="F")
            step[i, j] = 1e-5
            moved = [GaussianQ(q.mean, covariance.root + sign * step, "covariance") for sign in (1, -1)]
            values = [bound_at(rows, observation, each).value for each in moved]
            assert by_root[i, j] == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-6, abs=1e-6)


def maximised(rows, observation):
    """The bound at its best q."""
    at = bound_at(rows, observation, GaussianQ.prior(rows.M))
    for _ in range(100):
        best = maximise_mean(rows, observation, at, tolerance=1e-12, steps=50)
        precision = precision_of(best.sums)
        if np.abs(root_gradient(best.at.q, precision)).max() < 1e-11:
            break
        root = np.asfortranarray(np.linalg.cholesky(precision))
        at = bound_at(rows, observation, GaussianQ(best.at.q.mean, root, "precision"))
    return best.at


@pytest.mark.parametrize("subset", [False, True], ids=["sparse", "subset"])
def test_hyper_gradients_are_finite_differences(observed, subset):
    observation, targets = observed
    rng = np.random.default_rng(1)
    X = rng.normal(size=(25, 2))
    y = targets(25, rng)
    Z = X[:6].copy()
    kernel = make_kernel("se-ard+linear-ard", 2, variance=0.8, lengthscale=1.2, noise=0.1)

    def at(theta, free):
        basis = Basis(kernel.with_theta(theta), Z, jitter=1e-6)
        rows = SubsetRows(basis, y[:6]) if subset else SparseRows(basis, y, X=X, size=10)
        return rows, observation.with_free(free), maximised(rows, observation.with_free(free))

    dtheta, dfree = bound_gradient(*at(kernel.theta, observation.free))
    whole, P = np.concatenate([kernel.theta, observation.free]), kernel.theta.size
    for i, wanted in enumerate(np.concatenate([dtheta, dfree])):
        step = 1e-4 * np.eye(len(whole))[i]
        up, down = (at((whole + s * step)[:P], (whole + s * step)[P:])[2].value for s in (1, -1))
        assert wanted == pytest.approx((up - down) / 2e-4, rel=1e-5, abs=1e-6)


def test_a_subset_is_the_sparse_model_of_its_own_rows():
    """Up to jitter and noise, which stand in K_nm too there."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(8, 2))
    y = rng.poisson(2.0, 8)
    basis = Basis(make_kernel("se", 2, variance=1.0, lengthscale=0.7, noise=0.0), X, jitter=1e-9)
    observation = Observation(Poisson(), 0.4, has_mean=True)
    sparse, subset = SparseRows(basis, y, X=X), SubsetRows(basis, y)
    assert subset.remainder.tolist() == [0.0] * 8
    assert maximised(sparse, observation).value == pytest.approx(maximised(subset, observation).value, abs=1e-6)


@pytest.mark.parametrize("variance", [1.0, 300.0])
def test_newton_in_the_mean_never_falls(variance):
    """Undamped steps diverge at a large signal variance."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 2))
    y = rng.poisson(np.exp(3 * np.sin(X[:, 0])))
    basis = Basis(make_kernel("se", 2, variance=variance, lengthscale=0.5, noise=0.01), X[:12].copy())
    rows, observation = SparseRows(basis, y, X=X), Observation(Poisson(), 0.0, has_mean=True)
    at = bound_at(rows, observation, GaussianQ.prior(12))
    values = [at.value]
    for _ in range(60):
        at = maximise_mean(rows, observation, at, tolerance=1e-8, steps=1).at
        values.append(at.value)
    assert np.diff(values).min() >= -1e-9 * abs(values[-1])
    assert values[-1] > values[0] / 1e20 if variance > 1 else values[-1] > values[0] + 100
