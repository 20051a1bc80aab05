"""Searches for hyper-parameters: what they find, and that those that lose the signal begin anew."""

import numpy as np
import pytest

from gpbench.model.basis import Basis
from gpbench.model.gaussian import GaussianQ
from gpbench.model.inducing import InducingRule
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Logit, Poisson
from gpbench.schemes.general.bound import SparseRows
from gpbench.schemes.general.gvi_dual import GVIDual, SoDDual
from gpbench.schemes.general.gvi_fixed_point import FixedPoint, GVIFixedPoint, SoDFixedPoint
from gpbench.schemes.general.gvi_gradient import GVIGradient, SoDGradient
from gpbench.schemes.general.gvi_sgd import GVISGD
from gpbench.schemes.general.laplace import laplace_mode
from gpbench.schemes.general.settings import Observation
from gpbench.schemes.general.sod_laplace import SoDLaplace
from gpbench.schemes.general.training import (
    LEAST_SIGNAL,
    Evaluation,
    State,
    SubsetScheme,
    maximise_hyper,
    shorter,
    without_signal,
)

SPARSE, SUBSET = [GVIFixedPoint, GVIGradient, GVIDual], [SoDFixedPoint, SoDGradient, SoDDual]


@pytest.mark.parametrize("kind", SPARSE + SUBSET, ids=lambda kind: kind.name)
@pytest.mark.parametrize("task", ["count", "binary"])
def test_learned_hyperparameters_raise_the_bound(train, data, kind, task):
    X, y = data(task, 30)
    options = {"kernel": "se", "hyper_gradient_tolerance": 1e-2, "gradient_tolerance": 1e-4}
    steps = []
    M = 12 if issubclass(kind, SubsetScheme) else 4
    fixed = train(kind(hyperparameters="fixed", **options), task, X, y, M=M)
    learned = train(kind(**options), task, X, y, M=M, on_step=steps.append)
    assert [step.iteration for step in steps] == list(range(1, len(steps) + 1))
    of_surrogate = issubclass(kind, GVIDual | SoDDual) and task == "binary"
    assert ("surrogate" in learned.facts) == of_surrogate
    before, after = ((each.facts["surrogate"] if of_surrogate else each.bound) for each in (fixed, learned))
    assert after > before + 0.5
    assert learned.stopped_by == "converged"


def test_the_methods_agree_on_learned_hyperparameters(train, data):
    X, y = data("count", 25)
    found = [train(kind(kernel="se", gradient_tolerance=1e-4), "count", X, y, M=3) for kind in SPARSE]
    for other in found[1:]:
        assert other.bound == pytest.approx(found[0].bound, abs=1e-3)
        assert other.posterior.latent(X)[0] == pytest.approx(found[0].posterior.latent(X)[0], abs=0.05)


def test_hyperparameters_of_the_oracle(read_oracle):
    inputs, expected = read_oracle("sheth_poisson_hyperopt")
    y = inputs["y"].astype(int)
    scheme = GVIFixedPoint(
        kernel="se", lengthscale=1.0, noise=0.0, mean=inputs["mean_constant"], hyper_gradient_tolerance=1e-6
    )
    kernel = scheme.initial_kernel(np.zeros((1, 2)))
    observation = Observation(Poisson(), inputs["mean_constant"])  # here the mean stays
    solver, better = FixedPoint(scheme), []

    def evaluate(basis, moved):
        rows = SparseRows(Basis(basis.kernel, basis.Z, jitter=1e-6), y, X=inputs["X"])
        start = GaussianQ.prior(rows.M)
        found = solver.solve(rows, moved, start, warm=False, report=lambda _q, _bound: None)
        return Evaluation.of(found, basis, moved)

    first = State(Basis(kernel, inputs["Z"]), observation, GaussianQ.prior(len(inputs["Z"])))
    found = maximise_hyper(scheme, first, evaluate, y=y, evaluations=lambda: 100, on_better=better.append)
    assert found.stopped_by == "converged"
    assert better[-1] is found.state
    values = found.state.basis.kernel.values()
    assert found.state.bound == pytest.approx(expected["vlb"], abs=1e-6)
    assert values["part0.variance"] == pytest.approx(expected["variance"], abs=1e-3)
    assert values["part0.lengthscales[0]"] == pytest.approx(expected["lengthscale"], abs=1e-3)


def test_ordinal_edges_are_learned(train, data):
    X, y = data("ordinal", 80)
    start = {"kernel": "se", "edges": "-0.1,0,0.1"}
    fixed = train(GVIFixedPoint(hyperparameters="fixed", **start), "ordinal", X, y)
    learned = train(GVIFixedPoint(**start), "ordinal", X, y, M=6)
    assert learned.bound > fixed.bound + 10
    posterior = learned.posterior
    assert (np.diff(posterior.likelihood.edges) > 0.3).all()
    assert posterior.likelihood.slope == 1.0
    with_slope = train(GVIFixedPoint(learn_slope=True, **start), "ordinal", X, y, M=4)
    assert with_slope.posterior.likelihood.slope != 1.0
    assert posterior.score(X, y).log_density.mean() > fixed.posterior.score(X, y).log_density.mean() + 0.1
    assert posterior.predict(X).probabilities.shape == (80, 4)


@pytest.mark.parametrize("kind", [*SPARSE, GVISGD], ids=lambda kind: kind.name)
def test_active_laplace_takes_the_hyperparameters_of_laplace(train, data, kind):
    X, y = data("count", 60)
    laplace = train(SoDLaplace(max_iterations=200), "count", X, y, M=15)
    options = {"max_iterations": 200} if kind is GVISGD else {"gradient_tolerance": 1e-3}
    ours = train(kind(hyperparameters="active-laplace", **options), "count", X, y, M=15)
    assert ours.facts["hyperparameters"] == pytest.approx(laplace.facts["hyperparameters"], rel=1e-9)
    assert not np.allclose(ours.posterior.latent(X)[0], laplace.posterior.latent(X)[0])


def test_active_laplace_on_random_rows_where_the_active_set_holds_centres(train, data):
    X, y = data("count", 60)
    rule = InducingRule("kmeans", 10, seed=1)
    ours = train(GVIFixedPoint(hyperparameters="active-laplace"), "count", X, y, rule=rule)
    laplace = train(SoDLaplace(), "count", X, y, M=10)
    assert ours.facts["hyperparameters"] == pytest.approx(laplace.facts["hyperparameters"], rel=1e-9)


# At these a search from the usual start alone ends at n log ½ (two classes), or at the shares of the categories.
@pytest.mark.parametrize(
    ("scheme", "case"),
    [
        (SoDLaplace(), ("binary", 3, 5)),
        (SoDLaplace(), ("binary", 5, 5)),
        (SoDLaplace(), ("binary", 17, 5)),
        (SoDLaplace(), ("binary", 25, 1)),
        (SoDLaplace(), ("ordinal", 14, 1)),
        (SoDFixedPoint(), ("binary", 3, 5)),
        (SoDFixedPoint(), ("binary", 5, 5)),
    ],
)
def test_constant_columns_do_not_lose_the_signal(train, data, classes, scheme, case):
    (task, seed, constant), bounds = case, []
    X, y = data(task, seed=seed, constant=constant)
    found = train(scheme, task, X, y, M=15, on_step=lambda step: bounds.append(step.bound))
    assert found.facts["restarts"] >= 1  # the first search has ended no higher than without any signal
    assert found.stopped_by == "converged"
    if isinstance(scheme, SoDLaplace):
        assert (np.diff(bounds) >= 0).all()  # the best of all searches is kept
    without = train(scheme, task, X[:, :2], y, M=15)
    assert found.bound == pytest.approx(without.bound, abs=0.01)
    kernel, Z = found.posterior.latents[0].kernel, found.posterior.latents[0].Z
    targets = y[[int(np.flatnonzero((row == X).all(axis=1))[0]) for row in Z]]
    shares = Observation(scheme.observation(found.posterior.likelihood, targets, classes[task]).likelihood)
    plateau = laplace_mode(Basis(without_signal(kernel, Z), Z), shares, targets).evidence
    assert found.bound > plateau + 0.1


def test_where_there_is_no_signal_training_ends_after_four_searches(train, data):
    """Each row twice, but for a hair, and once in each class: no smooth function explains any of that."""
    X, _ = data("binary", 20, constant=1)
    found = train(SoDLaplace(), "binary", np.concatenate([X, X + 1e-3]), np.repeat([0, 1], 20), M=40)
    assert found.facts["restarts"] == 3
    assert found.stopped_by == "converged"
    assert found.bound == pytest.approx(40 * np.log(0.5), abs=0.01)


def test_evaluations_stay_within_their_limit(train, data):
    X, y = data("binary", seed=3, constant=5)
    whole = train(SoDLaplace(), "binary", X, y, M=15).iterations
    for limit in range(3, whole, 4):
        found = train(SoDLaplace(max_iterations=limit), "binary", X, y, M=15)
        assert (found.iterations, found.stopped_by) == (limit, "iterations")


def test_active_laplace_and_mini_batches_begin_anew_too(train, data):
    X, y = data("binary", seed=3, constant=5)
    laplace = train(SoDLaplace(), "binary", X, y, M=15)
    for kind, settings in ((GVIFixedPoint, {"gradient_tolerance": 1e-3}), (GVISGD, {"max_iterations": 100})):
        found = train(kind(hyperparameters="active-laplace", **settings), "binary", X, y, M=15)
        assert found.facts["hyperparameters"] == pytest.approx(laplace.facts["hyperparameters"], rel=1e-9)


def test_the_slope_at_no_signal_is_that_of_the_expansion(data):
    X, y = data("binary", 12, seed=3)
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
