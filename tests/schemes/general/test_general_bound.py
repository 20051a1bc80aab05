"""The bound for any likelihood against the oracles, its gradients, and both kinds of rows."""

import numpy as np
import pytest

from gpbench.model.basis_old import Basis
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Gaussian, Logit, Ordinal, Poisson, Probit
from gpbench.schemes.general.bound import GaussianV, bound_at, bound_gradient, precision_of, root_gradient
from gpbench.schemes.general.laplace import laplace_gradient, laplace_mode
from gpbench.schemes.general.mean_newton import climb_in_mean
from gpbench.schemes.general.observation import Observation
from gpbench.schemes.general.rows import SparseRows, SubsetRows

OPTIMA = ["sheth_poisson_optimum", "sheth_ordinal_optimum", "sheth_logit_optimum"]


def problem(inputs):
    """Kernel, jitter, observation, targets of an oracle."""
    kernel, jitter = inputs["kernel"]
    if inputs.get("likelihood") == "ordinal":
        observation = Observation(Ordinal(tuple(inputs["edges"]), slope=inputs["slope"], nodes=120))
        return kernel, jitter, observation, inputs["y"].astype(int) - 1
    if "mean_constant" in inputs:
        return kernel, jitter, Observation(Poisson(), inputs["mean_constant"], has_mean=True), inputs["y"].astype(int)
    return kernel, jitter, Observation(Logit(nodes=120)), (inputs["y"] > 0).astype(int)


def q_of(basis, m, V):
    """q(v) of q(u) = N(m, V), m without the constant mean."""
    L_inv = np.linalg.inv(basis.L)
    S = L_inv @ V @ L_inv.T
    return GaussianV(L_inv @ m, np.asfortranarray(np.linalg.cholesky(np.linalg.inv(S))), "precision")


@pytest.mark.parametrize("name", OPTIMA)
@pytest.mark.parametrize("keep", [0, 10**9])
def test_optimum_of_the_oracle(read_oracle, name, keep):
    inputs, expected = read_oracle(name)
    kernel, jitter, observation, y = problem(inputs)
    basis = Basis(kernel, inputs["Z"], jitter=jitter)
    rows = SparseRows(basis, y, X=inputs["X"], size=5, keep=keep)
    q = q_of(basis, expected["m"] - observation.mean, expected["V"])
    at = bound_at(rows, observation, q)
    assert at.value == pytest.approx(expected["vlb"], abs=1e-9)
    assert at.g == pytest.approx(expected["rho"], abs=1e-9)
    assert 2 * at.h == pytest.approx(expected["lam"], abs=1e-9)
    sums = rows.moments(weights=-2 * at.h, targets=at.g)
    assert sums.r == pytest.approx(q.m_w, abs=1e-9)  # (12a)
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
def test_derivatives_at_any_q(read_oracle, name):
    inputs, expected = read_oracle(name)
    kernel, jitter, observation, y = problem(inputs)
    basis = Basis(kernel, inputs["Z"], jitter=jitter)
    rows = SparseRows(basis, y, X=inputs["X"])
    at = bound_at(rows, observation, q_of(basis, inputs["m0"], inputs["V0"]))
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
    q = GaussianV(rng.normal(size=5), root, form)
    covariance = GaussianV(q.m_w, q.covariance_root(), "covariance")
    at = bound_at(rows, observation, q)
    assert at.value == pytest.approx(bound_at(rows, observation, covariance).value, abs=1e-10)
    sums = rows.moments(weights=-2 * at.h, targets=at.g)
    by_mean, by_root = sums.r - q.m_w, root_gradient(covariance, precision_of(sums))
    for j in range(5):
        step = 1e-5 * np.eye(5)[j]
        values = [bound_at(rows, observation, q.with_mean(q.m_w + sign * step)).value for sign in (1, -1)]
        assert by_mean[j] == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-6, abs=1e-6)
        for i in range(j, 5):
            step = np.zeros((5, 5), order="F")
            step[i, j] = 1e-5
            moved = [GaussianV(q.m_w, covariance.root + sign * step, "covariance") for sign in (1, -1)]
            values = [bound_at(rows, observation, each).value for each in moved]
            assert by_root[i, j] == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-6, abs=1e-6)


MODELS = [
    (Observation(Poisson(), 0.5, has_mean=True), "counts"),
    (Observation(Ordinal((-1.0, 0.2, 1.3), slope=1.5)), "levels"),
    (Observation(Logit()), "classes"),
    (Observation(Probit()), "classes"),
    (Observation(Gaussian(0.6), 0.3, has_mean=True), "numbers"),
]


def targets(kind, n, rng):
    draw = {
        "counts": lambda: rng.poisson(3.0, n),
        "levels": lambda: rng.integers(0, 4, n),
        "classes": lambda: rng.integers(0, 2, n),
        "numbers": lambda: rng.normal(size=n),
    }
    return draw[kind]()


def maximised(rows, observation):
    """The bound at its best q."""
    at = bound_at(rows, observation, GaussianV.prior(rows.M))
    for _ in range(100):
        inner = climb_in_mean(rows, observation, at, tolerance=1e-12, steps=50)
        precision = precision_of(inner.sums)
        if np.abs(root_gradient(inner.at.q, precision)).max() < 1e-11:
            break
        root = np.asfortranarray(np.linalg.cholesky(precision))
        at = bound_at(rows, observation, GaussianV(inner.at.q.m_w, root, "precision"))
    return inner.at


@pytest.mark.parametrize(("observation", "kind"), MODELS, ids=[each.likelihood.name for each, _ in MODELS])
@pytest.mark.parametrize("subset", [False, True], ids=["sparse", "subset"])
def test_hyper_gradients_are_finite_differences(observation, kind, subset):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(25, 2))
    y = targets(kind, 25, rng)
    Z = X[:6].copy()
    kernel = make_kernel("se-ard+linear-ard", 2, variance=0.8, lengthscale=1.2, noise=0.1)

    def at(theta, free):
        basis = Basis(kernel.with_theta(theta), Z, jitter=1e-6)
        rows = SubsetRows(basis, y[:6], size=4) if subset else SparseRows(basis, y, X=X, size=10)
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
    sparse, subset = SparseRows(basis, y, X=X), SubsetRows(basis, y, size=3)
    assert subset.remainder.tolist() == [0.0] * 8
    assert maximised(sparse, observation).value == pytest.approx(maximised(subset, observation).value, abs=1e-6)


def test_laplace_of_the_oracle(read_oracle):
    inputs, expected = read_oracle("laplace_subset")
    kernel, jitter = inputs["kernel"]
    basis = Basis(kernel, inputs["X"], jitter=jitter)
    counts = Observation(Poisson(), inputs["mean_constant_poisson"], has_mean=True)
    cases = {
        "logit": (Observation(Logit()), (inputs["y"] > 0).astype(int)),
        "poisson": (counts, inputs["y_poisson"].astype(int)),
    }
    for name, (observation, y) in cases.items():
        mode, wanted = laplace_mode(basis, observation, y), expected[name]
        assert mode.f == pytest.approx(wanted["mode_minus_mean"], abs=1e-8)
        assert pytest.approx(wanted["W"], abs=1e-8) == mode.W
        assert mode.evidence == pytest.approx(wanted["log_marginal"], abs=1e-9)
        gradient = np.concatenate([np.atleast_1d(each) for each in wanted["grad_log_hyper"].values()])
        assert laplace_gradient(basis, observation, y, mode)[0] == pytest.approx(gradient, abs=1e-8)
        S = mode.q(basis).whitened().S_w
        assert np.diag(basis.L @ S @ basis.L.T) == pytest.approx(wanted["posterior_cov_diag"], abs=1e-9)


@pytest.mark.parametrize(("observation", "kind"), MODELS, ids=[each.likelihood.name for each, _ in MODELS])
def test_laplace_gradients_are_finite_differences(observation, kind):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(9, 2))
    y = targets(kind, 9, rng)
    kernel = make_kernel("se-ard", 2, variance=1.3, lengthscale=1.1, noise=0.05)

    def at(values):
        P = kernel.theta.size
        basis = Basis(kernel.with_theta(values[:P]), X, jitter=1e-6)
        moved = observation.with_free(values[P:])
        return basis, moved, y, laplace_mode(basis, moved, y, tolerance=1e-12)

    whole = np.concatenate([kernel.theta, observation.free])
    gradient = np.concatenate(laplace_gradient(*at(whole)))
    for i in range(len(whole)):
        step = 1e-5 * np.eye(len(whole))[i]
        difference = at(whole + step)[3].evidence - at(whole - step)[3].evidence
        assert gradient[i] == pytest.approx(difference / 2e-5, rel=1e-6, abs=1e-7)


def test_laplace_of_gaussian_targets_is_exact():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(7, 1)), rng.normal(size=7)
    basis = Basis(make_kernel("se", 1, variance=1.0, lengthscale=1.0, noise=0.0), X, jitter=1e-8)
    mode = laplace_mode(basis, Observation(Gaussian(0.5), 0.2), y)
    C = basis.L @ basis.L.T + 0.5 * np.eye(7)
    _, log_det = np.linalg.slogdet(C)
    exact = -0.5 * ((y - 0.2) @ np.linalg.solve(C, y - 0.2) + log_det + 7 * np.log(2 * np.pi))
    assert mode.evidence == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize("variance", [1.0, 300.0])
def test_newton_in_the_mean_never_falls(variance):
    """Undamped steps diverge at a large signal variance."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 2))
    y = rng.poisson(np.exp(3 * np.sin(X[:, 0])))
    basis = Basis(make_kernel("se", 2, variance=variance, lengthscale=0.5, noise=0.01), X[:12].copy())
    rows, observation = SparseRows(basis, y, X=X), Observation(Poisson(), 0.0, has_mean=True)
    at = bound_at(rows, observation, GaussianV.prior(12))
    values = [at.value]
    for _ in range(60):
        at = climb_in_mean(rows, observation, at, tolerance=1e-8, steps=1).at
        values.append(at.value)
    assert np.diff(values).min() >= -1e-9 * abs(values[-1])
    assert values[-1] > values[0] / 1e20 if variance > 1 else values[-1] > values[0] + 100
