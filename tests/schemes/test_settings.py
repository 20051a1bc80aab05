import numpy as np
import pytest
from scipy.spatial.distance import pdist

from gpbench.errors import UsageError
from gpbench.model.inducing import InducingRule
from gpbench.schemes.base import settings_of
from gpbench.schemes.settings import GPSettings, _median_distance


def test_schemes_start_from_the_root_of_the_number_of_inputs():
    kernel = GPSettings().initial_kernel(np.zeros((1, 16)))
    assert kernel.theta == pytest.approx(np.log([1.0, *[4.0] * 16, 0.05]))


def test_starting_values_are_settings():
    kernel = GPSettings(kernel="se", lengthscale=5.0, variance=2.0, noise=0.0).initial_kernel(np.zeros((1, 3)))
    assert kernel.theta == pytest.approx(np.log([2.0, 5.0]))


def test_the_median_rule_starts_from_the_root_of_the_median_distance():
    X = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0], [6.0, 8.0]])  # distances 5, 5, 10, 0, 5, 5
    kernel = GPSettings(kernel="se", lengthscale="median", noise=0.0).initial_kernel(X)
    assert kernel.theta == pytest.approx(np.log([1.0, np.sqrt(5.0)]))


def test_the_median_rule_has_an_answer_where_all_rows_are_equal():
    kernel = GPSettings(kernel="se", lengthscale="median", noise=0.0).initial_kernel(np.ones((3, 4)))
    assert kernel.theta == pytest.approx(np.log([1.0, 2.0]))


def test_length_scales_are_numbers_or_the_rule():
    (known,) = [each for each in settings_of(GPSettings) if each.name == "lengthscale"]
    assert (known.parse("median"), known.parse("2"), known.parse("none")) == ("median", 2.0, None)
    assert known.check("median") == "median"
    for bad in ("mean", "-1"):
        with pytest.raises(UsageError, match=r"a number in .* or median or none; got"):
            known.parse(bad)


def test_unknown_kernels_are_refused():
    with pytest.raises(UsageError, match="did you mean se-ard"):
        GPSettings(kernel="se-arg").initial_kernel(np.zeros((1, 3)))


def test_the_rule_carries_the_splits_seed():
    rule = InducingRule.of(vars(GPSettings(inducing="3%", inducing_rule="random", kmeans_rows=50)), seed=7)
    assert (rule.rule, rule.count, rule.seed, rule.rows) == ("random", "3%", 7, 50)


def test_the_defaults_of_the_rule_are_told_in_one_place():
    assert InducingRule.of(vars(GPSettings()), seed=0) == InducingRule()
    assert InducingRule.of({"inducing": "100"}, seed=0) == InducingRule()


def test_the_median_distance_is_that_over_all_pairs_where_rows_are_few():
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert _median_distance(X) == pytest.approx(np.median(pdist(X)), rel=1e-12)


def test_rows_at_even_steps_stand_for_a_sorted_file():
    X = np.arange(10_000.0)[:, None]
    assert _median_distance(X, rows=200) == pytest.approx(10_000 * (1 - np.sqrt(0.5)), rel=0.02)


def test_equal_rows_have_no_distance():
    assert _median_distance(np.array([[1.0], [1.0], [1.0], [3.0]])) == 2.0
    assert _median_distance(np.ones((5, 2))) is None
    assert _median_distance(np.ones((1, 2))) is None
