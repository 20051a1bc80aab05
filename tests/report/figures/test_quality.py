"""Error against NLL, and the reliability diagram: made-up predictions with known bins."""

import numpy as np
import pytest

from gpbench.report.figures.quality import LEAST, figure, reliability
from gpbench.report.groups import group_cells
from gpbench.report.scores import calibration

P = np.repeat([0.05, 0.25, 0.95, 1.0], [40, LEAST, LEAST - 1, 30])
Y = np.concatenate([np.arange(40) < 4, np.arange(LEAST) < 5, np.ones(LEAST - 1), np.arange(30) < 29]).astype(int)


def test_bins_are_those_of_the_second_class():
    found = calibration(np.column_stack([1 - P, P]), Y)
    assert found.rows.tolist() == [40, 0, LEAST, 0, 0, 0, 0, 0, 0, LEAST - 1 + 30]
    assert found.happened.tolist() == [4, 0, 5, 0, 0, 0, 0, 0, 0, LEAST - 1 + 29]
    assert found.said.sum() == pytest.approx(P.sum())


def test_bins_of_several_classes_are_those_of_the_predicted_one():
    probabilities = np.array([[0.5, 0.3, 0.2], [0.2, 0.75, 0.05], [0.2, 0.75, 0.05]])
    found = calibration(probabilities, np.array([0, 1, 2]))
    assert found.rows.nonzero()[0].tolist() == [5, 7]
    assert found.happened[[5, 7]].tolist() == [1, 1]


def test_splits_are_pooled_and_small_bins_left_out(make_cell):
    (group,) = group_cells([make_cell(index=0), make_cell(index=1)])
    halves = [np.arange(len(Y)) % 2 == each for each in (0, 1)]
    bins = {
        cell.key: calibration(np.column_stack([1 - P, P])[half], Y[half])
        for cell, half in zip(group.cells, halves, strict=True)
    }
    found = reliability(group, bins)
    assert found.rows == [40, LEAST, LEAST + 29]
    assert found.probability[:2] == pytest.approx([0.05, 0.25])
    assert found.share[:2] == pytest.approx([0.1, 0.25])


def test_the_picture_has_a_mark_a_method_and_a_line_where_probabilities_are(make_cell):
    groups = group_cells([make_cell(method=name, index=i) for name in ("x-gpc", "linear") for i in range(2)])
    alone = figure(groups, {})
    assert len(alone.axes) == 1
    assert [each.get_text() for each in alone.legends[0].get_texts()] == ["linear", "x-gpc"]
    bins = {cell.key: calibration(np.column_stack([1 - P, P]), Y) for cell in groups[0].cells}
    both = figure(groups, bins)
    diagonal, line, nothing = both.axes[1].lines
    assert diagonal.get_xdata().tolist() == [0, 1]
    assert line.get_ydata() == pytest.approx([0.1, 0.25, (2 * (LEAST - 1 + 29)) / (2 * (LEAST - 1 + 30))])
    assert len(nothing.get_xdata()) == 0
