"""Quadratic bounds at their best q: oracles of vi-JJ and vi-Taylor, identities with the other bounds, differences."""

import numpy as np
import pytest

from gpbench.model.basis import Basis, marginals
from gpbench.model.kernels import make_kernel
from gpbench.model.kl_bound import KLBound
from gpbench.model.likelihoods import Logit
from gpbench.model.posterior import Latent, Posterior
from gpbench.schemes.jaakkola.collapsed import (
    collapse,
    collapsed_gradient,
    jaakkola_jordan,
    jaakkola_jordan_slope,
    taylor,
    tightened,
)

FORMS = {"jj": jaakkola_jordan, "taylor": taylor}


def evaluate(basis, X, y, xi, form=jaakkola_jordan, *, size=5):
    def quadratics(rows):
        return form(y[rows], xi[rows])

    at = collapse(basis, X, quadratics, size=size)
    mu, s = np.empty(len(y)), np.empty(len(y))

    def see(block):
        mu[block.rows], s[block.rows] = block.mu, block.s

    return at, collapsed_gradient(basis, X, quadratics, at=at, size=size, see=see), mu, s


def oracle(inputs):
    kernel, jitter = inputs["kernel"]
    return Basis(kernel, inputs["Z"], jitter=jitter), inputs["X"], inputs["y"]


def check_q(at, basis, mean, covariance, *, tol):
    assert basis.L @ at.q.mean == pytest.approx(mean, abs=tol)
    assert basis.L @ at.q.covariance @ basis.L.T == pytest.approx(covariance, abs=tol)


def flat(gradients):
    return np.concatenate([np.atleast_1d(values) for values in gradients.values()])


def test_jj_oracle(read_oracle):
    inputs, expected = read_oracle("jj_bound_grad")
    basis, X, y = oracle(inputs)
    at, (dtheta, dZ), mu, s = evaluate(basis, X, y, inputs["xi"])
    assert at.value == pytest.approx(expected["bound"], abs=1e-9)
    assert dtheta == pytest.approx(flat(expected["grad_log_hyper"]), abs=1e-7)
    assert dZ == pytest.approx(expected["grad_Z"], abs=1e-7)
    assert jaakkola_jordan_slope(inputs["xi"], mu, s) == pytest.approx(expected["grad_xi"], abs=1e-7)
    check_q(at, basis, expected["mu_hat"], expected["Sigma_hat"], tol=1e-8)


def test_taylor_oracle(read_oracle):
    inputs, expected = read_oracle("vi_taylor")
    basis, X, y = oracle(inputs)
    xi = inputs["xi"]
    at, (dtheta, dZ), _, _ = evaluate(basis, X, y, xi, taylor)
    assert at.value == pytest.approx(expected["bound_full"], abs=1e-9)
    assert dtheta == pytest.approx(flat(expected["grad_log_hyper"])[: len(dtheta)], abs=1e-7)
    assert dZ == pytest.approx(expected["grad_Z"], abs=1e-7)
    check_q(at, basis, expected["mu_hat"], expected["Sigma_hat"], tol=1e-8)
    for _ in range(30):
        at, (dtheta, _), xi, _ = evaluate(basis, X, y, xi, taylor)
    assert xi == pytest.approx(expected["xi_fixed_point"], abs=1e-6)
    assert at.value == pytest.approx(expected["bound_full_at_fixed_point"], abs=1e-8)
    assert dtheta == pytest.approx(flat(expected["grad_log_hyper_at_fixed_point"])[: len(dtheta)], abs=1e-6)
    check_q(at, basis, expected["mu_fixed_point"], expected["Sigma_fixed_point"], tol=1e-6)


@pytest.mark.parametrize("name", ["xgpc_jj_optimum_a", "xgpc_jj_optimum_b"])
def test_the_best_jj_bound_is_the_best_polya_gamma_bound(read_oracle, name):
    inputs, expected = read_oracle(name)
    basis, X, y = oracle(inputs)
    xi = np.ones(len(y))
    for _ in range(250):
        at, (dtheta, dZ), mu, s = evaluate(basis, X, y, xi)
        xi = np.sqrt(mu**2 + s)
    assert at.value == pytest.approx(expected["elbo"], abs=1e-8)
    assert xi == pytest.approx(expected["c"], abs=1e-6)
    check_q(at, basis, expected["mu"], expected["Sigma"], tol=1e-6)
    assert dtheta == pytest.approx(flat(expected["hyper_grad_at_optimum"])[: len(dtheta)], abs=1e-6)
    assert dZ == pytest.approx(expected["Z_grad_at_optimum"], abs=1e-6)
    predicted = Posterior((Latent.of(basis, at.q),), Logit(), classes=2).predict(inputs["X_test"]).probabilities
    assert predicted[:, 1] == pytest.approx(expected["test_prob"], abs=1e-7)
    # the same q under the bound with exact expectations lies above, as the oracle has it
    kernel, _ = inputs["kernel"]
    parts = {"m": at.q.mean, "L": at.q.covariance_root(), "theta": kernel.theta, "Z": basis.Z}
    value = KLBound(kernel, Logit(nodes=120)).at(parts, X, (y > 0).astype(int), basis=basis).value
    assert value == pytest.approx(expected["kl_bound_at_same_q"], abs=1e-7)
    assert at.value <= value <= expected["kl_bound_optimum"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["se", "se-ard", "matern32-ard", "linear-ard", "matern32-ard+linear-ard"])
def test_gradients_are_central_differences(name, form):
    rng = np.random.default_rng(3)
    X, Z, y = rng.normal(size=(23, 2)), rng.normal(size=(5, 2)), rng.choice([-1.0, 1.0], 23)
    xi = rng.uniform(0.1, 3.0, 23)
    kernel = make_kernel(name, 2, variance=1.3, lengthscale=1.1, noise=0.1)

    def at(theta, Z, xi):
        return evaluate(Basis(kernel.with_theta(theta), Z, jitter=1e-6), X, y, xi, FORMS[form])

    def difference(change):
        up, down = (at(*change(sign * 1e-5))[0].value for sign in (1, -1))
        return (up - down) / 2e-5

    _, (dtheta, dZ), mu, s = at(kernel.theta, Z, xi)
    for index, unit in enumerate(np.eye(kernel.theta.size)):
        wanted = difference(lambda step, unit=unit: (kernel.theta + step * unit, Z, xi))
        assert dtheta[index] == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    for index in np.ndindex(*Z.shape):
        unit = np.zeros(Z.shape)
        unit[index] = 1.0
        wanted = difference(lambda step, unit=unit: (kernel.theta, Z + step * unit, xi))
        assert dZ[index] == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    if form == "jj":
        slope = jaakkola_jordan_slope(xi, mu, s)
        for index, unit in enumerate(np.eye(23)):
            wanted = difference(lambda step, unit=unit: (kernel.theta, Z, xi + step * unit))
            assert slope[index] == pytest.approx(wanted, rel=1e-6, abs=1e-6)


def test_blocks_make_no_difference():
    rng = np.random.default_rng(4)
    X, Z, y = rng.normal(size=(23, 2)), rng.normal(size=(5, 2)), rng.choice([-1.0, 1.0], 23)
    basis = Basis(make_kernel("se-ard", 2, variance=1.3, lengthscale=1.1, noise=0.1), Z)
    xi = rng.uniform(0.1, 3.0, 23)
    (a, da, mu, s), (b, db, *others) = (evaluate(basis, X, y, xi, size=size) for size in (6, 100))
    assert a.value == pytest.approx(b.value, rel=1e-13)
    assert np.concatenate([mu, s]) == pytest.approx(np.concatenate(others), rel=1e-12)
    assert da[0] == pytest.approx(db[0], rel=1e-10)
    assert da[1] == pytest.approx(db[1], rel=1e-10)


@pytest.mark.parametrize("xi", [0.0, 1e-9, 0.3, 5.0, 800.0])
def test_jaakkola_jordan_bounds_the_logit_and_touches_it(xi):
    f = np.linspace(-40.0, 40.0, 1601)
    for y in (-1.0, 1.0):
        a, c, d = jaakkola_jordan(np.array([y]), np.array([xi]))
        exact = -np.logaddexp(0.0, -y * f)
        assert (a + c * f - 0.5 * d * f**2 <= exact + 1e-12).all()
        touch = a + c * xi - 0.5 * d * xi**2
        assert touch == pytest.approx(-np.logaddexp(0.0, -y * xi), abs=1e-9)


def test_taylor_is_the_second_order_expansion():
    y, xi, step = np.array([-1.0, 1.0, 1.0]), np.array([-35.0, 0.4, 35.0]), 1e-3
    a, c, d = taylor(y, xi)
    for offset in (-step, 0.0, step):
        f = xi + offset
        assert a + c * f - 0.5 * d * f**2 == pytest.approx(-np.logaddexp(0.0, -y * f), abs=1e-10)


def test_marginals_are_those_of_dense_algebra():
    rng = np.random.default_rng(5)
    X, Z = rng.normal(size=(9, 2)), rng.normal(size=(4, 2))
    kernel = make_kernel("se-ard", 2, variance=1.3, lengthscale=1.1, noise=0.1)
    basis = Basis(kernel, Z, jitter=1e-6)
    y, xi = np.ones(9), np.ones(9)
    at, *_ = evaluate(basis, X, y, xi)
    K = kernel.gram(Z) + 1e-6 * np.eye(4)
    A = np.linalg.solve(K, kernel.cross(Z, X))
    m, S = basis.L @ at.q.mean, basis.L @ at.q.covariance @ basis.L.T
    for block in marginals(basis, X, at.q, size=4):
        a = A[:, block.rows]
        assert block.mu == pytest.approx(a.T @ m)
        assert block.s == pytest.approx(kernel.diag(block.X) + np.einsum("mi,mk,ki->i", a, S - K, a))


def test_the_tight_conditional_lies_between_the_bound_and_that_of_all_rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    kernel = make_kernel("se-ard", 2, variance=2.0, lengthscale=0.8, noise=0.0)
    xi = rng.uniform(0.5, 2.0, size=40)

    def value(Z, *, tight):
        return collapse(Basis(kernel, Z), X, lambda rows: jaakkola_jordan(y[rows], xi[rows]), tight=tight).value

    loose, tight, dense = value(X[:6], tight=False), value(X[:6], tight=True), value(X, tight=False)
    assert loose + 0.1 < tight < dense - 0.1


def test_gradients_of_the_tight_bound_are_central_differences():
    rng = np.random.default_rng(4)
    X, Z = rng.normal(size=(30, 2)), rng.normal(size=(6, 2))
    y, xi = np.sign(rng.normal(size=30)), rng.uniform(0.3, 2.0, size=30)
    kernel = make_kernel("se-ard", 2, variance=2.0, lengthscale=0.8, noise=0.1)

    def at(theta, Z, xi):
        basis = Basis(kernel.with_theta(theta), Z, jitter=1e-6)
        found = collapse(basis, X, lambda rows: jaakkola_jordan(y[rows], xi[rows]), size=7, tight=True)
        return basis, found

    basis, found = at(kernel.theta, Z, xi)
    slope = np.empty(30)

    def see(block):
        d = jaakkola_jordan(y[block.rows], xi[block.rows]).d
        s = tightened(block.s, block.remainder, d)
        slope[block.rows] = jaakkola_jordan_slope(xi[block.rows], block.mu, s)

    for look in (None, see):
        by_theta, by_Z = collapsed_gradient(
            basis, X, lambda rows: jaakkola_jordan(y[rows], xi[rows]), at=found, size=7, tight=True, see=look
        )
        for got, place in ((by_theta, 0), (by_Z.ravel(), 1), (slope, 2)):
            if place == 2 and look is None:
                continue
            values = [kernel.theta, Z, xi]
            expected = []
            for i in range(values[place].size):
                step = np.zeros(values[place].size)
                step[i] = 1e-5
                step = step.reshape(values[place].shape)
                ends = [
                    at(*(v + sign * step if k == place else v for k, v in enumerate(values)))[1].value
                    for sign in (1, -1)
                ]
                expected.append((ends[0] - ends[1]) / 2e-5)
            assert got == pytest.approx(expected, rel=1e-6, abs=1e-7)
