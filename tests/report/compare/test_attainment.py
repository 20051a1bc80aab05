import numpy as np
import pytest

from gpbench.report.compare.attainment import arrival, attainment, end_of, goal_times, profiles, timing_fault
from gpbench.report.compare.pairs import Contender, arenas_of
from gpbench.report.traces import Trace

A, B = Contender("linear", "linear"), Contender("x-gpc", "x-gpc")


def arena(*cells):
    (found,), _ = arenas_of(cells)
    return found


def looks(*nlls):
    return Trace(np.arange(1.0, len(nlls) + 1), np.array(nlls))


@pytest.mark.parametrize(
    ("nlls", "end"),
    [
        ((0.5,), 0.5),
        ((0.6, 0.5), 0.55),
        ((0.9, 0.4, 0.5, 0.6), 0.5),
        ((0.9, 0.6, 0.1, 0.6), 0.6),  # one dip
        ((0.9, 0.5, np.nan, 0.6, 0.55), 0.55),
        ((np.nan,), np.inf),
    ],
)
def test_the_end_is_the_median_of_the_last_three_looks(nlls, end):
    assert end_of(np.array(nlls)) == pytest.approx(end)


@pytest.mark.parametrize(
    ("nlls", "seconds"),
    [
        ((0.9, 0.7, 0.5, 0.4, 0.4), 3.0),  # where a falling curve crosses
        ((0.5, 0.5, 0.5), 1.0),
        ((0.9, 0.4, 0.9, 0.9, 0.5, 0.5), 5.0),  # one dip decides nothing
        ((0.9, 0.4, 0.9, 0.5, 0.9), np.inf),  # nor do two
        ((0.9, 0.4, 0.5, 0.9, 0.9), 2.0),  # two looks together do
        ((0.9, 0.9, 0.9, 0.4), np.inf),  # a dip at the end
        ((0.9, 0.9, 0.4, 0.4), 3.0),
        ((0.5,), 1.0),
        ((0.9, 0.5), np.inf),
        ((0.9, 0.8, 0.7), np.inf),
        ((0.5, np.nan, np.nan, 0.5, 0.5), 4.0),
    ],
)
def test_a_curve_arrives_where_the_median_of_three_looks_does(nlls, seconds):
    assert arrival(looks(*nlls), 0.5) == seconds


def test_the_goal_is_the_lowest_end_of_any(make_cell):
    found = arena(
        make_cell(method="linear", trace=[(1.0, 0.51, 0.1)]),
        make_cell(trace=[(0.5, 0.6, 0.1), (2.0, 0.5, 0.1), (3.0, 0.5, 0.1), (4.0, 0.2, 0.1), (5.0, 0.5, 0.1)]),
    )
    times, goals = goal_times(found, (A, B))
    assert goals == pytest.approx([0.51])  # of 0.5: the dip to 0.2 is none
    np.testing.assert_array_equal(times, [[1.0], [2.0]])


def test_a_method_that_does_not_arrive_is_censored_and_dropped_from_nothing(make_cell):
    found = arena(make_cell(method="linear", nll=0.6, seconds=7.0), make_cell(nll=0.5))
    slow, fast = attainment(found, (A, B))
    assert (slow.reached, slow.splits, slow.median, slow.at_least) == (0, 1, None, 7.0)
    assert (fast.reached, fast.median, fast.at_least, fast.goal) == (1, 1.0, 1.0, pytest.approx(0.51))


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
        make_cell(method="linear", trace=[(1.0, None, 0.1), (2.0, 0.5, 0.1), (3.0, 0.5, 0.1)]),
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
