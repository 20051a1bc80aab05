"""Stochastic EP against the oracles, finite differences with sites and cavities held, and EP on many rows."""

import numpy as np
import pytest
from scipy.special import log_ndtr

from gpbench.model.kernels import SE, Sum, White, make_kernel
from gpbench.model.likelihoods import likelihood
from gpbench.model.posterior import Posterior
from gpbench.schemes.scalable_ep import tied as ep_tied
from gpbench.schemes.scalable_ep.factors import BinaryFactors, PairFactors
from gpbench.schemes.scalable_ep.scalable import ScalableEP
from gpbench.schemes.scalable_ep.tied import TiedEP


def kernel_of(hyper):
    parts = [SE.of(variance=hyper["amp2"], lengthscales=hyper["ls"])]
    if hyper["noise2"] > 0:
        parts.append(White.of(variance=hyper["noise2"]))
    return Sum(tuple(parts))


def theta_gradient(grad, hyper):
    noise = [grad["log_noise2"]] if hyper["noise2"] > 0 else []
    return np.array([grad["log_amp2"], *grad["log_ls"], *noise])


def settled(ep, X, factors):
    for _ in range(4000):
        look = ep.look(X, factors, damping=0.5, gradient=False)
        if np.abs(look.residual).max() < 1e-12:
            break
    return ep.look(X, factors, damping=0.0)


def site_precision(ep, c):
    L = ep.sites.bases[c].L
    return np.linalg.solve(L.T, np.linalg.solve(L.T, ep.sites.G[c]).T)


def q_of(ep, c):
    L, latent = ep.sites.bases[c].L, ep.sites.latents()[c]
    return L @ latent.m_w, L @ latent.covariance() @ L.T


@pytest.mark.parametrize("one_block", [True, False])
def test_binary_oracle(read_oracle, monkeypatch, one_block):
    monkeypatch.setattr(ep_tied, "ONE_BLOCK", 10**6 if one_block else 0)
    inputs, expected = read_oracle("ep/sep_binary_a")
    X, factors = inputs["X"], BinaryFactors(inputs["y"] > 0)
    ep = TiedEP(
        [kernel_of(inputs["hyper"])],
        [inputs["Z"]],
        touching=factors.touching(),
        jitters=[inputs["jitter_mm"]],
        size=4,
    )
    look = settled(ep, X, factors)
    assert look.log_z == pytest.approx(expected["logZ"], abs=1e-7)
    assert site_precision(ep, 0) == pytest.approx(expected["site_precision"], abs=1e-6)
    mean, cov = q_of(ep, 0)
    assert mean == pytest.approx(expected["q_mean"], abs=1e-7)
    assert cov == pytest.approx(expected["q_cov"], abs=1e-7)
    dtheta, dZ = look.gradient[0]
    assert dtheta == pytest.approx(theta_gradient(expected["grad_eq10"], inputs["hyper"]), abs=1e-7)
    assert dZ == pytest.approx(expected["grad_eq10"]["Z"], abs=1e-7)
    posterior = Posterior(ep.sites.latents(), likelihood("probit"), classes=2)
    plus = posterior.predict(inputs["X_test"]).probabilities[:, 1]
    assert plus == pytest.approx(expected["test_prob_plus"], abs=1e-8)


def multiclass(read_oracle):
    inputs, expected = read_oracle("ep/sep_multi_c3_a")
    y, C = inputs["y"].astype(int), inputs["classes"]
    factors = PairFactors(y, C)
    assert factors.touching() == pytest.approx(expected["factors_per_class"])
    ep = TiedEP(
        [kernel_of(hyper) for hyper in inputs["hyper"]],
        list(inputs["Z"]),
        touching=factors.touching(),
        jitters=[inputs["jitter_mm"]] * C,
        size=5,
    )
    return ep, inputs, expected, y


@pytest.mark.parametrize("one_block", [True, False])
def test_multiclass_oracle(read_oracle, monkeypatch, one_block):
    monkeypatch.setattr(ep_tied, "ONE_BLOCK", 10**6 if one_block else 0)
    ep, inputs, expected, y = multiclass(read_oracle)
    look = settled(ep, inputs["X"], PairFactors(y, 3))
    assert look.log_z == pytest.approx(expected["logZ"], abs=1e-7)
    for c, (dtheta, dZ) in enumerate(look.gradient):
        mean, cov = q_of(ep, c)
        assert mean == pytest.approx(expected["q_mean"][c], abs=1e-6)
        assert cov == pytest.approx(expected["q_cov"][c], abs=1e-6)
        grad = expected["grad_eq10"][c]
        assert dtheta == pytest.approx(theta_gradient(grad, inputs["hyper"][c]), abs=1e-6)
        assert dZ == pytest.approx(grad["Z"], abs=1e-6)
    posterior = Posterior(ep.sites.latents(), likelihood("robust-max"), classes=3)
    assert posterior.predict(inputs["X_test"]).probabilities == pytest.approx(expected["test_prob"], abs=1e-7)


def test_minibatch_oracle(read_oracle):
    ep, inputs, expected, y = multiclass(read_oracle)
    X = inputs["X"]
    first, second = np.split(np.arange(len(X)), [len(X) // 2])
    for rows, damping in ((first, 1.0), (second, 1.0), (first, 0.5)):
        ep.look(X[rows], PairFactors(y[rows], 3), damping=damping, gradient=False)
    path = expected["minibatch"]
    for c in range(3):
        mean, cov = q_of(ep, c)
        assert mean == pytest.approx(path["q_mean"][c], abs=1e-6)
        assert cov == pytest.approx(path["q_cov"][c], abs=1e-6)
        assert site_precision(ep, c) == pytest.approx(path["site_precision"][c], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("C", [2, 3])
def test_gradient_by_finite_differences(C):
    """Sites and cavities held as functions of u, at any state; the batch's data term counts n / b times."""
    rng = np.random.default_rng(0)
    F = 1 if C == 2 else C
    X, y = rng.normal(size=(10, 2)), rng.integers(C, size=10)
    kernels = [make_kernel("se-ard", 2, variance=1.0 + c, lengthscale=1.0, noise=0.2) for c in range(F)]
    Z = [rng.normal(size=(3, 2)) for _ in range(F)]
    jitters, P = [1e-6] * F, kernels[0].theta.size

    def factors_of(y):
        return BinaryFactors(y) if C == 2 else PairFactors(y, C)

    touching = factors_of(y).touching()
    ep = TiedEP(kernels, Z, touching=touching, jitters=jitters)
    ep.look(X, factors_of(y), damping=0.5)
    S = [site_precision(ep, c) for c in range(F)]
    e = [np.linalg.solve(basis.L.T, ep.sites.e[c]) for c, basis in enumerate(ep.sites.bases)]
    prior_now = [np.linalg.inv(basis.L @ basis.L.T) for basis in ep.sites.bases]
    rows, scale = np.array([0, 3, 7]), 10 / 3

    def normaliser(precision, shift):
        return 0.5 * shift @ np.linalg.solve(precision, shift) - 0.5 * np.linalg.slogdet(precision)[1]

    def value(v):
        parts = v.reshape(F, -1)
        moved = [k.with_theta(p[:P]) for k, p in zip(kernels, parts, strict=True)]
        grams = [k.gram(p[P:].reshape(3, 2)) + 1e-6 * np.eye(3) for k, p in zip(moved, parts, strict=True)]
        out, s, h, g = 0.0, [], [], []
        for c, K in enumerate(grams):
            prior, share = np.linalg.inv(K), 1 - 1 / touching[c]
            out += normaliser(prior + S[c], e[c]) - normaliser(prior, np.zeros(3))
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

    v0 = np.concatenate([np.concatenate([k.theta, z.ravel()]) for k, z in zip(kernels, Z, strict=True)])
    numeric = np.empty_like(v0)
    for i in range(len(v0)):
        step = np.zeros_like(v0)
        step[i] = 1e-5
        numeric[i] = (value(v0 + step) - value(v0 - step)) / 2e-5
    found = ep.look(X[rows], factors_of(y[rows]), scale=scale).gradient
    assert np.concatenate([np.concatenate([t, z.ravel()]) for t, z in found]) == pytest.approx(numeric, abs=1e-6)


def test_a_move_leaves_the_sites_what_they_are_in_u():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.integers(3, size=30)
    kernels = [make_kernel("se-ard", 2, variance=1.0, lengthscale=1.0, noise=0.1)] * 3
    Z = [X[:5]] * 3
    factors = PairFactors(y, 3)
    ep = TiedEP(kernels, Z, touching=factors.touching())
    ep.look(X, factors)
    before = [site_precision(ep, c) for c in range(3)]
    ep.sites.move([kernel.with_theta(kernel.theta + 0.3) for kernel in kernels], [z + 0.1 for z in Z])
    for c in range(3):
        assert site_precision(ep, c) == pytest.approx(before[c], rel=1e-8, abs=1e-8)


def test_without_all_classes_and_with_one_row():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 2))
    kernels = [make_kernel("se-ard", 2, variance=160.0, lengthscale=1.0, noise=0.0)] * 4
    for y in (np.array([2]), np.array([1, 1, 3, 1, 1, 1])):
        rows = X[: len(y)]
        factors = PairFactors(y, 4)
        ep = TiedEP(kernels, [np.repeat(X[:2], 2, axis=0)] * 4, touching=factors.touching())
        for _ in range(30):
            look = ep.look(rows, factors, damping=0.5)
        assert np.isfinite(look.log_z)
        assert all(np.isfinite(part).all() for pair in look.gradient for part in pair)


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
            x += 0.5 * (ep.look(x, gradient=False).target - x)
            tied.look(X, factors, damping=0.5, gradient=False)
        p = [
            Posterior(latents, likelihood("probit"), classes=2).predict(X[:20]).probabilities
            for latents in (tied.sites.latents(), ep.latents())
        ]
        gaps.append(np.abs(p[0] - p[1]).max())
    assert gaps[2] < 0.5 * gaps[1] < 0.25 * gaps[0]
