"""The engine around a gradient search: best state kept, begin before each search, honest words at the end."""

import numpy as np
import pytest

from gpbench.errors import NumericalError
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.optimize.maximise import Point, maximise
from gpbench.optimize.search import Outcome

SEARCH = LBFGSB(value_tolerance=0.0, gradient_tolerance=1e-8)


def hill(x):
    """A concave quartic with its top at (1, -2), whose state is the point itself."""
    away = x - np.array([1.0, -2.0])
    return Point(-float((away**2 + away**4).sum()), -2.0 * away - 4.0 * away**3, tuple(x))


class Evaluations:
    def __init__(self, limit):
        self.left, self.told = limit, []

    def __call__(self):
        return self.left

    def count(self, state, value):
        self.left -= 1
        self.told.append((state, value))


def test_it_finds_the_top_and_says_so():
    evaluations, begun = Evaluations(100), []
    found = maximise(
        hill, np.zeros(2), search=SEARCH, evaluations=evaluations, begin=begun.append, on_evaluation=evaluations.count
    )
    assert found.x == pytest.approx([1.0, -2.0], abs=1e-6)
    assert (found.stopped_by, found.state, len(begun)) == ("converged", tuple(found.x), 1)
    values = [value for _, value in evaluations.told]
    assert values == sorted(values)  # of the best point so far, never of a worse one


def test_a_bound_that_holds_the_top_back_is_convergence():
    low, high = np.array([-5.0, -1.5]), np.array([0.5, 5.0])
    found = maximise(hill, np.zeros(2), search=SEARCH, evaluations=lambda: 100, bounds=(low, high))
    assert found.x == pytest.approx([0.5, -1.5])
    assert found.stopped_by == "converged"


def test_used_up_evaluations_give_the_best_point_and_no_convergence():
    evaluations = Evaluations(3)
    found = maximise(hill, np.full(2, 4.0), search=SEARCH, evaluations=evaluations, on_evaluation=evaluations.count)
    assert found.stopped_by == "iterations"
    assert (found.state, found.value) == evaluations.told[-1]


class FailingAt:
    """A search whose line search fails after one evaluation a run, each at the next of some points."""

    value_tolerance, gradient_tolerance = 1e-6, 1e-8

    def __init__(self, *points):
        self.points = iter(points)
        self.begun = []

    def maximise(self, objective, x, *, max_evaluations, bounds, on_evaluation):  # noqa: ARG002
        self.begun.append(np.array(x))
        value, _ = objective(np.array(next(self.points)))
        on_evaluation(value, improved=True)
        return Outcome(x, value, 1, 0, "line search")


def test_after_a_failed_line_search_it_begins_again_from_the_best_while_that_gains():
    search = FailingAt([0.0, 0.0], [0.5, -1.0], [0.0, 3.0])
    found = maximise(hill, np.full(2, 9.0), search=search, evaluations=lambda: 100)
    assert [each.tolist() for each in search.begun] == [[9.0, 9.0], [0.0, 0.0], [0.5, -1.0]]
    assert (found.stopped_by, found.x.tolist()) == ("failed-to-improve", [0.5, -1.0])


def test_a_failed_line_search_at_the_top_is_convergence():
    found = maximise(hill, np.zeros(2), search=FailingAt([1.0, -2.0]), evaluations=lambda: 100)
    assert found.stopped_by == "converged"


def test_no_value_at_the_start_is_an_error():
    def nothing(x):
        raise NumericalError("no value")

    with pytest.raises(NumericalError, match="no value"):
        maximise(nothing, np.zeros(2), search=SEARCH, evaluations=lambda: 9)
