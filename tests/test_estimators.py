"""scikit-learn's checks, its tools, and the same numbers as a cell's."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import gpbench
from gpbench.bench.cell import Limits, SplitSpec
from gpbench.bench.choices import Choice
from gpbench.bench.methods import method
from gpbench.bench.runner import Task, run_cell
from gpbench.data.dataset import dataset_from_arrays
from gpbench.data.splits import Protocol

EXPECTED_FAILURES = {
    gpbench.GPOrdinal: {"check_classifiers_classes": "its classes are texts, whose order is not known"}
}
"""Estimator -> check -> why it fails it."""


@parametrize_with_checks(
    [
        gpbench.GPClassifier(),
        gpbench.GPClassifier("x-gpc", max_iterations=200),
        gpbench.GPClassifier("dirichlet-gpc", max_iterations=20, alpha_epsilon=0.01),
        gpbench.GPOrdinal(),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(type(estimator), {}),
)
@pytest.mark.filterwarnings("ignore")  # of scikit-learn's checks, which warn of what they try
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def rows(n=120, *, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    X = 3.0 + 2.0 * rng.normal(size=(n, 3))
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.normal(size=n)
    return X, np.array(["no", "perhaps", "yes"])[np.digitize(f, np.quantile(f, np.arange(1, classes) / classes))]


FAST = {"inducing": 10, "max_iterations": 60}


class Given:
    """A data set that is at hand, as a cell's source."""

    def __init__(self, dataset):
        self.dataset = dataset

    def load(self, _progress=None):
        return self.dataset


@pytest.mark.parametrize("name", ["pep", "x-gpc", "klsp", "rff", "dirichlet-gpc"])
@pytest.mark.parametrize("scaling", ["standard", "none"])
def test_probabilities_are_those_of_the_cell_with_the_same_rows_and_seed(name, scaling):
    X, y = rows()
    dataset = dataset_from_arrays(
        X, (y == "perhaps").astype(int), id="given", title="given", task="binary", classes=("no", "perhaps")
    )
    wanted = {key: value for key, value in FAST.items() if key in method(name).settings()}
    choice = Choice(method(name), method(name).resolve(wanted))
    split = SplitSpec(protocol="folds:3", index=0, count=3, seed=7)
    cell = choice.cell(dataset, limits=Limits(), split=split, seed=7, scaling=scaling)
    outcome = run_cell(Task(spec=cell, method=choice.method, source=Given(dataset)))
    assert outcome.result.problem is None
    arrays = outcome.arrays
    parts = Protocol.parse("folds:3").split(dataset, 0, seed=7)
    estimator = gpbench.GPClassifier(name, random_state=7, scaling=scaling, **wanted)
    estimator.fit(X[parts.train], y[parts.train])
    assert estimator.predict_proba(X[parts.test]) == pytest.approx(arrays["test_probabilities"], abs=1e-12)


def test_it_works_in_scikit_learns_tools():
    X, y = rows()
    model = gpbench.GPClassifier(random_state=0, **FAST)
    assert cross_val_score(make_pipeline(StandardScaler(), model), X, y, cv=3).mean() > 0.7
    search = GridSearchCV(model, {"inducing": [5, "20%"], "kernel": ["se", "matern32"]}, cv=2, scoring="neg_log_loss")
    search.fit(X, y)
    assert set(search.best_params_) == {"inducing", "kernel"}
    assert search.best_estimator_.get_params()["kernel"] in {"se", "matern32"}
    calibrated = CalibratedClassifierCV(model, cv=2).fit(X, y)
    assert calibrated.predict_proba(X).sum(axis=1) == pytest.approx(1.0)


def test_parameters_are_the_methods_settings():
    model = gpbench.GPClassifier("svgpc", rate=0.02)
    known = method("svgpc").settings()
    params = model.get_params()
    assert {name: params[name] for name in known} == {name: each.default for name, each in known.items()} | {
        "rate": 0.02
    }
    assert clone(model).get_params() == params
    assert repr(model) == "GPClassifier(method='svgpc', rate=0.02)"
    model.set_params(method="rff", features=50)
    assert "rate" not in model.get_params()
    assert model.get_params()["features"] == 50


def test_unknown_settings_and_values_are_refused_by_name():
    with pytest.raises(ValueError, match="unknown setting 'inducin'; did you mean inducing"):
        gpbench.GPClassifier(inducin=10)
    with pytest.raises(ValueError, match="unknown method 'x-gp'; did you mean x-gpc"):
        gpbench.GPClassifier("x-gp").fit(*rows())
    with pytest.raises(gpbench.UsageError, match=r"setting batch_size must be .* >= 1; got 0"):
        gpbench.GPClassifier(batch_size=0).fit(*rows())
    with pytest.raises(ValueError, match=r"120 rows, 500 inducing points \(count 500\); inducing=120 fits"):
        gpbench.GPClassifier(inducing=500).fit(*rows())
    X, y = rows(classes=3)
    with pytest.raises(ValueError, match="cannot do"):
        gpbench.GPOrdinal("x-gpc").fit(X, np.unique(y, return_inverse=True)[1])


@pytest.mark.parametrize(
    ("parameter", "value", "said"),
    [
        ("random_state", -1, "the seed must be an integer >= 0; got -1"),
        ("random_state", np.int64(-1), "the seed must be an integer >= 0; got -1"),
        ("max_seconds", -1, "the limit on seconds must be a positive number; got -1"),
        ("max_seconds", np.nan, "the limit on seconds must be a positive number; got nan"),
        ("max_seconds", "3", "the limit on seconds must be a positive number; got '3'"),
        ("threads", 0, "the number of threads must be at least 1; got 0"),
        ("threads", "2", "the number of threads must be at least 1; got '2'"),
        ("max_iterations", 0, "setting max_iterations must be an integer >= 1; got 0"),
        ("max_iterations", "few", "setting max_iterations must be an integer >= 1; got 'few'"),
        ("max_iterations", 2.5, r"setting max_iterations must be an integer >= 1; got 2\.5"),
    ],
)
def test_parameters_out_of_range_are_refused_in_the_words_of_the_command_line(parameter, value, said):
    with pytest.raises(ValueError, match=said) as error:
        gpbench.GPClassifier("x-gpc", **{parameter: value}).fit(*rows())
    assert isinstance(error.value, gpbench.UsageError)


def test_numpy_s_numbers_are_numbers():
    given = {"max_seconds": np.float64(60), "threads": np.int64(1), "random_state": np.int64(0), "inducing": 5}
    model = gpbench.GPClassifier("svgpc", max_iterations=np.int64(3), **given).fit(*rows())
    assert (model.n_iter_, model.stopped_by_) == (3, "iterations")


def test_threads_are_checked_before_predicting():
    X, y = rows()
    model = gpbench.GPClassifier("linear").fit(X, y).set_params(threads=0)
    with pytest.raises(ValueError, match="threads must be at least 1; got 0"):
        model.predict(X)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_predictions_that_are_not_finite_are_refused_by_the_first_row():
    X, y = rows()
    given = {"random_state": 0, "kernel": "linear-ard", **FAST}
    classes = gpbench.GPClassifier(**given).fit(X, y)
    counts = gpbench.GPCounts(**given).fit(X, (y == "no").astype(int))
    wide = X[:6].copy()
    wide[[3, 5], 0] = 1e200
    for predict in (classes.predict, classes.predict_proba, classes.decision_function, classes.latent, counts.predict):
        with pytest.raises(
            gpbench.NumericalError, match=r"must be finite; got .*(nan|inf) for row 3 of X, .*2 of 6 rows"
        ):
            predict(wide)


def test_sample_weights_are_refused_by_name():
    X, y = rows()
    for kind in (gpbench.GPClassifier, gpbench.GPOrdinal, gpbench.GPCounts):
        with pytest.raises(ValueError, match="sample_weight"):
            kind().fit(X, y, sample_weight=np.ones(len(y)))
        with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
            kind().fit(X, y, weights=1)


def test_few_rows_are_no_reason_to_refuse_the_default_number_of_inducing_points():
    X, y = rows(30)
    fitted = gpbench.GPClassifier(max_iterations=20).fit(X, y)
    assert len(fitted.posterior_.latents[0].Z) == 30


def test_columns_go_by_name():
    X, y = rows()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = gpbench.GPClassifier(random_state=0, **FAST).fit(frame, y)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert model.n_features_in_ == 3
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c"]])


def test_the_order_in_memory_plays_no_part():
    """pandas hands over columns one after the other; sums would be rounded otherwise, and training go another way."""
    X, y = rows()
    made = [gpbench.GPClassifier(random_state=0, **FAST).fit(each, y) for each in (X, np.asfortranarray(X))]
    np.testing.assert_array_equal(made[0].predict_proba(X), made[1].predict_proba(np.asfortranarray(X)))


def test_what_is_predicted_fits_together():
    X, y = rows()
    model = gpbench.GPClassifier(random_state=0, **FAST).fit(X, y)
    p, d = model.predict_proba(X), model.decision_function(X)
    assert model.classes_.tolist() == ["no", "perhaps"]
    assert d == pytest.approx(np.log(p[:, 1] / p[:, 0]))
    assert (model.predict(X) == model.classes_[p.argmax(axis=1)]).all()
    mean, var = model.latent(X)
    assert ((mean[:, 0] > 0) == (d > 0)).all()
    assert (var > 0).all()
    assert (pickle.loads(pickle.dumps(model)).predict_proba(X) == p).all()
    with pytest.raises(ValueError, match="no latent functions"):
        gpbench.GPClassifier("linear").fit(X, y).latent(X)


def test_training_ends_after_the_seconds_it_was_given():
    X, y = rows(400)
    model = gpbench.GPClassifier("klsp", max_seconds=1e-6, gradient_tolerance=0.0, value_tolerance=0.0).fit(X, y)
    assert (model.stopped_by_, model.n_iter_) == ("seconds", 1)


def test_hyperparameters_of_another_method():
    X, y = rows()
    model = gpbench.GPClassifier("x-gpc", hyperparameters="from:klsp", random_state=0, **FAST).fit(X, y)
    first = gpbench.GPClassifier("klsp", random_state=0, link="logit", **FAST).fit(X, y)
    assert model.posterior_.latents[0].kernel.values() == first.posterior_.latents[0].kernel.values()


def test_more_classes_ordered_ones_and_counts():
    X, y = rows(classes=3)
    many = gpbench.GPClassifier("rff", features=50).fit(X, y)
    assert many.decision_function(X).shape == (120, 3)
    ordered = gpbench.GPOrdinal(inducing=10, max_iterations=100).fit(X, np.searchsorted(["no", "perhaps", "yes"], y))
    assert ordered.score(X, np.searchsorted(["no", "perhaps", "yes"], y)) > 0.6
    counts = np.random.default_rng(0).poisson(np.exp(0.4 * X[:, 0]))
    model = gpbench.GPCounts(inducing=10, max_iterations=100).fit(X, counts)
    assert model.score(X, counts) > 0.3


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.5, "0.5"),
        (-5.0, "-5.0"),
        (1e300, r"1e\+300"),
        (np.int64(2**53 + 1), "9007199254740993"),
        ("many", "'many'"),
        ("2", "'2'"),
    ],
)
def test_targets_that_are_no_counts_are_refused_by_the_first(value, said):
    X, _ = rows(30)
    y = np.array([1] * 7 + [value] + [3] * 20 + [value, 0], dtype=object if isinstance(value, str) else type(value))
    with pytest.raises(gpbench.UsageError, match=rf"needs targets 0, 1, 2 \.\.\., 2\^53 at most; got {said} in row 7"):
        gpbench.GPCounts().fit(X, y)


def test_texts_have_no_order_but_that_of_a_categorical():
    X, y = rows(classes=3)
    y = np.array(["low", "medium", "high"])[np.searchsorted(["no", "perhaps", "yes"], y)]
    model = gpbench.GPOrdinal(random_state=0, **FAST)
    for texts in (y, y.astype(object), pd.Series(y), pd.Categorical(y)):
        with pytest.raises(
            ValueError, match=f"numbers such as 0, 1, 2, or an ordered pandas .*; got '{y[0]}' in row 0"
        ):
            model.fit(X, texts)
    ordered = pd.Categorical(y, categories=["low", "medium", "high", "never"], ordered=True)
    expected = clone(model).fit(X, ordered.codes)
    for levels in (ordered, pd.Series(ordered), pd.CategoricalIndex(ordered)):
        model.fit(X, levels)
        assert model.classes_.tolist() == ["low", "medium", "high"]
        np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    assert model.predict(X).tolist() == model.classes_[expected.predict(X)].tolist()
    assert model.score(X, ordered) > 0.6
    ordered[4] = None
    with pytest.raises(ValueError, match="row 4 has none"):
        model.fit(X, ordered)


@pytest.mark.parametrize("X", [np.ones((30, 2)), np.column_stack([np.ones(30), np.arange(30)])])
def test_constant_columns_have_an_answer(X):
    y = np.arange(30) % 3 == 0
    p = gpbench.GPClassifier(inducing=1, max_iterations=200, random_state=0).fit(X, y).predict_proba(X)
    assert np.isfinite(p).all()


def test_a_default_shrinks_to_few_rows_and_a_count_that_is_asked_for_does_not():
    X, y = (each[:39] for each in rows())
    assert len(gpbench.GPClassifier("vi-jj", max_iterations=2).fit(X, y).posterior_.latents[0].Z) == 39
    again = clone(gpbench.GPClassifier("vi-jj", max_iterations=2))
    assert len(again.fit(X, y).posterior_.latents[0].Z) == 39
    with pytest.raises(ValueError, match=r"39 rows, 100 inducing points .*; inducing=30 fits"):
        gpbench.GPClassifier("vi-jj", inducing=100).fit(X, y)
