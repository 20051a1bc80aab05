"""Stopped early, schemes for any likelihood hand back nothing that is worse in bound than what they started from."""

import numpy as np
import pytest

from gpbench.model.basis_old import Basis
from gpbench.model.inducing import InducingRule
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Poisson
from gpbench.schemes.base import StopTraining
from gpbench.schemes.general.bound import GaussianV, bound_at
from gpbench.schemes.general.gvi_dual import Dual, DualAscent, GVIDual
from gpbench.schemes.general.gvi_fixed_point import GVIFixedPoint
from gpbench.schemes.general.gvi_gradient import GVIGradient
from gpbench.schemes.general.hyper import State
from gpbench.schemes.general.laplace import laplace_mode
from gpbench.schemes.general.observation import Observation
from gpbench.schemes.general.rows import SparseRows, SubsetRows
from gpbench.schemes.general.starts import Starts

CLASSES = {"count": 0, "binary": 2, "ordinal": 4}
CASES = [
    (kind, task, rows)
    for kind in (GVIDual, GVIFixedPoint, GVIGradient)
    for task in CLASSES
    for rows in ("all", "subset")
    if not (kind is GVIDual and task == "ordinal")
]
SLACK = 1e-7
"""Of nats, relative: what rounding does where q is taken apart and put together again."""


def data(task, n=60, *, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = np.sin(2 * X[:, 0]) + 0.7 * X[:, 1]
    if task == "count":
        return X, rng.poisson(np.exp(3.0 + f))
    noisy = f + rng.logistic(scale=0.3, size=n)
    return X, np.digitize(noisy, {"binary": [0.0], "ordinal": [-1.0, 0.0, 1.0]}[task])


def scheme_of(kind, rows, **settings):
    return kind(**settings, **({"rows": "subset", "inducing_rule": "random"} if rows == "subset" else {}))


def fit(scheme, task, X, y, *, on_step=lambda _: None):
    return scheme.fit(
        X,
        y,
        inducing=InducingRule("all") if scheme.rows == "subset" else InducingRule("random", count=8, seed=1),
        likelihood=scheme.likelihood(task, CLASSES[task]),
        classes=CLASSES[task],
        rng=np.random.default_rng(0),
        on_step=on_step,
    )


def feature_rows(scheme, basis, X, y):
    return SubsetRows(basis, y) if scheme.rows == "subset" else SparseRows(basis, y, X=X)


def bound_of(scheme, posterior, X, y):
    """The bound, worked out from the posterior alone."""
    (latent,) = posterior.latents
    basis = Basis(latent.kernel, latent.Z, jitter=latent.jitter)
    q = GaussianV(latent.m_w, np.asfortranarray(latent.root), latent.form)
    return bound_at(feature_rows(scheme, basis, X, y), Observation(posterior.likelihood, latent.mean), q).value


def starting_bounds(scheme, task, posterior, X, y):
    """The bounds of the prior and of Laplace's approximation on the active set, before any hyper-parameter moves."""
    Z = posterior.latents[0].Z
    basis = Basis(scheme.initial_kernel(X), Z)
    observation = scheme.observation(scheme.likelihood(task, CLASSES[task]), y, CLASSES[task])
    places = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in Z]
    starts = GaussianV.prior(len(Z)), laplace_mode(basis, observation, y[places]).q(basis)
    rows = feature_rows(scheme, basis, X, y)
    return [bound_at(rows, observation, q).value for q in starts]


@pytest.mark.parametrize("variance", [1.0, 20.0])
@pytest.mark.parametrize(("kind", "task", "rows"), CASES)
def test_stopped_after_a_few_iterations_it_is_no_worse_than_its_start(kind, task, rows, variance):
    X, y = data(task)
    scheme = scheme_of(kind, rows, variance=variance)
    bounds = []

    def on_step(step):
        bounds.append(bound_of(scheme, step.posterior(), X, y))
        if step.bound is not None and "returned" not in step.posterior().facts:
            assert step.bound == pytest.approx(bounds[-1], rel=SLACK)
        if step.iteration == 12:
            raise StopTraining

    stopped = fit(scheme, task, X, y, on_step=on_step)
    bounds.append(bound_of(scheme, stopped, X, y))
    least = max(starting_bounds(scheme, task, stopped, X, y))
    assert np.isfinite(bounds).all()
    assert min(bounds) >= least - SLACK * abs(least)
    assert min(bounds) >= bounds[0] - SLACK * abs(bounds[0])
    assert stopped.facts["bound"] == pytest.approx(bounds[-1], rel=SLACK)
    for limit in (1, 2, 5):
        limited = fit(scheme_of(kind, rows, variance=variance, max_iterations=limit), task, X, y)
        assert limited.facts["stopped_by"] == "iterations"
        assert bound_of(scheme, limited, X, y) == pytest.approx(bounds[limit - 1], rel=SLACK)


@pytest.mark.parametrize("rows", ["all", "subset"])
@pytest.mark.parametrize("task", ["count", "binary"])
def test_what_is_handed_back_does_not_depend_on_earlier_questions(task, rows):
    X, y = data(task)
    for limit in (1, 4, 9):
        scheme = scheme_of(GVIDual, rows, max_iterations=limit, variance=20.0)
        asked = fit(scheme, task, X, y, on_step=lambda step: step.posterior())
        unasked = fit(scheme, task, X, y)
        assert asked.facts == unasked.facts
        assert asked.latents[0].m_w.tobytes() == unasked.latents[0].m_w.tobytes()


def test_a_start_that_is_handed_back_is_said_and_the_end_of_the_search_is_the_method_s_own():
    X, y = data("binary")
    stopped = fit(scheme_of(GVIDual, "subset", max_iterations=3, variance=20.0), "binary", X, y)
    assert stopped.facts["returned"] == "start"  # Laplace's approximation is above the surrogate's optimum here
    assert "surrogate" not in stopped.facts
    converged = fit(scheme_of(GVIDual, "subset", hyperparameters="fixed", variance=20.0), "binary", X, y)
    assert converged.facts["stopped_by"] == "converged"
    assert "returned" not in converged.facts
    assert converged.facts["bound"] < stopped.facts["bound"]


@pytest.mark.parametrize("limit", [1, 4, 12, 40])
@pytest.mark.parametrize("task", ["count", "binary"])
def test_the_dual_keeps_the_best_primal_that_it_has_seen(task, limit, monkeypatch):
    X, y = data(task)
    basis = Basis(make_kernel("se", 2, variance=20.0, lengthscale=1.0, noise=0.05), X[:8].copy())
    likelihood = GVIDual().likelihood(task, CLASSES[task])
    mean = float(np.log(y.mean())) if task == "count" else 0.0
    rows, observation = SparseRows(basis, y, X=X), Observation(likelihood, mean, has_mean=task == "count")
    seen, reported = [], []
    real = Dual.primal

    def primal(self, at):
        seen.append(real(self, at))
        return seen[-1]

    monkeypatch.setattr(Dual, "primal", primal)
    solution = DualAscent(GVIDual(dual_evaluations=limit)).solve(
        rows, observation, GaussianV.prior(8), warm=False, report=lambda _, bound: reported.append(bound)
    )
    assert len(seen) == limit
    assert solution.at.value == max(seen)
    assert real(Dual(rows, observation), solution.at) == max(seen)
    least = bound_at(rows, observation, GaussianV.prior(8)).value
    best = [value if value >= least else None for value in np.maximum.accumulate(seen).tolist()]
    assert reported == (best if task == "count" else [None] * limit)
    assert solution.bound == pytest.approx(bound_at(rows, observation, solution.at.q).value, rel=1e-9)


def test_a_bound_that_is_no_number_is_worth_nothing():
    X, y = data("count", 12)
    basis = Basis(make_kernel("se", 2, variance=1.0, lengthscale=1.0, noise=0.05), X[:4].copy())
    prior = GaussianV.prior(4)
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
