"""Autocorrelation times: known ones of autoregressive chains, and chains that do not move."""

import numpy as np
import pytest
from scipy.signal import lfilter

from gpbench.schemes.gibbs import autocorrelation_times, shrink_factors, standard_errors


def autoregressive(phi, *, S, n, seed):
    """n stationary chains x_t = φ x_{t-1} + noise, of unit variance."""
    noise = np.random.default_rng(seed).normal(size=(S, n)) * np.sqrt(1 - phi**2)
    noise[0] /= np.sqrt(1 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise, axis=0)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9, -0.5])
def test_the_time_of_an_autoregressive_chain(phi):
    times = autocorrelation_times(autoregressive(phi, S=20_000, n=40, seed=1))
    # (1 + φ)/(1 - φ); one estimate from 20,000 draws is good to about a tenth, the mean of 40 to 3 %
    assert times.mean() == pytest.approx((1 + phi) / (1 - phi), rel=0.03)


def test_standard_errors_are_those_of_repeated_chains():
    x = autoregressive(0.8, S=4000, n=600, seed=2)
    said = standard_errors(x, autocorrelation_times(x))
    assert x.mean(axis=0).std() == pytest.approx(said.mean(), rel=0.1)


def test_more_columns_than_a_block_and_an_odd_number_of_draws():
    x = autoregressive(0.3, S=501, n=300, seed=3)
    assert autocorrelation_times(x) == pytest.approx([autocorrelation_times(x[:, [i]])[0] for i in range(300)])


def test_a_quantity_that_never_moves_has_no_error():
    x = np.column_stack([np.full(50, 0.1), np.random.default_rng(0).normal(size=50)])
    times = autocorrelation_times(x)
    assert times[0] == 1.0
    assert standard_errors(x, times)[0] == pytest.approx(0.0, abs=1e-16)


def test_an_alternating_chain_is_not_worth_more_than_its_length_allows():
    times = autocorrelation_times(np.tile([[1.0], [-1.0]], (500, 1)))
    assert times[0] == pytest.approx(1 / np.log10(1000))


def test_chains_that_agree_have_a_shrink_factor_of_one_and_others_do_not():
    chains = np.random.default_rng(1).normal(size=(4, 2000, 30))
    assert shrink_factors(chains).max() < 1.01
    apart = chains + np.arange(4)[:, None, None]  # between variance 5/3, within 1
    assert shrink_factors(apart).mean() == pytest.approx(np.sqrt(1 + 10 / 7), rel=0.02)
    rising = chains + np.linspace(0, 3, 2000)[None, :, None]  # halves apart though the chains agree
    assert shrink_factors(rising).min() > 1.2
    assert (shrink_factors(np.ones((2, 10, 3))) == 1.0).all()
