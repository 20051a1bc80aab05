"""Searches for hyper-parameters that lose the signal begin anew from shorter length scales."""

import numpy as np
import pytest

from gpbench.model.basis_old import Basis
from gpbench.model.inducing import InducingRule
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Logit
from gpbench.schemes.general import climb as general_climb
from gpbench.schemes.general.gvi_fixed_point import GVIFixedPoint
from gpbench.schemes.general.gvi_sgd import GVISGD
from gpbench.schemes.general.laplace import laplace_mode
from gpbench.schemes.general.observation import Observation
from gpbench.schemes.general.sod_laplace import SoDLaplace
from gpbench.schemes.general.vanished import LEAST_SIGNAL, shorter, without_signal

EDGES = {"binary": [0.0], "ordinal": [-1.0, 0.0, 1.0]}
SUBSET = {"rows": "subset", "inducing_rule": "random"}


def data(task, seed, *, constant, n=80):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = np.sin(2 * X[:, 0]) + 0.7 * X[:, 1] + rng.logistic(scale=0.3, size=n)
    return np.column_stack([X, np.zeros((n, constant))]), np.digitize(f, EDGES[task])


def fit(scheme, task, X, y, *, M=15, on_step=lambda _: None):
    classes = len(EDGES[task]) + 1
    return scheme.fit(
        X,
        y,
        inducing=InducingRule("random", count=M, seed=1),
        likelihood=scheme.likelihood(task, classes),
        classes=classes,
        rng=np.random.default_rng(0),
        on_step=on_step,
    )


# At these a search from the usual start alone ends at n log ½ (two classes), or at the shares of the categories.
@pytest.mark.parametrize(
    ("scheme", "task", "seed", "constant"),
    [
        (SoDLaplace(), "binary", 3, 5),
        (SoDLaplace(), "binary", 5, 5),
        (SoDLaplace(), "binary", 17, 5),
        (SoDLaplace(), "binary", 25, 1),
        (SoDLaplace(), "ordinal", 14, 1),
        (GVIFixedPoint(**SUBSET), "binary", 3, 5),
        (GVIFixedPoint(**SUBSET), "binary", 5, 5),
    ],
)
def test_constant_columns_do_not_lose_the_signal(scheme, task, seed, constant, monkeypatch):
    bounds = []
    X, y = data(task, seed, constant=constant)
    found = fit(scheme, task, X, y, on_step=lambda step: bounds.append(step.bound))
    assert found.facts["restarts"] >= 1
    assert found.facts["stopped_by"] == "converged"
    if isinstance(scheme, SoDLaplace):
        assert (np.diff(bounds) >= 0).all()  # the best of all climbs is kept
    without = fit(scheme, task, X[:, :2], y)
    assert found.facts["bound"] == pytest.approx(without.facts["bound"], abs=0.01)
    monkeypatch.setattr(general_climb, "SHORTER", ())
    once = fit(scheme, task, X, y)
    assert "restarts" not in once.facts
    assert once.facts["bound"] < found.facts["bound"] - 0.1


def test_where_there_is_no_signal_the_search_ends_after_four_climbs():
    """Each row twice, but for a hair, and once in each class: no smooth function explains any of that."""
    X, _ = data("binary", 0, constant=1, n=20)
    found = fit(SoDLaplace(), "binary", np.concatenate([X, X + 1e-3]), np.repeat([0, 1], 20), M=40)
    assert found.facts["restarts"] == 3
    assert found.facts["stopped_by"] == "converged"
    assert found.facts["bound"] == pytest.approx(40 * np.log(0.5), abs=0.01)


def test_evaluations_stay_within_their_limit():
    X, y = data("binary", 3, constant=5)
    whole = fit(SoDLaplace(), "binary", X, y).facts["iterations"]
    for limit in range(3, whole, 4):
        found = fit(SoDLaplace(max_iterations=limit), "binary", X, y)
        assert (found.facts["iterations"], found.facts["stopped_by"]) == (limit, "iterations")


def test_active_laplace_and_mini_batches_begin_anew_too():
    X, y = data("binary", 3, constant=5)
    laplace = fit(SoDLaplace(), "binary", X, y)
    for kind, settings in ((GVIFixedPoint, {"gradient_tolerance": 1e-3}), (GVISGD, {"max_iterations": 100})):
        found = fit(kind(hyperparameters="active-laplace", inducing_rule="random", **settings), "binary", X, y)
        assert found.facts["hyperparameters"] == pytest.approx(laplace.facts["hyperparameters"], rel=1e-9)


def test_the_slope_at_no_signal_is_that_of_the_expansion():
    X, y = data("binary", 3, constant=0, n=12)
    d, W = y - 0.5, 0.25
    for scale in (0.3, 3.0):
        k = make_kernel("se", 2, variance=1.0, lengthscale=scale, noise=0.0).cross(X, X)
        expected = 0.5 * float(np.sum(k * (np.outer(d, d) - W * np.eye(len(y)))))

        def log_z(variance, scale=scale):
            kernel = make_kernel("se", 2, variance=variance, lengthscale=scale, noise=0.0)
            return laplace_mode(Basis(kernel, X, jitter=1e-12), Observation(Logit()), y).evidence

        step = 1e-5
        assert (log_z(2 * step) - log_z(step)) / step == pytest.approx(expected, rel=1e-2, abs=1e-3)


def test_a_kernel_without_signal_keeps_the_prior_variance():
    Z = np.random.default_rng(0).normal(size=(6, 2))
    kernel = make_kernel("matern32-ard+linear-ard", 2, variance=0.7, lengthscale=1.3, noise=0.2)
    gram = without_signal(kernel, Z).bind(Z).gram()
    assert gram == pytest.approx(float(kernel.diag(Z).mean()) * np.eye(6), abs=1e-8)
    bare = make_kernel("se", 2, variance=0.7, lengthscale=1.3, noise=0.0)
    assert without_signal(bare, Z).bind(Z).gram().max() < LEAST_SIGNAL * 1e-6


def test_length_scales_alone_become_shorter():
    kernel = make_kernel("se-ard+linear-ard", 2, variance=0.7, lengthscale=1.3, noise=0.2)
    changed = {
        name: value / kernel.values()[name]
        for name, value in shorter(kernel, 0.25).values().items()
        if value != kernel.values()[name]
    }
    assert changed == pytest.approx({"part0.lengthscales[0]": 0.25, "part0.lengthscales[1]": 0.25})
    assert shorter(make_kernel("linear-ard", 2, variance=0.7, lengthscale=1.3, noise=0.2), 0.5) is None
