"""GFITC's EP against the oracles, full EP on the dense prior, finite differences, and under hard conditions."""

import numpy as np
import pytest

from gpbench.errors import NumericalError
from gpbench.model.kernels import SE, Sum, White, make_kernel
from gpbench.model.likelihoods import likelihood
from gpbench.model.posterior import Posterior
from gpbench.optimize.fixed_point import FixedPointSearch
from gpbench.schemes.ep import gfitc as ep_gfitc
from gpbench.schemes.ep.factors import ProbitFactors, StepFactors
from gpbench.schemes.ep.fitc import FitcPrior
from gpbench.schemes.ep.gfitc import settle_gfitc

TIGHT = {"tolerance": 1e-12, "limit": 3000}


def oracle_kernel(hyper):
    parts = [SE.of(variance=hyper["amp2"], lengthscales=hyper["ls"])]
    if hyper["noise2"] > 0:
        parts.append(White.of(variance=hyper["noise2"]))
    return Sum(tuple(parts))


def oracle_gradient(grad, hyper):
    noise = [grad["log_noise2"]] if hyper["noise2"] > 0 else []
    return np.array([grad["log_amp2"], *grad["log_ls"], *noise])


def settle(kernels, Z, X, factors, *, size=1024, jitters=None, **options):
    search = FixedPointSearch(**TIGHT | options)
    return settle_gfitc(kernels, Z, X, factors, x=factors.start(), search=search, jitters=jitters, size=size)


@pytest.mark.parametrize("name", ["gfitc_binary_a", "gfitc_binary_b"])
@pytest.mark.parametrize(("size", "keep"), [(1024, 10**8), (4, 10**8), (4, 0)])
def test_binary_oracle(read_oracle, monkeypatch, name, size, keep):
    """The same numbers in one block, in several, and with features that are made anew at each walk."""
    monkeypatch.setattr(ep_gfitc, "KEEP_BYTES", keep)
    inputs, expected = read_oracle(f"ep/{name}")
    X, y, Z, hyper = inputs["X"], inputs["y"], inputs["Z"], inputs["hyper"]
    state = settle([oracle_kernel(hyper)], [Z], X, ProbitFactors(y), jitters=[inputs["jitter_mm"]], size=size)
    tau, b = np.split(state.outcome.x, 2)
    at = state.posteriors[0]
    assert state.outcome.settled
    assert tau == pytest.approx(expected["tau"], abs=1e-7)
    assert b == pytest.approx(expected["nu"], abs=1e-7)
    assert at.mean == pytest.approx(expected["post_mean"], abs=1e-8)
    assert at.var == pytest.approx(expected["post_var"], abs=1e-8)
    assert state.log_z == pytest.approx(expected["logZ"], abs=1e-8)
    dtheta, dZ = (parts[0] for parts in state.gradient())
    assert dtheta == pytest.approx(oracle_gradient(expected["grad"], hyper), abs=1e-7)
    assert dZ == pytest.approx(expected["grad"]["Z"], abs=1e-7)
    posterior = Posterior(state.latents(), likelihood("probit"), classes=2)
    mean, var = posterior.latent(inputs["X_test"])
    assert mean[:, 0] == pytest.approx(expected["test_mean"], abs=1e-8)
    assert var[:, 0] == pytest.approx(expected["test_var"], abs=1e-8)
    plus = posterior.predict(inputs["X_test"]).probabilities[:, 1]
    assert plus == pytest.approx(expected["test_prob_plus"], abs=1e-8)


@pytest.mark.parametrize("name", ["gfitc_multi_c2_a", "gfitc_multi_c3_a"])
@pytest.mark.parametrize("size", [1024, 5])
def test_multiclass_oracle(read_oracle, name, size):
    inputs, expected = read_oracle(f"ep/{name}")
    X, y, C = inputs["X"], inputs["y"].astype(int), inputs["classes"]
    kernels = [oracle_kernel(hyper) for hyper in inputs["hyper"]]
    factors = StepFactors(y, C)
    state = settle(kernels, list(inputs["Z"]), X, factors, jitters=[inputs["jitter_mm"]] * C, size=size)
    tau, b = factors.totals(state.outcome.x)
    assert tau == pytest.approx(expected["tau_total"], abs=1e-6)
    assert b == pytest.approx(expected["nu_total"], abs=1e-6)
    assert state.log_z == pytest.approx(expected["logZ"], abs=1e-7)
    for c, (dtheta, dZ) in enumerate(zip(*state.gradient(), strict=True)):
        assert dtheta == pytest.approx(oracle_gradient(expected["grad"][c], inputs["hyper"][c]), abs=1e-6)
        assert dZ == pytest.approx(expected["grad"][c]["Z"], abs=1e-6)
        mean, var = state.latents()[c].marginals()(inputs["X_test"])
        assert mean == pytest.approx(expected["test_mean"][:, c], abs=1e-6)
        assert var == pytest.approx(expected["test_var"][:, c], abs=1e-6)


@pytest.mark.parametrize("name", ["gfitc_binary_b"])
def test_adjoints_through_the_stored_matrices(read_oracle, name):
    """Features and s from the oracle's K, P and kappa, so that kernels and their pullbacks play no part."""
    inputs, expected = read_oracle(f"ep/{name}")
    K, P, kappa = inputs["K_mm"], inputs["K_nm"], inputs["k_nn_diag"]
    kernel = oracle_kernel(inputs["hyper"])
    prior = FitcPrior(kernel, inputs["Z"], inputs["X"], jitter=inputs["jitter_mm"])
    L = np.linalg.cholesky(K)
    T = np.linalg.solve(L, P.T).T
    assert prior.s == pytest.approx(kappa - np.square(T).sum(axis=1), abs=1e-12)
    at = prior.posterior(expected["tau"], expected["nu"])
    assert at.mean == pytest.approx(expected["post_mean"], abs=1e-8)
    matrices = expected["grad_matrices"]
    alpha, e, f = at.weights(prior.s)
    assert 0.5 * f == pytest.approx(matrices["dk_nn"], abs=1e-6)
    cross = np.outer(alpha, at.q.mean) - e[:, None] * (T @ at.q.covariance) - f[:, None] * T
    nm = np.linalg.solve(L.T, cross.T).T
    assert nm == pytest.approx(matrices["dK_nm"], abs=1e-6)
    inner = np.outer(at.q.mean, at.q.mean) - np.eye(len(K)) + at.q.covariance - (T.T * f) @ T
    gram = -0.5 * np.linalg.solve(L.T, np.linalg.solve(L.T, inner).T).T
    assert gram == pytest.approx(matrices["dK_mm"], abs=1e-6)


def classes(n, *, C, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = np.stack([np.sin((c + 1) * X[:, 0] + c) + 0.4 * rng.normal(size=n) for c in range(C)], axis=1)
    return X, score.argmax(axis=1)


@pytest.mark.parametrize("name", ["se", "se-ard", "matern32", "matern32-ard", "linear-ard", "se-ard+linear-ard"])
@pytest.mark.parametrize("C", [2, 3])
def test_converged_gradients_by_finite_differences(name, C):
    X, y = classes(20, C=C)
    factors = ProbitFactors(2.0 * y - 1.0) if C == 2 else StepFactors(y, C)
    F = 1 if C == 2 else C
    rng = np.random.default_rng(1)
    kernels = [make_kernel(name, 2, variance=1.3 + 0.2 * c, lengthscale=0.9, noise=0.2) for c in range(F)]
    Z = [rng.normal(size=(4, 2)) for _ in range(F)]
    jitters = [1e-6] * F
    state = settle(kernels, Z, X, factors, jitters=jitters)
    dtheta, dZ = state.gradient()
    step = 1e-5

    def log_z(c, theta=None, inducing=None):
        moved, points = list(kernels), list(Z)
        if theta is not None:
            moved[c] = kernels[c].with_theta(theta)
        if inducing is not None:
            points[c] = inducing
        return settle(moved, points, X, factors, jitters=jitters).log_z

    c = F - 1
    theta = kernels[c].theta
    for index in range(len(theta)):
        shift = step * np.eye(len(theta))[index]
        slope = (log_z(c, theta=theta + shift) - log_z(c, theta=theta - shift)) / (2 * step)
        assert dtheta[c][index] == pytest.approx(slope, abs=2e-7, rel=1e-6)
    for place in [(0, 0), (3, 1)]:
        shift = np.zeros_like(Z[c])
        shift[place] = step
        slope = (log_z(c, inducing=Z[c] + shift) - log_z(c, inducing=Z[c] - shift)) / (2 * step)
        assert dZ[c][place] == pytest.approx(slope, abs=2e-7, rel=1e-6)


def test_two_step_classes_with_equal_kernels_are_mirror_images():
    X, y = classes(30, C=2)
    kernel = make_kernel("se", 2, variance=2.0, lengthscale=1.0, noise=0.1)
    Z = X[:6].copy()
    state = settle([kernel, kernel], [Z, Z], X, StepFactors(y, 2))
    first, second = state.posteriors
    assert first.mean == pytest.approx(-second.mean, abs=1e-9)
    assert first.var == pytest.approx(second.var, abs=1e-9)


def test_permutations_and_flips():
    X, y = classes(25, C=2)
    signs = 2.0 * y - 1.0
    kernel = make_kernel("se-ard", 2, variance=2.0, lengthscale=1.0, noise=0.1)
    Z = X[:5].copy()
    state = settle([kernel], [Z], X, ProbitFactors(signs))
    order = np.random.default_rng(0).permutation(len(y))
    permuted = settle([kernel], [Z], X[order], ProbitFactors(signs[order]))
    flipped = settle([kernel], [Z], X, ProbitFactors(-signs))
    assert permuted.log_z == pytest.approx(state.log_z, abs=1e-9)
    assert flipped.log_z == pytest.approx(state.log_z, abs=1e-9)
    assert flipped.posteriors[0].mean == pytest.approx(-state.posteriors[0].mean, abs=1e-9)


def test_relabelling_permutes_the_classes():
    X, y = classes(25, C=3)
    kernels = [make_kernel("se", 2, variance=1.0 + c, lengthscale=1.0, noise=0.1) for c in range(3)]
    Z = [X[5 * c : 5 * c + 5].copy() for c in range(3)]
    state = settle(kernels, Z, X, StepFactors(y, 3))
    turn = np.array([2, 0, 1])  # class c is called turn[c]
    back = np.argsort(turn)
    other = settle([kernels[c] for c in back], [Z[c] for c in back], X, StepFactors(turn[y], 3))
    assert other.log_z == pytest.approx(state.log_z, abs=1e-9)
    for c in range(3):
        assert other.posteriors[turn[c]].mean == pytest.approx(state.posteriors[c].mean, abs=1e-8)


def test_one_row_has_evidence_one_half():
    kernel = make_kernel("se", 1, variance=5.0, lengthscale=1.0, noise=0.1)
    state = settle([kernel], [np.array([[0.3]])], np.array([[0.0]]), ProbitFactors(np.array([1.0])))
    assert state.log_z == pytest.approx(np.log(0.5), abs=1e-12)


@pytest.mark.parametrize("C", [2, 3])
@pytest.mark.parametrize("variance", [160.0**2, 1e6])
def test_large_signals_and_duplicate_rows(C, variance):
    """Parallel updates oscillate here; damped and mixed they settle, and no cavity is ever improper."""
    X, y = classes(40, C=C, seed=3)
    X[20:] = X[:20]
    factors = ProbitFactors(2.0 * y - 1.0) if C == 2 else StepFactors(y, C)
    F = 1 if C == 2 else C
    kernel = make_kernel("se", 2, variance=variance, lengthscale=0.7, noise=0.05)
    state = settle([kernel] * F, [X[:10]] * F, X, factors, tolerance=1e-6, limit=300)
    assert state.outcome.change < 1e-3  # without label noise to speak of, several classes settle in thousands
    assert np.isfinite(state.log_z)
    tau, _ = factors.totals(state.outcome.x)
    assert (tau >= 0).all()
    assert all(np.isfinite(part).all() for part in state.gradient()[0])


def test_an_absent_class_has_sites_too():
    X, y = classes(30, C=3)
    y[y == 2] = 0
    kernel = make_kernel("se", 2, variance=2.0, lengthscale=1.0, noise=0.1)
    state = settle([kernel] * 3, [X[:5]] * 3, X, StepFactors(y, 3))
    assert np.isfinite(state.log_z)
    assert state.posteriors[2].mean.mean() < state.posteriors[0].mean.mean()


def test_sites_that_are_not_finite_are_no_bare_error():
    X, y = classes(10, C=2)
    factors = ProbitFactors(2.0 * y - 1.0)
    prior = FitcPrior(make_kernel("se", 2, variance=1.0, lengthscale=1.0, noise=0.1), X[:3], X)
    with pytest.raises(NumericalError):
        prior.posterior(np.full(10, np.nan), factors.start()[:10])
