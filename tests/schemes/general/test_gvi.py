"""The schemes for any likelihood: fixed point, gradient, dual, Laplace, mini-batches, on all rows and on the subset."""

import numpy as np
import pytest

from gpbench.errors import DataError, UsageError
from gpbench.model.basis_old import Basis
from gpbench.model.inducing import InducingRule
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Gaussian, Logit, Ordinal, Poisson
from gpbench.schemes.base import StopTraining
from gpbench.schemes.general.bound import GaussianV, bound_at, bound_gradient, precision_of, root_gradient
from gpbench.schemes.general.climb import climb_hyper
from gpbench.schemes.general.contraction import operator
from gpbench.schemes.general.gvi_dual import Dual, DualAscent, GVIDual
from gpbench.schemes.general.gvi_fixed_point import FixedPoint, GVIFixedPoint
from gpbench.schemes.general.gvi_gradient import GradientAscent, GVIGradient
from gpbench.schemes.general.gvi_sgd import GVISGD, Run
from gpbench.schemes.general.hyper import State, Trial
from gpbench.schemes.general.laplace import laplace_mode
from gpbench.schemes.general.observation import Observation
from gpbench.schemes.general.rows import SparseRows, SubsetRows
from gpbench.schemes.general.settings import ActiveSet
from gpbench.schemes.general.sod_laplace import SoDLaplace
from gpbench.schemes.klsp import KLSp

SUBSET = {"rows": "subset", "inducing_rule": "random"}
EXACT = {"gradient_tolerance": 1e-11, "value_tolerance": 0.0}
TASKS = {"count": 0, "binary": 2, "ordinal": 4}
NAMES = [GVIFixedPoint, GVIGradient, GVIDual]


def data(task, n=80, *, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = np.sin(2 * X[:, 0]) + 0.7 * X[:, 1]
    if task == "count":
        return X, rng.poisson(np.exp(1.0 + f))
    noisy = f + rng.logistic(scale=0.3, size=n)
    return X, np.digitize(noisy, {"binary": [0.0], "ordinal": [-1.0, 0.0, 1.0]}[task])


def ignore(step):
    pass


def fit(scheme, task, X, y, *, rule=None, M=8, on_step=ignore, classes=None):
    classes = TASKS[task] if classes is None else classes
    return scheme.fit(
        X,
        y,
        inducing=rule or InducingRule("random", count=M, seed=1),
        likelihood=scheme.likelihood(task, classes),
        classes=classes,
        rng=np.random.default_rng(0),
        on_step=on_step,
    )


def unheard(_q, _bound):
    pass


def solved(solver, rows, observation, start=None, *, warm=False):
    start = GaussianV.prior(rows.M) if start is None else start
    return solver.solve(rows, observation, start, warm=warm, report=unheard)


def oracle_problem(inputs):
    kernel, jitter = inputs["kernel"]
    basis = Basis(kernel, inputs["Z"], jitter=jitter)
    if inputs.get("likelihood") == "ordinal":
        observation = Observation(Ordinal(tuple(inputs["edges"]), slope=inputs["slope"], nodes=120))
        return SparseRows(basis, inputs["y"].astype(int) - 1, X=inputs["X"]), observation
    if "mean_constant" in inputs:
        observation = Observation(Poisson(), inputs["mean_constant"], has_mean=True)
        return SparseRows(basis, inputs["y"].astype(int), X=inputs["X"]), observation
    return SparseRows(basis, (inputs["y"] > 0).astype(int), X=inputs["X"]), Observation(Logit(nodes=120))


@pytest.mark.parametrize("name", ["sheth_poisson_optimum", "sheth_ordinal_optimum", "sheth_logit_optimum"])
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
def test_optima_of_the_oracles(read_oracle, name, solver):
    inputs, expected = read_oracle(name)
    rows, observation = oracle_problem(inputs)
    solution = solved(solver, rows, observation)
    L = rows.basis.L
    assert solution.bound == pytest.approx(expected["vlb"], abs=1e-9)
    assert L @ solution.at.q.m_w + observation.mean == pytest.approx(expected["m"], abs=1e-6)
    assert L @ solution.at.q.whitened().S_w @ L.T == pytest.approx(expected["V"], abs=1e-6)


@pytest.mark.parametrize("task", ["count", "binary", "ordinal"])
@pytest.mark.parametrize("subset", [False, True], ids=["all", "subset"])
def test_the_fixed_point_fulfils_12a_and_12b(task, subset):
    X, y = data(task)
    basis = Basis(make_kernel("se", 2, variance=1.5, lengthscale=1.0, noise=0.05), X[:10].copy())
    rows = SubsetRows(basis, y[:10]) if subset else SparseRows(basis, y, X=X, size=30)
    observation = {
        "count": Observation(Poisson(), 1.0, has_mean=True),
        "binary": Observation(Logit()),
        "ordinal": Observation(Ordinal((-1.0, 0.0, 1.0), slope=2.0)),
    }[task]
    at = solved(FixedPoint(GVIFixedPoint(**EXACT)), rows, observation).at
    # anew, in u and with dense matrices: m = c + K_mn ρ, V = (K⁻¹ - A diag(λ) Aᵀ)⁻¹
    L = basis.L
    T = np.concatenate([block for _, block in rows.blocks()])
    m, V = L @ at.q.m_w, L @ at.q.whitened().S_w @ L.T
    assert m == pytest.approx(L @ (T.T @ at.g), abs=1e-10)
    A = np.linalg.solve(L.T, T.T)
    K_inv = np.linalg.inv(L @ L.T)
    assert pytest.approx(np.linalg.inv(K_inv - (A * (2 * at.h)) @ A.T), abs=1e-10) == V


def test_the_fixed_point_is_klsp_for_the_logit():
    X, y = data("binary")
    rule = InducingRule("random", count=8, seed=1)
    common = {"hyperparameters": "fixed", "lengthscale": 1.0, "variance": 2.0}
    ours = fit(GVIFixedPoint(**common, **EXACT), "binary", X, y, rule=rule)
    klsp = KLSp(
        link="logit", learn_inducing=False, freeze_iterations=0, gradient_tolerance=1e-8, value_tolerance=0.0, **common
    )
    bounds = []
    theirs = fit(klsp, "binary", X, y, rule=rule, on_step=lambda step: bounds.append(step.bound))
    assert ours.facts["bound"] == pytest.approx(bounds[-1], abs=1e-9)
    for a, b in zip(ours.latent(X), theirs.latent(X), strict=True):
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
        assert solution.converged
        assert solution.gradient < 1e-2  # of 1e6 rounding leaves no less than that to the rule of the value


def test_dual_of_counts(read_oracle):
    inputs, expected = read_oracle("sheth_dual_poisson")
    rows, observation = oracle_problem(inputs)
    dual = Dual(rows, observation)
    at, gradient = dual.at(inputs["lambda0"])
    assert -at.value == pytest.approx(expected["D_at_lambda0"], abs=1e-9)
    assert gradient == pytest.approx(expected["grad_at_lambda0"], abs=1e-8)
    solution = solved(DualAscent(GVIDual(**EXACT)), rows, observation)
    assert -solution.at.value == pytest.approx(expected["D_optimum"], abs=1e-9)
    assert solution.bound == pytest.approx(expected["primal_vlb_optimum"], abs=1e-9)  # strong duality
    assert -2 * solution.at.h == pytest.approx(expected["lambda_optimum"], abs=1e-5)
    L = rows.basis.L
    assert L @ solution.at.q.m_w + observation.mean == pytest.approx(expected["m"], abs=1e-5)
    assert L @ solution.at.q.whitened().S_w @ L.T == pytest.approx(expected["V"], abs=1e-6)


def test_dual_of_two_classes_is_that_of_a_surrogate(read_oracle):
    inputs, expected = read_oracle("sheth_dual_logit")
    rows, observation = oracle_problem(inputs)
    lam = inputs["lambda0"]
    at, gradient = Dual(rows, observation).at(lam)
    assert -at.value == pytest.approx(expected["D_at_lambda0"], abs=1e-9)
    assert gradient == pytest.approx(expected["grad_at_lambda0"], abs=1e-8)
    solution = solved(DualAscent(GVIDual(**EXACT)), rows, observation)
    assert solution.at.value == pytest.approx(expected["surrogate_primal_at_solution"], abs=1e-9)
    assert solution.bound == pytest.approx(expected["true_vlb_at_solution"], abs=1e-8)
    assert solution.bound < expected["true_vlb_optimum"] - 0.05
    assert -2 * solution.at.h == pytest.approx(expected["lambda_optimum"], abs=1e-5)
    best = solved(FixedPoint(GVIFixedPoint(**EXACT)), rows, observation)
    assert best.bound == pytest.approx(expected["true_vlb_optimum"], abs=1e-8)


@pytest.mark.parametrize("task", ["count", "binary"])
@pytest.mark.parametrize("subset", [False, True], ids=["all", "subset"])
def test_dual_gradient_is_the_finite_difference(task, subset):
    X, y = data(task, 12)
    basis = Basis(make_kernel("se", 2, variance=1.0, lengthscale=1.0, noise=0.1), X[:5].copy())
    rows = SubsetRows(basis, y[:5]) if subset else SparseRows(basis, y, X=X)
    likelihood = Poisson() if task == "count" else Logit()
    dual = Dual(rows, Observation(likelihood, 0.4 if task == "count" else 0.0, has_mean=task == "count"))
    lam = np.random.default_rng(2).uniform(0.1, 0.9, len(rows.y))
    _, gradient = dual.at(lam)
    for i in range(len(lam)):
        step = 1e-6 * np.eye(len(lam))[i]
        up, down = -dual.at(lam + step)[0].value, -dual.at(lam - step)[0].value
        assert gradient[i] == pytest.approx((up - down) / 2e-6, rel=1e-6, abs=1e-7)


def test_subset_dual_begins_at_the_mode_of_laplace():
    X, y = data("count", 12)
    basis = Basis(make_kernel("se", 2, variance=1.0, lengthscale=1.0, noise=0.1), X)
    observation = Observation(Poisson(), 0.8, has_mean=True)
    mode = laplace_mode(basis, observation, y)
    solver = DualAscent(GVIDual(**SUBSET, dual_evaluations=1))
    solver.solve(
        SubsetRows(basis, y),
        observation,
        mode.q(basis),
        warm=False,
        report=unheard,
    )
    assert solver.multipliers == pytest.approx(np.exp(mode.f + 0.8), rel=1e-6)


@pytest.mark.parametrize("kind", NAMES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("rows", ["all", "subset"])
@pytest.mark.parametrize("task", ["count", "binary"])
def test_learned_hyperparameters_raise_the_bound(kind, rows, task):
    X, y = data(task, 30)
    options = {"kernel": "se", "hyper_gradient_tolerance": 1e-2, "gradient_tolerance": 1e-4} | (
        SUBSET if rows == "subset" else {}
    )
    steps = []
    M = 12 if rows == "subset" else 4
    fixed = fit(kind(hyperparameters="fixed", **options), task, X, y, M=M)
    learned = fit(kind(**options), task, X, y, M=M, on_step=steps.append)
    assert [step.iteration for step in steps] == list(range(1, len(steps) + 1))
    objective = "surrogate" if kind is GVIDual and task == "binary" else "bound"
    assert learned.facts[objective] > fixed.facts[objective] + 0.5
    assert learned.facts["stopped_by"] == "converged"
    assert ("surrogate" in learned.facts) == (objective == "surrogate")


def test_the_methods_agree_on_learned_hyperparameters():
    X, y = data("count", 25)
    found = [fit(kind(kernel="se", gradient_tolerance=1e-4), "count", X, y, M=3) for kind in NAMES]
    for other in found[1:]:
        assert other.facts["bound"] == pytest.approx(found[0].facts["bound"], abs=1e-3)
        assert other.latent(X)[0] == pytest.approx(found[0].latent(X)[0], abs=0.05)


def test_hyperparameters_of_the_oracle(read_oracle):
    inputs, expected = read_oracle("sheth_poisson_hyperopt")
    y = inputs["y"].astype(int)
    scheme = GVIFixedPoint(
        kernel="se", lengthscale=1.0, noise=0.0, mean=inputs["mean_constant"], hyper_gradient_tolerance=1e-6
    )
    kernel = scheme.initial_kernel(np.zeros((1, 2)))
    observation = Observation(Poisson(), inputs["mean_constant"])  # here the mean stays
    found = []

    def evaluate(basis, moved):
        rows = SparseRows(Basis(basis.kernel, basis.Z, jitter=1e-6), y, X=inputs["X"])
        at = solved(FixedPoint(scheme), rows, moved).at
        return Trial(
            State(basis, moved, at.q, at.value), at.value, lambda: np.concatenate(bound_gradient(rows, moved, at))
        )

    first = State(Basis(kernel, inputs["Z"]), observation, GaussianV.prior(len(inputs["Z"])))
    assert climb_hyper(scheme, first, evaluate, y=y, left=lambda: 100, better=found.append).converged
    values = found[-1].basis.kernel.values()
    assert found[-1].bound == pytest.approx(expected["vlb"], abs=1e-6)
    assert values["part0.variance"] == pytest.approx(expected["variance"], abs=1e-3)
    assert values["part0.lengthscales[0]"] == pytest.approx(expected["lengthscale"], abs=1e-3)


def test_ordinal_edges_are_learned():
    X, y = data("ordinal", 80)
    start = {"kernel": "se", "edges": "-0.1,0,0.1"}
    fixed = fit(GVIFixedPoint(hyperparameters="fixed", **start), "ordinal", X, y)
    learned = fit(GVIFixedPoint(**start), "ordinal", X, y, M=6)
    assert learned.facts["bound"] > fixed.facts["bound"] + 10
    assert (np.diff(learned.likelihood.edges) > 0.3).all()
    assert learned.likelihood.slope == 1.0
    assert fit(GVIFixedPoint(learn_slope=True, **start), "ordinal", X, y, M=4).likelihood.slope != 1.0
    assert learned.score(X, y).log_density.mean() > fixed.score(X, y).log_density.mean() + 0.1
    assert learned.predict(X).probabilities.shape == (80, 4)


@pytest.mark.parametrize("task", ["count", "binary", "ordinal"])
def test_laplace_on_the_subset(task):
    X, y = data(task, 60)
    fixed = fit(SoDLaplace(hyperparameters="fixed"), task, X, y, M=30)
    learned = fit(SoDLaplace(), task, X, y, M=30)
    assert learned.facts["bound"] > fixed.facts["bound"] + 0.5
    variational = fit(GVIFixedPoint(hyperparameters="fixed", **SUBSET), task, X, y, M=30)
    assert variational.latent(X)[0] == pytest.approx(fixed.latent(X)[0], abs=0.4)


@pytest.mark.parametrize("kind", [GVIFixedPoint, GVIGradient, GVIDual, GVISGD], ids=lambda kind: kind.name)
def test_active_laplace_takes_the_hyperparameters_of_laplace(kind):
    X, y = data("count", 60)
    laplace = fit(SoDLaplace(max_iterations=200), "count", X, y, M=15)
    options = {"max_iterations": 200} if kind is GVISGD else {"gradient_tolerance": 1e-3}
    ours = fit(kind(hyperparameters="active-laplace", **options), "count", X, y, M=15)
    assert ours.facts["hyperparameters"] == pytest.approx(laplace.facts["hyperparameters"], rel=1e-9)
    assert not np.allclose(ours.latent(X)[0], laplace.latent(X)[0])


def test_active_laplace_on_random_rows_where_the_active_set_holds_centres():
    X, y = data("count", 60)
    ours = fit(GVIFixedPoint(hyperparameters="active-laplace"), "count", X, y, rule=InducingRule("kmeans", 10, seed=1))
    laplace = fit(SoDLaplace(), "count", X, y, M=10)
    assert ours.facts["hyperparameters"] == pytest.approx(laplace.facts["hyperparameters"], rel=1e-9)


def test_a_split_s_active_set_is_the_subset():
    X, y = data("count", 60)
    others = np.arange(20, 60)
    given = InducingRule("given", Z=X[:20], targets=y[:20])
    ours = fit(GVIFixedPoint(hyperparameters="fixed", **SUBSET), "count", X[others], y[others], rule=given)
    assert np.array_equal(ours.latents[0].Z, X[:20])
    alone = fit(GVIFixedPoint(hyperparameters="fixed", **SUBSET), "count", X[:20], y[:20], rule=InducingRule("all"))
    assert ours.facts["bound"] == pytest.approx(alone.facts["bound"], abs=1e-12)
    with pytest.raises(UsageError, match="whose targets are not known"):
        fit(GVIFixedPoint(**SUBSET), "count", X, y, rule=InducingRule("given", Z=X[:20]))


@pytest.mark.parametrize("kind", NAMES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("stop", [1, 3])
def test_stopping_gives_the_state_so_far(kind, stop):
    X, y = data("count")

    def on_step(step):
        assert np.isfinite(step.posterior().score(X, y).log_density).all()
        if step.iteration == stop:
            raise StopTraining

    posterior = fit(kind(), "count", X, y, on_step=on_step)
    assert posterior.facts["iterations"] == stop
    assert posterior.facts["stopped_by"] == "on_step"
    limited = fit(kind(max_iterations=stop), "count", X, y)
    assert limited.facts["iterations"] == stop
    assert limited.facts["stopped_by"] == "iterations"


def test_all_counts_zero():
    X, _ = data("count")
    zero = np.zeros(len(X), dtype=int)
    for kind in (*NAMES, GVISGD):
        options = {"max_iterations": 300} if kind is GVISGD else {}
        posterior = fit(kind(**options), "count", X, zero)
        score = posterior.score(X, zero)
        assert np.isfinite(score.log_density).all()
        assert score.values.max() < 0.3
    assert np.isfinite(fit(SoDLaplace(), "count", X, zero).score(X, zero).log_density).all()


@pytest.mark.parametrize("hyperparameters", ["fixed", "learned"])
def test_a_category_without_training_rows(hyperparameters):
    X, y = data("ordinal", 60)
    for missing, instead in ((1, 2), (3, 2), (0, 1)):
        scarce = np.where(y == missing, instead, y)
        fixed_point = fit(GVIFixedPoint(hyperparameters=hyperparameters, kernel="se"), "ordinal", X, scarce)
        laplace = fit(SoDLaplace(hyperparameters=hyperparameters, kernel="se"), "ordinal", X, scarce, M=20)
        for posterior in (fixed_point, laplace):
            score = posterior.score(X, y)
            assert score.log_density.min() > -20  # unlikely, not impossible
            assert score.values[:, missing].max() < 0.2


def test_one_category_alone():
    X, y = data("ordinal", 40)
    for category in range(4):
        posterior = fit(GVIFixedPoint(kernel="se"), "ordinal", X, np.full(len(y), category))
        score = posterior.score(X, y)
        assert score.log_density.min() > -20
        assert (score.values.argmax(axis=1) == category).all()


def test_mini_batches_approach_the_optimum():
    X, y = data("count", 200)
    best = fit(GVIFixedPoint(hyperparameters="fixed"), "count", X, y)
    for optimizer in ("adam", "adadelta"):
        scheme = GVISGD(hyperparameters="fixed", optimizer=optimizer, batch_size=50, max_iterations=2000)
        posterior = fit(scheme, "count", X, y)
        basis = Basis(posterior.latents[0].kernel, posterior.latents[0].Z)
        q = GaussianV(posterior.latents[0].m_w, np.asfortranarray(posterior.latents[0].root), "covariance")
        rows = SparseRows(basis, y, X=X)
        observation = Observation(Poisson(), posterior.latents[0].mean, has_mean=True)
        value = bound_at(rows, observation, q).value
        assert best.facts["bound"] - 3 < value <= best.facts["bound"] + 1e-9


@pytest.mark.parametrize("task", ["count", "binary", "ordinal"])
def test_mini_batches_learn_hyperparameters(task):
    X, y = data(task, 100)
    scheme = GVISGD(batch_size=25, max_iterations=200, freeze_iterations=20, rate=0.03)
    posterior = fit(scheme, task, X, y)
    fixed = fit(GVISGD(hyperparameters="fixed", batch_size=25, max_iterations=200, rate=0.03), task, X, y)
    assert posterior.facts["hyperparameters"] != fixed.facts["hyperparameters"]
    assert -posterior.score(X, y).log_density.mean() < -fixed.score(X, y).log_density.mean()
    again = fit(scheme, task, X, y)
    assert again.latents[0].m_w.tobytes() == posterior.latents[0].m_w.tobytes()


def test_mini_batches_that_led_away_go_back_to_where_they_were_long_before():
    X, y = data("count", 100)
    active = ActiveSet.choose(InducingRule("random", 8, seed=1), X, y)
    observation = Observation(Poisson(), 1.0, has_mean=True)
    scheme = GVISGD(hyperparameters="fixed", rate=0.01)
    run = Run(scheme, X, y, active=active, observation=observation, classes=0, rng=np.random.default_rng(0))
    for _ in range(350):
        run.step(X, y, scale=1.0)
    before = -run.posterior().score(X, y).log_density.mean()
    run.x[: len(active.Z)] += 300.0  # rates of e^300, finite
    run.step(X, y, scale=1.0)
    assert run.rate == 0.005
    assert run.iteration == 351
    assert -run.posterior().score(X, y).log_density.mean() == pytest.approx(before, abs=0.05)


def test_sgd_gradients_average_to_the_whole():
    """Equal batches of a partition: the mean of their gradients is that of all rows."""
    X, y = data("count", 60)
    scheme = GVISGD(freeze_iterations=0, batch_size=20)
    active = ActiveSet.choose(InducingRule("random", 6, seed=1), X, y)
    observation = Observation(Poisson(), 1.0, has_mean=True)

    def gradient(rows, scale):
        run = Run(scheme, X, y, active=active, observation=observation, classes=0, rng=np.random.default_rng(0))
        size = run._bound.layout.size
        at = run._bound.at_batch(run.x[:size], X[rows], y[rows], basis=run._basis, scale=scale)
        return np.concatenate([at.gradient, scale * run._tally.gradient()])

    parts = [gradient(np.arange(start, start + 20), 3.0) for start in (0, 20, 40)]
    assert np.mean(parts, axis=0) == pytest.approx(gradient(np.arange(60), 1.0), abs=1e-9)


def test_what_is_refused():
    X, y = data("ordinal", 30)
    with pytest.raises(UsageError, match="gvi-dual does the likelihoods logit, poisson; got ordinal"):
        GVIDual().likelihood("ordinal", 4)
    with pytest.raises(UsageError, match="sod-dual does"):
        GVIDual(**SUBSET).likelihood("ordinal", 4)
    with pytest.raises(UsageError, match="got task multiclass"):
        GVIFixedPoint().likelihood("multiclass", 3)
    with pytest.raises(UsageError, match="likelihood poisson is for count targets; got task binary"):
        GVIFixedPoint(link="poisson").likelihood("binary", 2)
    with pytest.raises(UsageError, match="needs inducing_rule=random; got mixed"):
        GVIFixedPoint(rows="subset")
    with pytest.raises(UsageError, match="max_rows = 10 rows; got 20"):
        fit(GVIFixedPoint(max_rows=10, **SUBSET), "ordinal", X, y, M=20)
    with pytest.raises(UsageError, match="edges must be numbers"):
        GVIFixedPoint(edges="a,b").likelihood("ordinal", 3)
    with pytest.raises(UsageError, match="make 3 categories; got 4"):
        fit(GVIFixedPoint(edges="0,1"), "ordinal", X, y)
    with pytest.raises(DataError, match="0 or more"):
        fit(GVIFixedPoint(), "count", X, y - 1)


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


def test_precision_of_the_operator(read_oracle):
    """T(V) of the oracle, (13), from the Λ that the fixed point uses."""
    for name in ("sheth_poisson_optimum", "sheth_ordinal_optimum", "sheth_logit_optimum"):
        inputs, expected = read_oracle(name)
        rows, observation = oracle_problem(inputs)
        L = rows.basis.L
        S = np.linalg.solve(L, np.linalg.solve(L, inputs["V0"]).T)
        root = np.asfortranarray(np.linalg.cholesky(S))
        at = bound_at(rows, observation, GaussianV(np.linalg.solve(L, inputs["m0"]), root, "covariance"))
        precision = precision_of(rows.moments(weights=-2 * at.h, targets=at.g))
        assert L @ np.linalg.inv(precision) @ L.T == pytest.approx(expected["T_of_V0"], abs=1e-8)
        assert np.abs(root_gradient(at.q, precision)).max() > 0.1


@pytest.mark.parametrize("name", ["sheth_poisson_optimum", "sheth_ordinal_optimum", "sheth_logit_optimum"])
def test_the_contraction_test_has_the_operator_of_the_oracle(read_oracle, name):
    inputs, expected = read_oracle(name)
    rows, observation = oracle_problem(inputs)
    L = rows.basis.L
    T = np.concatenate([block for _, block in rows.blocks()])
    root = np.linalg.solve(L, np.linalg.cholesky(inputs["V0"]))
    m_w = np.linalg.solve(L, inputs["m0"])

    class Shifted:
        """The likelihood of f without its constant mean."""

        def expectations(self, y, mu, var):
            return observation.likelihood.expectations(y, mu + observation.mean, var)

    found = operator(Shifted(), rows.y, features=T, rest=rows.remainder, m_w=m_w, root=root)
    assert L @ found @ L.T == pytest.approx(expected["T_of_V0"], abs=1e-8)
