"""The state of x-gpc against the oracles and against itself by other routes."""

import numpy as np
import pytest

from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import likelihood
from gpbench.model.posterior import Posterior
from gpbench.schemes.jaakkola.collapsed import jaakkola_jordan
from gpbench.schemes.jaakkola.vijj import FullTraining, VIJJFull
from gpbench.schemes.xgpc import State

SHIFT = np.array([0.3, -0.2, 0.1, 0.4])


def from_moments(state, mu, Sigma):
    """Set q(u) to N(mu, Sigma)."""
    L, precision = state.basis.L, np.linalg.inv(Sigma)
    state.precision = np.asfortranarray(L.T @ precision @ L)
    state.eta = L.T @ precision @ mu


def moments(state):
    """Mean and covariance of q(u)."""
    L = state.basis.L
    lower = np.tril(state.precision)
    precision = lower + np.tril(lower, -1).T
    return L @ np.linalg.solve(precision, state.eta), L @ np.linalg.inv(precision) @ L.T


def coordinate_ascent(state, X, y, *, sweeps=200):
    for _ in range(sweeps):
        state.update(state.target(X, y, scale=1.0), rate=1.0)


def random_state(name="se-ard", *, n=30, M=6, d=2, seed=0, noise=0.1, variance=1.5, tight=False):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, d)), rng.normal(size=(M, d))
    y = np.sign(np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=n))
    return State(make_kernel(name, d, variance=variance, lengthscale=1.3, noise=noise), Z, tight=tight), X, y


def test_a_mini_batch_step_is_the_oracles(read_oracle):
    inputs, expected = read_oracle("xgpc_minibatch_step")
    kernel, jitter = inputs["kernel"]
    rows = inputs["batch_indices_zero_based"].astype(int)
    X, y = inputs["X"][rows], inputs["y"][rows]
    scale = len(inputs["X"]) / len(rows)
    state = State(kernel, inputs["Z"], jitter=jitter)
    from_moments(state, inputs["mu"], inputs["Sigma"])
    assert state.bound(X, y, scale=scale) == pytest.approx(expected["batch_elbo"], abs=1e-8)
    gradient = expected["batch_elbo_grad_log_hyper"]
    wanted = np.hstack([gradient["part0.log_variance"], gradient["part0.log_lengthscales"], gradient["log_white"]])
    target, (got, _) = state.target_and_gradient(X, y, scale=scale)
    assert got == pytest.approx(wanted, abs=1e-8)
    M = len(inputs["Z"])
    step = state.natural_gradient(target)
    assert step[:M] == pytest.approx(expected["natgrad_eta1"], abs=1e-8)
    assert step[M:].reshape(M, M) == pytest.approx(expected["natgrad_eta2"], abs=1e-8)
    state.step(X, y, scale=scale, rate=inputs["rho"])
    mu, Sigma = moments(state)
    assert mu == pytest.approx(expected["mu_new"], abs=1e-8)
    assert pytest.approx(expected["Sigma_new"], abs=1e-8) == Sigma


@pytest.mark.parametrize("name", ["xgpc_jj_optimum_a", "xgpc_jj_optimum_b"])
def test_coordinate_ascent_reaches_the_oracles_optimum(read_oracle, name):
    inputs, expected = read_oracle(name)
    kernel, jitter = inputs["kernel"]
    state = State(kernel, inputs["Z"], jitter=jitter)
    coordinate_ascent(state, inputs["X"], inputs["y"])
    bound = state.bound(inputs["X"], inputs["y"], scale=1.0)
    assert bound == pytest.approx(expected["elbo"], abs=1e-8)
    assert bound == pytest.approx(expected["jj_bound_at_xi_equals_c"], abs=1e-8)
    assert bound < expected["kl_bound_at_same_q"] < expected["kl_bound_optimum"]
    mu, Sigma = moments(state)
    assert mu == pytest.approx(expected["mu"], abs=1e-6)
    assert pytest.approx(expected["Sigma"], abs=1e-6) == Sigma
    gradient = expected["hyper_grad_at_optimum"]
    wanted = np.hstack([gradient[key] for key in gradient])
    _, (got, _) = state.target_and_gradient(inputs["X"], inputs["y"], scale=1.0)
    assert got[: len(wanted)] == pytest.approx(wanted, abs=1e-6)
    posterior = Posterior((state.latent(),), likelihood("logit"), classes=2)
    mean, var = posterior.latent(inputs["X_test"])
    assert mean[:, 0] == pytest.approx(expected["test_latent_mean"], abs=1e-6)
    assert var[:, 0] == pytest.approx(expected["test_latent_var"], abs=1e-6)
    assert posterior.predict(inputs["X_test"]).probabilities[:, 1] == pytest.approx(expected["test_prob"], abs=1e-7)


@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize("name", ["se", "se-ard", "matern32-ard", "linear-ard", "se-ard+linear-ard"])
def test_gradient_of_the_bound_is_the_finite_difference_with_q_held(name, tight):
    state, X, y = random_state(name, tight=tight)
    coordinate_ascent(state, X, y, sweeps=3)
    mu, Sigma = moments(state)
    kernel, Z, jitter = state.basis.kernel, state.basis.Z, 1e-6
    base = State(kernel, Z, jitter=jitter, tight=tight)
    from_moments(base, mu, Sigma)
    _, (by_theta, by_Z) = base.target_and_gradient(X, y, scale=1.0)

    def bound(theta, Z):
        moved = State(kernel.with_theta(theta), Z, jitter=jitter, tight=tight)
        from_moments(moved, mu, Sigma)
        return moved.bound(X, y, scale=1.0)

    # the bound moves c along with theta and Z; at the best c that changes nothing to first order
    steps = 1e-5 * np.eye(kernel.theta.size)
    expected = [(bound(kernel.theta + e, Z) - bound(kernel.theta - e, Z)) / 2e-5 for e in steps]
    assert by_theta == pytest.approx(expected, rel=1e-5, abs=1e-6)
    steps = 1e-5 * np.eye(Z.size).reshape(Z.size, *Z.shape)
    expected = [(bound(kernel.theta, Z + e) - bound(kernel.theta, Z - e)) / 2e-5 for e in steps]
    assert by_Z.ravel() == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_a_step_with_its_gradient_is_the_step_and_the_gradient():
    state, X, y = random_state()
    coordinate_ascent(state, X, y, sweeps=2)
    other, _, _ = random_state()
    coordinate_ascent(other, X, y, sweeps=2)
    _, wanted = state.target_and_gradient(X, y, scale=2.0)
    state.step(X, y, scale=2.0, rate=0.3)
    got = other.step_and_gradient(X, y, scale=2.0, rate=0.3)
    for one, two in zip(got, wanted, strict=True):
        assert one == pytest.approx(two, rel=1e-9)
    assert other.eta == pytest.approx(state.eta, rel=1e-9)
    assert np.tril(other.precision) == pytest.approx(np.tril(state.precision), rel=1e-9)


def test_batches_of_a_partition_average_to_the_whole():
    state, X, y = random_state()
    coordinate_ascent(state, X, y, sweeps=2)
    parts = [slice(i, i + 10) for i in (0, 10, 20)]
    bounds = [state.bound(X[part], y[part], scale=3.0) for part in parts]
    assert np.mean(bounds) == pytest.approx(state.bound(X, y, scale=1.0), rel=1e-12)
    gradients = [state.target_and_gradient(X[part], y[part], scale=3.0)[1][0] for part in parts]
    assert np.mean(gradients, axis=0) == pytest.approx(state.target_and_gradient(X, y, scale=1.0)[1][0], rel=1e-9)
    etas = [state.target(X[part], y[part], scale=3.0).eta for part in parts]
    assert np.mean(etas, axis=0) == pytest.approx(state.target(X, y, scale=1.0).eta, rel=1e-12)


def test_both_ways_to_a_target_agree():
    state, X, y = random_state()
    coordinate_ascent(state, X, y, sweeps=2)
    plain = state.target(X, y, scale=2.0)
    eta, G = plain.eta.copy(), np.tril(plain.G)
    other, _ = state.target_and_gradient(X, y, scale=2.0)
    assert other.eta == pytest.approx(eta, rel=1e-12)
    assert np.tril(other.G) == pytest.approx(G, rel=1e-9)


def test_a_step_is_an_update_towards_its_target():
    state, X, y = random_state()
    coordinate_ascent(state, X, y, sweeps=2)
    other, _, _ = random_state()
    coordinate_ascent(other, X, y, sweeps=2)
    state.step(X[:9], y[:9], scale=30 / 9, rate=0.3)
    other.update(other.target(X[:9], y[:9], scale=30 / 9), rate=0.3)
    assert state.eta == pytest.approx(other.eta, rel=1e-12)
    assert np.tril(state.precision) == pytest.approx(np.tril(other.precision), rel=1e-12)


def test_q_of_u_stays_when_the_kernel_moves():
    state, X, y = random_state()
    coordinate_ascent(state, X, y, sweeps=5)
    mu, Sigma = moments(state)
    state.move(state.basis.kernel.with_theta(state.basis.kernel.theta + SHIFT), keep="q")
    moved_mu, moved_Sigma = moments(state)
    assert moved_mu == pytest.approx(mu, abs=1e-9)
    assert moved_Sigma == pytest.approx(Sigma, abs=1e-9)


def test_the_datas_part_of_q_stays_when_only_sites_are_kept():
    state, X, y = random_state()
    coordinate_ascent(state, X, y, sweeps=5)
    mu, Sigma = moments(state)
    K = state.basis.L @ state.basis.L.T
    sites, eta = np.linalg.inv(Sigma) - np.linalg.inv(K), np.linalg.solve(Sigma, mu)
    state.move(state.basis.kernel.with_theta(state.basis.kernel.theta + SHIFT), keep="sites")
    mu, Sigma = moments(state)
    K = state.basis.L @ state.basis.L.T
    assert np.linalg.inv(Sigma) - np.linalg.inv(K) == pytest.approx(sites, abs=1e-6)
    assert np.linalg.solve(Sigma, mu) == pytest.approx(eta, abs=1e-6)


def test_parameters_are_the_mean_and_the_variances_of_u():
    state, X, y = random_state()
    coordinate_ascent(state, X, y, sweeps=2)
    mu, Sigma = moments(state)
    assert state.parameters() == pytest.approx(np.concatenate([mu, np.diag(Sigma)]), rel=1e-9)


def test_the_posterior_of_a_moment_does_not_move_with_the_state():
    state, X, y = random_state()
    coordinate_ascent(state, X, y, sweeps=1)
    posterior = Posterior((state.latent(),), likelihood("logit"), classes=2)
    coordinate_ascent(state, X, -y, sweeps=5)
    other, _, _ = random_state()
    coordinate_ascent(other, X, y, sweeps=1)
    expected = Posterior((other.latent(),), likelihood("logit"), classes=2)
    assert (posterior.latent(X)[0] == expected.latent(X)[0]).all()


@pytest.mark.parametrize("tight", [False, True])
def test_full_steps_come_to_the_best_jaakkola_jordan_bound(tight):
    state, X, y = random_state(tight=tight)
    coordinate_ascent(state, X, y)
    scheme = VIJJFull(hyperparameters="fixed", conditional="tight" if tight else "prior", value_tolerance=1e-14)
    training = FullTraining(
        scheme, jaakkola_jordan, X, y > 0, Z=state.basis.Z, likelihood=likelihood("logit"), first_xi=1.0
    )
    training.state = training.state._replace(basis=state.basis)
    training.train()
    assert state.bound(X, y, scale=1.0) == pytest.approx(training.bound(), abs=1e-6)
