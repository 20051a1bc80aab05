"""The dual: its gradient, its optima, what it is the dual of, where it begins and what it keeps."""

import numpy as np
import pytest

from gpbench.model.basis import Basis
from gpbench.model.gaussian import GaussianQ
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Logit, Poisson
from gpbench.schemes.general.bound import SparseRows, SubsetRows, bound_at
from gpbench.schemes.general.gvi_dual import Dual, DualAscent, GVIDual, SoDDual
from gpbench.schemes.general.gvi_fixed_point import FixedPoint, GVIFixedPoint
from gpbench.schemes.general.laplace import laplace_mode
from gpbench.schemes.general.settings import Observation

EXACT = {"gradient_tolerance": 1e-11, "value_tolerance": 0.0}


def solved(solver, rows, observation, start=None):
    start = GaussianQ.prior(rows.M) if start is None else start
    return solver.solve(rows, observation, start, warm=False, report=lambda _q, _bound: None)


def test_dual_of_counts(problem):
    rows, observation, inputs, expected = problem("sheth_dual_poisson")
    dual = Dual(rows, observation)
    at, gradient = dual.at(inputs["lambda0"])
    assert -at.value == pytest.approx(expected["D_at_lambda0"], abs=1e-9)
    assert gradient == pytest.approx(expected["grad_at_lambda0"], abs=1e-8)
    solver = DualAscent(GVIDual(**EXACT))
    solution = solved(solver, rows, observation)
    assert -solution.value == pytest.approx(expected["D_optimum"], abs=1e-9)
    assert solution.bound == pytest.approx(expected["primal_vlb_optimum"], abs=1e-9)  # strong duality
    assert solver.multipliers == pytest.approx(expected["lambda_optimum"], abs=1e-5)
    L = rows.basis.L
    assert L @ solution.q.mean + observation.mean == pytest.approx(expected["m"], abs=1e-5)
    assert L @ solution.q.covariance @ L.T == pytest.approx(expected["V"], abs=1e-6)


def test_dual_of_two_classes_is_that_of_a_surrogate(problem):
    rows, observation, inputs, expected = problem("sheth_dual_logit")
    lam = inputs["lambda0"]
    at, gradient = Dual(rows, observation).at(lam)
    assert -at.value == pytest.approx(expected["D_at_lambda0"], abs=1e-9)
    assert gradient == pytest.approx(expected["grad_at_lambda0"], abs=1e-8)
    solver = DualAscent(GVIDual(**EXACT))
    solution = solved(solver, rows, observation)
    assert solution.value == pytest.approx(expected["surrogate_primal_at_solution"], abs=1e-9)
    assert solution.bound == pytest.approx(expected["true_vlb_at_solution"], abs=1e-8)
    assert solution.bound < expected["true_vlb_optimum"] - 0.05
    assert solver.multipliers == pytest.approx(expected["lambda_optimum"], abs=1e-5)
    best = solved(FixedPoint(GVIFixedPoint(**EXACT)), rows, observation)
    assert best.bound == pytest.approx(expected["true_vlb_optimum"], abs=1e-8)


@pytest.mark.parametrize("task", ["count", "binary"])
@pytest.mark.parametrize("subset", [False, True], ids=["all", "subset"])
def test_dual_gradient_is_the_finite_difference(data, task, subset):
    X, y = data(task, 12)
    basis = Basis(make_kernel("se", 2, variance=1.0, lengthscale=1.0, noise=0.1), X[:5].copy())
    rows = SubsetRows(basis, y[:5]) if subset else SparseRows(basis, y, X=X)
    likelihood = Poisson() if task == "count" else Logit()
    dual = Dual(rows, Observation(likelihood, 0.4 if task == "count" else 0.0, has_mean=task == "count"))
    lam = np.random.default_rng(2).uniform(0.1, 0.9, len(rows.y))
    _, gradient = dual.at(lam)
    for i in range(len(lam)):
        step = 1e-6 * np.eye(len(lam))[i]
        up, down = -dual.at(lam + step)[0].value, -dual.at(lam - step)[0].value
        assert gradient[i] == pytest.approx((up - down) / 2e-6, rel=1e-6, abs=1e-7)


def test_subset_dual_begins_at_the_mode_of_laplace(data):
    X, y = data("count", 12)
    basis = Basis(make_kernel("se", 2, variance=1.0, lengthscale=1.0, noise=0.1), X)
    observation = Observation(Poisson(), 0.8, has_mean=True)
    mode = laplace_mode(basis, observation, y)
    solver = SoDDual(dual_evaluations=1).solver()
    solved(solver, SubsetRows(basis, y), observation, mode.q(basis))
    assert solver.multipliers == pytest.approx(np.exp(mode.f + 0.8), rel=1e-6)


@pytest.mark.parametrize("task", ["count", "binary"])
def test_the_dual_keeps_the_best_primal_that_it_has_seen(data, task):
    """The bound falls where D rises, from some evaluations to the next; what is kept does not."""
    X, y = data(task, 60, seed=3, log_rate=3.0)
    basis = Basis(make_kernel("se", 2, variance=20.0, lengthscale=1.0, noise=0.05), X[:8].copy())
    mean = float(np.log(y.mean())) if task == "count" else 0.0
    likelihood = Poisson() if task == "count" else Logit()
    rows, observation = SparseRows(basis, y, X=X), Observation(likelihood, mean, has_mean=task == "count")
    dual, start = Dual(rows, observation), GaussianQ.prior(8)
    least, kept, last = bound_at(rows, observation, start).value, [], []
    for limit in range(1, 41):
        solver, reported = DualAscent(GVIDual(dual_evaluations=limit)), []
        found = solver.solve(
            rows, observation, start, warm=False, report=lambda _, bound, told=reported: told.append(bound)
        )
        kept.append(found.value)
        last.append(dual.primal(dual.at(solver.multipliers)[0]))
        assert len(reported) == limit
        assert found.bound == pytest.approx(bound_at(rows, observation, found.q).value, rel=1e-9)
        expected = [value if value >= least else None for value in kept]
        assert reported == (pytest.approx(expected) if task == "count" else [None] * limit)
    assert (np.diff(kept) >= 0).all()
    assert (np.array(kept) >= last).all()
    assert (np.array(kept) > last).any()
