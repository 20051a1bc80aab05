"""hgb and rff: scikit-learn's own answers, models without pickles, choices that held-out rows decide."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from gpbench.errors import NumericalError, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.posterior import load_posterior
from gpbench.schemes.base import StopTraining
from gpbench.schemes.hgb import HGB, SPACE
from gpbench.schemes.rff import RFF, fourier


def rows(n=300, *, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    return X, np.digitize(f, np.quantile(f, np.arange(1, classes) / classes))


def fit(scheme, X, y, *, classes=2, on_step=lambda _: None, seed=0):
    return scheme.fit(
        X,
        y,
        inducing=InducingRule("none"),
        likelihood=scheme.likelihood_for("binary" if classes == 2 else "multiclass", classes),
        classes=classes,
        rng=np.random.default_rng(seed),
        on_step=on_step,
    )


@pytest.mark.parametrize("classes", [2, 4])
def test_trees_as_arrays_predict_what_scikit_learn_predicts(classes, tmp_path):
    X, y = rows(classes=classes)
    more, _ = rows(2500, seed=1)  # more than a block of rows
    found = fit(HGB(max_iter=20), X, y, classes=classes)
    expected = HistGradientBoostingClassifier(max_iter=20).fit(X, y).predict_proba(more)
    got = found.posterior.predict(more).probabilities
    assert got == pytest.approx(expected, abs=1e-12)
    found.posterior.save(tmp_path / "trees.npz")
    assert (load_posterior(tmp_path / "trees.npz").predict(more).probabilities == got).all()
    assert found.stopped_by == "schedule"  # rounds that are its own are cut short by nothing


def test_early_stopping_is_scikit_learns_and_said():
    X, y = rows(600)
    found = fit(HGB(early_stopping="yes", max_iter=500), X, y)
    assert found.stopped_by == "converged"
    assert len(found.posterior.roots) < 500
    assert fit(HGB(early_stopping="yes", max_iter=2), X, y).stopped_by == "iterations"
    assert fit(HGB(candidates=2, max_iter=2), X, y).stopped_by == "schedule"


def test_the_first_trees_are_the_model_that_stops_there():
    X, y = rows()
    long, short = (fit(HGB(max_iter=number), X, y).posterior for number in (30, 12))
    assert long.first(12).predict(X).probabilities == pytest.approx(short.predict(X).probabilities, abs=1e-15)
    losses = long.losses(X, y, looks=[1, 12, 30])
    assert losses == pytest.approx([-long.first(k).score(X, y).log_density.mean() for k in (1, 12, 30)], abs=1e-12)


def test_the_best_of_the_candidates_is_trained_on_all_rows_within_the_budget():
    X, y = rows()
    told = []
    found = fit(HGB(candidates=5, max_iter=60), X, y, on_step=told.append)
    assert found.iterations == len(told) == 6
    assert found.posterior.rows == 300
    chosen = found.facts["chosen"]
    assert all(chosen[name] in (*values, getattr(HGB(), name)) for name, values in SPACE.items())
    assert 1 <= chosen["max_iter"] <= 60
    assert len(found.posterior.roots) == chosen["max_iter"]


def test_a_choice_beats_settings_that_fit_the_noise():
    X, y = rows(400)
    y = np.where(np.random.default_rng(3).random(400) < 0.3, 1 - y, y)
    more, right = rows(2000, seed=1)
    wild = HGB(learning_rate=0.9, min_samples_leaf=2, max_iter=200)
    nll = [-fit(each, X, y).posterior.score(more, right).log_density.mean() for each in (wild, HGB(candidates=6))]
    assert nll[1] < 0.7 < nll[0]


def test_a_limit_between_two_candidates_gives_the_best_so_far():
    X, y = rows()

    def stop(step):
        if step.iteration == 2:
            raise StopTraining

    for scheme in (HGB(candidates=5), RFF(features=50)):
        found = fit(scheme, X, y, on_step=stop)
        assert (found.stopped_by, found.iterations) == ("on_step", 2)
        assert found.posterior.rows == 240  # a fifth is held out


@pytest.mark.parametrize("scheme", [HGB(max_iter=5), HGB(max_iter=5, candidates=2), RFF(features=20)])
@pytest.mark.parametrize("present", [[1], [0, 2]])
def test_classes_that_training_lacks_keep_a_small_probability(scheme, present, tmp_path):
    X, y = rows(60, classes=len(present))
    found = fit(scheme, X, np.array(present)[y], classes=3)
    p = found.posterior.predict(X).probabilities
    absent = [k for k in range(3) if k not in present]
    assert p[:, absent] == pytest.approx(1 / (60 + 3))
    assert p.sum(axis=1) == pytest.approx(1.0)
    found.posterior.save(tmp_path / "model.npz")
    assert (load_posterior(tmp_path / "model.npz").predict(X).probabilities == p).all()


def test_features_approach_the_squared_exponential_kernel():
    X, _ = rows(40)
    W = np.random.default_rng(0).normal(size=(3, 20_000)) / 1.5
    phi = fourier(X, W)
    distances = np.square(X[:, None] - X).sum(axis=2)
    assert phi @ phi.T == pytest.approx(np.exp(-0.5 * distances / 1.5**2), abs=0.03)
    assert np.square(phi).sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("classes", [2, 3])
def test_rff_is_logistic_regression_on_its_features(classes):
    X, y = rows(classes=classes)
    found = fit(RFF(features=60, lengthscale=1.3, variance=5.0), X, y, classes=classes)
    assert (found.iterations, found.stopped_by) == (1, "converged")
    phi = fourier(X, found.posterior.frequencies)
    expected = LogisticRegression(C=5.0, max_iter=1000).fit(phi, y).predict_proba(phi)
    assert found.posterior.predict(X).probabilities == pytest.approx(expected, abs=1e-12)


def test_rff_chooses_a_length_scale_that_fits():
    X, y = rows(800)
    found = fit(RFF(features=200), X, y)
    assert found.iterations == 13
    chosen = found.facts["chosen"]["lengthscale"]
    more, right = rows(2000, seed=1)
    nll = {
        scale: -fit(RFF(features=200, lengthscale=scale), X, y).posterior.score(more, right).log_density.mean()
        for scale in (chosen, 0.05, 50.0)
    }
    assert nll[chosen] == min(nll.values())


@pytest.mark.parametrize("scheme", [HGB(max_rows=50, max_iter=3), RFF(max_rows=50, features=10)])
def test_far_more_rows_than_the_limit_are_thinned(scheme):
    assert fit(scheme, *rows(400)).posterior.rows == 50


@pytest.mark.parametrize("scheme", [HGB(), RFF()])
def test_wrong_use_is_refused(scheme):
    X, y = rows()
    with pytest.raises(UsageError, match="binary and multiclass"):
        scheme.likelihood_for("count", 0)
    X[0, 0] = np.nan
    with pytest.raises(NumericalError, match="1 of the inputs"):
        fit(scheme, X, y)
