import numpy as np
import pytest

from gpbench.errors import DataError, NumericalError, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.likelihoods import Logit, RobustMax
from gpbench.schemes.base import StopTraining
from gpbench.schemes.robust_max.vi_mgpc import VIMGPC

HARD = {"hyperparameters": "fixed", "learn_inducing": False}


def three_regions(n=150, *, seed=0, flipped=0.0):
    """Classes by sector of the plane, some labels drawn at random."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = ((np.arctan2(X[:, 1], X[:, 0]) + np.pi) / (2 * np.pi) * 3).astype(int) % 3
    return X, np.where(rng.uniform(size=n) < flipped, rng.integers(0, 3, n), y)


def fit(X, y, *, classes=3, M=12, on_step=None, seed=0, likelihood=None, **settings):
    scheme = VIMGPC(inducing=str(M), **settings)
    steps = []
    task = "binary" if classes == 2 else "multiclass"
    found = scheme.fit(
        X,
        y,
        inducing=InducingRule("random", count=min(M, len(X)), seed=3),
        likelihood=likelihood or scheme.likelihood_for(task, classes),
        classes=classes,
        rng=np.random.default_rng(seed),
        on_step=on_step or (lambda step: steps.append((step.iteration, step.bound))),
    )
    return found, steps


@pytest.mark.parametrize("whiten", [True, False])
def test_three_classes_are_learned_and_the_bound_only_rises(whiten):
    X, y = three_regions()
    fitted, steps = fit(X, y, max_iterations=120, whiten=whiten)
    bounds = [bound for _, bound in steps]
    assert bounds == sorted(bounds)
    assert [iteration for iteration, _ in steps] == list(range(1, len(steps) + 1))
    X_test, y_test = three_regions(400, seed=1)
    score = fitted.posterior.score(X_test, y_test)
    assert score.error.mean() < 0.1
    assert -score.log_density.mean() < 0.45
    assert fitted.posterior.likelihood.epsilon == 1e-3
    assert fitted.stopped_by in {"iterations", "converged"}
    assert len(fitted.facts["hyperparameters"]) == 3
    Zs = [latent.Z for latent in fitted.posterior.latents]
    assert not np.array_equal(Zs[0], Zs[1])


def test_learned_label_noise_lifts_the_bound_and_finds_the_share_of_flipped_labels():
    X, y = three_regions(400, flipped=0.3)
    fixed, steps = fit(X, y, max_iterations=80)
    learned, more = fit(X, y, max_iterations=80, learn_epsilon=True)
    assert more[-1][1] > steps[-1][1] + 20
    assert 0.15 < learned.posterior.likelihood.epsilon < 0.45
    assert learned.facts["epsilon"] == learned.posterior.likelihood.epsilon
    X_test, y_test = three_regions(500, flipped=0.3, seed=1)
    assert (
        learned.posterior.score(X_test, y_test).log_density.mean()
        > fixed.posterior.score(X_test, y_test).log_density.mean()
    )


@pytest.mark.parametrize("mode", ["batch", "stochastic"])
def test_label_noise_is_held_at_first(mode):
    X, y = three_regions(60)
    found = {}
    for hold in (0, 5, 1000):
        fitted, _ = fit(X, y, mode=mode, max_iterations=20, batch_size=30, learn_epsilon=True, hold_epsilon=hold)
        found[hold] = fitted.posterior.likelihood.epsilon
    assert found[1000] == 1e-3
    assert len(set(found.values())) == 3


def test_minibatches_come_near_the_batch_optimum():
    X, y = three_regions(200)
    batch, _ = fit(X, y, max_iterations=300, **HARD)
    stochastic, steps = fit(X, y, mode="stochastic", max_iterations=1500, batch_size=50, **HARD)
    assert [bound for _, bound in steps] == [None] * 1500
    assert stochastic.iterations == 1500
    p, q = (each.posterior.predict(X).probabilities for each in (batch, stochastic))
    assert np.abs(p - q).max() < 0.1
    assert np.abs(p - q).mean() < 0.01


def test_two_classes_have_two_latent_functions():
    X, y = three_regions()
    y = (y == 1).astype(int)
    fitted, _ = fit(X, y, classes=2, max_iterations=60)
    assert len(fitted.posterior.latents) == 2
    score = fitted.posterior.score(X, y)
    assert score.error.mean() < 0.1
    assert score.values.sum(axis=1) == pytest.approx(np.ones(len(X)), abs=1e-9)


@pytest.mark.parametrize("mode", ["batch", "stochastic"])
def test_fixed_parts_stay_where_they_are(mode):
    X, y = three_regions(60)
    fitted, _ = fit(X, y, mode=mode, max_iterations=5, variance=2.0, noise=0.3, **HARD)
    rule = InducingRule("random", count=12, seed=3)
    for c, latent in enumerate(fitted.posterior.latents):
        assert np.array_equal(latent.Z, rule.for_latent(c).choose(X))
        assert latent.kernel.values() == VIMGPC(variance=2.0, noise=0.3).initial_kernel(np.zeros((1, 2))).values()
        assert latent.m_w.any()


@pytest.mark.parametrize("mode", ["batch", "stochastic"])
def test_the_same_seed_gives_the_same_numbers_and_training_stops_when_told(mode):
    X, y = three_regions(80)

    def stop(step):
        if step.iteration == 4:
            raise StopTraining

    one, _ = fit(X, y, mode=mode, on_step=stop, batch_size=20, learn_epsilon=True)
    other, _ = fit(X, y, mode=mode, on_step=stop, batch_size=20, learn_epsilon=True)
    assert one.iterations == 4
    assert one.stopped_by == "on_step"
    assert np.array_equal(one.posterior.predict(X).probabilities, other.posterior.predict(X).probabilities)


@pytest.mark.parametrize("mode", ["batch", "stochastic"])
@pytest.mark.parametrize("case", ["missing", "many", "wide", "narrow", "duplicates", "alike", "tiny"])
def test_odd_data_end_in_finite_predictions(mode, case):
    X, y = three_regions(60)
    classes, settings = 3, {}
    if case == "missing":
        y = np.where(y == 1, 2, y)
    elif case == "many":  # and one row in most of them
        classes, y = 26, np.concatenate([np.arange(26), np.zeros(34, dtype=int)])
    elif case == "wide":
        settings = {"variance": 1e6, "noise": 0.0}
    elif case == "narrow":
        settings = {"variance": 1e-6, "noise": 1e-8}
    elif case == "duplicates":
        X, y = np.repeat(X[:6], 10, axis=0), np.arange(60) % 3
    elif case == "alike":
        y = np.zeros(60, dtype=int)
    elif case == "tiny":
        X, y = X[:2], np.array([0, 2])
    fitted, _ = fit(X, y, classes=classes, mode=mode, max_iterations=25, batch_size=10, learn_epsilon=True, **settings)
    score = fitted.posterior.score(X, y)
    assert np.isfinite(score.log_density).all()
    assert score.values.shape == (len(X), classes)


def test_a_rate_that_is_too_high_is_halved():
    X, y = three_regions(60)
    fitted, _ = fit(X, y, mode="stochastic", rate=1.0, max_iterations=150, batch_size=20)
    assert np.isfinite(fitted.posterior.score(X, y).log_density).all()


@pytest.mark.parametrize(("mode", "where"), [("batch", "evaluation 0"), ("stochastic", "iteration ")])
def test_what_fails_past_every_remedy_says_where(mode, where):
    X, y = three_regions(30)
    X[0] = np.nan  # no inducing input, with this seed
    with pytest.raises(NumericalError, match=f"^vi-mgpc, {where}"):
        fit(X, y, M=4, mode=mode, batch_size=10, max_iterations=30)


def test_other_tasks_likelihoods_and_labels_are_refused():
    X, y = three_regions(30)
    with pytest.raises(UsageError, match="vi-mgpc does classification; got task count"):
        VIMGPC().likelihood_for("count", 0)
    with pytest.raises(UsageError, match=r"robust-max with epsilon > 0; got \{'name': 'logit'"):
        fit(X, y, likelihood=Logit())
    with pytest.raises(UsageError, match="robust-max with epsilon > 0"):
        fit(X, y, likelihood=RobustMax())
    with pytest.raises(DataError, match="labels must lie in"):
        fit(X, y + 1)
    assert VIMGPC(quadrature="hermite").likelihood_for("multiclass", 3) == RobustMax(1e-3, "hermite", 20)
    assert VIMGPC(nodes=50).likelihood_for("binary", 2) == RobustMax(1e-3, "adaptive", 50)
