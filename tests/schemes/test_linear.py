import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from gpbench.errors import DataError, NumericalError, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.posterior import load_posterior
from gpbench.schemes.base import StopTraining
from gpbench.schemes.linear import ClassFrequencies, Linear


def rows(n=150, *, d=3, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X @ rng.normal(size=(d, classes)) + rng.gumbel(size=(n, classes))).argmax(axis=1)


def ignore(step):
    pass


def fit(X, y, *, classes=2, on_step=ignore, **settings):
    scheme = Linear(**settings)
    return scheme.fit(
        X,
        y,
        inducing=InducingRule("none"),
        likelihood=scheme.likelihood_for("binary" if classes == 2 else "multiclass", classes),
        classes=classes,
        rng=np.random.default_rng(0),
        on_step=on_step,
    )


@pytest.mark.parametrize("classes", [2, 4])
def test_probabilities_are_scikit_learns(classes):
    X, y = rows(classes=classes)
    expected = LogisticRegression(max_iter=1000).fit(X, y).predict_proba(X)
    found = fit(X, y, classes=classes)
    prediction = found.posterior.predict(X)
    assert prediction.probabilities == pytest.approx(expected, abs=1e-12)
    log_density, error, values = found.posterior.score(X, y)
    assert log_density == pytest.approx(np.log(expected[np.arange(len(y)), y]), abs=1e-12)
    assert (error == (prediction.point != y)).all()
    assert (values == prediction.probabilities).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_a_saved_model_predicts_the_same_to_the_last_bit(tmp_path, classes):
    X, y = rows(classes=classes)
    found = fit(X, y, classes=classes)
    found.posterior.save(tmp_path / "linear.npz")
    loaded = load_posterior(tmp_path / "linear.npz")
    assert (loaded.predict(X).probabilities == found.posterior.predict(X).probabilities).all()


@pytest.mark.parametrize(("classes", "present"), [(2, [1]), (3, [0, 2]), (4, [2]), (5, [0, 1, 4])])
def test_classes_that_training_lacks_keep_a_small_probability(classes, present):
    X, y = rows(classes=len(present))
    found = fit(X, np.array(present)[y], classes=classes)
    probabilities = found.posterior.predict(X).probabilities
    absent = [k for k in range(classes) if k not in present]
    assert probabilities[:, absent] == pytest.approx(1 / (len(y) + classes))
    assert probabilities.sum(axis=1) == pytest.approx(1.0)
    assert np.isfinite(found.posterior.score(X[:1], np.array(absent[:1])).log_density).all()
    assert found.facts["absent_classes"] == len(absent)


def test_constant_and_copied_columns_do_no_harm():
    X, y = rows()
    wide = np.column_stack([X, np.zeros(len(X)), X[:, 0]])
    assert np.isfinite(fit(wide, y).posterior.score(wide, y).log_density).all()


def test_reaching_the_iteration_limit_is_recorded():
    X, y = rows(n=400, d=30)
    assert fit(X, y, max_iterations=1, penalty=1e-6).stopped_by == "iterations"
    assert fit(X, y).stopped_by == "converged"


def test_far_more_rows_than_the_limit_are_thinned():
    X, y = rows(n=400)
    assert fit(X, y, max_rows=100).posterior.rows == 100


def test_a_step_is_reported_and_may_stop():
    X, y = rows()
    seen = []

    def on_step(step):
        seen.append(step)
        raise StopTraining

    found = fit(X, y, on_step=on_step)
    assert [step.posterior() for step in seen] == [found.posterior]


def test_inputs_that_are_not_finite_are_a_numerical_error():
    X, y = rows()
    X[0, 0] = np.inf
    with pytest.raises(NumericalError, match="1 of the inputs"):
        fit(X, y)


def test_wrong_use_is_refused():
    X, y = rows()
    with pytest.raises(UsageError, match="binary and multiclass"):
        Linear().likelihood_for("count", 0)
    with pytest.raises(UsageError, match="3 columns"):
        fit(X, y).posterior.predict(X[:, :2])
    with pytest.raises(DataError, match=r"0\.\.1"):
        fit(X, y + 1)


def frequencies(y, classes):
    scheme = ClassFrequencies()
    return scheme.fit(
        np.zeros((len(y), 2)),
        y,
        inducing=InducingRule("none"),
        likelihood=scheme.likelihood_for("multiclass", classes),
        classes=classes,
        rng=np.random.default_rng(0),
        on_step=ignore,
    ).posterior


def test_class_frequencies_are_the_training_rows_whatever_the_inputs_are():
    found = frequencies(np.array([0, 1, 1, 2, 1, 0, 1, 1]), 3)
    X = np.random.default_rng(1).normal(size=(5, 2))
    np.testing.assert_allclose(found.predict(X).probabilities, np.tile([0.25, 0.625, 0.125], (5, 1)), rtol=1e-14)
    log_density, error, _ = found.score(X, np.array([0, 1, 2, 1, 1]))
    np.testing.assert_allclose(log_density, np.log([0.25, 0.625, 0.125, 0.625, 0.625]))
    assert error.tolist() == [1, 0, 1, 0, 0]


def test_a_class_without_training_rows_has_a_small_frequency():
    found = frequencies(np.array([0, 0, 2, 2]), 3)
    expected = np.array([0.5 * 6 / 7, 1 / 7, 0.5 * 6 / 7])  # 1/(4 + 3) for the absent one
    np.testing.assert_allclose(found.predict(np.zeros((1, 2))).probabilities[0], expected)


def test_counts_have_no_class_frequencies():
    with pytest.raises(UsageError, match="class-frequencies does binary and multiclass"):
        ClassFrequencies().likelihood_for("count", 0)
