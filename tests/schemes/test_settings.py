import numpy as np
import pytest

from gpbench.errors import UsageError
from gpbench.schemes.settings import GPSettings


def test_schemes_start_from_the_root_of_the_number_of_inputs():
    kernel = GPSettings().initial_kernel(16)
    assert kernel.theta == pytest.approx(np.log([1.0, *[4.0] * 16, 0.05]))


def test_starting_values_are_settings():
    kernel = GPSettings(kernel="se", lengthscale=5.0, variance=2.0, noise=0.0).initial_kernel(3)
    assert kernel.theta == pytest.approx(np.log([2.0, 5.0]))


def test_unknown_kernels_are_refused():
    with pytest.raises(UsageError, match="did you mean se-ard"):
        GPSettings(kernel="se-arg").initial_kernel(3)


def test_the_rule_carries_the_splits_seed():
    rule = GPSettings(inducing="3%", inducing_rule="random", kmeans_rows=50).inducing_rule_for(7)
    assert (rule.rule, rule.count, rule.seed, rule.rows) == ("random", "3%", 7, 50)
