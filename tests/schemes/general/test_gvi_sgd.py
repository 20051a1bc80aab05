"""Mini-batches: they approach the optimum, learn, go back where they were led away, end by the held-out rule."""

import numpy as np
import pytest

from gpbench.model.basis import Basis
from gpbench.model.gaussian import GaussianQ
from gpbench.model.inducing import InducingRule
from gpbench.model.likelihoods import Poisson
from gpbench.schemes.general.bound import SparseRows, bound_at
from gpbench.schemes.general.gvi_fixed_point import GVIFixedPoint
from gpbench.schemes.general.gvi_sgd import GVISGD, GVISGDTraining
from gpbench.schemes.general.settings import ActiveSet, Observation


def test_mini_batches_approach_the_optimum(train, data):
    X, y = data("count", 200)
    best = train(GVIFixedPoint(hyperparameters="fixed"), "count", X, y)
    for optimizer in ("adam", "adadelta"):
        scheme = GVISGD(hyperparameters="fixed", optimizer=optimizer, batch_size=50, max_iterations=2000)
        (latent,) = train(scheme, "count", X, y).posterior.latents
        q = GaussianQ(latent.m_w, np.asfortranarray(latent.root), "covariance")
        rows = SparseRows(Basis(latent.kernel, latent.Z), y, X=X)
        observation = Observation(Poisson(), latent.mean, has_mean=True)
        value = bound_at(rows, observation, q).value
        assert best.bound - 3 < value <= best.bound + 1e-9


@pytest.mark.parametrize("task", ["count", "binary", "ordinal"])
def test_mini_batches_learn_hyperparameters(train, data, task):
    X, y = data(task, 100)
    scheme = GVISGD(batch_size=25, max_iterations=200, freeze_iterations=20, rate=0.03)
    learned = train(scheme, task, X, y)
    fixed = train(GVISGD(hyperparameters="fixed", batch_size=25, max_iterations=200, rate=0.03), task, X, y)
    assert learned.facts["hyperparameters"] != fixed.facts["hyperparameters"]
    assert learned.posterior.score(X, y).log_density.mean() > fixed.posterior.score(X, y).log_density.mean()
    again = train(scheme, task, X, y)
    assert again.posterior.latents[0].m_w.tobytes() == learned.posterior.latents[0].m_w.tobytes()


def test_mini_batches_that_led_away_go_back_to_where_they_were_long_before(data):
    X, y = data("count", 100)
    active = ActiveSet.choose(InducingRule("random", 8, seed=1), X, y)
    observation = Observation(Poisson(), 1.0, has_mean=True)
    scheme = GVISGD(hyperparameters="fixed", rate=0.01)
    run = GVISGDTraining(scheme, X, y, active=active, observation=observation, classes=0, rng=np.random.default_rng(0))
    for _ in range(350):
        run.step(X, y, scale=1.0)
    before = -run.posterior().score(X, y).log_density.mean()
    run.w[: len(active.Z)] += 300.0  # rates of e^300, finite
    run.step(X, y, scale=1.0)
    assert run.rate == 0.005
    assert run.trainer.count == 351
    assert -run.posterior().score(X, y).log_density.mean() == pytest.approx(before, abs=0.05)


def test_gradients_average_to_the_whole(data):
    """Equal batches of a partition: the mean of their gradients is that of all rows."""
    X, y = data("count", 60)
    active = ActiveSet.choose(InducingRule("random", 6, seed=1), X, y)
    observation = Observation(Poisson(), 1.0, has_mean=True)
    scheme = GVISGD(freeze_iterations=0, batch_size=20)

    def gradient(rows, scale):
        run = GVISGDTraining(
            scheme, X, y, active=active, observation=observation, classes=0, rng=np.random.default_rng(0)
        )
        return run.gradient(X[rows], y[rows], scale=scale).gradient

    parts = [gradient(np.arange(start, start + 20), 3.0) for start in (0, 20, 40)]
    whole = gradient(np.arange(60), 1.0)
    assert set(whole) == {"m", "L", "theta", "Z", "mean"}
    for name, value in whole.items():
        assert np.mean([part[name] for part in parts], axis=0) == pytest.approx(value, abs=1e-9)


def test_the_gradient_is_the_finite_difference_of_the_bound(observed):
    observation, targets = observed
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 2))
    y = targets(30, rng)
    active = ActiveSet.choose(InducingRule("random", 5, seed=1), X, y)
    scheme = GVISGD(freeze_iterations=0, learn_slope=True)
    run = GVISGDTraining(scheme, X, y, active=active, observation=observation, classes=4, rng=rng)
    gradient = run.unknowns.gradient(run.gradient(X, y, scale=1.5).gradient)
    w = run.w.copy()
    for i in [*range(5), 7, 11, *range(len(w) - observation.free.size - 4, len(w))]:
        values = []
        for sign in (1, -1):
            run.w = w + sign * 1e-5 * np.eye(len(w))[i]
            run.bind()
            values.append(run.gradient(X, y, scale=1.5).value)
        assert gradient[i] == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5, abs=1e-5)


def test_the_held_out_rule_ends_training(train, data):
    X, y = data("count", 200)
    scheme = GVISGD(stop="held-out", tolerance=1.0, batch_size=20, hyperparameters="fixed", max_iterations=3000)
    found = train(scheme, "count", X, y)
    assert found.stopped_by == "converged"
    assert 500 < found.iterations < 3000


def test_a_limit_within_the_estimate_hands_back_the_best_of_it(train, data, limit):
    X, y = data("count", 60)
    scheme = GVISGD(hyperparameters="active-laplace")
    first = train(scheme, "count", X, y, M=15, on_step=limit(0))
    later = train(scheme, "count", X, y, M=15, on_step=limit(30))
    for found in (first, later):
        assert (found.stopped_by, found.iterations) == ("on_step", 0)
        assert np.isfinite(found.posterior.score(X, y).log_density).all()
    start = scheme.initial_kernel(X)
    assert (first.posterior.latents[0].kernel.theta == start.theta).all()
    assert (later.posterior.latents[0].kernel.theta != start.theta).any()
