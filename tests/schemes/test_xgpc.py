"""x-gpc as a whole: it learns, ends by itself, obeys its caller, repeats itself, and survives hard data."""

import numpy as np
import pytest

from gpbench.errors import DataError, NumericalError, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.likelihoods import likelihood
from gpbench.schemes.base import StopTraining, settings_of
from gpbench.schemes.xgpc import XGPC, State


def rows(n=200, *, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (np.sin(2 * X[:, 0]) + X[:, -1] ** 2 + 0.3 * rng.normal(size=n) > 0.7).astype(int)


@pytest.fixture
def train(fit):
    """Fits x-gpc with small settings, some of them changed."""

    def run(X, y, *, M=10, seed=0, on_step=lambda _: None, **settings):
        scheme = XGPC(**{"max_iterations": 120, "batch_size": 25, "inducing": str(M), **settings})
        return fit(scheme, X, y, seed=seed, on_step=on_step)

    return run


def nll(posterior, X, y):
    return -posterior.score(X, y).log_density.mean()


def test_learns_a_boundary_that_is_not_linear(train):
    X, y = rows(400)
    X_test, y_test = rows(400, seed=1)
    found = train(X, y, M=25, max_iterations=400)
    posterior = found.posterior
    assert nll(posterior, X_test, y_test) < 0.3
    assert posterior.score(X_test, y_test).error.mean() < 0.12
    assert found.jitter > 0
    assert set(found.facts) == {"hyperparameters"}


def test_iterations_are_counted_from_one_and_end_at_the_limit(train):
    seen = []
    X, y = rows()
    found = train(X, y, on_step=lambda step: seen.append(step.iteration))
    assert seen == list(range(1, 121))
    assert (found.iterations, found.stopped_by) == (120, "iterations")


def test_the_posterior_of_a_step_is_that_moment(train):
    kept = {}
    X, y = rows()

    def on_step(step):
        if step.iteration in {5, 120}:
            kept[step.iteration] = step.posterior()

    final = train(X, y, on_step=on_step).posterior
    assert (kept[120].latent(X)[0] == final.latent(X)[0]).all()
    assert (kept[5].latent(X)[0] != final.latent(X)[0]).any()


def test_stop_training_returns_the_state_so_far(train):
    X, y = rows()
    last = []

    def stop(step):
        last.append(step.posterior())
        if step.iteration == 7:
            raise StopTraining

    found = train(X, y, on_step=stop)
    assert (found.iterations, len(last), found.stopped_by) == (7, 7, "on_step")
    assert (found.posterior.latent(X)[0] == last[-1].latent(X)[0]).all()


@pytest.mark.parametrize("settings", [{}, {"rate_rule": "adaptive"}, {"rate_rule": "constant", "keep": "q"}])
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(train, settings):
    X, y = rows()
    one, two, three = (train(X, y, seed=seed, **settings).posterior.arrays() for seed in (3, 3, 4))
    assert all((one[key] == two[key]).all() for key in one)
    assert (one["posterior.0.m_w"] != three["posterior.0.m_w"]).any()


def test_looking_changes_nothing(train):
    X, y = rows()
    seen = train(X, y, on_step=lambda step: step.posterior().predict(X)).posterior.arrays()
    unseen = train(X, y).posterior.arrays()
    assert all((seen[key] == unseen[key]).all() for key in seen)


@pytest.mark.parametrize("stop", ["parameters", "held-out"])
def test_each_stopping_rule_ends_training(train, stop):
    X, y = rows()
    found = train(X, y, stop=stop, tolerance=0.5, max_iterations=6000, settle=0.1)
    assert found.stopped_by == "converged"
    assert found.iterations < 4000


@pytest.mark.parametrize("stop", ["held-out", "parameters"])
def test_a_strict_tolerance_lets_training_go_on(train, stop):
    X, y = rows()
    found = train(X, y, stop=stop, tolerance=1e-9, max_iterations=3000, settle=0.1)
    assert found.stopped_by == "iterations"
    assert 2990 <= found.iterations <= 3000


@pytest.mark.parametrize("limit", [1, 2, 3, 9, 15, 21, 39])
def test_the_limit_of_iterations_includes_the_settling(train, limit):
    X, y = rows()
    assert limit - 1 <= train(X, y, max_iterations=limit).iterations <= limit


def test_a_rate_of_zero_learns_nothing_and_does_not_fail(train):
    X, y = rows()
    posterior = train(X, y, rate_rule="constant", rate=0.0, hyperparameters="fixed", max_iterations=12).posterior
    assert posterior.latents[0].m_w == pytest.approx(0.0)


def test_without_a_rule_only_the_limit_ends_training(train):
    X, y = rows()
    assert train(X, y, stop="none", tolerance=1.0, max_iterations=2400).stopped_by == "iterations"


def test_fixed_hyper_parameters_stay(train):
    X, y = rows()
    posterior = train(X, y, hyperparameters="fixed", lengthscale=0.7, variance=2.0, noise=0.01).posterior
    assert posterior.latents[0].kernel.theta == pytest.approx(np.log([2.0, 0.7, 0.7, 0.01]))


def test_hyper_parameter_steps_become_rarer(train):
    X, y = rows()
    thetas = []
    train(
        X,
        y,
        hyper_thinning=20.0,
        hyper_every=2,
        on_step=lambda step: thetas.append(step.posterior().latents[0].kernel.theta[0]),
    )
    moves = np.flatnonzero(np.diff(thetas[:100])) + 2
    assert (np.diff(moves)[:18] == 2).all()
    assert (np.diff(moves)[-3:] == 5).all()


def test_inducing_inputs_move_where_they_are_learned(train):
    X, y = rows()
    fixed = {"hyperparameters": "fixed", "stop": "none", "max_iterations": 600}
    still, moved = (train(X, y, M=4, learn_inducing=learn, **fixed) for learn in (False, True))
    assert (still.posterior.latents[0].Z == train(X, y, M=4, max_iterations=1).posterior.latents[0].Z).all()
    assert moved.posterior.latents[0].Z.shape == (4, 2)
    assert moved.bound > still.bound + 1.0
    assert moved.facts == still.facts


def test_the_bound_of_a_fit_is_that_of_its_posterior(train):
    X, y = rows()
    found = train(X, y)
    state = State(found.posterior.latents[0].kernel, found.posterior.latents[0].Z)
    for _ in range(200):
        state.step(X, np.where(y == 1, 1.0, -1.0), scale=1.0, rate=1.0)
    best = state.bound(X, np.where(y == 1, 1.0, -1.0), scale=1.0)
    assert best - 1.0 < found.bound <= best


def test_the_tight_conditional_raises_the_bound(train):
    X, y = rows()
    common = {"M": 4, "hyperparameters": "fixed", "stop": "none", "max_iterations": 600}
    prior, tight = (train(X, y, conditional=name, **common).bound for name in ("prior", "tight"))
    assert prior + 0.3 < tight < 0.0


def test_settling_leaves_the_hyper_parameters_alone(train):
    X, y = rows()
    thetas = []
    train(X, y, settle=0.5, hyper_every=1, on_step=lambda step: thetas.append(step.posterior().latents[0].kernel.theta))
    assert all((theta == thetas[79]).all() for theta in thetas[79:])
    assert (thetas[78] != thetas[79]).any()


def noise_to_variance(train, **settings):
    X, y = rows()
    values = train(X, y, noise=1e-3, hyper_rate=0.5, max_iterations=300, **settings).facts["hyperparameters"]
    noise = next(value for name, value in values.items() if "white" in name)
    return noise / next(value for name, value in values.items() if name.endswith("variance"))


def test_noise_keeps_its_floor(train):
    assert noise_to_variance(train, noise_floor=1e-4) == pytest.approx(1e-4)
    assert noise_to_variance(train, noise_floor=1e-9) < 0.9e-4


@pytest.mark.parametrize("kernel", ["se", "matern32-ard", "linear-ard", "se-ard+linear-ard"])
def test_other_kernels_learn_too(train, kernel):
    X, _ = rows()
    y = (X[:, 0] + 0.3 * np.random.default_rng(1).normal(size=len(X)) > 0).astype(int)
    assert nll(train(X, y, kernel=kernel).posterior, X, y) < 0.3


def duplicated(X, y):
    return np.repeat(X[:20], 10, axis=0), np.repeat(y[:20], 10)


HARD = {
    "duplicated rows": (duplicated, {}),
    "one class": (lambda X, y: (X, 0 * y), {}),
    "rare class": (lambda X, y: (X, (np.arange(len(y)) == 3).astype(int)), {}),
    "large variance": (lambda X, y: (X, y), {"variance": 160.0, "noise": 0.016}),
    "large variance, full batches": (lambda X, y: (X, y), {"variance": 160.0, "batch_size": 200}),
    "unscaled inputs": (lambda X, y: (1e4 * X + 1e6, y), {}),
    "tiny inputs": (lambda X, y: (1e-6 * X, y), {}),
    "constant column": (lambda X, y: (np.column_stack([X, np.ones(len(X))]), y), {}),
    "separable": (lambda X, y: (X, 0 * y + (X[:, 0] > 0)), {"max_iterations": 600}),
    "random labels": (lambda X, y: (X, np.random.default_rng(5).integers(0, 2, len(y))), {"max_iterations": 600}),
    "short length scales": (lambda X, y: (X, y), {"lengthscale": 1e-3}),
    "long length scales": (lambda X, y: (X, y), {"lengthscale": 1e3}),
    "no noise": (lambda X, y: (X, y), {"noise": 0.0}),
    "batches of one": (lambda X, y: (X, y), {"batch_size": 1}),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_data_leave_a_finite_posterior(train, name):
    change, settings = HARD[name]
    X, y = change(*rows())
    posterior = train(X, y, **settings).posterior
    mean, var = posterior.latent(X)
    assert np.isfinite(mean).all()
    assert (var >= 0).all()
    assert nll(posterior, X, y) < 2.0


def test_all_inputs_equal_predict_the_classes_share(train):
    X, y = np.ones((200, 3)), (np.arange(200) % 4 == 0).astype(int)
    posterior = train(X, y, max_iterations=600).posterior
    assert posterior.predict(X[:1]).probabilities[0, 1] == pytest.approx(0.25, abs=0.05)


def test_fewer_rows_than_inducing_points_are_refused(train):
    X, y = rows(8)
    with pytest.raises(UsageError, match="fewer rows than inducing points"):
        train(X, y, M=10)


def test_inputs_that_are_not_finite_are_refused(train):
    X, y = rows()
    X[3, 1] = np.nan
    with pytest.raises(DataError, match="finite"):
        train(X, y)


def test_rows_that_turn_nan_while_training_are_a_numerical_error(train):
    X, y = rows()

    class Broken:
        shape = X.shape

        def __len__(self):
            return len(X)

        def __getitem__(self, index):
            return X[index] if isinstance(index, slice) else np.full((len(index), 2), np.nan)

    with pytest.raises(NumericalError, match=r"x-gpc, iteration 0: .*nan"):
        train(Broken(), y)


def test_only_binary_logit():
    with pytest.raises(UsageError, match="binary"):
        XGPC().likelihood_for("multiclass", 3)
    X, y = rows()
    with pytest.raises(UsageError, match="logit"):
        XGPC().fit(
            X,
            y,
            inducing=InducingRule("kmeans", 10),
            likelihood=likelihood("probit"),
            classes=2,
            rng=np.random.default_rng(0),
            on_step=lambda _: None,
        )


def test_settings_are_declared_and_their_defaults_allowed():
    found = {item.name: item for item in settings_of(XGPC)}
    assert {"kernel", "inducing", "inducing_rule", "kmeans_rows", "batch_size", "max_iterations", "rate"} <= set(found)
    assert all(item.check(item.default) == item.default for item in found.values())
    assert all(item.help for item in found.values())
