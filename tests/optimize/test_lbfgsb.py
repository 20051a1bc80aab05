import numpy as np
import pytest

from gpbench.errors import NumericalError
from gpbench.optimize.lbfgsb import LBFGSB


def rosenbrock(x):
    a, b = x
    return -((1 - a) ** 2) - 100 * (b - a**2) ** 2, np.array([2 * (1 - a) + 400 * a * (b - a**2), -200 * (b - a**2)])


START = np.array([-1.2, 1.0])


def test_finds_a_maximum():
    found = LBFGSB(value_tolerance=0.0, gradient_tolerance=1e-8).maximise(rosenbrock, START, max_evaluations=500)
    assert found.x == pytest.approx([1.0, 1.0], abs=1e-6)
    assert found.reason == "converged"
    assert found.failures == 0


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_the_budget_is_exact_and_the_best_point_is_kept(limit):
    seen = []

    def tell(value, *, improved):
        seen.append((value, improved))

    found = LBFGSB().maximise(rosenbrock, START, max_evaluations=limit, on_evaluation=tell)
    assert found.reason == "evaluations"
    assert found.evaluations == len(seen) == limit
    assert found.value == max(value for value, _ in seen) == rosenbrock(found.x)[0]
    records = np.maximum.accumulate([value for value, _ in seen])
    assert [improved for _, improved in seen] == [True, *(records[1:] > records[:-1])]


def test_a_limit_of_line_searches():
    found = LBFGSB(max_iterations=2).maximise(rosenbrock, START, max_evaluations=500)
    assert found.reason == "iterations"
    assert found.evaluations < 20


def test_what_the_callback_raises_is_passed_on():
    class Stop(Exception):
        pass

    def tell(value, *, improved):
        raise Stop

    with pytest.raises(Stop):
        LBFGSB().maximise(rosenbrock, START, max_evaluations=10, on_evaluation=tell)


@pytest.mark.parametrize("how", ["raises", "nan", "infinite gradient"])
def test_the_line_search_steps_back_from_where_there_is_no_value(how):
    def objective(x):  # log x - x, without a value beyond 1.5
        if x[0] > 1.5:
            if how == "raises":
                raise NumericalError("no")
            return (np.nan, np.zeros(1)) if how == "nan" else (0.0, np.array([np.inf]))
        return float(np.log(x[0]) - x[0]), 1 / x - 1

    found = LBFGSB(gradient_tolerance=1e-9).maximise(objective, np.array([0.6]), max_evaluations=100)
    assert found.failures > 0
    assert found.x == pytest.approx([1.0], abs=1e-4)


def test_no_value_at_the_start_is_an_error():
    with pytest.raises(NumericalError, match="start"):
        LBFGSB().maximise(lambda x: (np.nan, x), START, max_evaluations=10)


def test_the_start_is_moved_into_the_bounds():
    bounds = (np.array([0.5, -1.0]), np.array([2.0, 2.0]))
    points = []

    def objective(x):
        points.append(x.copy())
        return rosenbrock(x)

    LBFGSB().maximise(objective, START, max_evaluations=20, bounds=bounds)
    assert (np.array(points) >= bounds[0]).all()
    assert (np.array(points) <= bounds[1]).all()


def test_an_infinite_value_is_stepped_back_from_without_a_warning():
    # log x - x²: the gradient at 1 is -1, so that the first step, which has length 1, leads to 0
    found = LBFGSB(gradient_tolerance=1e-9).maximise(
        lambda x: (float(np.log(np.abs(x[0])) - x[0] ** 2), 1.0 / x - 2.0 * x), np.ones(1), max_evaluations=100
    )
    assert found.failures == 1
    assert abs(found.x[0]) == pytest.approx(np.sqrt(0.5), abs=1e-4)


@pytest.mark.parametrize(
    "bounds", [None, (np.full(2, -10.0), np.full(2, 10.0)), (np.full(2, -10.0), np.full(2, np.inf))]
)
def test_the_first_step_has_length_one_whatever_the_bounds(bounds):
    seen = []

    def steep(x):  # a gradient of length 500 at the start
        seen.append(np.array(x))
        return -250.0 * float(np.square(x - [0.6, 0.8]).sum()), -500.0 * (x - [0.6, 0.8])

    found = LBFGSB().maximise(steep, np.zeros(2), max_evaluations=20, bounds=bounds)
    assert np.linalg.norm(seen[1]) == pytest.approx(1.0, rel=1e-9)
    assert found.x == pytest.approx([0.6, 0.8], abs=1e-6)
    assert found.x.shape == (2,)
