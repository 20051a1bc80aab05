import numpy as np
import pytest
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from gpbench.bench.store import Store
from gpbench.errors import PluginError
from gpbench.report import scores
from gpbench.report.scores import (
    SCORED,
    average_precision,
    brier_score,
    calibration_error,
    overconfidence,
    roc_auc,
    scores_of,
    with_scores,
    worst_row,
    worst_share,
)
from gpbench.report.tables.summary import summarise

BINARY = np.array([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5], [0.0, 1.0]])
BINARY_Y = np.array([0, 0, 1, 1])
THREE = np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]])
THREE_Y = np.array([1, 2])


def test_brier_score_by_hand():
    assert brier_score(BINARY, BINARY_Y) == (0.0625 + 0.5625 + 0.25 + 0.0) / 4
    assert brier_score(THREE, THREE_Y) == (0.25 + 0.5625 + 0.0625 + 0.0) / 2


@pytest.mark.parametrize("classes", [2, 4])
def test_brier_score_against_scikit_learn(classes):
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(classes), size=50)
    y = rng.integers(classes, size=50)
    expected = brier_score_loss(y, probabilities, labels=range(classes))
    assert brier_score(probabilities, y) == pytest.approx(expected, rel=1e-12)


def test_calibration_error_by_hand():
    # Confidences 0.75 (right, wrong) share a bin; 0.5 is predicted as class 0, which is wrong; 1.0 is right.
    assert calibration_error(BINARY, BINARY_Y) == (2 * abs(0.5 - 0.75) + abs(0 - 0.5) + abs(1 - 1)) / 4
    assert calibration_error(THREE, THREE_Y) == (0.5 + 0.0) / 2


def test_calibration_errors_of_opposite_signs_cancel_inside_a_bin_only():
    # 0.81 and 0.85 lie in (12/15, 13/15], 0.79 in (11/15, 12/15].
    sure = np.array([0.81, 0.85, 0.79])
    probabilities = np.column_stack([sure, 1 - sure])
    together, apart = (
        calibration_error(probabilities[:2], np.array([0, 1])),
        calibration_error(probabilities[1:], np.array([1, 0])),
    )
    assert together == pytest.approx(abs(1 - 0.81 - 0.85) / 2)
    assert apart == pytest.approx((0.85 + 0.21) / 2)


def test_a_confidence_at_an_edge_belongs_to_the_bin_below():
    sure = np.array([0.75, 0.7])
    probabilities = np.column_stack([sure, 1 - sure])
    y = np.array([0, 1])
    assert calibration_error(probabilities, y, bins=4) == pytest.approx(abs(1 - 0.75 - 0.7) / 2)
    assert calibration_error(np.array([[1.0, 0.0]]), np.array([1])) == 1.0


def test_cells_of_a_store_are_scored(make_cell, tmp_path):
    store = Store(tmp_path)
    cells = [make_cell(index=index, status="failed" if index == 2 else "ok") for index in range(3)]
    np.savez(tmp_path / f"{cells[0].key}.npz", test_probabilities=BINARY, y_test=BINARY_Y)
    np.savez(tmp_path / f"{cells[1].key}.npz", test_probabilities=BINARY[:2], y_test=BINARY_Y[:2])
    scored, problems = with_scores(cells, store)
    assert problems == []
    assert "brier" not in cells[0].metrics
    (row,) = summarise(scored)
    assert row["brier"]["mean"] == pytest.approx((0.875 / 4 + 0.625 / 2) / 2)
    assert row["ece"] == {"mean": pytest.approx(0.25), "sd": 0.0}


def test_counts_have_neither(make_cell, tmp_path):
    store = Store(tmp_path)
    cell = make_cell()
    np.savez(tmp_path / f"{cell.key}.npz", test_mean=np.ones(3), y_test=np.arange(3))
    scored, problems = with_scores([cell], store)
    assert (scored[0].metrics["brier"], scored[0].metrics["ece"], problems) == (None, None, [])


def test_arrays_that_hold_something_else(make_cell, tmp_path):
    store = Store(tmp_path)
    cell = make_cell()
    np.savez(tmp_path / f"{cell.key}.npz", test_probabilities=BINARY, y_test=np.arange(3))
    scored, problems = with_scores([cell], store)
    assert scored[0].metrics["brier"] is None
    told = "holds no probabilities and classes of the same test rows"
    assert problems == [f"1 cells without Brier score and calibration error: {tmp_path / cell.key}.npz {told}"]


def test_a_metric_of_a_plugin_that_fails_takes_no_other_with_it(make_cell, tmp_path, monkeypatch):
    def broken(probabilities, y):
        raise PluginError("metric broken cannot be computed")

    own = {"broken": broken, "rows": lambda *predicted: float(len(predicted[1]))}
    monkeypatch.setattr(scores, "metrics", lambda: own)
    store, cell = Store(tmp_path), make_cell()
    np.savez(tmp_path / f"{cell.key}.npz", test_probabilities=BINARY, y_test=np.array([0] * len(BINARY)))
    scored, problems = with_scores([cell], store)
    assert scored[0].metrics["rows"] == len(BINARY)
    assert scored[0].metrics["brier"] is not None
    assert problems == ["1 cells without broken: metric broken cannot be computed"]


def test_auc_by_hand():
    # pairs of a row of class 1 and one of class 0: 0.9 > 0.4, 0.9 > 0.1, 0.4 = 0.4 (a half), 0.4 > 0.1
    assert roc_auc(np.array([0.9, 0.4, 0.4, 0.1]), np.array([1, 1, 0, 0])) == 3.5 / 4
    assert roc_auc(np.array([0.9, 0.4]), np.array([1, 1])) is None


def test_average_precision_by_hand():
    # thresholds 0.9 (recall 1/2, precision 1), 0.8 (1/2, 1/2), 0.4 (1, 2/4: two rows at once)
    found = average_precision(np.array([0.8, 0.9, 0.4, 0.4]), np.array([0, 1, 1, 0]))
    assert found == pytest.approx(0.5 * 1 + 0.5 * 0.5)
    assert average_precision(np.array([0.8]), np.array([0])) is None


@pytest.mark.parametrize("digits", [1, 12])
def test_auc_and_average_precision_against_scikit_learn(digits):
    rng = np.random.default_rng(1)
    y = rng.integers(2, size=80)
    probability = np.clip(rng.normal(0.4 + 0.2 * y, 0.2), 0, 1).round(digits)  # with ties, and without
    assert roc_auc(probability, y) == pytest.approx(roc_auc_score(y, probability), rel=1e-12)
    assert average_precision(probability, y) == pytest.approx(average_precision_score(y, probability), rel=1e-12)


def test_overconfidence_has_a_sign():
    sure = np.array([[0.9, 0.1]] * 4)
    assert overconfidence(sure, np.array([0, 0, 1, 1])) == pytest.approx(0.4)
    assert overconfidence(1 - sure, np.array([1, 1, 1, 1])) == pytest.approx(-0.1)


def test_more_than_two_classes_have_no_order():
    found = scores_of(THREE, THREE_Y)
    assert (found["auc"], found["average_precision"]) == (None, None)
    assert set(found) == set(scores_of(BINARY, BINARY_Y)) == SCORED
    assert scores_of(BINARY, BINARY_Y)["auc"] == roc_auc(BINARY[:, 1], BINARY_Y)


def test_the_worst_row_is_that_of_the_least_probability():
    probabilities = np.array([[0.9, 0.1], [0.02, 0.98], [0.5, 0.5]])
    assert worst_row(probabilities, np.array([0, 0, 1])) == pytest.approx(-np.log(0.02))
    assert worst_row(np.array([[1.0, 0.0]]), np.array([1])) == pytest.approx(744.44, abs=0.01)


def test_the_share_of_the_worst_row():
    probabilities = np.array([[0.9, 0.1], [0.02, 0.98], [0.5, 0.5]])
    losses = -np.log([0.9, 0.02, 0.5])
    assert worst_share(probabilities, np.array([0, 0, 1])) == pytest.approx(losses[1] / losses.sum())
    assert worst_share(np.array([[1.0, 0.0]]), np.array([0])) is None
