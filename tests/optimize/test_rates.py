import numpy as np
import pytest

from gpbench.errors import UsageError
from gpbench.optimize.steps import AdaptiveRate, GrowingWindow


def test_adaptive_rate_is_the_oracles(read_oracle):
    inputs, expected = read_oracle("adaptive_learning_rate")
    first = inputs["n_init"]
    adaptive = AdaptiveRate(first, tau=inputs["tau0"])
    for gradient in inputs["gradients"][:first]:
        assert not adaptive.ready
        adaptive.observe(gradient)
    assert adaptive.ready
    got = []
    for gradient in inputs["gradients"][first:]:
        rho = adaptive.rate(gradient)
        got.append([rho, adaptive.tau, adaptive.hbar])
    assert np.array(got) == pytest.approx(expected["rho_tau_hbar"], abs=1e-12)


def test_adaptive_rate_is_one_without_noise_and_small_in_pure_noise():
    adaptive = AdaptiveRate(5)
    for _ in range(5):
        adaptive.observe(np.ones(3))
    assert adaptive.rate(np.ones(3)) == pytest.approx(1.0)
    rng = np.random.default_rng(0)
    adaptive = AdaptiveRate(50)
    for _ in range(50):
        adaptive.observe(rng.normal(size=40))
    assert [adaptive.rate(rng.normal(size=40)) for _ in range(100)][-1] < 0.1


def test_adaptive_rate_survives_zero_gradients():
    adaptive = AdaptiveRate(2)
    adaptive.observe(np.zeros(3))
    adaptive.observe(np.zeros(3))
    assert adaptive.rate(np.zeros(3)) == 1.0


def test_growing_window_replaces_first_and_then_forgets_a_share_of_its_age():
    window = GrowingWindow(20.0)
    assert window.rate(0) == 1.0
    assert window.rate(1980) == pytest.approx(0.01)


def test_growing_window_of_one_is_the_plain_mean():
    values, mean = np.array([3.0, -1.0, 7.0, 4.0]), 0.0
    for t, value in enumerate(values):
        mean += GrowingWindow(1.0).rate(t) * (value - mean)
    assert mean == pytest.approx(values.mean())


def test_window_must_be_positive():
    with pytest.raises(UsageError, match="positive"):
        GrowingWindow(0.0)
