"""The solvers of the schemes for any likelihood on all rows and on the subset: optima, limits, hard data, refusals."""

import numpy as np
import pytest

from gpbench.errors import DataError, UsageError
from gpbench.model.basis import Basis
from gpbench.model.gaussian import GaussianQ
from gpbench.model.inducing import InducingRule
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Gaussian, Logit, Ordinal, Poisson
from gpbench.schemes.base import StopTraining
from gpbench.schemes.general.bound import SparseRows, SubsetRows, bound_at, precision_of, root_gradient
from gpbench.schemes.general.contraction import operator
from gpbench.schemes.general.gvi_dual import GVIDual, SoDDual
from gpbench.schemes.general.gvi_fixed_point import FixedPoint, GVIFixedPoint, SoDFixedPoint
from gpbench.schemes.general.gvi_gradient import GradientAscent, GVIGradient
from gpbench.schemes.general.gvi_sgd import GVISGD
from gpbench.schemes.general.settings import Observation
from gpbench.schemes.general.sod_laplace import SoDLaplace
from gpbench.schemes.klsp import KLSp

EXACT = {"gradient_tolerance": 1e-11, "value_tolerance": 0.0}
KINDS = [GVIFixedPoint, GVIGradient, GVIDual]
OPTIMA = ["sheth_poisson_optimum", "sheth_ordinal_optimum", "sheth_logit_optimum"]


def solved(solver, rows, observation):
    start = GaussianQ.prior(rows.M)
    return solver.solve(rows, observation, start, warm=False, report=lambda _q, _bound: None)


@pytest.mark.parametrize("name", OPTIMA)
@pytest.mark.parametrize(
    "solver",
    [
        FixedPoint(GVIFixedPoint(**EXACT)),
        FixedPoint(GVIFixedPoint(**EXACT, newton_ratio=0.0)),
        GradientAscent(GVIGradient(gradient_tolerance=1e-7, value_tolerance=0.0)),
        GradientAscent(GVIGradient(gradient_tolerance=1e-7, value_tolerance=0.0, whiten=False)),
    ],
    ids=["fixed point", "newton to the end", "gradient", "gradient in V"],
)
def test_optima_of_the_oracles(problem, name, solver):
    rows, observation, _, expected = problem(name)
    solution = solved(solver, rows, observation)
    L = rows.basis.L
    assert solution.bound == pytest.approx(expected["vlb"], abs=1e-9)
    assert L @ solution.q.mean + observation.mean == pytest.approx(expected["m"], abs=1e-6)
    assert L @ solution.q.covariance @ L.T == pytest.approx(expected["V"], abs=1e-6)


def test_a_move_that_raises_the_bound_with_no_mix_is_no_convergence(problem, monkeypatch):
    monkeypatch.setattr("gpbench.schemes.general.gvi_fixed_point.FALL", -1e9)  # no move rises by as much
    rows, observation, _, expected = problem(OPTIMA[0])
    solution = solved(FixedPoint(GVIFixedPoint()), rows, observation)
    assert solution.stopped_by == "failed-to-improve"
    assert np.isfinite(solution.bound)
    assert solution.bound < expected["vlb"]


@pytest.mark.parametrize("task", ["count", "binary", "ordinal"])
@pytest.mark.parametrize("subset", [False, True], ids=["all", "subset"])
def test_the_fixed_point_fulfils_12a_and_12b(data, task, subset):
    X, y = data(task)
    basis = Basis(make_kernel("se", 2, variance=1.5, lengthscale=1.0, noise=0.05), X[:10].copy())
    rows = SubsetRows(basis, y[:10]) if subset else SparseRows(basis, y, X=X, size=30)
    observation = {
        "count": Observation(Poisson(), 1.0, has_mean=True),
        "binary": Observation(Logit()),
        "ordinal": Observation(Ordinal((-1.0, 0.0, 1.0), slope=2.0)),
    }[task]
    at = bound_at(rows, observation, solved(FixedPoint(GVIFixedPoint(**EXACT)), rows, observation).q)
    # anew, in u and with dense matrices: m = c + K_mn ρ, V = (K⁻¹ - A diag(λ) Aᵀ)⁻¹
    L = basis.L
    T = np.concatenate([block for _, block in rows.blocks()])
    m, V = L @ at.q.mean, L @ at.q.covariance @ L.T
    assert m == pytest.approx(L @ (T.T @ at.g), abs=1e-10)
    A = np.linalg.solve(L.T, T.T)
    K_inv = np.linalg.inv(L @ L.T)
    assert pytest.approx(np.linalg.inv(K_inv - (A * (2 * at.h)) @ A.T), abs=1e-10) == V


def test_the_fixed_point_is_klsp_for_the_logit(train, data):
    X, y = data("binary")
    common = {"hyperparameters": "fixed", "lengthscale": 1.0, "variance": 2.0}
    ours = train(GVIFixedPoint(**common, **EXACT), "binary", X, y)
    klsp = KLSp(
        link="logit", learn_inducing=False, freeze_iterations=0, gradient_tolerance=1e-8, value_tolerance=0.0, **common
    )
    bounds = []
    theirs = train(klsp, "binary", X, y, on_step=lambda step: bounds.append(step.bound))
    assert ours.bound == pytest.approx(bounds[-1], abs=1e-9)
    for a, b in zip(ours.posterior.latent(X), theirs.posterior.latent(X), strict=True):
        assert a == pytest.approx(b, abs=1e-6)


def test_a_large_signal_variance_and_large_counts():
    """Undamped natural gradients diverge here; the counts reach 1e6."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    y = rng.poisson(np.exp(np.clip(6 + 7 * np.sin(X[:, 0]), 0, 13.8)))
    y[0] = 1_000_000
    for variance in (0.1, 1.0, 200.0):
        basis = Basis(make_kernel("se", 2, variance=variance, lengthscale=1.0, noise=0.01), X[:15].copy())
        rows, observation = SparseRows(basis, y, X=X), Observation(Poisson(), np.log(y.mean()), has_mean=True)
        solution = solved(FixedPoint(GVIFixedPoint(gradient_tolerance=1e-5)), rows, observation)
        assert solution.stopped_by == "converged"
        assert solution.gradient < 1e-2  # of 1e6 rounding leaves no less than that to the rule of the value


def test_a_split_s_active_set_is_the_subset(train, data):
    X, y = data("count", 60)
    others = np.arange(20, 60)
    given = InducingRule("given", Z=X[:20], targets=y[:20])
    ours = train(SoDFixedPoint(hyperparameters="fixed"), "count", X[others], y[others], rule=given)
    assert np.array_equal(ours.posterior.latents[0].Z, X[:20])
    alone = train(SoDFixedPoint(hyperparameters="fixed"), "count", X[:20], y[:20], rule=InducingRule("all"))
    assert ours.bound == pytest.approx(alone.bound, abs=1e-12)
    with pytest.raises(UsageError, match="whose targets are not known"):
        train(SoDFixedPoint(), "count", X, y, rule=InducingRule("given", Z=X[:20]))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("stop", [1, 3])
def test_stopping_gives_the_state_so_far(train, data, kind, stop):
    X, y = data("count")

    def on_step(step):
        assert np.isfinite(step.posterior().score(X, y).log_density).all()
        if step.iteration == stop:
            raise StopTraining

    stopped = train(kind(), "count", X, y, on_step=on_step)
    assert (stopped.iterations, stopped.stopped_by) == (stop, "on_step")
    limited = train(kind(max_iterations=stop), "count", X, y)
    assert (limited.iterations, limited.stopped_by) == (stop, "iterations")


def test_all_counts_zero(train, data):
    X, _ = data("count")
    zero = np.zeros(len(X), dtype=int)
    for kind in (*KINDS, GVISGD):
        options = {"max_iterations": 300} if kind is GVISGD else {}
        score = train(kind(**options), "count", X, zero).posterior.score(X, zero)
        assert np.isfinite(score.log_density).all()
        assert score.values.max() < 0.3
    assert np.isfinite(train(SoDLaplace(), "count", X, zero).posterior.score(X, zero).log_density).all()


@pytest.mark.parametrize("hyperparameters", ["fixed", "learned"])
def test_a_category_without_training_rows(train, data, hyperparameters):
    X, y = data("ordinal", 60)
    for missing, instead in ((1, 2), (3, 2), (0, 1)):
        scarce = np.where(y == missing, instead, y)
        fixed_point = train(GVIFixedPoint(hyperparameters=hyperparameters, kernel="se"), "ordinal", X, scarce)
        laplace = train(SoDLaplace(hyperparameters=hyperparameters, kernel="se"), "ordinal", X, scarce, M=20)
        for found in (fixed_point, laplace):
            score = found.posterior.score(X, y)
            assert score.log_density.min() > -20  # unlikely, not impossible
            assert score.values[:, missing].max() < 0.2


def test_one_category_alone(train, data):
    X, y = data("ordinal", 40)
    for category in range(4):
        found = train(GVIFixedPoint(kernel="se"), "ordinal", X, np.full(len(y), category))
        score = found.posterior.score(X, y)
        assert score.log_density.min() > -20
        assert (score.values.argmax(axis=1) == category).all()


def test_what_is_refused(train, data):
    X, y = data("ordinal", 30)
    with pytest.raises(UsageError, match="gvi-dual does the likelihoods logit, poisson; got ordinal"):
        GVIDual().likelihood_for("ordinal", 4)
    with pytest.raises(UsageError, match="sod-dual does"):
        SoDDual().likelihood_for("ordinal", 4)
    with pytest.raises(UsageError, match="got task multiclass"):
        GVIFixedPoint().likelihood_for("multiclass", 3)
    with pytest.raises(UsageError, match="likelihood poisson is for count targets; got task binary"):
        GVIFixedPoint(likelihood="poisson").likelihood_for("binary", 2)
    with pytest.raises(UsageError, match="max_rows = 10 rows; got 20"):
        train(SoDFixedPoint(max_rows=10), "ordinal", X, y, M=20)
    with pytest.raises(UsageError, match="edges must be numbers"):
        GVIFixedPoint(edges="a,b").likelihood_for("ordinal", 3)
    with pytest.raises(UsageError, match="make 3 categories; got 4"):
        train(GVIFixedPoint(edges="0,1"), "ordinal", X, y)
    with pytest.raises(DataError, match="0 or more"):
        train(GVIFixedPoint(), "count", X, y - 1)


def test_gaussian_targets_are_the_exact_sparse_regression():
    """The bound is then Titsias's, reached by one step."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(40, 1)), rng.normal(size=40)
    basis = Basis(make_kernel("se", 1, variance=1.0, lengthscale=0.8, noise=0.0), X[:7].copy())
    rows, observation = SparseRows(basis, y, X=X), Observation(Gaussian(0.4), 0.3, has_mean=True)
    solution = solved(FixedPoint(GVIFixedPoint()), rows, observation)
    T = np.concatenate([block for _, block in rows.blocks()])
    C = T @ T.T + 0.4 * np.eye(40)
    _, log_det = np.linalg.slogdet(C)
    exact = -0.5 * ((y - 0.3) @ np.linalg.solve(C, y - 0.3) + log_det + 40 * np.log(2 * np.pi))
    assert solution.bound == pytest.approx(exact - rows.remainder.sum() / 0.8, abs=1e-9)


def test_precision_of_the_operator(problem):
    """T(V) of the oracle, (13), from the Λ that the fixed point uses."""
    for name in OPTIMA:
        rows, observation, inputs, expected = problem(name)
        L = rows.basis.L
        S = np.linalg.solve(L, np.linalg.solve(L, inputs["V0"]).T)
        root = np.asfortranarray(np.linalg.cholesky(S))
        at = bound_at(rows, observation, GaussianQ(np.linalg.solve(L, inputs["m0"]), root, "covariance"))
        precision = precision_of(rows.moments(weights=-2 * at.h, targets=at.g))
        assert L @ np.linalg.inv(precision) @ L.T == pytest.approx(expected["T_of_V0"], abs=1e-8)
        assert np.abs(root_gradient(at.q, precision)).max() > 0.1


@pytest.mark.parametrize("name", OPTIMA)
def test_the_contraction_test_has_the_operator_of_the_oracle(problem, name):
    rows, observation, inputs, expected = problem(name)
    L = rows.basis.L
    T = np.concatenate([block for _, block in rows.blocks()])
    root = np.linalg.solve(L, np.linalg.cholesky(inputs["V0"]))
    m_w = np.linalg.solve(L, inputs["m0"])

    found = operator(observation, rows.y, features=T, rest=rows.remainder, m_w=m_w, root=root)
    assert L @ found @ L.T == pytest.approx(expected["T_of_V0"], abs=1e-8)
