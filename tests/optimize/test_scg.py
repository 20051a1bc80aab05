import numpy as np
import pytest

from gpbench.errors import NumericalError
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.optimize.scg import SCG


def rosenbrock(x):
    a, b = x
    return -((1 - a) ** 2) - 100 * (b - a**2) ** 2, np.array([2 * (1 - a) + 400 * a * (b - a**2), -200 * (b - a**2)])


START = np.array([-1.2, 1.0])


def test_finds_a_maximum_along_a_curved_ridge():
    search = SCG(value_tolerance=0.0, gradient_tolerance=1e-7)
    found = search.maximise(rosenbrock, START, max_evaluations=2000)
    assert found.x == pytest.approx([1.0, 1.0], abs=1e-6)
    assert found.reason == "converged"
    assert found.evaluations < 300


def test_a_quadratic_takes_no_more_directions_than_it_has_dimensions():
    rng = np.random.default_rng(0)
    k = 12
    A = rng.normal(size=(k, k))
    A = A @ A.T / k + np.eye(k)
    b = rng.normal(size=k)
    search = SCG(value_tolerance=0.0, gradient_tolerance=1e-6, max_iterations=k + 4)  # the first ones shrink λ
    found = search.maximise(lambda x: (b @ x - 0.5 * x @ A @ x, b - A @ x), np.zeros(k), max_evaluations=1000)
    assert found.reason == "converged"
    assert found.x == pytest.approx(np.linalg.solve(A, b), abs=1e-5)


def test_it_leaves_a_region_where_the_objective_is_convex():
    def objective(x):  # cos x, started near a minimum of it
        return float(np.cos(x).sum()), -np.sin(x)

    found = SCG().maximise(objective, np.array([3.0, 3.3]), max_evaluations=200)
    assert np.cos(found.x) == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_the_budget_is_exact_and_the_best_point_is_kept(limit):
    seen = []

    def tell(value, *, improved):
        seen.append((value, improved))

    found = SCG().maximise(rosenbrock, START, max_evaluations=limit, on_evaluation=tell)
    assert found.reason == "evaluations"
    assert found.evaluations == len(seen) == limit
    assert found.value == max(value for value, _ in seen) == rosenbrock(found.x)[0]
    records = np.maximum.accumulate([value for value, _ in seen])
    assert [improved for _, improved in seen] == [True, *(records[1:] > records[:-1])]


def test_a_limit_of_directions():
    found = SCG(max_iterations=2).maximise(rosenbrock, START, max_evaluations=500)
    assert found.reason == "iterations"
    assert found.evaluations <= 5


def test_what_the_callback_raises_is_passed_on():
    class Stop(Exception):
        pass

    def tell(value, *, improved):
        raise Stop

    with pytest.raises(Stop):
        SCG().maximise(rosenbrock, START, max_evaluations=10, on_evaluation=tell)


@pytest.mark.parametrize("how", ["raises", "nan", "infinite gradient"])
def test_steps_shrink_where_there_is_no_value(how):
    def objective(x):  # nearly straight far from its maximum at 1, so that steps overshoot; no value beyond 1.5
        if x[0] > 1.5:
            if how == "raises":
                raise NumericalError("no")
            return (np.nan, x) if how == "nan" else (1.0, np.array([np.inf]))
        root = np.sqrt(1.0 + (x - 1.0) ** 2)
        return -float(root[0]), (1.0 - x) / root

    starts = [np.array([-start]) for start in (3.0, 10.0, 20.0, 50.0)]
    found = [SCG().maximise(objective, start, max_evaluations=200) for start in starts]
    assert sum(each.failures for each in found) > 0
    assert np.concatenate([each.x for each in found]) == pytest.approx(np.ones(4), abs=1e-4)


def test_the_first_failure_is_an_error():
    with pytest.raises(NumericalError, match="start"):
        SCG().maximise(lambda x: (np.nan, x), START, max_evaluations=10)


def far_away(seen):
    def objective(x):  # a maximum at (3, 3)
        seen.append(x.copy())
        return -float((x - 3.0) @ (x - 3.0)), -2.0 * (x - 3.0)

    return objective


@pytest.mark.parametrize("start", [[-4.0, 0.0], [0.9, -1.0], [1.0, 1.0], [2.0, -7.0]])
def test_the_maximum_within_bounds_is_found_and_they_are_never_crossed(start):
    seen, box = [], (np.full(2, -1.0), np.full(2, 1.0))
    found = SCG().maximise(far_away(seen), np.array(start), max_evaluations=100, bounds=box)
    assert (np.abs(seen) <= 1.0 + 1e-4).all()  # curvature is probed a hair's breadth beyond
    assert found.x == pytest.approx([1.0, 1.0], abs=1e-4)
    assert found.reason == "converged"


def test_what_a_bound_leaves_free_is_searched_on():
    A = np.array([[2.0, 0.9, 0.0], [0.9, 1.0, 0.4], [0.0, 0.4, 1.0]])
    b = np.array([4.0, 1.0, -1.0])
    box = (np.full(3, -0.8), np.full(3, 1.0))
    searches = [kind(gradient_tolerance=1e-8, value_tolerance=0.0) for kind in (SCG, LBFGSB)]
    found = [
        search.maximise(lambda x: (b @ x - 0.5 * x @ A @ x, b - A @ x), np.zeros(3), max_evaluations=500, bounds=box)
        for search in searches
    ]
    assert found[1].x[0] == 1.0
    assert found[0].x == pytest.approx(found[1].x, abs=1e-6)


@pytest.mark.parametrize("start", [[0.0, 0.0], [-5.0, 1.0], [0.9, -4.0]])
def test_where_shrunken_steps_end_the_search_it_does_not_say_converged(start):
    def objective(x):  # no value beyond 1, where it still rises; along that edge it rises to 3
        if x[0] > 1.0:
            raise NumericalError("no")
        return -float((x[0] - 1.2) ** 2 + 0.01 * (x[1] - 3.0) ** 2), np.array([-2 * (x[0] - 1.2), -0.02 * (x[1] - 3.0)])

    found = SCG().maximise(objective, np.array(start), max_evaluations=2000)
    assert np.abs(objective(found.x)[1]).max() > 0.3
    assert found.reason == "line search"


def test_behind_an_inner_loop_the_curvature_is_that_of_the_best_inner_unknown():
    inner = 0.0

    def objective(x, *, tolerance=1e-4):  # of -2(x - q)² - 0.025q² at its best q, which stays where it is near enough
        nonlocal inner
        best = 4.0 * x[0] / 4.05
        inner = inner if abs(best - inner) <= tolerance else best
        return -2.0 * (x[0] - inner) ** 2 - 0.025 * inner**2, -4.0 * (x - inner)

    search = SCG(gradient_error=4e-4, gradient_tolerance=1e-3, value_tolerance=0.0)
    found = search.maximise(objective, np.array([10.0]), max_evaluations=500)
    assert found.reason == "converged"
    assert found.evaluations < 60  # at q held the curvature is 80 times as large, and steps are that much shorter


def test_rounding_ends_the_search():
    def objective(x):  # a maximum on a pedestal that hides its last digits
        return 1e8 - float(x @ x), -2.0 * x

    search = SCG(value_tolerance=0.0, gradient_tolerance=0.0)
    found = search.maximise(objective, np.array([3.0, -2.0]), max_evaluations=300)
    assert found.reason in {"line search", "converged"}
    assert np.abs(found.x).max() < 1e-3


def test_both_searches_find_the_same_maximum():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 3)), rng.choice([-1.0, 1.0], 40)

    def objective(w):
        z = y * (X @ w)
        return -np.logaddexp(0, -z).sum() - 0.5 * w @ w, X.T @ (y / (1 + np.exp(z))) - w

    searches = [kind(gradient_tolerance=1e-8, value_tolerance=0.0) for kind in (SCG, LBFGSB)]
    found = [search.maximise(objective, np.zeros(3), max_evaluations=500) for search in searches]
    assert found[0].x == pytest.approx(found[1].x, abs=1e-7)
