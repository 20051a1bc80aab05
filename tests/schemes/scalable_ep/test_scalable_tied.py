"""Stochastic EP against the oracles, finite differences with sites and cavities held, and EP on many rows."""

import numpy as np
import pytest
from scipy.special import log_ndtr

from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import likelihood
from gpbench.model.posterior import Posterior
from gpbench.schemes.scalable_ep.evidence import ScalableEP
from gpbench.schemes.scalable_ep.factors import BinaryFactors, PairFactors
from gpbench.schemes.scalable_ep.stochastic import TiedEP


def settled(ep, X, factors):
    for _ in range(4000):
        found = ep.update(X, factors, damping=0.5, gradient=False)
        if np.abs(found.residual).max() < 1e-12:
            break
    return ep.update(X, factors, damping=0.0)


@pytest.mark.parametrize("block_rows", [None, 4])
def test_binary_oracle(read_oracle, dense, block_rows):
    inputs, expected = read_oracle("ep/sep_binary_a")
    X, factors = inputs["X"], BinaryFactors(inputs["y"] > 0)
    ep = TiedEP(
        [dense.kernel(inputs["hyper"])],
        [inputs["Z"]],
        touching=factors.touching(),
        jitters=[inputs["jitter_mm"]],
        block_rows=block_rows,
    )
    found = settled(ep, X, factors)
    assert found.log_z == pytest.approx(expected["logZ"], abs=1e-7)
    assert dense.in_u(ep.sites, 0)[0] == pytest.approx(expected["site_precision"], abs=1e-6)
    mean, cov = dense.q_of_u(ep.sites, 0)
    assert mean == pytest.approx(expected["q_mean"], abs=1e-7)
    assert cov == pytest.approx(expected["q_cov"], abs=1e-7)
    dtheta, dZ = found.gradient[0]
    assert dtheta == pytest.approx(dense.theta(expected["grad_eq10"], inputs["hyper"]), abs=1e-7)
    assert dZ == pytest.approx(expected["grad_eq10"]["Z"], abs=1e-7)
    posterior = Posterior(ep.sites.latents(), likelihood("probit"), classes=2)
    plus = posterior.predict(inputs["X_test"]).probabilities[:, 1]
    assert plus == pytest.approx(expected["test_prob_plus"], abs=1e-8)


def multiclass(read_oracle, dense, *, block_rows=None):
    inputs, expected = read_oracle("ep/sep_multi_c3_a")
    y, C = inputs["y"].astype(int), inputs["classes"]
    factors = PairFactors(y, C)
    assert factors.touching() == pytest.approx(expected["factors_per_class"])
    ep = TiedEP(
        [dense.kernel(hyper) for hyper in inputs["hyper"]],
        list(inputs["Z"]),
        touching=factors.touching(),
        jitters=[inputs["jitter_mm"]] * C,
        block_rows=block_rows,
    )
    return ep, inputs, expected, y


@pytest.mark.parametrize("block_rows", [None, 5])
def test_multiclass_oracle(read_oracle, dense, block_rows):
    ep, inputs, expected, y = multiclass(read_oracle, dense, block_rows=block_rows)
    found = settled(ep, inputs["X"], PairFactors(y, 3))
    assert found.log_z == pytest.approx(expected["logZ"], abs=1e-7)
    for c, (dtheta, dZ) in enumerate(found.gradient):
        mean, cov = dense.q_of_u(ep.sites, c)
        assert mean == pytest.approx(expected["q_mean"][c], abs=1e-6)
        assert cov == pytest.approx(expected["q_cov"][c], abs=1e-6)
        grad = expected["grad_eq10"][c]
        assert dtheta == pytest.approx(dense.theta(grad, inputs["hyper"][c]), abs=1e-6)
        assert dZ == pytest.approx(grad["Z"], abs=1e-6)
    posterior = Posterior(ep.sites.latents(), likelihood("robust-max"), classes=3)
    assert posterior.predict(inputs["X_test"]).probabilities == pytest.approx(expected["test_prob"], abs=1e-7)


def test_minibatch_oracle(read_oracle, dense):
    ep, inputs, expected, y = multiclass(read_oracle, dense)
    X = inputs["X"]
    first, second = np.split(np.arange(len(X)), [len(X) // 2])
    for rows, damping in ((first, 1.0), (second, 1.0), (first, 0.5)):
        ep.update(X[rows], PairFactors(y[rows], 3), damping=damping, gradient=False)
    path = expected["minibatch"]
    for c in range(3):
        mean, cov = dense.q_of_u(ep.sites, c)
        assert mean == pytest.approx(path["q_mean"][c], abs=1e-6)
        assert cov == pytest.approx(path["q_cov"][c], abs=1e-6)
        assert dense.in_u(ep.sites, c)[0] == pytest.approx(path["site_precision"][c], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("C", [2, 3])
def test_gradient_by_finite_differences(dense, C):
    """Sites and cavities held as functions of u, at any state; the batch's data term counts n / b times."""
    rng = np.random.default_rng(0)
    F = 1 if C == 2 else C
    X, y = rng.normal(size=(10, 2)), rng.integers(C, size=10)
    kernels = [make_kernel("se-ard", 2, variance=1.0 + c, lengthscale=1.0, noise=0.2) for c in range(F)]
    Z = [rng.normal(size=(3, 2)) for _ in range(F)]
    jitters, P = [1e-6] * F, kernels[0].theta.size

    touching = dense.factors(y, C).touching()
    ep = TiedEP(kernels, Z, touching=touching, jitters=jitters)
    ep.update(X, dense.factors(y, C), damping=0.5)
    S, e = zip(*(dense.in_u(ep.sites, c) for c in range(F)), strict=True)
    prior_now = [np.linalg.inv(basis.L @ basis.L.T) for basis in ep.sites.bases]
    rows, scale = np.array([0, 3, 7]), 10 / 3

    def value(v):
        parts = v.reshape(F, -1)
        moved = [k.with_theta(p[:P]) for k, p in zip(kernels, parts, strict=True)]
        grams = [k.gram(p[P:].reshape(3, 2)) + 1e-6 * np.eye(3) for k, p in zip(moved, parts, strict=True)]
        out, s, h, g = 0.0, [], [], []
        for c, K in enumerate(grams):
            prior, share = np.linalg.inv(K), 1 - 1 / touching[c]
            out += dense.normaliser(prior + S[c], e[c]) - dense.normaliser(prior, np.zeros(3))
            cavity = prior_now[c] + share * S[c]
            near = moved[c].cross(X[rows], parts[c][P:].reshape(3, 2))
            nu = np.linalg.solve(K, near.T).T
            s.append(moved[c].diag(X[rows]) - (nu * near).sum(1))
            h.append((nu @ np.linalg.inv(cavity) * nu).sum(1))
            g.append(nu @ np.linalg.solve(cavity, share * e[c]))
        for i, label in enumerate(y[rows]):
            if C == 2:
                out += scale * log_ndtr((2 * label - 1) * g[0][i] / np.sqrt(1 + s[0][i] + h[0][i]))
                continue
            for k in range(C):
                z = s[label][i] + s[k][i] + h[label][i] + h[k][i]
                out += scale * log_ndtr((g[label][i] - g[k][i]) / np.sqrt(z)) * (k != label)
        return out

    v0 = dense.flat([(k.theta, z) for k, z in zip(kernels, Z, strict=True)])
    found = ep.update(X[rows], dense.factors(y[rows], C), scale=scale).gradient
    assert dense.flat(found) == pytest.approx(dense.differences(value, v0), abs=1e-6)


def test_a_move_leaves_the_sites_what_they_are_in_u(dense):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.integers(3, size=30)
    kernels = [make_kernel("se-ard", 2, variance=1.0, lengthscale=1.0, noise=0.1)] * 3
    Z = [X[:5]] * 3
    factors = PairFactors(y, 3)
    ep = TiedEP(kernels, Z, touching=factors.touching())
    ep.update(X, factors)
    before = [dense.in_u(ep.sites, c)[0] for c in range(3)]
    ep.sites.move([kernel.with_theta(kernel.theta + 0.3) for kernel in kernels], [z + 0.1 for z in Z])
    for c in range(3):
        assert dense.in_u(ep.sites, c)[0] == pytest.approx(before[c], rel=1e-8, abs=1e-8)


def test_without_all_classes_and_with_one_row():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 2))
    kernels = [make_kernel("se-ard", 2, variance=160.0, lengthscale=1.0, noise=0.0)] * 4
    for y in (np.array([2]), np.array([1, 1, 3, 1, 1, 1])):
        rows = X[: len(y)]
        factors = PairFactors(y, 4)
        ep = TiedEP(kernels, [np.repeat(X[:2], 2, axis=0)] * 4, touching=factors.touching())
        for _ in range(30):
            found = ep.update(rows, factors, damping=0.5)
        assert np.isfinite(found.log_z)
        assert all(np.isfinite(part).all() for pair in found.gradient for part in pair)


def test_it_comes_near_to_ep_as_rows_grow():
    gaps = []
    for n in (20, 80, 320):
        rng = np.random.default_rng(2)
        X = rng.normal(size=(n, 2))
        y = (X[:, 0] + 0.7 * rng.normal(size=n) > 0).astype(int)
        kernel, factors = make_kernel("se-ard", 2, variance=2.0, lengthscale=1.0, noise=0.1), BinaryFactors(y)
        tied = TiedEP([kernel], [X[:8]], touching=factors.touching())
        ep, x = ScalableEP([kernel], [X[:8]], X, factors), factors.start()
        for _ in range(80):
            x += 0.5 * (ep.evaluate(x, gradient=False).target - x)
            tied.update(X, factors, damping=0.5, gradient=False)
        p = [
            Posterior(latents, likelihood("probit"), classes=2).predict(X[:20]).probabilities
            for latents in (tied.sites.latents(), ep.latents())
        ]
        gaps.append(np.abs(p[0] - p[1]).max())
    assert gaps[2] < 0.5 * gaps[1] < 0.25 * gaps[0]
