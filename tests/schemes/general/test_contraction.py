import numpy as np
import pytest

from gpbench.errors import UsageError
from gpbench.model.basis import Basis
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Logit, Ordinal, Poisson, Probit
from gpbench.schemes.general.contraction import contraction_distances, draw_targets, operator

KERNEL = make_kernel("se", 3, variance=1.0, lengthscale=0.6, noise=0.0)


def second_derivative(mean, var):
    """E of the logit's second derivative, on a fine grid."""
    f = mean + np.sqrt(var) * np.linspace(-9, 9, 4001)
    weights = np.exp(-0.5 * np.linspace(-9, 9, 4001) ** 2)
    p = 1.0 / (1.0 + np.exp(-f))
    return float(-(p * (1 - p) * weights).sum() / weights.sum())


def test_the_operator_is_equation_13():
    rng = np.random.default_rng(0)
    X = rng.random((12, 3))
    U, rows = X[:3], X[3:]
    basis = Basis(KERNEL, U)
    L = np.tril(basis.L)
    features, rest = (part.copy() for part in basis.whiten(rows, keep=False))
    K, K_nm = L @ L.T, KERNEL.cross(rows, U)
    root, m_w = rng.normal(size=(3, 3)) * 0.4, rng.normal(size=3)
    V, m = L @ root @ root.T @ L.T, L @ m_w
    A = np.linalg.solve(K, K_nm.T).T
    mean = A @ m
    var = 1.0 - np.einsum("nm,nm->n", A, K_nm) + np.einsum("nm,mk,nk->n", A, V, A)
    lam = np.array([second_derivative(*pair) for pair in zip(mean, var, strict=True)])
    expected = np.linalg.inv(np.linalg.inv(K) - A.T @ (lam[:, None] * A))
    found = operator(Logit(60), np.zeros(9, dtype=int), features=features, rest=rest, m_w=m_w, root=root)
    np.testing.assert_allclose(L @ found @ L.T, expected, rtol=1e-5)


def test_distances_are_those_of_pairs_below_the_prior():
    likelihoods = {"count": Poisson(), "ordinal": Ordinal((-1.0, 0.0, 1.0))}
    options = {"sizes": [2, 6], "rows": 30, "inputs": 3, "repeats": 5, "seed": 1}
    found = contraction_distances(KERNEL, likelihoods, **options)
    assert set(found) == {(name, size) for name in likelihoods for size in (2, 6)}
    for own in found.values():
        assert own.before.shape == own.after.shape == (5,)
        assert (own.ratios > 0).all()
        assert (own.before < 6.0).all()  # the largest eigenvalue of K is below its trace
    np.testing.assert_array_equal(found["count", 2].before, found["ordinal", 2].before)
    again = contraction_distances(KERNEL, likelihoods, **options)
    np.testing.assert_array_equal(found["count", 6].after, again["count", 6].after)


@pytest.mark.parametrize(("sizes", "repeats"), [([30], 1), ([0], 1), ([], 1), ([2], 0)])
def test_sizes_that_leave_no_rows(sizes, repeats):
    with pytest.raises(UsageError, match="active set sizes must be 1 to 29"):
        contraction_distances(KERNEL, {}, sizes=sizes, rows=30, inputs=3, repeats=repeats, seed=0)


@pytest.mark.parametrize("likelihood", [Logit(20), Ordinal((-1.0, 0.5), slope=2.0)])
def test_targets_come_as_often_as_the_likelihood_says(likelihood):
    f = np.full(200_000, 0.3)
    y = draw_targets(likelihood, f, np.random.default_rng(0))
    expected = likelihood.predict(f[:1, None], np.full((1, 1), 1e-12)).probabilities[0]
    np.testing.assert_allclose(np.bincount(y) / len(y), expected, atol=0.004)


def test_counts_have_the_mean_that_the_likelihood_says():
    y = draw_targets(Poisson(), np.full(200_000, 0.3), np.random.default_rng(0))
    assert y.mean() == pytest.approx(np.exp(0.3), rel=0.01)


def test_other_likelihoods_are_refused():
    with pytest.raises(UsageError, match="got Probit"):
        draw_targets(Probit(20), np.zeros(2), np.random.default_rng(0))
