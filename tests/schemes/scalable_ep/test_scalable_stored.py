"""Mini-batch EP against the oracle, batch EP, and finite differences with dense sites in u."""

import numpy as np
import pytest
from scipy.special import log_ndtr

from gpbench.errors import NumericalError
from gpbench.model.kernels import make_kernel
from gpbench.schemes.scalable_ep.evidence import ScalableEP
from gpbench.schemes.scalable_ep.factors import PairFactors
from gpbench.schemes.scalable_ep.stochastic import StoredEP

MULTI = ["scalable_ep_multi_c2_a", "scalable_ep_multi_c3_a", "scalable_ep_multi_c4_b"]


@pytest.mark.parametrize("name", MULTI)
@pytest.mark.parametrize(("dtype", "within"), [(np.float64, 1e-6), (np.float32, 1e-4)])
def test_oracle(read_oracle, dense, name, dtype, within):
    """Two batches, other hyper-parameters, the first batch again."""
    inputs, expected = read_oracle(f"ep/{name}")
    X, y, C = inputs["X"], inputs["y"].astype(int), inputs["classes"]
    Z, jitters = list(inputs["Z"]), [inputs["jitter_mm"]] * C
    kernels = [dense.kernel(hyper) for hyper in inputs["hyper"]]
    ep = StoredEP(kernels, Z, n=len(X), roles=2, dtype=dtype, jitters=jitters)
    first, second = np.split(np.arange(len(X)), [len(X) // 2])
    for rows in (first, second):
        ep.update(rows, X[rows], PairFactors(y[rows], C), gradient=False)
    ep.sites.move([dense.kernel(hyper, amp=1.2, stretch=1.15) for hyper in inputs["hyper"]], Z, jitters=jitters)
    ep.update(first, X[first], PairFactors(y[first], C), gradient=False)
    path = expected["minibatch"]
    for c in range(C):
        mean, cov = dense.q_of_u(ep.sites, c)
        assert mean == pytest.approx(path["q_mean"][c], abs=within)
        assert cov == pytest.approx(path["q_cov"][c], abs=within)
        precision, _ = dense.in_u(ep.sites, c)
        assert precision == pytest.approx(path["site_precision"][c], rel=10 * within, abs=10 * within)
    before = [G.copy() for G in ep.sites.G]
    ep.refresh(PairFactors(y, C))
    for old, new in zip(before, ep.sites.G, strict=True):
        assert new == pytest.approx(old, abs=1e-8)


def data(seed=0, *, n=24, C=3, M=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    F = 1 if C == 2 else C
    kernels = [make_kernel("se-ard", 2, variance=1.0 + c, lengthscale=1.0, noise=0.2) for c in range(F)]
    return X, rng.integers(C, size=n), kernels, [X[rng.choice(n, M, replace=False)] for _ in range(F)]


@pytest.mark.parametrize("C", [2, 3])
def test_minibatches_reach_the_fixed_point_of_all_rows(dense, C):
    X, y, kernels, Z = data(C=C)
    rng = np.random.default_rng(1)
    ep = StoredEP(kernels, Z, n=len(X), roles=1 if C == 2 else 2)
    for _ in range(150):
        for rows in np.split(rng.permutation(len(X)), 4):
            ep.update(rows, X[rows], dense.factors(y[rows], C), damping=0.7, gradient=False)
    batch = ScalableEP(kernels, Z, X, dense.factors(y, C))
    look = batch.evaluate(ep.x, gradient=False)
    assert look.target == pytest.approx(ep.x, abs=1e-6)
    for ours, theirs in zip(ep.sites.latents(), batch.latents(), strict=True):
        assert ours.m_w == pytest.approx(theirs.m_w, abs=1e-9)


@pytest.mark.parametrize("C", [2, 3])
def test_at_unmoved_kernels_the_gradient_is_that_of_batch_ep(dense, C):
    """All rows in one batch, whose sites stand on the present vectors."""
    X, y, kernels, Z = data(C=C)
    ep = StoredEP(kernels, Z, n=len(X), roles=1 if C == 2 else 2)
    every = np.arange(len(X))
    for _ in range(3):
        ep.update(every, X, dense.factors(y, C), damping=0.5, gradient=False)
    expected = ScalableEP(kernels, Z, X, dense.factors(y, C)).evaluate(ep.x).gradient
    found = ep.update(every, X, dense.factors(y, C)).gradient
    for (dtheta, dZ), (theirs, their_Z) in zip(found, expected, strict=True):
        assert dtheta == pytest.approx(theirs, abs=1e-9)
        assert dZ == pytest.approx(their_Z, abs=1e-9)


def test_gradient_with_sites_on_other_vectors_by_finite_differences(dense):
    """Sites and cavities held as functions of u; the batch's data term counts n / b times."""
    X, y, kernels, Z = data(C=3, n=10, M=3)
    ep = StoredEP(kernels, Z, n=len(X), roles=2, jitters=[1e-6] * 3)
    every = np.arange(len(X))
    ep.update(every, X, PairFactors(y, 3), damping=0.5)
    v0 = dense.flat([(k.theta + 0.2, z + 0.1) for k, z in zip(kernels, Z, strict=True)])
    ep.sites.move(*dense.unflat(v0, kernels, Z), jitters=[1e-6] * 3)
    rows = np.array([1, 4, 5, 8])
    S, e = zip(*(dense.in_u(ep.sites, c) for c in range(3)), strict=True)
    prior_now = [np.linalg.inv(basis.L @ basis.L.T) for basis in ep.sites.bases]
    x, stored = ep.x.copy(), [w.copy() for w in ep.w]
    pairs = [(i, k) for i in rows for k in range(3) if k != y[i]]

    def value(v):
        moved, places = dense.unflat(v, kernels, Z)
        grams = [k.gram(z) + 1e-6 * np.eye(3) for k, z in zip(moved, places, strict=True)]
        out = sum(
            dense.normaliser(np.linalg.inv(K) + S[c], e[c]) - dense.normaliser(np.linalg.inv(K), np.zeros(3))
            for c, K in enumerate(grams)
        )
        for i, k in pairs:
            z = gap = 0.0
            for c, role, sign in ((y[i], 0, 1.0), (k, 1, -1.0)):
                w = stored[c][i]
                precision = prior_now[c] + S[c] - x[role, i, k] * np.outer(w, w)
                shift = e[c] - x[2 + role, i, k] * w
                near = moved[c].cross(X[i : i + 1], places[c])[0]
                nu = np.linalg.solve(grams[c], near)
                z += moved[c].diag(X[i : i + 1])[0] - nu @ near + nu @ np.linalg.solve(precision, nu)
                gap += sign * nu @ np.linalg.solve(precision, shift)
            out += 2.5 * log_ndtr(gap / np.sqrt(z))
        return out

    found = ep.update(rows, X[rows], PairFactors(y[rows], 3), scale=2.5).gradient
    assert dense.flat(found) == pytest.approx(dense.differences(value, v0), abs=1e-6)


def test_a_kernel_that_cannot_be_factorised_changes_nothing():
    X, y, kernels, Z = data()
    ep = StoredEP(kernels, Z, n=len(X), roles=2)
    ep.update(np.arange(len(X)), X, PairFactors(y, 3))
    G, bases = [each.copy() for each in ep.sites.G], ep.sites.bases
    bad = [Z[0], Z[1], np.full_like(Z[2], np.nan)]
    with pytest.raises(NumericalError):
        ep.sites.move(kernels, bad)
    assert ep.sites.bases is bases
    for ours, before in zip(ep.sites.G, G, strict=True):
        assert (ours == before).all()


def test_batches_without_a_class_and_rows_that_come_again():
    X, y, kernels, Z = data(n=60)
    y = np.sort(y)  # the first batches hold one class alone
    ep = StoredEP(kernels, Z, n=len(X), roles=2, dtype=np.float32)
    for _ in range(20):
        for rows in np.split(np.arange(60), 12):
            gradient = ep.update(rows, X[rows], PairFactors(y[rows], 3), scale=12.0).gradient
            assert all(np.isfinite(part).all() for pair in gradient for part in pair)
    assert (ep.x[:2] >= 0).all()
    for c, G in enumerate(ep.sites.G):
        assert np.linalg.eigvalsh(G).min() > -1e-6 * np.abs(G).max(), c
