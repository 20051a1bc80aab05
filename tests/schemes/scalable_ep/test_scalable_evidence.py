"""Scalable EP on all rows against the oracles, dense algebra, GFITC, full EP, and finite differences."""

import numpy as np
import pytest
from scipy.special import log_ndtr

from gpbench.errors import NumericalError
from gpbench.model.kernels import SE, Sum, White, make_kernel
from gpbench.model.likelihoods import likelihood
from gpbench.model.posterior import Posterior
from gpbench.optimize.fixed_point import FixedPointSearch, Proposal
from gpbench.schemes.ep.factors import ProbitFactors, StepFactors
from gpbench.schemes.ep.full import FullEP
from gpbench.schemes.ep.gfitc import settle_gfitc
from gpbench.schemes.scalable_ep.evidence import ScalableEP
from gpbench.schemes.scalable_ep.factors import BinaryFactors, PairFactors

BINARY = ["scalable_ep_binary_a", "scalable_ep_binary_b"]
MULTI = ["scalable_ep_multi_c2_a", "scalable_ep_multi_c3_a", "scalable_ep_multi_c4_b"]
TIGHT = FixedPointSearch(damping=0.5, tolerance=1e-12, limit=3000)


def problem(inputs, dense):
    """Kernels, inducing inputs and factors of an oracle."""
    if "classes" not in inputs:
        return [dense.kernel(inputs["hyper"])], [inputs["Z"]], BinaryFactors(inputs["y"] > 0)
    kernels = [dense.kernel(hyper) for hyper in inputs["hyper"]]
    return kernels, list(inputs["Z"]), PairFactors(inputs["y"].astype(int), inputs["classes"])


def updated(ep, factors, *, times, damping=0.5):
    x = factors.start()
    for _ in range(times):
        x += damping * (ep.evaluate(x, gradient=False).target - x)
    return x


def settled(ep, factors, search=TIGHT):
    """Sites at the fixed point; they have settled."""
    shape = factors.start().shape

    def update(x):
        now = ep.evaluate(x.reshape(shape), gradient=False)
        return Proposal(now.target.reshape(-1), now.weights.reshape(-1))

    search.forget()
    outcome = search.settle(update, factors.start().reshape(-1))
    assert outcome.settled
    return outcome.x.reshape(shape)


def check_gradient(dense, found, grads, hypers, *, within):
    for (dtheta, dZ), grad, hyper in zip(found, grads, hypers, strict=True):
        assert dtheta == pytest.approx(dense.theta(grad, hyper), abs=within)
        assert dZ == pytest.approx(grad["Z"], abs=within)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("block_rows", [None, 4])
def test_binary_oracle(read_oracle, dense, name, block_rows):
    """The same numbers with all rows in one block and in several."""
    inputs, expected = read_oracle(f"ep/{name}")
    kernels, Z, factors = problem(inputs, dense)
    ep = ScalableEP(kernels, Z, inputs["X"], factors, jitters=[inputs["jitter_mm"]], block_rows=block_rows)
    x = settled(ep, factors)
    assert x[:, :, 0] == pytest.approx(np.array([expected["c1"], expected["c2"]]), abs=1e-7)
    now = ep.evaluate(x)
    assert now.log_z == pytest.approx(expected["logZ"], abs=1e-8)
    check_gradient(dense, now.gradient, [expected["grad"]], [inputs["hyper"]], within=1e-7)
    posterior = Posterior(ep.latents(), likelihood("probit"), classes=2)
    mean, var = posterior.latent(inputs["X_test"])
    assert mean[:, 0] == pytest.approx(expected["test_mean"], abs=1e-8)
    assert var[:, 0] == pytest.approx(expected["test_var"], abs=1e-8)
    plus = posterior.predict(inputs["X_test"]).probabilities[:, 1]
    assert plus == pytest.approx(expected["test_prob_plus"], abs=1e-8)
    path = expected["trajectory"]
    now = ep.evaluate(updated(ep, factors, times=path["updates"], damping=path["damping"]))
    assert now.log_z == pytest.approx(path["logZ"], abs=1e-8)
    check_gradient(dense, now.gradient, [path["grad_eq10"]], [inputs["hyper"]], within=1e-7)


@pytest.mark.parametrize("name", MULTI)
@pytest.mark.parametrize("block_rows", [None, 5])
def test_multiclass_oracle(read_oracle, dense, name, block_rows):
    inputs, expected = read_oracle(f"ep/{name}")
    kernels, Z, factors = problem(inputs, dense)
    ep = ScalableEP(kernels, Z, inputs["X"], factors, jitters=[inputs["jitter_mm"]] * len(Z), block_rows=block_rows)
    x = settled(ep, factors)
    for found, role in zip(x, ["c1y", "c1k", "c2y", "c2k"], strict=True):
        assert found == pytest.approx(expected[role], abs=1e-6)
    now = ep.evaluate(x)
    assert now.log_z == pytest.approx(expected["logZ"], abs=1e-7)
    check_gradient(dense, now.gradient, expected["grad"], inputs["hyper"], within=1e-6)
    exact = ep.evaluate(x, exact=True)  # at the fixed point both gradients are the same
    check_gradient(dense, exact.gradient, expected["grad"], inputs["hyper"], within=1e-6)
    for c, latent in enumerate(ep.latents()):
        mean, var = latent.marginals()(inputs["X_test"])
        assert mean == pytest.approx(expected["test_mean"][:, c], abs=1e-6)
        assert var == pytest.approx(expected["test_var"][:, c], abs=1e-6)
    if len(Z) > 2:
        posterior = Posterior(ep.latents(), likelihood("robust-max"), classes=len(Z))
        assert posterior.predict(inputs["X_test"]).probabilities == pytest.approx(expected["test_prob"], abs=1e-7)
    path = expected["trajectory"]
    x = updated(ep, factors, times=path["updates"], damping=path["damping"])
    now = ep.evaluate(x)
    assert now.log_z == pytest.approx(path["logZ"], abs=1e-7)
    check_gradient(dense, now.gradient, path["grad_eq10"], inputs["hyper"], within=1e-6)
    check_gradient(dense, ep.evaluate(x, exact=True).gradient, path["grad_exact"], inputs["hyper"], within=1e-6)


def classes_data(seed=0, *, n=40, C=4, d=2, M=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = rng.integers(C, size=n)
    kernels = [make_kernel("se-ard", d, variance=1.0 + c, lengthscale=1.0, noise=0.1) for c in range(C)]
    return X, y, kernels, [X[rng.choice(n, M, replace=False)] for _ in range(C)]


def test_binary_form_is_gfitc(read_oracle, dense):
    """For a likelihood of one f_i, matching f_i and matching νᵀu are the same projection."""
    inputs, _ = read_oracle("ep/scalable_ep_binary_b")
    kernels, Z, factors = problem(inputs, dense)
    ep = ScalableEP(kernels, Z, inputs["X"], factors)
    now = ep.evaluate(settled(ep, factors))
    rival = ProbitFactors(inputs["y"])
    other = settle_gfitc(
        kernels, Z, inputs["X"], rival, x=rival.start(), search=FixedPointSearch(tolerance=1e-12, limit=999)
    )
    assert now.log_z == pytest.approx(other.log_z, abs=1e-10)
    (dtheta, dZ), (theirs, their_Z) = now.gradient[0], (parts[0] for parts in other.gradient())
    assert dtheta == pytest.approx(theirs, abs=1e-9)
    assert dZ == pytest.approx(their_Z, abs=1e-9)
    for ours, their in zip(
        *(run[0].marginals()(inputs["X_test"]) for run in (ep.latents(), other.latents())), strict=True
    ):
        assert ours == pytest.approx(their, abs=1e-9)


def test_two_classes_in_the_multiclass_form_are_gfitc():
    """With C = 2 a row has one factor, so that sharing f_i^y or not makes no difference."""
    X, y, kernels, Z = classes_data(C=2)
    factors, rival = PairFactors(y, 2), StepFactors(y, 2)
    ep = ScalableEP(kernels, Z, X, factors)
    now = ep.evaluate(settled(ep, factors))
    other = settle_gfitc(kernels, Z, X, rival, x=rival.start(), search=FixedPointSearch(tolerance=1e-11, limit=3000))
    assert now.log_z == pytest.approx(other.log_z, abs=1e-9)
    for (dtheta, dZ), theirs, their_Z in zip(now.gradient, *other.gradient(), strict=True):
        assert dtheta == pytest.approx(theirs, abs=1e-7)
        assert dZ == pytest.approx(their_Z, abs=1e-7)


def test_inducing_inputs_at_the_rows_are_full_ep():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 2))
    y = (X[:, 0] + 0.5 * rng.normal(size=20) > 0).astype(int)
    kernel = Sum((SE.of(variance=3.0, lengthscales=0.8),))
    factors = BinaryFactors(y)
    ep = ScalableEP([kernel], [X], X, factors, jitters=[1e-10])
    sites = ProbitFactors(2.0 * y - 1)
    full = FullEP(kernel, X, sites, x=sites.start(), search=FixedPointSearch(tolerance=1e-12, limit=999), jitter=1e-10)
    assert ep.evaluate(settled(ep, factors)).log_z == pytest.approx(full.log_z, abs=1e-7)


def test_equal_kernels_make_two_classes_mirror_images():
    X, y, kernels, Z = classes_data(C=2)
    factors = PairFactors(y, 2)
    ep = ScalableEP([kernels[0]] * 2, [Z[0]] * 2, X, factors)
    settled(ep, factors)
    first, second = ep.latents()
    assert first.m_w == pytest.approx(-second.m_w, abs=1e-10)
    assert first.covariance() == pytest.approx(second.covariance(), abs=1e-10)


def test_class_labels_and_the_order_of_rows_are_names_only():
    X, y, kernels, Z = classes_data()
    base = ScalableEP(kernels, Z, X, PairFactors(y, 4)).evaluate(PairFactors(y, 4).start() + 0.1 * (1 - np.eye(4)[y]))
    names, rows = np.array([2, 0, 3, 1]), np.random.default_rng(0).permutation(len(y))
    back = np.argsort(names)  # class names[c] is the c of before
    factors = PairFactors(names[y][rows], 4)
    start = factors.start() + 0.1 * (1 - np.eye(4)[names[y][rows]])
    other = ScalableEP([kernels[c] for c in back], [Z[c] for c in back], X[rows], factors).evaluate(start)
    assert other.log_z == pytest.approx(base.log_z, abs=1e-10)
    assert other.target[:, :, names] == pytest.approx(base.target[:, rows], abs=1e-10)
    for c in range(4):
        assert other.gradient[names[c]][0] == pytest.approx(base.gradient[c][0], abs=1e-9)


def test_flipped_labels_flip_the_mean():
    X, y, kernels, Z = classes_data(C=2)
    looks, means = [], []
    for labels in (y, 1 - y):
        ep = ScalableEP(kernels[:1], Z[:1], X, BinaryFactors(labels))
        looks.append(ep.evaluate(settled(ep, BinaryFactors(labels))).log_z)
        means.append(ep.latents()[0].m_w)
    assert looks[0] == pytest.approx(looks[1], abs=1e-10)
    assert means[0] == pytest.approx(-means[1], abs=1e-10)


def test_evidence_before_any_site():
    """All factors are independent then, and each has probability one half."""
    X, y, kernels, Z = classes_data()
    now = ScalableEP(kernels, Z, X, PairFactors(y, 4)).evaluate(PairFactors(y, 4).start())
    assert now.log_z == pytest.approx(len(y) * 3 * np.log(0.5))
    one = ScalableEP(kernels[:1], Z[:1], X[:1], BinaryFactors(y[:1] > 1)).evaluate(np.zeros((2, 1, 1)))
    assert one.log_z == pytest.approx(np.log(0.5))


@pytest.mark.parametrize("C", [2, 3])
def test_gradient_at_the_fixed_point_by_finite_differences(dense, C):
    X, y, kernels, Z = classes_data(C=C, n=8, M=2)
    F = 1 if C == 2 else C
    kernels, Z = kernels[:F], Z[:F]
    factors = BinaryFactors(y) if C == 2 else PairFactors(y, C)
    jitters = [1e-6] * F

    def log_z(v):
        ep = ScalableEP(*dense.unflat(v, kernels, Z), X, factors, jitters=jitters)
        return ep.evaluate(settled(ep, factors), gradient=False).log_z

    v = dense.flat([(k.theta, z) for k, z in zip(kernels, Z, strict=True)])
    ep = ScalableEP(kernels, Z, X, factors, jitters=jitters)
    found = dense.flat(ep.evaluate(settled(ep, factors)).gradient)
    assert found == pytest.approx(dense.differences(log_z, v), abs=2e-7)


class Dense:
    """Sites, cavities and evidence by M x M Gaussians in u: nothing is whitened, factors come one by one."""

    def __init__(self, kernels, Z, X, y, jitter):
        self.y, self.C = y, len(Z)
        self.K = [k.gram(z) + jitter * np.eye(len(z)) for k, z in zip(kernels, Z, strict=True)]
        cross = [k.cross(X, z) for k, z in zip(kernels, Z, strict=True)]
        self.nu = [np.linalg.solve(K, P.T).T for K, P in zip(self.K, cross, strict=True)]
        self.s = [k.diag(X) - (n * P).sum(1) for k, n, P in zip(kernels, self.nu, cross, strict=True)]

    def sites(self, x, c, i, k):
        """Natural parameters in u of the site that factor (i, k) has on class c."""
        role = 0 if c == self.y[i] else 1
        nu = self.nu[c][i]
        return x[role, i, k] * np.outer(nu, nu), x[2 + role, i, k] * nu

    def pairs(self):
        return [(i, k) for i in range(len(self.y)) for k in range(self.C) if k != self.y[i]]

    def log_phi(self, i, k, cavities):
        """Of factor (i, k) whose cavities in u are given for both classes."""
        z, gap = 0.0, 0.0
        for c, sign in ((self.y[i], 1.0), (k, -1.0)):
            precision, shift = cavities[c]
            nu = self.nu[c][i]
            z += self.s[c][i] + nu @ np.linalg.solve(precision, nu)
            gap += sign * nu @ np.linalg.solve(precision, shift)
        return log_ndtr(gap / np.sqrt(z))


@pytest.mark.parametrize("exact", [False, True])
def test_gradients_away_from_the_fixed_point_by_finite_differences(dense, exact):
    """Eq. (10) holds sites and cavities as functions of u, the exact gradient the sites alone."""
    X, y, kernels, Z = classes_data(C=3, n=9, M=3)
    jitter = 1e-6
    factors = PairFactors(y, 3)
    ep = ScalableEP(kernels, Z, X, factors, jitters=[jitter] * 3)
    x = updated(ep, factors, times=2)
    now = Dense(kernels, Z, X, y, jitter)
    held = {(i, k): {c: now.sites(x, c, i, k) for c in (y[i], k)} for i, k in now.pairs()}
    total = [(np.zeros((3, 3)), np.zeros(3)) for _ in range(3)]
    for parts in held.values():
        for c, (precision, shift) in parts.items():
            total[c] = (total[c][0] + precision, total[c][1] + shift)
    prior_now = [np.linalg.inv(K) for K in now.K]

    def value(v):
        there = Dense(*dense.unflat(v, kernels, Z), X, y, jitter)
        priors = [np.linalg.inv(K) for K in there.K]
        q = [(P + S, e) for P, (S, e) in zip(priors, total, strict=True)]
        out = sum(dense.normaliser(*each) - dense.normaliser(P, np.zeros(3)) for each, P in zip(q, priors, strict=True))
        for (i, k), parts in held.items():
            base = priors if exact else prior_now
            cavities = {c: (base[c] + total[c][0] - S, total[c][1] - e) for c, (S, e) in parts.items()}
            out += there.log_phi(i, k, cavities)
            if exact:
                out += sum(dense.normaliser(*cavities[c]) - dense.normaliser(*q[c]) for c in parts)
        return out

    v = dense.flat([(k.theta, z) for k, z in zip(kernels, Z, strict=True)])
    now = ep.evaluate(x, exact=exact)
    found = dense.flat(now.gradient)
    assert found == pytest.approx(dense.differences(value, v), abs=1e-7)
    if exact:
        assert now.log_z == pytest.approx(value(v), abs=1e-9)


@pytest.mark.parametrize("variance", [1.0, 160.0, 1e6])
def test_hard_conditions(variance):
    """Large variances, duplicate rows and inducing inputs, unscaled inputs, a class with one row and one with none."""
    rng = np.random.default_rng(3)
    X = np.repeat(rng.normal(size=(30, 3)) * [1.0, 1e3, 1e-3], 2, axis=0)
    y = np.where(X[:, 0] > 0, 1, 3)
    y[0] = 0
    scale = X.std(axis=0)
    kernel = Sum((SE.of(variance=variance, lengthscales=scale), White.of(variance=1e-3)))
    Z = [np.repeat(X[:8:2], 2, axis=0)] * 5
    factors = PairFactors(y, 5)
    ep = ScalableEP([kernel] * 5, Z, X, factors)
    x = factors.start()
    changes = []
    for _ in range(60):
        now = ep.evaluate(x)
        assert all(np.isfinite(part).all() for pair in now.gradient for part in pair)
        changes.append(np.max(now.weights * np.abs(now.target - x)))
        assert (now.target[:2] >= 0).all()
        x += 0.5 * (now.target - x)
    assert (np.diff(changes[5:]) < 0).all()  # along what is common to all classes the data say little: it takes long
    assert changes[-1] < 0.25 * max(changes)
    assert np.isfinite(now.log_z)


def test_sites_that_are_not_their_posteriors_are_refused():
    X, y, kernels, Z = classes_data()
    factors = PairFactors(y, 4)
    wrong = factors.start() - 5.0 * (1 - np.eye(4)[y])
    with np.errstate(invalid="ignore"), pytest.raises(NumericalError, match="positive"):
        ScalableEP(kernels, Z, X, factors).evaluate(wrong)
