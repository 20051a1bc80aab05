"""Poisson, ordinal and Gaussian likelihoods: derivatives, expectations, predictions, extremes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from gpbench.errors import DataError, UsageError
from gpbench.model.likelihoods import Gaussian, Logit, Ordinal, Poisson, Probit, likelihood, likelihood_from_spec

ORDINAL = Ordinal((-1.0, 0.4, 2.5), slope=2.0)
ALL = [Poisson(), ORDINAL, Gaussian(0.7), Logit(), Probit()]
names = pytest.mark.parametrize("model", ALL, ids=lambda model: model.name)


def targets(model, n, rng):
    if model.name == "poisson":
        return rng.poisson(4.0, n)
    if model.name == "gaussian":
        return rng.normal(size=n)
    return rng.integers(0, 4 if model.name == "ordinal" else 2, n)


def difference(function, at, step):
    return (function(at + step) - function(at - step)) / (2 * step)


@names
def test_derivatives_are_finite_differences(model):
    rng = np.random.default_rng(0)
    f, y = rng.normal(size=60) * 2, targets(model, 60, rng)
    first, second = model.derivatives(y, f)
    third = model.third_derivative(y, f)
    assert first == pytest.approx(difference(lambda x: model.log_density(y, x), f, 1e-5), rel=1e-7, abs=1e-8)
    assert second == pytest.approx(difference(lambda x: model.derivatives(y, x)[0], f, 1e-5), rel=1e-7, abs=1e-8)
    assert third == pytest.approx(difference(lambda x: model.derivatives(y, x)[1], f, 1e-5), rel=1e-7, abs=1e-7)


@names
def test_expectations_and_their_gradients(model):
    rng = np.random.default_rng(1)
    mu, var, y = rng.normal(size=50), rng.gamma(1.0, 0.5, size=50), targets(model, 50, rng)
    e, g, h = model.expectations(y, mu, var)
    nodes, weights = special.roots_hermitenorm(90)
    points = mu[:, None] + np.sqrt(var)[:, None] * nodes
    values = model.log_density(np.repeat(y, 90), points.ravel()).reshape(50, 90) @ weights / weights.sum()
    assert e == pytest.approx(values, abs=2e-3)  # the rule of 20 nodes, at kappa^2 var up to 16
    assert g == pytest.approx(difference(lambda x: model.expectations(y, x, var)[0], mu, 1e-5), rel=1e-7, abs=1e-8)
    by_var = model.expectations(y, mu, var * (1 + 1e-5))[0] - model.expectations(y, mu, var * (1 - 1e-5))[0]
    assert h == pytest.approx(by_var / (2e-5 * var), rel=1e-5, abs=1e-7)
    assert (h <= 0).all()


@pytest.mark.parametrize("model", [ORDINAL, Ordinal((0.3,)), Gaussian(0.7)], ids=str)
def test_gradients_in_the_parameters(model):
    rng = np.random.default_rng(2)
    n = 40
    y = rng.normal(size=n) if model.name == "gaussian" else rng.integers(0, len(model.edges) + 1, n)
    f, mu, var = rng.normal(size=n) * 2, rng.normal(size=n), rng.gamma(1.0, 1.0, size=n)
    assert len(model.free_names) == len(model.free)
    back = model.with_free(model.free)
    assert back.free == pytest.approx(model.free, abs=1e-14)
    gradient = model.free_gradient(y, mu, var)
    first, second, third = model.free_derivatives(y, f)
    for i in range(len(model.free)):
        step = 1e-5 * np.eye(len(model.free))[i]
        up, down = model.with_free(model.free + step), model.with_free(model.free - step)
        wanted = (up.expectations(y, mu, var)[0].sum() - down.expectations(y, mu, var)[0].sum()) / 2e-5
        assert gradient[i] == pytest.approx(wanted, rel=1e-7, abs=1e-7)
        assert first[i] == pytest.approx((up.log_density(y, f) - down.log_density(y, f)) / 2e-5, abs=1e-8)
        slopes = [each.derivatives(y, f) for each in (up, down)]
        assert second[i] == pytest.approx((slopes[0][0] - slopes[1][0]) / 2e-5, abs=1e-8)
        assert third[i] == pytest.approx((slopes[0][1] - slopes[1][1]) / 2e-5, abs=1e-8)


def test_likelihoods_without_parameters():
    assert Poisson().free.shape == (0,)
    assert Poisson().with_free(np.empty(0)) == Poisson()
    with pytest.raises(UsageError, match="no parameters"):
        Poisson().with_free(np.zeros(1))


@pytest.mark.parametrize("name", ["sheth_poisson_optimum", "sheth_ordinal_optimum", "sheth_logit_optimum"])
def test_predictions_of_the_oracles(read_oracle, name):
    inputs, expected = read_oracle(name)
    mean, var = expected["test_latent_mean"][:, None], expected["test_latent_var"][:, None]
    if name == "sheth_poisson_optimum":
        assert Poisson().point(mean, var) == pytest.approx(expected["test_predictive_mean"], rel=1e-9)
    elif name == "sheth_ordinal_optimum":
        model = Ordinal(tuple(inputs["edges"]), slope=inputs["slope"])
        p = model.predict(mean, var).probabilities
        assert p == pytest.approx(expected["test_category_prob"], abs=1e-9)
        assert p.sum(axis=1) == pytest.approx(np.ones(4), abs=1e-14)
    else:
        assert Logit().predict(mean, var).probabilities[:, 1] == pytest.approx(expected["test_prob"], abs=1e-9)


@pytest.mark.parametrize(("mu", "s"), [(0.0, 1.0), (2.0, 0.3), (-1.0, 2.0), (1.0, 1e-12)])
def test_poisson_predictive_probabilities_sum_to_one(mu, s):
    y = np.arange(40_000)
    log_p = Poisson().log_predictive(y, np.full((len(y), 1), mu), np.full((len(y), 1), s))
    p = np.exp(log_p)
    assert p.sum() == pytest.approx(1.0, abs=1e-9)
    assert (p @ y) == pytest.approx(np.exp(mu + s / 2), rel=1e-8)


def test_poisson_predictive_without_variance_is_poisson():
    y, mu = np.array([0, 3, 1_000_000, 999_000]), np.array([0.4, 1.0, np.log(1e6), np.log(1e6)])
    log_p = Poisson().log_predictive(y, mu[:, None], np.zeros((4, 1)))
    assert log_p == pytest.approx(stats.poisson.logpmf(y, np.exp(mu)), rel=1e-7)


def test_ordinal_probabilities_are_differences_of_logistic_normal_integrals():
    mean, var = np.array([[0.3], [-7.0], [12.0]]), np.array([[0.5], [4.0], [2.0]])
    nodes, weights = special.roots_hermitenorm(200)
    f = mean + np.sqrt(var) * nodes
    below = np.stack([special.expit(2.0 * (edge - f)) @ weights / weights.sum() for edge in ORDINAL.edges], axis=1)
    below = np.concatenate([np.zeros((3, 1)), below, np.ones((3, 1))], axis=1)
    prediction = ORDINAL.predict(mean, var)
    assert prediction.probabilities == pytest.approx(np.diff(below, axis=1), abs=1e-9)
    assert prediction.point.tolist() == np.diff(below, axis=1).argmax(axis=1).tolist()
    for y in range(4):
        log_p = ORDINAL.log_predictive(np.full(3, y), mean, var)
        assert np.exp(log_p) == pytest.approx(prediction.probabilities[:, y], rel=1e-8)


def test_two_ordinal_categories_are_the_logit():
    rng = np.random.default_rng(3)
    y, mu, var = rng.integers(0, 2, 20), rng.normal(size=20), rng.gamma(1.0, 1.0, size=20)
    two = Ordinal((0.0,))
    for ours, theirs in zip(two.expectations(y, mu, var), Logit().expectations(y, mu, var), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-12)
    assert two.log_predictive(y, mu[:, None], var[:, None]) == pytest.approx(
        Logit().log_predictive(y, mu[:, None], var[:, None]), abs=1e-10
    )


@settings(max_examples=40, deadline=None)
@given(mu=st.floats(-800, 800), log_var=st.floats(-25, 8), y=st.integers(0, 3))
def test_nothing_overflows(mu, log_var, y):
    """With warnings as errors."""
    m, v = np.array([mu]), np.array([np.exp(log_var)])
    for model, target in ((Poisson(), y * 333_333), (ORDINAL, y), (Ordinal((0.0, 1e-9, 1e9)), y)):
        label = np.array([target])
        parts = [*model.expectations(label, m, v), *model.derivatives(label, m), model.third_derivative(label, m)]
        score = model.score(label, m[:, None], v[:, None])
        assert all(np.isfinite(part).all() for part in (*parts, *score))
        assert score.log_density[0] <= 1e-8


def test_meeting_edges():
    with pytest.raises(UsageError, match="must be finite and increasing"):
        Ordinal((0.0, 0.0))
    with pytest.raises(UsageError, match="must be finite and increasing"):
        Ordinal((1.0, 1.0)).with_free(np.zeros(3))
    with pytest.raises(UsageError, match="must be finite and increasing"):  # 1e6 + e^-40 is 1e6
        Ordinal((0.0, 1.0)).with_free(np.array([1e6, -40.0, 0.0]))
    close = Ordinal((0.0, 1e-12))
    y, zero = np.array([0, 1, 2]), np.zeros(3)
    assert close.log_density(y, zero)[1] == pytest.approx(np.log(0.25e-12), rel=1e-9)
    assert close.log_predictive(y, zero[:, None], zero[:, None])[1] == pytest.approx(np.log(0.25e-12), rel=1e-6)
    assert close.free_gradient(y[1:2], zero[:1], zero[:1])[1] == pytest.approx(1.0, abs=1e-9)


def test_edges_of_counts():
    model = Ordinal.of_counts([30, 0, 50, 20], slope=3.0)
    assert len(model.edges) == 3
    assert (np.diff(model.edges) > 0).all()
    p = np.exp(model.log_density(np.arange(4), np.zeros(4)))
    assert p == pytest.approx(np.array([30.5, 0.5, 50.5, 20.5]) / 102, rel=1e-9)
    with pytest.raises(UsageError, match="at least 2 categories"):
        Ordinal.of_counts([3])


def test_rows_tell_of_the_edges_between_categories():
    model = Ordinal((-1.0, 0.0, 1.0, 2.0))  # parameters: the first edge, three gaps, the slope
    cases = {
        (0, 1, 2, 3, 4): [1, 1, 1, 1, 1],
        (0, 1, 3, 4): [1, 1, 0, 1, 1],
        (0, 1, 2): [1, 1, 0, 0, 1],
        (2, 3, 4): [1, 0, 0, 1, 1],
        (0,): [0, 0, 0, 0, 1],
        (4,): [0, 0, 0, 0, 1],
        (2,): [1, 0, 0, 0, 1],
        (): [0, 0, 0, 0, 0],
    }
    for y, told in cases.items():
        assert model.identified_by(np.array(y, dtype=int)).tolist() == [bool(each) for each in told]
    assert Gaussian().identified_by(np.zeros(3)).tolist() == [True]


def test_targets_are_checked():
    Poisson().check_targets(np.array([0, 1_000_000]), 0)
    with pytest.raises(DataError, match="must be 0 or more; got -1"):
        Poisson().check_targets(np.array([3, -1]), 0)
    with pytest.raises(DataError, match="vector of integers"):
        Poisson().check_targets(np.array([0.5]), 0)
    with pytest.raises(UsageError, match="not classes; got 2"):
        Poisson().check_targets(np.array([0, 1]), 2)
    with pytest.raises(DataError, match="finite"):
        Gaussian().check_targets(np.array([np.nan]), 0)
    with pytest.raises(UsageError, match="make 4 categories; got 5"):
        ORDINAL.check_targets(np.array([0]), 5)
    with pytest.raises(DataError, match=r"0\.\.3"):
        ORDINAL.check_targets(np.array([4]), 4)


def test_errors_of_counts_are_fractional():
    assert Poisson().error(np.array([0, 4, 10]), np.array([0.5, 5.0, 5.0])).tolist() == [0.5, 0.25, 0.5]


def test_saved_parameters_come_back():
    for model in (Poisson(), ORDINAL, Gaussian(0.3)):
        assert likelihood_from_spec(model.spec()) == model
    with pytest.raises(UsageError, match="does not take"):
        likelihood("ordinal")
    with pytest.raises(UsageError, match="positive"):
        Gaussian(0.0)
    with pytest.raises(UsageError, match="slope"):
        Ordinal((0.0,), slope=0.0)


def test_gaussian_prediction_adds_its_noise():
    y, mean, var = np.array([1.0]), np.array([[0.5]]), np.array([[2.0]])
    assert Gaussian(0.7).log_predictive(y, mean, var) == pytest.approx(stats.norm.logpdf(1.0, 0.5, np.sqrt(2.7)))
