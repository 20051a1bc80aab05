"""Laplace's method against the oracle, its gradient, and the exact case."""

import numpy as np
import pytest

from gpbench.model.basis import Basis
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Gaussian, Logit, Poisson
from gpbench.schemes.general.gvi_fixed_point import SoDFixedPoint
from gpbench.schemes.general.laplace import laplace_gradient, laplace_mode
from gpbench.schemes.general.settings import Observation
from gpbench.schemes.general.sod_laplace import SoDLaplace


def test_laplace_of_the_oracle(read_oracle):
    inputs, expected = read_oracle("laplace_subset")
    kernel, jitter = inputs["kernel"]
    basis = Basis(kernel, inputs["X"], jitter=jitter)
    counts = Observation(Poisson(), inputs["mean_constant_poisson"], has_mean=True)
    cases = {
        "logit": (Observation(Logit()), (inputs["y"] > 0).astype(int)),
        "poisson": (counts, inputs["y_poisson"].astype(int)),
    }
    for name, (observation, y) in cases.items():
        mode, wanted = laplace_mode(basis, observation, y), expected[name]
        assert mode.f == pytest.approx(wanted["mode_minus_mean"], abs=1e-8)
        assert pytest.approx(wanted["W"], abs=1e-8) == mode.W
        assert mode.evidence == pytest.approx(wanted["log_marginal"], abs=1e-9)
        gradient = np.concatenate([np.atleast_1d(each) for each in wanted["grad_log_hyper"].values()])
        assert laplace_gradient(basis, observation, y, mode)[0] == pytest.approx(gradient, abs=1e-8)
        S = mode.q(basis).covariance
        assert np.diag(basis.L @ S @ basis.L.T) == pytest.approx(wanted["posterior_cov_diag"], abs=1e-9)


def test_laplace_gradients_are_finite_differences(observed):
    observation, targets = observed
    rng = np.random.default_rng(3)
    X = rng.normal(size=(9, 2))
    y = targets(9, rng)
    kernel = make_kernel("se-ard", 2, variance=1.3, lengthscale=1.1, noise=0.05)

    def at(values):
        P = kernel.theta.size
        basis = Basis(kernel.with_theta(values[:P]), X, jitter=1e-6)
        moved = observation.with_free(values[P:])
        return basis, moved, y, laplace_mode(basis, moved, y, tolerance=1e-12)

    whole = np.concatenate([kernel.theta, observation.free])
    gradient = np.concatenate(laplace_gradient(*at(whole)))
    for i in range(len(whole)):
        step = 1e-5 * np.eye(len(whole))[i]
        difference = at(whole + step)[3].evidence - at(whole - step)[3].evidence
        assert gradient[i] == pytest.approx(difference / 2e-5, rel=1e-6, abs=1e-7)


def test_laplace_of_gaussian_targets_is_exact():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(7, 1)), rng.normal(size=7)
    basis = Basis(make_kernel("se", 1, variance=1.0, lengthscale=1.0, noise=0.0), X, jitter=1e-8)
    mode = laplace_mode(basis, Observation(Gaussian(0.5), 0.2), y)
    C = basis.L @ basis.L.T + 0.5 * np.eye(7)
    _, log_det = np.linalg.slogdet(C)
    exact = -0.5 * ((y - 0.2) @ np.linalg.solve(C, y - 0.2) + log_det + 7 * np.log(2 * np.pi))
    assert mode.evidence == pytest.approx(exact, abs=1e-10)


def test_a_mode_nearby_saves_newton_steps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    bases = [Basis(make_kernel("se", 2, variance=v, lengthscale=1.0, noise=0.0), X, jitter=1e-6) for v in (30.0, 33.0)]
    near = laplace_mode(bases[0], Observation(Logit()), y)
    cold = laplace_mode(bases[1], Observation(Logit()), y, tolerance=1e-12)
    warm = laplace_mode(bases[1], Observation(Logit()), y, start=near.f)
    assert warm.steps <= 3 < cold.steps
    assert warm.f == pytest.approx(cold.f, abs=1e-7)
    useless = laplace_mode(bases[1], Observation(Logit()), y, start=np.where(y == 1, -50.0, 50.0))
    assert useless.evidence == pytest.approx(cold.evidence, abs=1e-9)


@pytest.mark.parametrize("task", ["count", "binary", "ordinal"])
def test_laplace_on_the_subset(train, data, task):
    X, y = data(task, 60)
    fixed = train(SoDLaplace(hyperparameters="fixed"), task, X, y, M=30)
    learned = train(SoDLaplace(), task, X, y, M=30)
    assert learned.bound > fixed.bound + 0.5
    assert (fixed.iterations, fixed.stopped_by) == (1, "converged")
    variational = train(SoDFixedPoint(hyperparameters="fixed"), task, X, y, M=30)
    assert variational.posterior.latent(X)[0] == pytest.approx(fixed.posterior.latent(X)[0], abs=0.4)


def test_a_limit_ends_the_search_for_a_mode(train, data, limit):
    """Newton's method on many rows takes long; what is handed back is the best state of whole evaluations."""
    X, y = data("count", 60)

    for checks in (3, 12, 25):
        on_step = limit(checks)
        found = train(SoDLaplace(), "count", X, y, M=15, on_step=on_step)
        assert found.stopped_by == "on_step"
        assert found.iterations == len(on_step.steps)
        if on_step.steps:
            (latent,) = found.posterior.latents
            places = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in latent.Z]
            observation = Observation(found.posterior.likelihood, latent.mean, has_mean=True)
            basis = Basis(latent.kernel, latent.Z, jitter=latent.jitter)
            assert found.bound == pytest.approx(laplace_mode(basis, observation, y[places]).evidence, abs=1e-9)
            assert found.bound >= max(step.bound for step in on_step.steps)
        else:
            assert found.bound is None
