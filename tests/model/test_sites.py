"""Probit moments of EP against 60-digit values, quadrature, and the dense rules that they shorten."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from gpbench.errors import NumericalError
from gpbench.model.sites import LEAST_Z, cavity, cavity_evidence, matched_site, tilted, variances_left


def test_ratios_match_the_oracle(read_oracle):
    inputs, expected = read_oracle("ep/probit_moments")
    at = tilted(inputs["beta"], np.ones(len(inputs["beta"])))
    assert at.log_z == pytest.approx(expected["log_Phi"], rel=1e-12, abs=1e-290)
    assert at.r == pytest.approx(expected["r"], rel=1e-10, abs=1e-290)
    assert at.w == pytest.approx(expected["w"], rel=1e-9, abs=1e-290)


def test_both_forms_of_the_cut_variance_meet():
    """v = 1 - w to its own relative accuracy on both sides of the switch, and far below it."""
    beta = np.array([-30.0 + 1e-9, -30.0 - 1e-9])
    near, far = tilted(beta, np.ones(2)).v
    assert near == pytest.approx(far, rel=1e-9)
    deep = tilted(np.array([-1e3, -1e6, -1e8]), np.ones(3)).v
    assert deep == pytest.approx(np.array([1e-6 * (1 - 6e-6), 1e-12, 1e-16]), rel=1e-10)


@pytest.mark.parametrize("beta", [-40.0, -3.0, 0.0, 3.0, 40.0])
@pytest.mark.parametrize("var", [1e-8, 1.0, 1e8])
def test_sites_stay_finite_and_positive_in_the_tails(beta, var):
    at = tilted(np.array([beta * np.sqrt(1.0 + var)]), np.array([1.0 + var]))
    tau, b = matched_site(at, mean=np.array([beta * np.sqrt(1.0 + var)]), var=np.array([var]), rest=1.0, sign=1.0)
    assert np.isfinite([tau, b]).all()
    assert 0.0 <= tau[0] <= 1.0


@pytest.mark.parametrize(("m", "s", "y"), [(0.3, 0.7, 1.0), (-1.4, 2.5, 1.0), (0.8, 1.1, -1.0)])
def test_the_new_posterior_has_the_tilted_moments(m, s, y):
    def moment(power):
        return quad(lambda f: f**power * norm.cdf(y * f) * norm.pdf(f, m, np.sqrt(s)), -30, 30, epsabs=1e-13)[0]

    at = tilted(np.array([y * m]), np.array([1.0 + s]))
    tau, b = matched_site(at, mean=np.array([m]), var=np.array([s]), rest=1.0, sign=y)
    total = moment(0)
    mean = moment(1) / total
    var = moment(2) / total - mean**2
    new_var = 1.0 / (1.0 / s + tau[0])
    assert np.exp(at.log_z[0]) == pytest.approx(total, rel=1e-10)
    assert new_var == pytest.approx(var, rel=1e-8)
    assert new_var * (m / s + b[0]) == pytest.approx(mean, rel=1e-8)


def test_a_step_factor_gives_both_latents_their_sites():
    """The site of f_y as the book's formula has it, and that of f_k by exchanging roles and sign."""
    m, s = np.array([0.4, -0.2]), np.array([0.9, 0.3])
    at = tilted(np.array([m[0] - m[1]]), np.array([s.sum()]))
    d1, b2 = at.slope[0], at.curvature[0]
    for index, sign in ((0, 1.0), (1, -1.0)):
        tau, b = matched_site(at, mean=m[index], var=s[index], rest=s[1 - index], sign=sign)
        assert tau[0] == pytest.approx(b2 / (1 - b2 * s[index]), rel=1e-12)
        assert b[0] == pytest.approx((sign * d1 + b2 * m[index]) / (1 - b2 * s[index]), rel=1e-12)


def test_derivatives_by_differences():
    gap, z, h = 0.7, 1.9, 1e-5

    def log_z(gap, z):
        return tilted(np.array([gap]), np.array([z])).log_z[0]

    at = tilted(np.array([gap]), np.array([z]))
    assert at.slope[0] == pytest.approx((log_z(gap + h, z) - log_z(gap - h, z)) / (2 * h), rel=1e-8)
    assert at.z_slope[0] == pytest.approx((log_z(gap, z + h) - log_z(gap, z - h)) / (2 * h), rel=1e-8)
    slopes = [tilted(np.array([gap + step]), np.array([z])).slope[0] for step in (h, -h)]
    assert at.curvature[0] == pytest.approx(-(slopes[0] - slopes[1]) / (2 * h), rel=1e-8)


def test_cavity_and_its_evidence():
    rng = np.random.default_rng(0)
    mean, var, b = rng.normal(size=9), rng.uniform(0.1, 2.0, size=9), rng.normal(size=9)
    tau = rng.uniform(0.0, 0.95, size=9) / var
    tau[0] = b[0] = 0.0
    at = cavity(mean, var, tau=tau, b=b)
    assert 1.0 / at.var == pytest.approx(1.0 / var - tau)
    assert at.mean / at.var == pytest.approx(mean / var - b)
    direct = 0.5 * np.log(at.var / var) + 0.5 * (at.mean**2 / at.var - mean**2 / var)
    assert cavity_evidence(mean, var, tau=tau, b=b) == pytest.approx(direct)
    assert direct[0] == 0.0


def test_rounding_is_floored_and_an_improper_cavity_refused():
    var = np.array([1e12])
    at = cavity(np.array([1.0]), var, tau=1.0 / var, b=np.array([0.0]))
    assert at.var[0] > 0
    for tau in (1.1, np.nan):
        with pytest.raises(NumericalError, match="positive variance"):
            cavity(np.array([1.0]), np.array([1.0]), tau=np.array([tau]), b=np.array([0.0]))


def test_step_factors_without_any_variance():
    at = tilted(np.array([0.0]), np.array([0.0]))
    assert at.z[0] == LEAST_Z
    tau, b = matched_site(at, mean=np.array([0.0]), var=np.array([0.0]), rest=np.array([0.0]), sign=1.0)
    assert np.isfinite([tau, b]).all()


def test_variances_left_also_where_sites_are_next_to_nothing():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((12, 12))
    K = A @ A.T
    tau = np.exp(rng.uniform(-3.0, 3.0, 12))
    tau[:4] = [0.0, 1e-12, 1e-8, 1e-6]
    root = np.sqrt(tau)
    L = np.asfortranarray(np.linalg.cholesky(np.eye(12) + root[:, None] * K * root))
    kept = np.diag(np.linalg.inv(L @ L.T))
    expected = np.diag(np.linalg.inv(np.linalg.inv(K) + np.diag(tau)))
    assert variances_left(K, root, L, kept=kept) == pytest.approx(expected, rel=1e-8)
