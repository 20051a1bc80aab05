import numpy as np
import pytest

from gpbench.errors import UsageError
from gpbench.schemes.scalable_ep.toy import exact_density, factor_values, settle

THETA = np.linspace(-12, 12, 24_001)


def moments(b, w, prior_variance):
    density = exact_density(THETA, b, w, prior_variance=prior_variance)
    step = THETA[1] - THETA[0]
    mean = (THETA * density).sum() * step
    return mean, ((THETA - mean) ** 2 * density).sum() * step


@pytest.mark.parametrize("width", [0.3, -2.0])
@pytest.mark.parametrize("tied", [False, True])
def test_one_factor_is_exact(width, tied):
    b, w = np.array([0.7]), np.array([width])
    found = settle(b, w, prior_variance=2.0, tied=tied)
    assert (found.mean, found.variance) == pytest.approx(moments(b, w, 2.0), rel=1e-6)


def test_equal_factors_lose_nothing_by_being_tied():
    b, w = np.full(5, 0.4), np.full(5, 0.8)
    ep, sep = (settle(b, w, prior_variance=1.0, tied=tied) for tied in (False, True))
    np.testing.assert_allclose(sep.tau, ep.tau, rtol=1e-8)
    np.testing.assert_allclose(sep.nu, ep.nu, rtol=1e-8)


def test_sep_s_sites_are_one_and_ep_s_are_not():
    b, w = np.array([-1.0, 0.5, 2.0]), np.array([0.5, 1.0, -0.7])
    ep, sep = (settle(b, w, prior_variance=4.0, tied=tied) for tied in (False, True))
    assert np.ptp(sep.tau) == 0.0
    assert np.ptp(ep.tau) > 0.1
    mean, variance = moments(b, w, 4.0)
    assert abs(ep.mean - mean) < abs(sep.mean - mean) < 0.2
    assert abs(ep.variance - variance) < abs(sep.variance - variance) < 0.5


def test_the_fixed_point_matches_moments_under_each_cavity():
    b, w = np.array([-1.0, 0.5]), np.array([0.5, 1.0])
    found = settle(b, w, prior_variance=4.0, tied=False)
    for i in range(2):
        tau, nu = 1 / found.variance - found.tau[i], found.mean / found.variance - found.nu[i]
        tilted = np.exp(-0.5 * tau * THETA**2 + nu * THETA) * factor_values(THETA, b[i], w[i])
        tilted /= tilted.sum()
        mean = (THETA * tilted).sum()
        assert mean == pytest.approx(found.mean, abs=1e-6)
        assert ((THETA - mean) ** 2 * tilted).sum() == pytest.approx(found.variance, rel=1e-6)


@pytest.mark.parametrize(
    ("b", "w", "v"), [([0.0], [0.0], 1.0), ([0.0, 1.0], [1.0], 1.0), ([], [], 1.0), ([0.0], [1.0], 0.0)]
)
def test_numbers_that_make_no_factors(b, w, v):
    with pytest.raises(UsageError, match="expected as many centres as widths"):
        settle(np.array(b), np.array(w), prior_variance=v, tied=False)
