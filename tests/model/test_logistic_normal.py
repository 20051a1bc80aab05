"""The logistic-normal integral against a fine trapezoid rule round its peak, in logarithms, in extended precision."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpbench.model.likelihoods.bernoulli import _logistic_rule, log_tail


def reference(a, s):
    """log E σ(f), f ~ N(-a, s): fine steps over ±11 √s round the integrand's peak, which bisection finds."""
    if s == 0:
        return -np.logaddexp(0.0, a)
    low, high = -a, -a + s + 1.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        rising = (middle + a) / s < 1.0 / (1.0 + np.exp(min(middle, 700.0)))
        low, high = (middle, high) if rising else (low, middle)
    root = np.sqrt(s)
    step = min(0.15 * root, 0.2)
    count = int(11 * root / step) + 1
    f = np.longdouble(low) + np.longdouble(step) * np.arange(-count, count + 1)
    logs = -np.logaddexp(np.longdouble(0), -f) - (f + np.longdouble(a)) ** 2 / (2 * np.longdouble(s))
    top = logs.max()
    total = np.exp(logs - top).sum() * np.longdouble(step) / np.sqrt(2 * np.longdouble(np.pi) * s)
    return float(top + np.log(total))


def compare(a, s):
    want = np.array([reference(*pair) for pair in zip(a, s, strict=True)])
    return log_tail(a, s), want


def test_eleven_digits_over_the_whole_range():
    means = np.concatenate([np.linspace(-40, 40, 17), [100.0, 300.0]])
    limits = np.array([1.0, 4.0, 9.0, 25.0, 64.0])
    variances = np.concatenate(
        [[0.0, 1e-12, 1e-6], np.geomspace(1e-3, 1e4, 25), limits, limits * (1 + 1e-12), 0.95 * limits]
    )
    a, s = (grid.ravel() for grid in np.meshgrid(means, variances))
    got, want = compare(a, s)
    assert np.abs(np.expm1(got - want)).max() < 2e-11  # relative, also where the probability is 1e-130
    assert np.abs(np.exp(got) - np.exp(want)).max() < 1e-11


@settings(max_examples=100, deadline=None)
@given(a=st.floats(-40, 40), s=st.one_of(st.just(0.0), st.floats(1e-9, 5), st.floats(1e-9, 1e4)))
def test_any_mean_and_variance(a, s):
    got, want = compare(np.array([a]), np.array([s]))
    assert got == pytest.approx(want, abs=2e-11)


def test_where_the_probability_underflows_its_logarithm_does_not():
    a, s = np.array([1e3, 1e4, 5e3]), np.array([1.0, 30.0, 900.0])
    assert log_tail(a, s) == pytest.approx(0.5 * s - a, rel=1e-13)  # σ(f) is e^f there
    a, s = np.array([1500.0, 4000.0]), np.array([3000.0, 1e4])
    got, want = compare(a, s)
    assert got == pytest.approx(want, rel=1e-12)


def test_both_tails_sum_to_one():
    rng = np.random.default_rng(0)
    a, s = rng.uniform(-40, 40, 500), np.exp(rng.uniform(np.log(1e-3), np.log(1e6), 500))
    assert np.exp(log_tail(a, s)) + np.exp(log_tail(-a, s)) == pytest.approx(np.ones(500), abs=1e-11)


def test_a_row_does_not_depend_on_its_neighbours():
    rng = np.random.default_rng(1)
    a, s = rng.uniform(-5, 20, 5000), np.exp(rng.uniform(np.log(1e-2), np.log(1e3), 5000))
    together = log_tail(a, s)
    alone = np.concatenate([log_tail(a[i : i + 1], s[i : i + 1]) for i in range(0, 5000, 97)])
    assert alone == pytest.approx(together[::97], rel=1e-14)  # the last bit may hang on where SIMD lanes end
    assert log_tail(a[::-1], s[::-1])[::-1] == pytest.approx(together, rel=1e-14)


def test_nan_stays_nan_and_empty_stays_empty():
    got = log_tail(np.array([np.nan, 1.0, 1.0]), np.array([1.0, np.nan, 1.0]))
    assert np.isnan(got).tolist() == [True, True, False]
    assert log_tail(np.empty(0), np.empty(0)).shape == (0,)


def test_logistic_rule_has_the_moments_of_the_logistic_law():
    nodes, weights = _logistic_rule(16)
    pi = np.pi
    for power, moment in {0: 1.0, 1: 0.0, 2: pi**2 / 3, 4: 7 * pi**4 / 15, 6: 31 * pi**6 / 21}.items():
        assert weights @ nodes**power == pytest.approx(moment, rel=1e-12, abs=1e-12)
