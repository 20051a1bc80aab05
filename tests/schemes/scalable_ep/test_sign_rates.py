import numpy as np
import pytest

from gpbench.schemes.scalable_ep.sign_rates import SignRates


def test_rates_follow_the_signs():
    """By hand: 1 % first, 2 % more while the sign stays, half when it turns, as before where it is 0."""
    ascent = SignRates(3)
    assert ascent.step(np.array([2.0, -4.0, 1.0])) == pytest.approx([0.02, -0.04, 0.01])
    assert ascent.step(np.array([1.0, 4.0, 0.0])) == pytest.approx([0.0102, 0.02, 0.0])
    assert ascent.step(np.array([1.0, 4.0, 1.0])) == pytest.approx([0.010404, 0.0204, 0.01])


def test_growth_is_a_choice():
    ascent = SignRates(1, growth=1.5)
    ascent.step(np.array([1.0]))
    assert ascent.step(np.array([1.0])) == pytest.approx([0.015])


def test_a_rate_is_1_at_most():
    ascent = SignRates(1)
    steps = [ascent.step(np.array([3.0]))[0] for _ in range(300)]
    assert steps[-1] == 3.0
    assert steps[200] < 3.0


def test_a_step_can_be_bounded_and_taken_again_at_half_the_rate():
    ascent = SignRates(2, first=0.1, longest=0.5)
    gradient = np.array([-100.0, 2.0])
    assert ascent.step(gradient) == pytest.approx([-0.5, 0.2])
    gradient[:] = 0.0  # the caller's array is the caller's
    assert ascent.shorter() == pytest.approx([-0.5, 0.1])
    assert ascent.rates == pytest.approx([0.05, 0.05])
