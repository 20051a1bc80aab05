import numpy as np
import pytest

from gpbench.report.compare.attainment import attainment, goal_times, profiles, timing_fault
from gpbench.report.compare.pairs import Contender, arenas_of

A, B = Contender("linear", "linear"), Contender("x-gpc", "x-gpc")


def arena(*cells):
    (found,), _ = arenas_of(cells)
    return found


def test_the_goal_is_the_best_that_any_measured_at_any_time(make_cell):
    found = arena(
        make_cell(method="linear", trace=[(1.0, 0.51, 0.1)]),
        make_cell(trace=[(0.5, 0.6, 0.1), (2.0, 0.5, 0.1), (4.0, 0.55, 0.1)], nll=0.55),
    )
    times, goals = goal_times(found, (A, B))
    assert goals == pytest.approx([0.51])
    np.testing.assert_array_equal(times, [[1.0], [2.0]])


def test_a_goal_that_is_not_reached_is_infinitely_far(make_cell):
    found = arena(make_cell(method="linear", nll=0.6), make_cell(nll=0.5))
    slow, fast = attainment(found, (A, B))
    assert (slow.reached, slow.splits, slow.median) == (0, 1, None)
    assert (fast.reached, fast.median, fast.goal) == (1, 1.0, pytest.approx(0.51))


@pytest.mark.parametrize(("nlls", "median"), [((0.5, 0.5, 0.9), 3.0), ((0.5, 0.9, 0.9), None), ((0.5, 0.9), None)])
def test_the_median_counts_splits_that_were_not_reached(make_cell, nlls, median):
    cells = [make_cell(index=index, nll=nll, seconds=1.0 + 2.0 * index) for index, nll in enumerate(nlls)]
    found = arena(*cells, *(make_cell(method="linear", index=index, nll=0.5) for index in range(len(nlls))))
    assert attainment(found, (A, B))[1].median == median


def test_only_splits_that_all_have_finished_count(make_cell):
    found = arena(make_cell(method="linear"), make_cell(), make_cell(index=1, nll=0.1))
    assert [each.splits for each in attainment(found, (A, B))] == [1, 1]
    assert attainment(arena(make_cell(method="linear"), make_cell(index=1)), (A, B)) == []


def test_numbers_that_are_not_finite_are_no_best(make_cell):
    found = arena(
        make_cell(method="linear", trace=[(1.0, None, 0.1), (2.0, 0.5, 0.1)]),
        make_cell(trace=[(1.0, None, 0.1)], nll=None),
    )
    np.testing.assert_array_equal(goal_times(found, (A, B))[0], [[2.0], [np.inf]])
    nothing = arena(*(make_cell(method=method, trace=[(1.0, None, 0.1)], nll=None) for method in ("linear", "x-gpc")))
    assert attainment(nothing, (A, B)) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [({"cpu": "M4"}, "different processors (M4; Zen 4)"), ({"threads": 2}, "numbers of threads (1; 2)")],
)
def test_times_of_different_machines_do_not_compare(make_cell, change, words):
    assert timing_fault(arena(make_cell(), make_cell(method="linear")), (A, B)) == ""
    assert words in timing_fault(arena(make_cell(), make_cell(method="linear", **change)), (A, B))


def test_profiles_by_hand():
    """Two data sets, of one split and of two: the splits weigh 1/2, 1/4, 1/4."""
    one = np.array([[1.0], [4.0]])
    two = np.array([[2.0, np.inf], [1.0, 3.0]])
    first, second = profiles([one, two], ["x", "y"])
    assert first.ratio.tolist() == [1.0, 2.0]
    assert first.share.tolist() == [0.5, 0.75]
    assert second.ratio.tolist() == [1.0, 4.0]
    assert second.share.tolist() == [0.5, 1.0]


def test_profiles_of_nothing():
    assert profiles([np.empty((2, 0))], ["x", "y"]) == []
