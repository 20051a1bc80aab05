"""Mean field without an inner optimum: gradients by differences, the nested scheme's optimum, and what is printed."""

import numpy as np
import pytest

from gpbench.model.basis import Basis
from gpbench.model.inducing import InducingRule
from gpbench.model.kernels import make_kernel
from gpbench.schemes.nested.mfsp import MFSp, mean_field_rows, newton
from gpbench.schemes.nested.mfsp_joint import JointPoint, MFSpJoint


@pytest.fixture
def problem():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 2))
    y = (X[:, 0] + 0.5 * rng.normal(size=30) > 0).astype(np.int64)
    kernel = make_kernel("se-ard", 2, lengthscale=1.3, variance=2.0, noise=0.1)
    return kernel, X[:5] + 0.1, X, y, 0.7 * rng.normal(size=30)


def point(kernel, Z, X, y, a, *, printed):
    return JointPoint(mean_field_rows(Basis(kernel, Z, jitter=1e-8), X, y, size=7), a, printed=printed)


@pytest.mark.parametrize("printed", [False, True])
def test_gradients_by_differences(problem, printed):
    kernel, Z, X, y, a = problem
    found = point(kernel, Z, X, y, a, printed=printed).gradient()

    def difference(change):
        h = 1e-5
        return (change(h).value - change(-h).value) / (2.0 * h)

    for k in range(len(kernel.theta)):
        step = np.eye(len(kernel.theta))[k]
        slope = difference(
            lambda h, s=step: point(kernel.with_theta(kernel.theta + h * s), Z, X, y, a, printed=printed)
        )
        assert found["theta"][k] == pytest.approx(slope, rel=1e-5, abs=1e-5)
    for i, j in ((0, 0), (2, 1), (4, 0)):
        step = np.zeros_like(Z)
        step[i, j] = 1.0
        slope = difference(lambda h, s=step: point(kernel, Z + h * s, X, y, a, printed=printed))
        assert found["Z"][i, j] == pytest.approx(slope, rel=1e-5, abs=1e-5)
    for n in (0, 7, 29):
        step = np.eye(len(a))[n]
        slope = difference(lambda h, s=step: point(kernel, Z, X, y, a + h * s, printed=printed))
        assert found["a"][n] == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_at_any_a_the_reciprocal_s_bound_is_the_nested_one_s(problem):
    kernel, Z, X, y, a = problem
    here = point(kernel, Z, X, y, a, printed=False)
    value, gradient = here.rows.at(a)
    assert here.value == pytest.approx(value, abs=1e-10)
    np.testing.assert_allclose(here.gradient()["a"], gradient, atol=1e-10)


def test_at_the_inner_optimum_all_gradients_are_the_nested_one_s(problem):
    kernel, Z, X, y, _ = problem
    rows = mean_field_rows(Basis(kernel, Z, jitter=1e-8), X, y)
    solved = newton(rows, tolerance=1e-10, limit=200)
    here = JointPoint(rows, rows.signs * solved.z / np.sqrt(rows.pi), printed=False)
    assert here.value == pytest.approx(solved.value, abs=1e-9)
    np.testing.assert_allclose(here.gradient()["a"], 0.0, atol=1e-6)
    np.testing.assert_allclose(here.m_w, solved.m_w, atol=1e-7)


def test_one_search_ends_where_the_nested_one_does_and_the_printed_variance_ends_below(fit, boundary):
    X, y = boundary()
    rule = InducingRule("kmeans", count=6, seed=1)
    common = {"learn_inducing": False, "max_iterations": 3000, "value_tolerance": 1e-11, "kernel": "se"}
    nested = fit(MFSp(**common), X, y, inducing=rule)
    joint = fit(MFSpJoint(**common), X, y, inducing=rule)
    printed = fit(MFSpJoint(factor_variance="printed", **common), X, y, inducing=rule)
    assert joint.bound == pytest.approx(nested.bound, abs=0.05)
    assert printed.bound < joint.bound
    ours, theirs = (-each.posterior.score(X, y).log_density.mean() for each in (joint, nested))
    assert ours == pytest.approx(theirs, abs=5e-3)
