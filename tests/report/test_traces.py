import math

import numpy as np
import pytest

from gpbench.report.groups import group_cells
from gpbench.report.traces import Trace, common_grid, curve_of, hold, mean_curve, trace_of


def trace(*points):
    seconds, values = zip(*points, strict=True)
    return Trace(np.array(seconds, dtype=float), np.array(values, dtype=float))


def test_values_hold_until_the_next_and_after_the_last():
    times = np.array([0.5, 1.0, 1.999, 2.0, 5.0, 100.0])
    np.testing.assert_array_equal(hold(trace((1, 0.7), (2, 0.5), (5, 0.4)), times), [np.nan, 0.7, 0.7, 0.5, 0.4, 0.4])


def test_grid_runs_from_where_all_have_a_value_to_the_longest():
    grid = common_grid([trace((1, 0), (9, 0)), trace((2, 0), (200, 0))], per_decade=2)
    np.testing.assert_allclose(grid, [2, 10**0.75, 10**1.25, 10**1.75, 10**2.25, 200], rtol=1e-14)


def test_the_ends_of_the_grid_are_exact_and_come_once():
    generator = np.random.default_rng(0)
    for first, ratio in generator.uniform(1e-3, 9.0, (200, 2)):
        grid = common_grid([trace((first, 1), (first * (1 + ratio), 0))])
        assert grid[0] == first
        assert grid[-1] == first * (1 + ratio)
        assert np.all(np.diff(grid) > 0)


def test_mean_curve_by_hand():
    """On 1, 10^0.5, 10^1.5, 100 one split holds 0.8, 0.8, 0.6, 0.6 (ended at 4 s), the other 0.4, 0.4, 0.4, 0.2."""
    curve = mean_curve([trace((1, 0.8), (4, 0.6)), trace((0.5, 0.9), (1, 0.4), (100, 0.2))], spread="sd", per_decade=1)
    np.testing.assert_allclose(curve.seconds, [1, 10**0.5, 10**1.5, 100])
    np.testing.assert_allclose(curve.mean, [0.6, 0.6, 0.5, 0.4])
    np.testing.assert_allclose(curve.band, np.array([0.4, 0.4, 0.2, 0.4]) / math.sqrt(2))
    assert (curve.splits, curve.is_point) == (2, False)


def test_splits_measured_at_the_harness_times_give_no_staircase():
    """Each split is measured a little after 10^(k/10) s: between the ends, every value of the mean is new."""
    generator = np.random.default_rng(1)
    traces = [
        trace(*((10 ** (k / 10) * (1 + late), -float(k)) for k, late in enumerate(generator.uniform(0, 0.05, 31))))
        for _ in range(5)
    ]
    np.testing.assert_array_equal(mean_curve(traces).mean[1:-1], -np.arange(30.0))


@pytest.mark.parametrize(
    ("spread", "width"), [("sd", 2.0), ("2sd", 4.0), ("se", 2 / math.sqrt(3)), ("2se", 4 / math.sqrt(3))]
)
def test_widths_of_the_band(spread, width):
    """Values 1, 3, 5 have the standard deviation 2."""
    curve = mean_curve([trace((1, value), (2, value)) for value in (1, 3, 5)], spread=spread)
    np.testing.assert_allclose(curve.band, np.full(len(curve.seconds), width))


def test_one_split_has_no_band():
    assert mean_curve([trace((1, 0.5), (2, 0.4))]).band is None


def test_splits_measured_once_are_a_point():
    curve = mean_curve([trace((1, 0.2)), trace((3, 0.4))], spread="se")
    assert curve.is_point
    np.testing.assert_allclose([curve.seconds, curve.mean, curve.band], [[2.0], [0.3], [0.1]])


def test_a_value_that_is_not_finite_leaves_a_gap_and_is_not_held_over():
    curve = mean_curve([trace((1, 0.8), (10, np.nan), (100, 0.2)), trace((1, 0.8), (100, 0.2))], per_decade=1)
    np.testing.assert_allclose(curve.mean, [0.8, 0.8, np.nan, 0.2])


def test_trace_of_a_cell(make_cell):
    found = trace_of(make_cell(trace=[(0.0, 0.7, 0.5), (2.0, None, 0.25)]), "nll")
    np.testing.assert_array_equal(found.seconds, [1e-6, 2.0])
    np.testing.assert_array_equal(found.values, [0.7, np.nan])
    np.testing.assert_array_equal(
        trace_of(make_cell(trace=[(1.0, 0.7, 0.5), (2.0, 0.6, 0.25)]), "error").values, [0.5, 0.25]
    )


def test_a_cell_without_a_trace_is_its_final_point(make_cell):
    found = trace_of(make_cell(trace=[], nll=0.3, seconds=4.0), "nll")
    np.testing.assert_array_equal([found.seconds, found.values], [[4.0], [0.3]])


def test_failed_cells_take_no_part(make_cell):
    cells = [
        make_cell(index=0, trace=[(1.0, 0.7, 0.5), (2.0, 0.5, 0.5)]),
        make_cell(index=1, status="failed", trace=[(1.0, 9.0, 0.5), (2.0, 9.0, 0.5)]),
    ]
    (group,) = group_cells(cells)
    curve = curve_of(group, "nll")
    assert curve.splits == 1
    assert curve.mean[-1] == 0.5
