from itertools import pairwise

import numpy as np
import pytest
from scipy import special
from scipy.integrate import quad

from gpbench.errors import DataError, UsageError
from gpbench.model.likelihoods import RobustMax, likelihood, likelihood_from_spec
from gpbench.model.likelihoods.multiclass import argmax_probability, log_argmax_probabilities


def some_moments(n, C, *, seed=0, spread=0.5):
    rng = np.random.default_rng(seed)
    return 2 * rng.normal(size=(n, C)), np.exp(spread * rng.normal(size=(n, C))), rng.integers(0, C, n)


def test_probabilities_of_the_oracle(read_oracle):
    inputs, expected = read_oracle("ep/predict_multiclass")
    p = RobustMax().predict(inputs["mean"], inputs["var"]).probabilities
    assert p == pytest.approx(expected["prob"], abs=1e-12)
    assert p.sum(axis=1) == pytest.approx(np.ones(len(p)), abs=1e-12)


@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0, 6.0])
def test_two_classes_are_a_probit_of_the_difference(spread):
    mean, var, _ = some_moments(400, 2, spread=spread)
    mean *= 4
    log_p = log_argmax_probabilities(mean, var)
    z = (mean[:, 0] - mean[:, 1]) / np.sqrt(var.sum(axis=1))
    want = np.stack([special.log_ndtr(z), special.log_ndtr(-z)], axis=1)
    assert log_p == pytest.approx(want, rel=1e-8, abs=1e-9)  # down to exp(-400,000)


@pytest.mark.parametrize(("C", "tolerance"), [(3, 1e-13), (10, 1e-10), (26, 1e-8)])
def test_probabilities_sum_to_one_and_equal_laws_share_alike(C, tolerance):
    for spread in (0.0, 0.5, 2.0, 5.0):
        mean, var, _ = some_moments(100, C, spread=spread)
        total = np.exp(log_argmax_probabilities(mean, var)).sum(axis=1)
        assert total == pytest.approx(np.ones(100), abs=max(tolerance, 1e-9 if spread > 1 else 0.0))
    alike = np.exp(log_argmax_probabilities(np.full((1, C), 3.0), np.full((1, C), 0.2)))
    assert alike == pytest.approx(np.full((1, C), 1 / C), abs=tolerance)


def test_small_probabilities_against_adaptive_integration():
    mean, var = np.array([[-14.0, 3.0, 1.0]]), np.array([[1.5, 0.5, 4.0]])
    sd = np.sqrt(var[0])

    def log_integrand(x):
        z = (x - mean[0]) / sd
        return -0.5 * z[0] ** 2 + special.log_ndtr(z[1:]).sum()

    grid = np.linspace(-20, 10, 3001)
    top = max(log_integrand(x) for x in grid)
    at = grid[np.argmax([log_integrand(x) for x in grid])]
    mass, _ = quad(lambda x: np.exp(log_integrand(x) - top), at - 12, at + 12, points=[at], epsabs=1e-13)
    want = top + np.log(mass / (sd[0] * np.sqrt(2 * np.pi)))
    assert want < -60
    assert log_argmax_probabilities(mean, var)[0, 0] == pytest.approx(want, rel=1e-10)


def test_what_has_no_variance_is_compared_as_it_is():
    p = np.exp(log_argmax_probabilities(np.array([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]]), np.zeros((2, 3))))
    assert p == pytest.approx(np.array([[0.0, 0.0, 1.0], [1 / 3, 1 / 3, 1 / 3]]), abs=1e-12)
    mixed = log_argmax_probabilities(np.array([[0.0, 1.0, -50.0]]), np.array([[0.0, 4.0, 0.0]]))
    assert np.isfinite(mixed).all()
    assert np.exp(mixed[0, :2]) == pytest.approx(special.ndtr([-0.5, 0.5]), abs=1e-7)
    assert log_argmax_probabilities(np.empty((0, 4)), np.empty((0, 4))).shape == (0, 4)


def test_rows_are_predicted_one_by_one_as_together():
    mean, var, y = some_moments(300, 4, spread=1.5)
    together = RobustMax(0.01).score(y, mean, var)
    for row in range(0, 300, 37):
        alone = RobustMax(0.01).score(y[row : row + 1], mean[row : row + 1], var[row : row + 1])
        assert alone.log_density == pytest.approx(together.log_density[row : row + 1], rel=1e-12)
        assert alone.values == pytest.approx(together.values[row : row + 1], rel=1e-12, abs=1e-300)


def test_score_is_made_of_its_parts_and_noise_is_mixed_in():
    mean, var, y = some_moments(50, 5)
    plain, noisy = RobustMax(), RobustMax(0.1)
    score = noisy.score(y, mean, var)
    assert np.array_equal(score.log_density, noisy.log_predictive(y, mean, var))
    assert np.array_equal(score.values, noisy.predict(mean, var).probabilities)
    assert np.array_equal(score.error, (noisy.point(mean, var) != y).astype(float))
    assert score.values == pytest.approx(0.9 * plain.predict(mean, var).probabilities + 0.02, rel=1e-12)
    assert score.log_density.min() >= np.log(0.02)


def test_labels_are_right_with_one_level_and_wrong_with_the_other():
    f = np.array([[0.0, 2.0, 1.0], [3.0, -1.0, 0.0]])
    levels = np.exp(RobustMax(0.3).log_density(np.array([1, 2]), f))
    assert levels == pytest.approx([0.8, 0.1])
    assert RobustMax().log_density(np.array([1, 2]), f).tolist() == [0.0, -np.inf]
    total = sum(np.exp(RobustMax(0.3).log_density(np.full(2, k), f)) for k in range(3))
    assert total == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("name", ["ep/vi_robustmax_a", "ep/vi_robustmax_b"])
def test_expectations_of_the_oracles(read_oracle, name):
    inputs, expected = read_oracle(name)
    y, mu, var = inputs["y"].astype(int), expected["f_mean"], expected["f_var"]
    assert argmax_probability(y, mu, var)[0] == pytest.approx(expected["p_argmax"], abs=1e-11)
    e, _, _ = RobustMax(inputs["eps"]).expectations(y, mu, var)
    assert e == pytest.approx(expected["variational_expectation"], abs=1e-10)


@pytest.mark.parametrize("C", [2, 3, 7])
@pytest.mark.parametrize(("rule", "nodes"), [("adaptive", 100), ("trapezoid", 100), ("hermite", 20)])
def test_gradients_of_expectations_are_exact_derivatives_of_the_rule(C, rule, nodes):
    model = RobustMax(0.02, rule, nodes)
    mu, var, y = some_moments(12, C, seed=C)
    _, g, h = model.expectations(y, mu, var)
    for k in range(C):
        step = 1e-5 * (np.arange(C) == k)
        by_mean = model.expectations(y, mu + step, var)[0] - model.expectations(y, mu - step, var)[0]
        assert g[:, k] == pytest.approx(by_mean / 2e-5, rel=1e-7, abs=1e-9)
        by_var = model.expectations(y, mu, var * (1 + step))[0] - model.expectations(y, mu, var * (1 - step))[0]
        assert h[:, k] == pytest.approx(by_var / (2e-5 * var[:, k]), rel=1e-6, abs=1e-9)


def integrated(y, mu, var):
    """P of one row by adaptive quadrature between breakpoints about each mean."""
    sd = np.sqrt(var)
    others = [k for k in range(len(mu)) if k != y]

    def density(x):
        below = np.prod([special.ndtr((x - mu[k]) / sd[k]) for k in others])
        return below * np.exp(-0.5 * ((x - mu[y]) / sd[y]) ** 2) / (sd[y] * np.sqrt(2 * np.pi))

    about = mu[:, None] + sd[:, None] * np.array([-9.0, -4.0, -2.0, 0.0, 2.0, 4.0, 9.0])
    ends = np.unique(np.clip(about, mu[y] - 9 * sd[y], mu[y] + 9 * sd[y]))
    return sum(quad(density, a, b, epsabs=1e-14)[0] for a, b in pairwise(ends))


def rows_of_ratio(ratio, C, *, rows=8):
    """Rows whose observed class is as much wider than the others, which lie within its spread."""
    mu, var, y = some_moments(rows, C, seed=C, spread=0.2)
    scale = np.where(np.arange(C) == y[:, None], ratio, 1.0)
    return mu * np.sqrt(max(ratio, 1.0)) / 2.0, var * scale, y


@pytest.mark.parametrize("C", [2, 3, 6])
@pytest.mark.parametrize("ratio", [1e-4, 1e-2, 1.0, 10.0, 16.0, 100.0, 1e3, 1e4])
def test_the_adaptive_rule_holds_at_any_ratio_of_variances(C, ratio):
    mu, var, y = rows_of_ratio(ratio, C)
    expected = [integrated(y[i], mu[i], var[i]) for i in range(len(y))]
    assert argmax_probability(y, mu, var)[0] == pytest.approx(expected, abs=1e-11)
    if ratio >= 100.0:  # the plain rule does not
        assert np.abs(argmax_probability(y, mu, var, rule="trapezoid")[0] - expected).max() > 1e-6


@pytest.mark.parametrize("C", [2, 3, 6])
@pytest.mark.parametrize("ratio", [1e-4, 1.0, 10.0, 100.0, 1e4])
def test_derivatives_of_the_adaptive_rule_hold_at_any_ratio_of_variances(C, ratio):
    mu, var, y = rows_of_ratio(ratio, C)
    _, by_mean, by_var = argmax_probability(y, mu, var)
    sd = np.sqrt(var)
    for k in range(C):
        step = 1e-4 * sd * (np.arange(C) == k)
        found = argmax_probability(y, mu + step, var)[0] - argmax_probability(y, mu - step, var)[0]
        assert by_mean[:, k] * sd[:, k] == pytest.approx(found / 2e-4, rel=1e-6, abs=1e-7)
        share = 1e-4 * (np.arange(C) == k)
        found = argmax_probability(y, mu, var * (1 + share))[0] - argmax_probability(y, mu, var * (1 - share))[0]
        assert by_var[:, k] * var[:, k] == pytest.approx(found / 2e-4, rel=1e-6, abs=1e-7)


def test_rows_with_and_without_panels_keep_their_places():
    wide, narrow = rows_of_ratio(1e3, 3), rows_of_ratio(1.0, 3)
    order = np.random.default_rng(0).permutation(16)
    mixed = argmax_probability(*(np.concatenate([narrow[i], wide[i]])[order] for i in (2, 0, 1)))
    apart = [argmax_probability(y, mu, var) for mu, var, y in (narrow, wide)]
    for found, first, second in zip(mixed, *apart, strict=True):
        assert found == pytest.approx(np.concatenate([first, second])[order], rel=1e-14)


def test_the_argmax_probability_is_the_predictive_probability_and_survives_extremes():
    mu, var, y = some_moments(200, 6)
    P, _, _ = argmax_probability(y, mu, var)
    predicted = RobustMax().predict(mu, var).probabilities[np.arange(200), y]
    assert predicted == pytest.approx(P, abs=1e-9)
    for part in argmax_probability(y, 1e3 * mu, np.zeros_like(var)) + argmax_probability(y, mu, 1e12 * var):
        assert np.isfinite(part).all()


def test_blocks_change_nothing(monkeypatch):
    mu, var, y = some_moments(50, 4)
    whole = argmax_probability(y, mu, var)
    monkeypatch.setattr("gpbench.model.likelihoods.multiclass.BLOCK_VALUES", 1000)
    for a, b in zip(whole, argmax_probability(y, mu, var), strict=True):
        assert a == pytest.approx(b, rel=1e-13, abs=1e-300)


def test_parameters_and_targets_are_checked():
    model = likelihood("robust-max")
    assert model == RobustMax(0.0)
    assert likelihood_from_spec(RobustMax(0.2, "hermite", 30).spec()) == RobustMax(0.2, "hermite", 30)
    assert model.n_latent(26) == 26
    model.check_targets(np.array([0, 2, 2]), 3)  # a fold may lack a class
    with pytest.raises(UsageError, match="needs 2 classes or more; got 1"):
        model.n_latent(1)
    with pytest.raises(DataError, match="from 0 to 3"):
        model.check_targets(np.array([0, 3]), 3)
    with pytest.raises(UsageError, match=r"must lie in \[0, 1\); got 1"):
        RobustMax(1.0)
    with pytest.raises(UsageError, match="must be one of adaptive, trapezoid, hermite; got 'simpson'"):
        RobustMax(0.1, "simpson")
    with pytest.raises(UsageError, match=r"must be in \[2, 10000\]; got 1"):
        argmax_probability(np.array([0]), np.zeros((1, 3)), np.ones((1, 3)), nodes=1)
    with pytest.raises(UsageError, match="need epsilon > 0"):
        model.expectations(np.array([0]), np.zeros((1, 3)), np.ones((1, 3)))
    with pytest.raises(UsageError, match="has no derivatives"):
        model.derivatives(np.array([0]), np.zeros((1, 3)))
