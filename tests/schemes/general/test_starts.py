"""Stopped early, schemes for any likelihood hand back nothing that is worse in bound than what they started from."""

import numpy as np
import pytest

from gpbench.model.basis import Basis
from gpbench.model.gaussian import GaussianQ
from gpbench.model.inducing import InducingRule
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Poisson
from gpbench.schemes.base import StopTraining
from gpbench.schemes.general.bound import SparseRows, SubsetRows, bound_at
from gpbench.schemes.general.gvi_dual import GVIDual, SoDDual
from gpbench.schemes.general.gvi_fixed_point import GVIFixedPoint, SoDFixedPoint
from gpbench.schemes.general.gvi_gradient import GVIGradient, SoDGradient
from gpbench.schemes.general.laplace import laplace_mode
from gpbench.schemes.general.settings import Observation
from gpbench.schemes.general.training import Starts, State, SubsetScheme

CASES = [
    (kind, task)
    for kind in (GVIDual, SoDDual, GVIFixedPoint, SoDFixedPoint, GVIGradient, SoDGradient)
    for task in ("count", "binary", "ordinal")
    if not (kind in {GVIDual, SoDDual} and task == "ordinal")
]
SLACK = 1e-7
"""Of nats, relative: what rounding does where q is taken apart and put together again."""


@pytest.fixture
def fitted(train, data):
    """Rows and targets of a task, and a fit to them: on all rows of a subset scheme, else from eight of them."""

    def run(kind, task, *, on_step=lambda _: None, **settings):
        X, y = data(task, 60, seed=3, log_rate=3.0)
        rule = InducingRule("all") if issubclass(kind, SubsetScheme) else None
        return X, y, train(kind(**settings), task, X, y, rule=rule, on_step=on_step)

    return run


def feature_rows(kind, basis, X, y):
    return SubsetRows(basis, y) if issubclass(kind, SubsetScheme) else SparseRows(basis, y, X=X)


def bound_of(kind, posterior, X, y):
    """The bound, worked out from the posterior alone."""
    (latent,) = posterior.latents
    basis = Basis(latent.kernel, latent.Z, jitter=latent.jitter)
    q = GaussianQ(latent.m_w, np.asfortranarray(latent.root), latent.form)
    return bound_at(feature_rows(kind, basis, X, y), Observation(posterior.likelihood, latent.mean), q).value


def starting_bounds(scheme, observation, posterior, X, y):
    """The bounds of the prior and of Laplace's approximation on the active set, before any hyper-parameter moves."""
    Z = posterior.latents[0].Z
    basis = Basis(scheme.initial_kernel(X), Z)
    places = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in Z]
    starts = GaussianQ.prior(len(Z)), laplace_mode(basis, observation, y[places]).q(basis)
    rows = feature_rows(type(scheme), basis, X, y)
    return [bound_at(rows, observation, q).value for q in starts]


@pytest.mark.parametrize("variance", [1.0, 20.0])
@pytest.mark.parametrize(("kind", "task"), CASES)
def test_stopped_after_a_few_iterations_it_is_no_worse_than_its_start(fitted, data, kind, task, variance):
    X, y = data(task, 60, seed=3, log_rate=3.0)
    bounds, told = [], []

    def on_step(step):
        bounds.append(bound_of(kind, step.posterior(), X, y))
        told.append(step.bound)
        if step.iteration == 12:
            raise StopTraining

    _, _, stopped = fitted(kind, task, variance=variance, on_step=on_step)
    bounds.append(bound_of(kind, stopped.posterior, X, y))
    scheme, classes = kind(variance=variance), stopped.posterior.classes
    observation = scheme.observation(scheme.likelihood(task, classes), y, classes)
    least = max(starting_bounds(scheme, observation, stopped.posterior, X, y))
    assert np.isfinite(bounds).all()
    assert min(bounds) >= least - SLACK * abs(least)
    assert min(bounds) >= bounds[0] - SLACK * abs(bounds[0])
    assert stopped.bound == pytest.approx(bounds[-1], rel=SLACK)
    for limit in (1, 2, 5):
        _, _, limited = fitted(kind, task, variance=variance, max_iterations=limit)
        assert limited.stopped_by == "iterations"
        assert bound_of(kind, limited.posterior, X, y) == pytest.approx(bounds[limit - 1], rel=SLACK)
        if told[limit - 1] is not None and "returned" not in limited.facts:
            assert told[limit - 1] == pytest.approx(bounds[limit - 1], rel=SLACK)


@pytest.mark.parametrize("kind", [GVIDual, SoDDual])
@pytest.mark.parametrize("task", ["count", "binary"])
def test_what_is_handed_back_does_not_depend_on_earlier_questions(fitted, task, kind):
    for limit in (1, 4, 9):
        options = {"max_iterations": limit, "variance": 20.0}
        _, _, asked = fitted(kind, task, on_step=lambda step: step.posterior(), **options)
        _, _, unasked = fitted(kind, task, **options)
        assert (asked.facts, asked.bound, asked.jitter) == (unasked.facts, unasked.bound, unasked.jitter)
        assert asked.posterior.latents[0].m_w.tobytes() == unasked.posterior.latents[0].m_w.tobytes()


def test_a_start_that_is_handed_back_is_said_and_the_end_of_the_search_is_the_method_s_own(fitted):
    _, _, stopped = fitted(SoDDual, "binary", max_iterations=3, variance=20.0)
    assert stopped.facts["returned"] == "start"  # Laplace's approximation is above the surrogate's optimum here
    assert "surrogate" not in stopped.facts
    _, _, converged = fitted(SoDDual, "binary", hyperparameters="fixed", variance=20.0)
    assert converged.stopped_by == "converged"
    assert "returned" not in converged.facts
    assert converged.bound < stopped.bound


@pytest.mark.parametrize(("kind", "task"), CASES)
def test_a_limit_that_passes_within_an_iteration_ends_it(fitted, limit, kind, task):
    """A walk over many rows takes long: it asks whether to go on, and what is handed back is known already."""
    seen = set()
    for checks in (0, 10, 60):
        on_step = limit(checks)
        X, y, found = fitted(kind, task, on_step=on_step)
        assert (found.stopped_by, found.iterations) == ("on_step", len(on_step.steps))
        assert np.isfinite(found.posterior.score(X, y).log_density).all()
        seen.add(found.iterations)
    assert len(seen) > 1


def test_a_bound_that_is_no_number_counts_for_nothing(data):
    X, y = data("count", 12, seed=3, log_rate=3.0)
    basis = Basis(make_kernel("se", 2, variance=1.0, lengthscale=1.0, noise=0.05), X[:4].copy())
    prior = GaussianQ.prior(4)
    start = State(basis, Observation(Poisson(), 3.0), prior)
    unknown = start._replace(bound=np.nan)

    def starts():
        fresh = Starts(lambda basis: SparseRows(basis, y, X=X))
        assert fresh.best(unknown) == (unknown, False)  # nothing to compare with
        fresh.begin(start)
        return fresh

    found, is_start = starts().best(unknown)
    assert is_start
    assert found.bound == bound_at(SparseRows(basis, y, X=X), start.observation, prior).value
    better = start._replace(bound=found.bound + 1.0)
    assert starts().best(better) == (better, False)
    several = starts()
    several.report(better)
    several.report(start._replace(bound=found.bound + 5.0))  # no start any more
    assert several.best(start._replace(bound=found.bound + 0.5)) == (better, True)
