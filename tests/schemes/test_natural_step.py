"""Natural-gradient steps: the oracle, the exact limit, and the warm-up of their rate."""

import json
from pathlib import Path

import numpy as np
import pytest

from gpbench.errors import NumericalError, UsageError
from gpbench.model.basis import Basis, Moments, marginals
from gpbench.model.gaussian import GaussianQ
from gpbench.model.kernels import SE, Sum, White
from gpbench.model.likelihoods import Logit, Probit
from gpbench.schemes.svgpc import WarmUp, natural_step

ORACLE = json.loads((Path(__file__).parents[1] / "oracles" / "natgrad_step_svgp.json").read_text())


def gaussian(m, S):
    return GaussianQ(m, np.asfortranarray(np.linalg.cholesky(np.linalg.inv(S))), "precision")


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_a_minibatch_step_is_the_oracles(link):
    given, expected = ORACLE["inputs"], ORACLE["expected"][link]
    X, y, Z, m, L = (np.array(given[key]) for key in ("X", "y", "Z", "m", "L"))
    part = given["kernel"]["parts"][0]
    se = SE.of(variance=part["variance"], lengthscales=part["lengthscales"])
    basis = Basis(Sum((se, White.of(variance=given["kernel"]["white"]))), Z, jitter=given["kernel"]["jitter"])
    rows = given["batch_indices_zero_based"]
    q = GaussianQ(m, np.asfortranarray(L), "covariance")
    (block,) = marginals(basis, X[rows], q)
    model = {"probit": Probit, "logit": Logit}[link](nodes=120)
    _, g, h = (len(X) / len(rows) * each for each in model.expectations((y[rows] > 0).astype(int), block.mu, block.s))
    sums = Moments(len(m))
    sums.add(block.T, weights=-h, targets=g)
    moved = natural_step(gaussian(m, L @ L.T), sums.G, sums.r, rate=given["gamma"])
    assert moved.mean == pytest.approx(np.array(expected["m_new"]), abs=1e-8)
    assert moved.covariance == pytest.approx(np.array(expected["S_new"]), abs=1e-8)


def test_rate_one_is_exact_where_the_data_terms_are_quadratic():
    rng = np.random.default_rng(0)
    T, y, noise = rng.normal(size=(20, 4)), rng.normal(size=20), 0.3
    q = gaussian(rng.normal(size=4), np.diag([1.0, 2.0, 0.5, 3.0]))
    p = T.T @ (y - T @ q.mean) / noise
    moved = natural_step(q, np.asfortranarray(T.T @ T / (2 * noise)), p, rate=1.0)
    exact = np.eye(4) + T.T @ T / noise
    assert moved.mean == pytest.approx(np.linalg.solve(exact, T.T @ y / noise), rel=1e-12)
    assert pytest.approx(exact, rel=1e-12) == moved.root @ moved.root.T


def test_kl_is_that_of_the_other_form():
    rng = np.random.default_rng(1)
    root = np.tril(rng.normal(size=(4, 4)))
    m = rng.normal(size=4)
    assert gaussian(m, root @ root.T).kl == pytest.approx(GaussianQ(m, np.asfortranarray(root), "covariance").kl)
    assert GaussianQ.prior(4).kl == pytest.approx(0.0, abs=1e-14)


def test_a_step_leaves_the_start_as_it_was():
    q = GaussianQ.prior(3)
    natural_step(q, np.asfortranarray(np.eye(3)), np.ones(3), rate=0.5)
    assert (q.mean == 0).all()
    assert (np.eye(3) == q.root).all()


def test_what_is_not_finite_is_an_error():
    with pytest.raises(NumericalError):
        natural_step(GaussianQ.prior(2), np.full((2, 2), np.nan, order="F"), np.zeros(2), rate=0.5)


def test_rates_grow_in_equal_ratios_and_stay():
    rates = WarmUp(1e-4, 0.1, steps=4)
    assert [rates.rate(t) for t in range(6)] == pytest.approx([1e-4, 1e-3, 1e-2, 0.1, 0.1, 0.1])
    assert WarmUp(1e-4, 0.3, steps=0).rate(0) == 0.3
    with pytest.raises(UsageError, match="2"):
        WarmUp(0.1, 2.0, steps=3)


def test_rates_fall_once_they_have_grown():
    rates = WarmUp(1e-4, 0.1, steps=4, window=200.0)
    assert [rates.rate(t) for t in (0, 3, 4, 204, 604)] == pytest.approx([1e-4, 0.1, 0.1, 0.05, 0.025])
