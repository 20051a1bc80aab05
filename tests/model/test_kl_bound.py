"""The bound (21) of hensman2015: oracles, finite differences in every unknown, and two routes to the same number."""

import numpy as np
import pytest
from flat_bound import FlatBound

from gpbench.model.kernels import make_kernel
from gpbench.model.kl_bound import KLBound
from gpbench.model.likelihoods import Logit, Probit, likelihood
from gpbench.model.posterior import Latent, Posterior
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.schemes.jaakkola.collapsed import Quadratic, collapse

KERNELS = ["se", "se-ard", "matern32-ard", "linear-ard", "se-ard+linear-ard", "matern32-ard+linear-ard"]
LINKS = {"probit": Probit, "logit": Logit}
BOUNDS = ["klsp_probit_bound_grad", "klsp_probit_whitened_bound_grad", "klsp_logit_bound_grad"]


def problem(*, n=23, M=5, d=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.integers(0, 2, n), rng.normal(size=(M, d))


def some_point(bound, *, seed=1):
    rng = np.random.default_rng(seed)
    x = bound.x.copy()
    parts = bound.split(x)
    parts["m"][:] = 0.5 * rng.normal(size=parts["m"].shape)
    parts["L"][:] += 0.3 * np.tril(rng.normal(size=parts["L"].shape))
    return x


def make(name, Z, *, whitened, size=7, link="probit", noise=0.1):
    kernel = make_kernel(name, Z.shape[1], variance=1.3, lengthscale=1.1, noise=noise)
    return FlatBound(KLBound(kernel, likelihood(link), whitened=whitened, size=size), Z)


def oracle_bound(inputs, *, whitened, nodes=120):
    kernel, jitter = inputs["kernel"]
    model = LINKS[inputs["likelihood"]](nodes=nodes)
    bound = FlatBound(KLBound(kernel, model, whitened=whitened, size=5), inputs["Z"])
    return bound, bound.x, jitter, (inputs["y"] > 0).astype(int)


def flat(gradients):
    return np.concatenate([np.atleast_1d(values) for values in gradients.values()])


@pytest.mark.parametrize("name", BOUNDS)
def test_value_and_gradients_are_the_oracles(read_oracle, name):
    inputs, expected = read_oracle(name)
    bound, x, jitter, y = oracle_bound(inputs, whitened=inputs["whitened"])
    parts = bound.split(x)
    parts["m"][:], parts["L"][:] = inputs["m"], inputs["L"]
    at = bound.at(x, inputs["X"], y, basis=bound.basis(x, jitter=jitter), scale=inputs["scale"])
    assert at.value == pytest.approx(expected["bound"], abs=1e-9)
    got = bound.split(at.gradient)
    assert got["m"] == pytest.approx(expected["grad_m"], abs=1e-7)
    assert pytest.approx(np.tril(expected["grad_L_lower"]), abs=1e-7) == got["L"]
    assert pytest.approx(expected["grad_Z"], abs=1e-7) == got["Z"]
    assert got["theta"] == pytest.approx(flat(expected["grad_log_hyper"]), abs=1e-7)


@pytest.mark.parametrize("name", BOUNDS)
def test_the_default_quadrature_is_the_oracles(read_oracle, name):
    inputs, expected = read_oracle(name)
    bound, x, jitter, y = oracle_bound(inputs, whitened=inputs["whitened"], nodes=20)
    parts = bound.split(x)
    parts["m"][:], parts["L"][:] = inputs["m"], inputs["L"]
    at = bound.at(x, inputs["X"], y, basis=bound.basis(x, jitter=jitter), scale=inputs["scale"])
    assert at.value == pytest.approx(expected["bound_gh20"], abs=1e-9)


@pytest.mark.parametrize("whitened", [True, False])
@pytest.mark.parametrize("link", ["probit", "logit"])
def test_the_maximum_over_q_is_the_oracles(read_oracle, link, whitened):
    inputs, expected = read_oracle(f"klsp_{link}_optimum")
    bound, x, jitter, y = oracle_bound(inputs, whitened=whitened)
    basis, q = bound.basis(x, jitter=jitter), bound.q

    def objective(values):
        point = np.concatenate([values, x[q.stop :]])
        at = bound.at(point, inputs["X"], y, basis=basis, kernel_gradient=False)
        return at.value, at.gradient[q]

    search = LBFGSB(memory=30, gradient_tolerance=1e-9, value_tolerance=0.0)
    best = search.maximise(objective, x[q], max_evaluations=2000)
    assert best.value == pytest.approx(expected["bound"], abs=1e-8)
    x[q] = best.x
    latent = Latent.of(basis, bound.bound.q(bound.split(x), basis))
    assert basis.L @ latent.m_w == pytest.approx(expected["m"], abs=1e-6)
    assert basis.L @ latent.covariance() @ basis.L.T == pytest.approx(expected["S"], abs=1e-6)
    got = bound.split(bound.at(x, inputs["X"], y, basis=basis).gradient)
    assert got["theta"] == pytest.approx(flat(expected["hyper_grad_at_optimum"]), abs=1e-6)
    assert pytest.approx(expected["Z_grad_at_optimum"], abs=1e-6) == got["Z"]
    probabilities = Posterior((latent,), LINKS[link](), classes=2).predict(inputs["X_test"]).probabilities
    assert probabilities[:, 1] == pytest.approx(expected["test_prob"], abs=1e-7)


@pytest.mark.parametrize("whitened", [True, False])
@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_central_differences(name, whitened):
    X, y, Z = problem()
    bound = make(name, Z, whitened=whitened)
    x = some_point(bound)

    def at(x):
        return bound.at(x, X, y, basis=bound.basis(x, jitter=1e-6), scale=2.0)

    gradient = at(x).gradient
    above = bound.split(np.arange(x.size))["L"][np.triu_indices(len(Z), 1)]
    assert not gradient[above].any()
    for index in np.setdiff1d(np.arange(x.size), above):
        step = np.zeros(x.size)
        step[index] = 1e-5
        difference = (at(x + step).value - at(x - step).value) / 2e-5
        assert gradient[index] == pytest.approx(difference, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("whitened", [True, False])
def test_blocks_make_no_difference(whitened):
    X, y, Z = problem()
    small, whole = (make("se-ard", Z, whitened=whitened, size=size) for size in (4, 100))
    x = some_point(small)
    a, b = (bound.at(x, X, y, basis=bound.basis(x)) for bound in (small, whole))
    assert a.value == pytest.approx(b.value, rel=1e-13)
    assert a.gradient == pytest.approx(b.gradient, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("kernel_gradient", [True, False])
@pytest.mark.parametrize("whitened", [True, False])
@pytest.mark.parametrize("name", KERNELS)
def test_the_route_for_one_batch_gives_the_same(name, whitened, kernel_gradient):
    X, y, Z = problem()
    bound = make(name, Z, whitened=whitened, size=100)
    x = some_point(bound)
    options = {"scale": 3.0, "kernel_gradient": kernel_gradient}
    many = bound.at(x, X, y, basis=bound.basis(x), **options)
    one = bound.at_batch(x, X, y, basis=bound.basis(x, inverse=False), **options)
    assert one.value == pytest.approx(many.value, rel=1e-12)
    assert one.gradient == pytest.approx(many.gradient, rel=1e-8, abs=1e-8)


def test_minibatches_of_a_partition_average_to_all_rows():
    X, y, Z = problem(n=24)
    bound = make("matern32-ard", Z, whitened=True)
    x = some_point(bound)
    basis = bound.basis(x)
    full = bound.at(x, X, y, basis=basis)
    parts = [bound.at(x, X[rows], y[rows], basis=basis, scale=4.0) for rows in np.arange(24).reshape(4, 6)]
    assert np.mean([part.value for part in parts]) == pytest.approx(full.value, rel=1e-12)
    assert np.mean([part.gradient for part in parts], axis=0) == pytest.approx(full.gradient, rel=1e-10, abs=1e-10)


def test_whitened_and_unwhitened_are_one_bound():
    X, y, Z = problem()
    whitened, plain = make("se-ard", Z, whitened=True), make("se-ard", Z, whitened=False)
    x = some_point(whitened)
    basis = whitened.basis(x)
    other = x.copy()
    parts = plain.split(other)
    parts["m"][:], parts["L"][:] = basis.L @ parts["m"], basis.L @ parts["L"]
    a, b = whitened.at(x, X, y, basis=basis), plain.at(other, X, y, basis=basis)
    assert a.value == pytest.approx(b.value, rel=1e-12)
    # the chain rule from L_w to L: ∂F/∂m_w = Lᵀ ∂F/∂m
    got = basis.L.T @ plain.split(b.gradient)["m"]
    assert got == pytest.approx(whitened.split(a.gradient)["m"], rel=1e-9, abs=1e-9)


def test_the_signs_of_the_root_are_free():
    X, y, Z = problem()
    bound = make("se-ard", Z, whitened=True)
    x = some_point(bound)
    flipped = x.copy()
    bound.split(flipped)["L"][:, 1] *= -1.0
    values = [bound.at(point, X, y, basis=bound.basis(point)).value for point in (x, flipped)]
    assert values[0] == pytest.approx(values[1], rel=1e-13)


class Gaussian:
    """What the bound asks of a likelihood, for N(y | f, 1/4): limits are known exactly."""

    def expectations(self, y, mu, var):
        e = -0.5 * np.log(2 * np.pi * 0.25) - ((y - mu) ** 2 + var) / 0.5
        return e, (y - mu) / 0.25, np.full(len(mu), -2.0)


def test_inducing_inputs_at_all_rows_give_the_exact_evidence():
    X, _, _ = problem(n=15)
    y = np.sin(X[:, 0])
    kernel = make_kernel("se-ard", 2, variance=1.3, lengthscale=1.1, noise=0.0)
    bound = FlatBound(KLBound(kernel, Gaussian(), size=4), X)
    x = bound.x
    basis = bound.basis(x, jitter=1e-10)
    constant = -0.5 * np.log(2 * np.pi * 0.25) - y**2 / 0.5

    def quadratics(rows):
        return Quadratic(constant[rows], y[rows] / 0.25, np.full(len(y[rows]), 4.0))

    best = collapse(basis, X, quadratics)
    C = kernel.cross(X, X) + 0.25 * np.eye(15)
    evidence = -0.5 * (y @ np.linalg.solve(C, y) + np.linalg.slogdet(2 * np.pi * C)[1])
    assert best.value == pytest.approx(evidence, abs=1e-6)
    parts = bound.split(x)
    parts["m"][:], parts["L"][:] = best.q.mean, np.linalg.cholesky(best.q.covariance)
    at = bound.at(x, X, y, basis=basis)
    assert at.value == pytest.approx(best.value, abs=1e-9)
    assert at.gradient[bound.q] == pytest.approx(np.zeros(bound.q.stop), abs=1e-6)
