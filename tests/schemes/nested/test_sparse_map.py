"""The abandoned bound as a scheme."""

import numpy as np
import pytest

from gpbench.errors import NumericalError, UsageError
from gpbench.model.basis import Basis
from gpbench.model.inducing import InducingRule
from gpbench.schemes.nested import sparse_map as module
from gpbench.schemes.nested.sparse_map import SparseMAPScheme, sparse_map


@pytest.fixture
def train(fit):
    """Fits with six inducing inputs, or as many as a rule says."""

    def run(scheme, X, y, *, M=6, rule=None, **options):
        return fit(scheme, X, y, inducing=rule or InducingRule("kmeans", count=M, seed=1), **options)

    return run


@pytest.mark.parametrize("optimizer", ["lbfgsb", "scg"])
def test_learns_and_reports_the_bound_of_its_posterior(train, boundary, optimizer):
    X, y = boundary()
    bounds = []
    scheme = SparseMAPScheme(optimizer=optimizer, max_iterations=100, block_rows=25)
    found = train(scheme, X, y, on_step=lambda step: bounds.append(step.bound))
    (latent,) = found.posterior.latents
    again = sparse_map(Basis(latent.kernel, latent.Z, jitter=latent.jitter), X, y, tolerance=1e-9, limit=100)
    assert (np.diff(bounds) >= 0).all()
    assert bounds[-1] == pytest.approx(again.value, abs=1e-6)
    assert bounds[-1] > bounds[0] + 1
    assert found.posterior.score(X, y).error.mean() < 0.25
    assert found.facts["unsettled"] == 0


HARD = {
    "large variance": ({"variance": 160.0}, lambda X: X),
    "larger variance": ({"variance": 1e5, "noise": 0.0}, lambda X: X),
    "duplicates": ({}, lambda X: np.repeat(X[:15], 4, axis=0)),
    "a line": ({"noise": 1e-6}, lambda X: np.outer(np.linspace(-1, 1, len(X)), [1.0, 2.0])),
    "unscaled": ({}, lambda X: X * [1e6, 1e-6] + [1e7, 0.0]),
    "linear": ({"kernel": "matern32-ard+linear-ard"}, lambda X: X),
}


@pytest.mark.parametrize("case", HARD)
def test_hard_problems_stay_finite(train, boundary, case):
    options, change = HARD[case]
    X, y = boundary()
    bounds = []
    scheme = SparseMAPScheme(max_iterations=40, **options)
    found = train(scheme, change(X), y, M=12, on_step=lambda step: bounds.append(step.bound))
    assert np.isfinite(bounds).all()
    assert np.isfinite(found.posterior.score(change(X), y).log_density).all()


def test_other_tasks_are_refused_and_failures_are_named(train, boundary, monkeypatch):
    with pytest.raises(UsageError, match="binary"):
        SparseMAPScheme().likelihood_for("multiclass", 3)

    def broken(*_, **__):
        raise NumericalError("no factor")

    monkeypatch.setattr(module, "sparse_map", broken)
    with pytest.raises(NumericalError, match="sparse-map, start: no factor"):
        train(SparseMAPScheme(), *boundary())
