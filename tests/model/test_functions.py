import numpy as np
import pytest

from gpbench.errors import UsageError
from gpbench.model.likelihoods.bernoulli import (
    dlambda_jj,
    lambda_jj,
    log_cosh_half,
    log_ndtr,
    log_sigmoid,
    log_sigmoid_and_slope,
    mills,
    probit_curvature,
    sigmoid,
    theta_pg,
)
from gpbench.model.quadrature import hermite


@pytest.mark.parametrize(
    ("function", "argument", "key", "relative"),
    [
        (theta_pg, "c", "theta", 1e-12),
        (theta_pg, "c", "pg1_mean", 1e-12),
        (lambda_jj, "c", "lambda_jj", 1e-12),
        (dlambda_jj, "c", "dlambda_jj", 1e-9),
        (log_cosh_half, "c", "log_cosh_half", 1e-12),
        (log_sigmoid, "z", "log_sigmoid", 1e-12),
        (log_ndtr, "z", "log_ndtr", 1e-12),
        (mills, "z", "mills", 1e-12),
    ],
)
def test_functions_at_fifty_digits(read_oracle, function, argument, key, relative):
    inputs, expected = read_oracle("special_functions")
    values = function(inputs[argument])
    assert values == pytest.approx(expected[key], rel=relative, abs=1e-300)


def test_variance_of_a_truncated_normal_is_one_minus_the_curvature(read_oracle):
    inputs, expected = read_oracle("special_functions")
    variance = 1.0 - probit_curvature(inputs["z"])
    assert variance == pytest.approx(expected["trunc_var"], rel=1e-8, abs=1e-15)
    assert (variance > 0).all()


@pytest.mark.parametrize(("function", "sign"), [(theta_pg, 1), (lambda_jj, 1), (log_cosh_half, 1), (dlambda_jj, -1)])
def test_symmetries(function, sign):
    c = np.concatenate([[0.0, 1e-9], np.geomspace(1e-6, 800, 60)])
    assert function(-c) == pytest.approx(sign * function(c), rel=1e-15, abs=0)


@pytest.mark.parametrize(("function", "threshold"), [(theta_pg, 1e-3), (dlambda_jj, 0.05), (log_cosh_half, 4.0)])
def test_no_step_where_the_form_changes(function, threshold):
    below, above = function(threshold * np.array([1 - 1e-9, 1 + 1e-9]))
    assert below == pytest.approx(above, rel=5e-9)


def test_probit_curvature_over_the_whole_line():
    z = np.array([-1e6, -1e3, -151.0, -149.0, -40.0, -1.0, 0.0, 5.0, 36.0, 1e3])
    w = probit_curvature(z)
    assert ((w >= 0) & (w <= 1)).all()
    far = z < -100
    assert 1 - w[far] == pytest.approx(z[far] ** -2.0, rel=1e-3)
    assert w[6] == pytest.approx(2 / np.pi, rel=1e-14)
    jump = probit_curvature(np.array([-150.0 - 1e-9, -150.0 + 1e-9]))
    assert jump[0] == pytest.approx(jump[1], rel=1e-10)


def test_sigmoid_and_its_logarithm_agree():
    z = np.linspace(-700, 700, 101)
    assert np.exp(log_sigmoid(z)) == pytest.approx(sigmoid(z), rel=1e-12)


def test_derivatives_by_finite_differences():
    x = np.array([0.02, 0.049, 0.051, 0.7, 3.0, 30.0])
    assert dlambda_jj(x) == pytest.approx((lambda_jj(x + 1e-5) - lambda_jj(x - 1e-5)) / 2e-5, rel=1e-5)
    z = np.array([-8.0, -1.0, 0.0, 2.0])
    assert mills(z) == pytest.approx((log_ndtr(z + 1e-5) - log_ndtr(z - 1e-5)) / 2e-5, rel=1e-8)
    assert probit_curvature(z) == pytest.approx(-(mills(z + 1e-5) - mills(z - 1e-5)) / 2e-5, rel=1e-7)


@pytest.mark.parametrize("Q", [1, 2, 20, 64, 120, 500])
def test_hermite_integrates_polynomials(Q):
    nodes, weights = hermite(Q)
    assert weights.sum() == pytest.approx(1.0, rel=1e-14)
    assert np.sort(-nodes) == pytest.approx(nodes, abs=1e-12)
    moments = [1.0, 0.0, 1.0, 0.0, 3.0, 0.0, 15.0, 0.0, 105.0]
    for power in range(min(2 * Q, 9)):
        assert weights @ nodes**power == pytest.approx(moments[power], rel=1e-11, abs=1e-11)


def test_hermite_is_cached_and_read_only():
    assert hermite(20) is hermite(20)
    with pytest.raises(ValueError, match="read-only"):
        hermite(20)[0][0] = 1.0
    with pytest.raises(UsageError, match="got 0"):
        hermite(0)


def test_the_logistic_pair_is_its_parts():
    z = np.concatenate([np.linspace(-40, 40, 801), [-1000.0, 0.0, 1000.0]])
    value, slope = log_sigmoid_and_slope(z)
    assert value == pytest.approx(log_sigmoid(z), rel=1e-13, abs=3e-16)
    assert slope == pytest.approx(sigmoid(-z), rel=1e-14)
    assert (value <= 0).all()
