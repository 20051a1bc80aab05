"""Training by scalable EP: it learns, says how it ended, survives what is hard, and refuses what it cannot do."""

import numpy as np
import pytest

from gpbench.errors import DataError, NumericalError, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.likelihoods import likelihood
from gpbench.schemes.base import StopTraining
from gpbench.schemes.scalable_ep import batch as ep_mgpc_batch
from gpbench.schemes.scalable_ep.ep_mgpc import EPMGPC

RANDOM = InducingRule("random", count="12", seed=1)


def clusters(n=90, C=3, seed=0, spread=0.7):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % C
    angle = 2 * np.pi * y / C
    X = 2.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + spread * rng.normal(size=(n, 2))
    return X, y


def ignore(step):
    """Look at nothing."""


def fit(X, y, *, classes, inducing=RANDOM, seed=0, on_step=ignore, **settings):
    scheme = EPMGPC(**settings)
    task = "binary" if classes == 2 else "multiclass"
    return scheme.fit(
        X,
        y,
        inducing=inducing,
        likelihood=scheme.likelihood(task, classes),
        classes=classes,
        rng=np.random.default_rng(seed),
        on_step=on_step,
    )


def nll(posterior, X, y):
    return -posterior.score(X, y).log_density.mean()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("training", ["inner-approx", "inner-exact", "outer"])
def test_log_z_rises_and_predictions_follow(classes, training):
    X, y = clusters(C=classes)
    bounds = []
    posterior = fit(
        X, y, classes=classes, training=training, max_iterations=40, on_step=lambda step: bounds.append(step.bound)
    )
    assert len(bounds) == 40
    assert max(bounds[:5]) < bounds[-1]
    assert len(posterior.latents) == (1 if classes == 2 else classes)
    fresh = clusters(C=classes, seed=1)
    assert nll(posterior, *fresh) < 0.3
    assert posterior.score(*fresh).error.mean() < 0.1
    assert posterior.facts["stopped_by"] == "iterations"
    assert posterior.facts["bound"] == bounds[-1]


def test_both_gradients_end_at_the_same_evidence():
    X, y = clusters(n=45, spread=1.2)  # they overlap; of clusters far apart log Z has two maxima
    ends = [
        fit(X, y, classes=3, training=training, max_iterations=150, rise=0.0, learn_inducing=False).facts["bound"]
        for training in ("inner-approx", "inner-exact")
    ]
    assert ends[0] == pytest.approx(ends[1], rel=2e-3)


def test_fixed_hyperparameters_end_at_eps_fixed_point():
    X, y = clusters()
    options = {"hyperparameters": "fixed", "learn_inducing": False, "max_iterations": 3000}
    inner = fit(X, y, classes=3, damping=0.5, **options)
    outer = fit(X, y, classes=3, training="outer", ep_tolerance=1e-6, **options)
    assert inner.facts["stopped_by"] == outer.facts["stopped_by"] == "converged"
    assert inner.facts["bound"] == pytest.approx(outer.facts["bound"], abs=1e-4)


def test_undamped_updates_oscillate_and_are_damped():
    X, y = clusters(n=60, spread=1.2)
    options = {"hyperparameters": "fixed", "learn_inducing": False, "variance": 50.0, "max_iterations": 300}
    steps = []
    damped = fit(X, y, classes=3, damping=0.3, **options)
    undamped = fit(X, y, classes=3, damping=1.0, on_step=lambda step: steps.append(step.bound), **options)
    assert undamped.facts["oscillations"] > 0
    assert undamped.facts["bound"] == pytest.approx(damped.facts["bound"], abs=0.1)


def test_the_posterior_is_the_one_that_was_reported():
    """Stopping at a step gives what that step could have given."""
    X, y = clusters()
    seen = []

    def stop(step):
        seen.append(step.posterior())
        if step.iteration == 5:
            raise StopTraining

    posterior = fit(X, y, classes=3, on_step=stop)
    assert posterior.facts["stopped_by"] == "on_step"
    assert nll(posterior, X, y) == nll(seen[-1], X, y)
    assert nll(seen[0], X, y) != nll(seen[-1], X, y)


def test_the_same_seed_gives_the_same_bits():
    X, y = clusters()
    first, second = (fit(X, y, classes=3, max_iterations=8) for _ in range(2))
    assert (first.predict(X).probabilities == second.predict(X).probabilities).all()


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (lambda y: np.where(y == 2, 1, y), 3),  # a class without rows
        (lambda y: np.where(np.arange(len(y)) == 5, 3, y), 4),  # a class with one row
        (lambda y: np.arange(len(y)) % 26, 26),
    ],
)
def test_rare_absent_and_many_classes(labels, classes):
    X, y = clusters()
    y = labels(y)
    posterior = fit(X, y, classes=classes, max_iterations=10, inducing=InducingRule("random", count="6", seed=0))
    p = posterior.predict(X).probabilities
    assert p.shape == (len(X), classes)
    assert p.sum(axis=1) == pytest.approx(np.ones(len(X)), abs=1e-4)


def test_hard_data_is_survived():
    """Inputs in all units, duplicate rows, a constant column, a large prior variance."""
    X, y = clusters()
    X = np.column_stack([1e4 * X[:, 0] + 1e5, 1e-4 * X[:, 1], np.ones(len(X))])
    X[::2] = X[1::2]
    posterior = fit(X, y, classes=3, variance=160.0, noise=0.0, lengthscale=100.0, max_iterations=60)
    assert np.isfinite(nll(posterior, X, y))
    assert np.isfinite(posterior.facts["bound"])


def test_units_of_the_inputs_do_not_matter():
    X, y = clusters()
    plain = fit(X, y, classes=3, max_iterations=20, hyperparameters="fixed", lengthscale=1.0)
    scaled = fit(1e3 * X, y, classes=3, max_iterations=20, hyperparameters="fixed", lengthscale=1e3)
    assert scaled.facts["bound"] == pytest.approx(plain.facts["bound"], rel=1e-6)


def test_a_step_that_cannot_be_factorised_is_taken_back(monkeypatch):
    X, y = clusters()
    calls = []
    real = ep_mgpc_batch.ScalableEP

    def failing(*args, **options):
        calls.append(1)
        if len(calls) in {4, 5}:
            raise NumericalError("K_mm is not positive definite")
        return real(*args, **options)

    monkeypatch.setattr(ep_mgpc_batch, "ScalableEP", failing)
    posterior = fit(X, y, classes=3, max_iterations=30)
    assert posterior.facts["retries"] == 2
    assert nll(posterior, X, y) < 0.4

    def broken(*args, **options):
        calls.append(1)
        if len(calls) > 50:
            raise NumericalError("K_mm is not positive definite")
        return real(*args, **options)

    monkeypatch.setattr(ep_mgpc_batch, "ScalableEP", broken)
    calls.clear()
    with pytest.raises(NumericalError, match="ep-mgpc, iteration 50: K_mm"):
        fit(X, y, classes=3, max_iterations=80)


def test_what_cannot_be_done_is_refused():
    X, y = clusters()
    with pytest.raises(DataError, match=r"labels must lie in 0\.\.2; got values from 1 to 3"):
        fit(X, y + 1, classes=3)
    with pytest.raises(UsageError, match="does classification; got task count"):
        EPMGPC().likelihood("count", 0)
    with pytest.raises(UsageError, match="without label noise"):
        EPMGPC().fit(
            X,
            y,
            inducing=RANDOM,
            likelihood=likelihood("probit"),
            classes=3,
            rng=np.random.default_rng(0),
            on_step=ignore,
        )
