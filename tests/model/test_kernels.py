import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpbench.errors import NumericalError, UsageError
from gpbench.model.kernels import (
    SE,
    Linear,
    Matern12,
    Matern32,
    Quadratic,
    Sum,
    White,
    kernel_from_spec,
    make_kernel,
)
from gpbench.model.linalg import cholesky

NAMES = ["se", "se-ard", "matern32", "matern32-ard", "linear-ard", "se-ard+linear-ard", "matern32+se-ard+linear-ard"]
NAMES += ["matern12", "matern12-ard", "quadratic", "quadratic+matern12"]


def perturbed(name, d, rng, noise=0.1):
    kernel = make_kernel(name, d, variance=1.3, lengthscale=0.9, noise=noise)
    return kernel.with_theta(kernel.theta + 0.3 * rng.normal(size=kernel.theta.size))


def by_loops(kernel, A, B):
    """Kernel values entry by entry from the definitions, without white noise."""
    K = np.zeros((len(A), len(B)))
    for part in kernel.parts:
        for i, a in enumerate(A):
            for j, b in enumerate(B):
                if isinstance(part, SE):
                    K[i, j] += part.variance * np.exp(-0.5 * np.sum(((a - b) / part.lengthscales) ** 2))
                elif isinstance(part, Matern32):
                    r = np.sqrt(3.0 * np.sum(((a - b) / part.lengthscales) ** 2))
                    K[i, j] += part.variance * (1 + r) * np.exp(-r)
                elif isinstance(part, Matern12):
                    K[i, j] += part.variance * np.exp(-np.sqrt(np.sum(((a - b) / part.lengthscales) ** 2)))
                elif isinstance(part, Quadratic):
                    K[i, j] += part.variance * (1 + a @ b / part.lengthscale**2) ** 2
                elif isinstance(part, Linear):
                    K[i, j] += np.sum(part.variances * a * b)
    return K


@pytest.mark.parametrize("name", NAMES)
def test_values_are_the_definitions(name):
    rng = np.random.default_rng(1)
    kernel = perturbed(name, 3, rng)
    A, B = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    assert kernel.cross(A, B) == pytest.approx(by_loops(kernel, A, B), rel=1e-14, abs=3e-15)
    white = kernel.parts[-1].variance
    assert kernel.gram(A) == pytest.approx(by_loops(kernel, A, A) + white * np.eye(6), rel=1e-14, abs=3e-15)
    assert kernel.diag(A) == pytest.approx(np.diag(kernel.gram(A)), rel=1e-14)


def test_the_kink_of_matern12_has_no_gradient():
    kernel = make_kernel("matern12", 2, variance=1.5, lengthscale=0.8, noise=0.0)
    X = np.array([[0.3, -1.0], [4.0, 2.0]])
    features = kernel.bind(X[:1])
    assert features.cross(X)[0, 0] == 1.5
    _, dZ = features.pullback(np.array([[1.0], [0.0]]))
    assert dZ.tolist() == [[0.0, 0.0]]
    dtheta, dZ = features.gram_pullback(np.ones((1, 1)))
    assert dtheta.tolist() == [1.5, 0.0]
    assert dZ.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("offset", [0.0, 7.0])
def test_pullbacks_are_finite_differences(name, offset):
    rng = np.random.default_rng(2)
    kernel = perturbed(name, 3, rng)
    X, Z = offset + rng.normal(size=(7, 3)), offset + rng.normal(size=(4, 3))
    if "matern12" not in name:  # it has a kink there
        Z[1] = X[2]  # where the distance is zero and its root has no derivative
    G, g = rng.normal(size=(7, 4)), rng.normal(size=7)
    S = rng.normal(size=(4, 4))
    S = S + S.T

    def objective(theta, inputs):
        k = kernel.with_theta(theta)
        return np.array([np.sum(G * k.cross(X, inputs)), np.sum(S * k.gram(inputs)), g @ k.diag(X)])

    def differences(function, point):
        steps = 1e-6 * np.eye(point.size)
        return np.array([(function(point + h) - function(point - h)) / 2e-6 for h in steps]).T

    numeric_theta = differences(lambda theta: objective(theta, Z), kernel.theta)
    numeric_Z = differences(lambda flat: objective(kernel.theta, flat.reshape(Z.shape)), Z.ravel())
    # of the differences: values of the quadratic kernel are 1e4 at the offset
    rounding = max(1e-6, 1e-9 * np.abs(kernel.cross(X, Z)).sum() / X.size)
    features = kernel.bind(Z)
    features.cross(X)
    for order in "CF":
        dtheta, dZ = features.pullback(np.array(G, order=order))
        assert dtheta == pytest.approx(numeric_theta[0], rel=1e-7, abs=rounding)
        assert dZ.ravel() == pytest.approx(numeric_Z[0], rel=1e-7, abs=rounding)
    dtheta, dZ = kernel.gram_pullback(Z, S)
    assert dtheta == pytest.approx(numeric_theta[1], rel=1e-7, abs=rounding)
    assert dZ.ravel() == pytest.approx(numeric_Z[1], rel=1e-7, abs=rounding)
    assert kernel.diag_pullback(X, g) == pytest.approx(numeric_theta[2], rel=1e-7, abs=rounding)


def test_white_noise_is_in_the_diagonals_and_never_in_cross():
    kernel = make_kernel("se", 2, variance=1.0, lengthscale=1.0, noise=0.5)
    X = np.random.default_rng(3).normal(size=(5, 2))
    assert np.diag(kernel.cross(X, X)) == pytest.approx(np.ones(5), abs=1e-15)
    assert np.diag(kernel.gram(X)) == pytest.approx(np.full(5, 1.5), abs=1e-15)
    assert kernel.diag(X) == pytest.approx(np.full(5, 1.5), abs=1e-15)
    white = White.of(variance=0.5)
    assert not white.cross(X, X).any()
    assert white.gram(X) == pytest.approx(0.5 * np.eye(5), abs=1e-16)
    dtheta, dZ = white.bind(X).pullback(np.ones((5, 5)))
    assert not dtheta.any()
    assert not dZ.any()


def test_bound_features_give_the_kernel_again_for_any_number_of_rows():
    rng = np.random.default_rng(4)
    kernel = perturbed("se-ard+linear-ard", 4, rng)
    Z = rng.normal(size=(6, 4))
    features = kernel.bind(Z)
    for b in (3, 10, 3, 1):
        X = rng.normal(size=(b, 4))
        k = features.cross(X)
        assert k.flags.f_contiguous
        assert np.array_equal(k, kernel.cross(X, Z))
        assert np.array_equal(features.cross(np.asfortranarray(X)), k)


def test_gram_leaves_the_last_cross_alone():
    rng = np.random.default_rng(5)
    kernel = perturbed("matern32-ard", 2, rng)
    X, Z, G = rng.normal(size=(5, 2)), rng.normal(size=(3, 2)), rng.normal(size=(5, 3))
    features = kernel.bind(Z)
    features.cross(X)
    wanted = features.pullback(G)
    features.gram()
    features.gram_pullback(np.eye(3))
    for got, want in zip(features.pullback(G), wanted, strict=True):
        assert np.array_equal(got, want)


def test_isotropic_gradient_is_the_sum_of_the_ard_gradient():
    rng = np.random.default_rng(6)
    X, Z, G = rng.normal(size=(8, 3)), rng.normal(size=(5, 3)), rng.normal(size=(8, 5))
    for kind in (SE, Matern32):
        one, each = (
            kind.of(variance=2.0, lengthscales=0.7).bind(Z),
            kind.of(variance=2.0, lengthscales=[0.7] * 3).bind(Z),
        )
        assert np.array_equal(one.cross(X), each.cross(X))
        of_one, of_each = one.pullback(G)[0], each.pullback(G)[0]
        assert of_one == pytest.approx([of_each[0], of_each[1:].sum()], rel=1e-12)


def test_inputs_far_from_the_origin_keep_their_digits():
    rng = np.random.default_rng(7)
    A, B = rng.normal(size=(20, 3)), rng.normal(size=(10, 3))
    shift = np.array([2.0**20, -(2.0**18), 2.0**19])  # exact in binary, so that the shifted differences are exact too
    A, B = np.round(A * 2**20) / 2**20, np.round(B * 2**20) / 2**20
    for kind in (SE, Matern32):
        kernel = kind.of(variance=1.0, lengthscales=0.5)
        assert kernel.cross(A + shift, B + shift) == pytest.approx(kernel.cross(A, B), abs=1e-13)


@pytest.mark.parametrize("name", ["se-ard", "matern32-ard", "se-ard+linear-ard"])
@pytest.mark.parametrize("lengthscale", [1e-3, 1e3])
def test_extreme_length_scales_and_duplicates_survive(name, lengthscale):
    rng = np.random.default_rng(8)
    Z = rng.normal(size=(12, 3))
    Z[6:] = Z[:6]
    kernel = make_kernel(name, 3, variance=1e6, lengthscale=lengthscale, noise=1e-6)
    K = kernel.gram(Z)
    assert np.isfinite(K).all()
    assert (np.diag(kernel.cross(Z, Z)) <= kernel.diag(Z) * (1 + 1e-12)).all()
    L, jitter = cholesky(K, what="K")
    assert np.isfinite(L).all()
    assert jitter > 0
    features = kernel.bind(Z)
    features.cross(rng.normal(size=(9, 3)))
    for pullback in (features.pullback(np.ones((9, 12))), features.gram_pullback(np.ones((12, 12)))):
        assert all(np.isfinite(part).all() for part in pullback)


def test_names_follow_the_parts():
    kernel = make_kernel("matern32-ard+linear-ard", 2, variance=1.0, lengthscale=2.0, noise=0.1)
    assert kernel.names == (
        "part0.log_variance",
        "part0.log_lengthscales[0]",
        "part0.log_lengthscales[1]",
        "part1.log_variances[0]",
        "part1.log_variances[1]",
        "log_white",
    )
    values = kernel.values()
    assert values["part0.lengthscales[1]"] == pytest.approx(2.0)
    assert values["part1.variances[0]"] == pytest.approx(0.5)
    assert values["white"] == pytest.approx(0.1)
    assert len(kernel.names) == kernel.theta.size
    assert repr(kernel).startswith("Sum(part0.variance=1, part0.lengthscales[0]=2, ")


def test_kernels_are_immutable():
    theta = np.zeros(3)
    kernel = SE(theta)
    theta[0] = 5.0
    assert kernel.variance == 1.0
    with pytest.raises(ValueError, match="read-only"):
        kernel.theta[0] = 1.0
    changed = kernel.with_theta([1.0, 2.0, 3.0])
    assert kernel.theta.tolist() == [0.0, 0.0, 0.0]
    assert changed.theta.tolist() == [1.0, 2.0, 3.0]


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    d=st.integers(1, 5),
    noise=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_spec_round_trip_is_exact(name, d, noise, seed):
    kernel = perturbed(name, d, np.random.default_rng(seed), noise=noise)
    again = kernel_from_spec(json.loads(json.dumps(kernel.spec())))
    assert again.names == kernel.names
    assert np.array_equal(again.theta, kernel.theta)


@settings(max_examples=30, deadline=None)
@given(name=st.sampled_from(NAMES), seed=st.integers(0, 2**32 - 1), scale=st.floats(1e-2, 1e2))
def test_gram_is_symmetric_and_positive(name, seed, scale):
    rng = np.random.default_rng(seed)
    kernel = perturbed(name, 3, rng)
    K = kernel.gram(scale * rng.normal(size=(8, 3)))
    assert pytest.approx(K.T, rel=1e-12, abs=1e-12) == K
    assert np.linalg.eigvalsh(K)[0] > -1e-12 * np.trace(K)


def test_bad_inputs_are_refused():
    kernel = make_kernel("se-ard", 3, variance=1.0, lengthscale=1.0, noise=0.1)
    with pytest.raises(UsageError, match="3 input columns; got 2"):
        kernel.bind(np.zeros((4, 2)))
    with pytest.raises(UsageError, match=r"shape \(m, d\)"):
        kernel.bind(np.zeros(4))
    with pytest.raises(UsageError, match="3 columns, as Z has; got 2"):
        kernel.bind(np.zeros((4, 3))).cross(np.zeros((5, 2)))
    with pytest.raises(UsageError, match="3 columns, as Z has; got 2"):
        Linear.of(variances=[1.0] * 3).bind(np.zeros((4, 3))).cross(np.zeros((5, 2)))
    with pytest.raises(UsageError, match="there was none"):
        kernel.bind(np.zeros((4, 3))).pullback(np.zeros((5, 4)))
    with pytest.raises(UsageError, match="hyper-parameters"):
        kernel.with_theta(np.zeros(3))
    with pytest.raises(UsageError, match="hyper-parameters"):
        SE([0.0, 0.0]).with_theta(np.zeros(3))
    with pytest.raises(UsageError, match="length scale"):
        SE([0.0])
    with pytest.raises(NumericalError, match="log hyper-parameters"):
        kernel.with_theta(np.full(5, np.nan))
    with pytest.raises(NumericalError, match="log hyper-parameters"):
        kernel.with_theta(np.full(5, 101.0))
    with pytest.raises(UsageError, match="variance must be positive"):
        SE.of(variance=-1.0, lengthscales=1.0)
    with pytest.raises(UsageError, match="a sum needs"):
        Sum((White.of(variance=1.0),))


def test_unknown_names_are_answered_with_near_ones():
    with pytest.raises(UsageError, match="did you mean matern32-ard"):
        make_kernel("matern32-adr", 2, variance=1.0, lengthscale=1.0, noise=0.0)
    with pytest.raises(
        UsageError, match="unknown kernel 'RBF'; here it is called se, or se-ard with a length scale for"
    ):
        make_kernel("matern32+RBF", 2, variance=1.0, lengthscale=1.0, noise=0.0)
    with pytest.raises(UsageError, match=r"unknown kernel 'linear'; here it is called linear-ard$"):
        make_kernel("linear", 2, variance=1.0, lengthscale=1.0, noise=0.0)
    with pytest.raises(UsageError, match="noise must be"):
        make_kernel("se", 2, variance=1.0, lengthscale=1.0, noise=-1.0)
    with pytest.raises(UsageError, match="kind of kernel"):
        kernel_from_spec({"kind": "periodic"})
    with pytest.raises(UsageError, match="list its parts"):
        kernel_from_spec({"kind": "sum"})
