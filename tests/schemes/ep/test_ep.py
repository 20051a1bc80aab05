"""Full EP as a scheme: it climbs, its two orders of updates agree, and what it cannot do is refused."""

import numpy as np
import pytest

from gpbench.errors import NumericalError, UsageError
from gpbench.model.likelihoods import likelihood
from gpbench.schemes.base import StopTraining
from gpbench.schemes.ep import full
from gpbench.schemes.ep.full import EP


def rows(n=50, *, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (np.sin(2 * X[:, 0]) + X[:, 1] + 0.4 * rng.normal(size=n) > 0).astype(int)


def test_learns_and_reports_each_evaluation(fit):
    X, y = rows()
    steps = []
    found = fit(EP(), X, y, on_step=lambda step: steps.append((step.iteration, step.bound)))
    assert [iteration for iteration, _ in steps] == list(range(1, len(steps) + 1))
    bounds = [bound for _, bound in steps]
    assert (np.diff(bounds) >= 0).all()
    assert bounds[-1] > bounds[0] + 1.0
    assert found.stopped_by == "converged"
    assert found.facts["unsettled"] == 0
    assert found.bound == bounds[-1]
    assert found.posterior.score(X, y).error.mean() < 0.2
    assert np.array_equal(found.posterior.latents[0].Z, X)


def test_both_orders_of_updates_give_one_posterior(fit):
    X, y = rows(30)
    new = np.random.default_rng(1).normal(size=(9, 2))
    means = [
        fit(EP(order=order, hyperparameters="fixed", ep_tolerance=1e-11), X, y).posterior.latent(new)[0]
        for order in ("parallel", "sequential")
    ]
    assert means[0] == pytest.approx(means[1], abs=1e-8)


def test_fixed_hyperparameters_take_one_step_and_stay(fit):
    X, y = rows(30)
    scheme = EP(hyperparameters="fixed")
    steps = []
    found = fit(scheme, X, y, on_step=steps.append)
    assert len(steps) == 1
    assert found.stopped_by == "converged"
    assert (found.posterior.latents[0].kernel.theta == scheme.initial_kernel(np.zeros((1, 2))).theta).all()


def test_stops_when_told_with_the_best_state(fit):
    X, y = rows()
    seen = []

    def on_step(step):
        seen.append(step.bound)
        if len(seen) == 3:
            raise StopTraining

    found = fit(EP(), X, y, on_step=on_step)
    assert found.iterations == 3
    assert found.bound == seen[-1]
    assert found.stopped_by == "on_step"


def test_keeps_to_its_evaluations(fit):
    X, y = rows()
    found = fit(EP(max_iterations=4), X, y)
    assert found.iterations == 4
    assert found.stopped_by == "iterations"


def test_too_many_rows_are_refused_unless_asked_for(fit):
    X, y = rows(40)
    with pytest.raises(UsageError, match=r"at most max_rows = 30 rows; got 40; .* set max_rows=40"):
        fit(EP(max_rows=30), X, y)
    fit(EP(max_rows=40, hyperparameters="fixed"), X, y)


def test_other_tasks_and_links_are_refused(fit):
    X, y = rows(20)
    with pytest.raises(UsageError, match="binary"):
        EP().likelihood_for("multiclass", 3)
    with pytest.raises(UsageError, match="needs the likelihood probit"):
        fit(EP(), X, y, likelihood=likelihood("logit"))


def test_noise_free_kernels_and_duplicate_rows(fit):
    X, y = rows(30)
    found = fit(EP(noise=0.0), np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert np.isfinite(found.posterior.score(X, y).log_density).all()


@pytest.mark.parametrize("scale", [1e4, 1e-4])
def test_inputs_that_are_not_scaled(fit, scale):
    X, y = rows(30)
    found = fit(EP(max_iterations=30), X * scale + 7 * scale, y)
    assert np.isfinite(found.posterior.score(X * scale, y).log_density).all()


def test_trouble_names_the_scheme_and_how_far_it_came(fit, monkeypatch):
    X, y = rows(20)

    def fail(*args, **kwargs):
        raise NumericalError("B of full EP is not positive definite")

    monkeypatch.setattr(full, "potrf", fail)
    with pytest.raises(NumericalError, match="ep, start: B of full EP is not positive definite"):
        fit(EP(), X, y)
