import numpy as np
import pytest

from gpbench.errors import NumericalError
from gpbench.model.linalg import (
    add_to_diagonal,
    cholesky,
    inverse_lower,
    inverse_of,
    potrf,
    syrk,
    trmm,
    trmv,
    trsm,
    trsv,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def lower(rng, m):
    return np.asfortranarray(np.tril(rng.normal(size=(m, m))) + 3 * np.eye(m))


def test_cholesky_adds_the_first_jitter_and_says_so(rng):
    A = rng.normal(size=(5, 8))
    K = A @ A.T
    before = K.copy()
    L, jitter = cholesky(K, what="K")
    assert jitter == pytest.approx(1e-6 * np.trace(K) / 5)
    assert pytest.approx(K + jitter * np.eye(5), rel=1e-12) == L @ L.T
    assert L.flags.f_contiguous
    assert not np.triu(L, 1).any()
    assert np.array_equal(K, before)


def spectrum(rng, smallest):
    Q, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    eigenvalues = np.array([smallest, 1.0, 1.0, 1.0, 1.0, 1.0])
    return (Q * eigenvalues) @ Q.T


@pytest.mark.parametrize(("smallest", "steps"), [(1e-3, 0), (-3e-6, 1), (-3e-5, 2), (-3e-4, 3)])
def test_jitter_climbs_tenfold_until_it_suffices(rng, smallest, steps):
    K = spectrum(rng, smallest)
    _, jitter = cholesky(K, what="K")
    assert jitter == pytest.approx(1e-6 * 10**steps * np.trace(K) / 6)


def test_past_the_last_jitter_the_error_names_matrix_and_condition(rng):
    with pytest.raises(
        NumericalError, match=r"K_mm of test is not positive definite.*eigenvalues range from -0\.1 to 1"
    ):
        cholesky(spectrum(rng, -0.1), what="K_mm of test")


def test_a_given_jitter_is_the_only_one(rng):
    L, jitter = cholesky(np.eye(3), what="K", jitter=0.25)
    assert jitter == 0.25
    assert pytest.approx(np.sqrt(1.25) * np.eye(3)) == L
    with pytest.raises(NumericalError, match="not positive definite"):
        cholesky(spectrum(rng, -3e-5), what="K", jitter=1e-6)


@pytest.mark.parametrize("entry", [(2, 1), (3, 0), (1, 1), (3, 3)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_non_finite_entries_are_an_error(entry, value):
    K = np.eye(4)
    K[entry] = K[entry[::-1]] = value
    with pytest.raises(NumericalError, match="K"):
        cholesky(K, what="K")


def test_a_zero_matrix_is_an_error():
    with pytest.raises(NumericalError, match="diagonal"):
        cholesky(np.zeros((3, 3)), what="K")


def test_potrf(rng):
    A = rng.normal(size=(4, 9))
    K = np.asfortranarray(A @ A.T)
    L = potrf(K, what="precision")
    assert pytest.approx(K, rel=1e-12) == L @ L.T
    assert not np.triu(L, 1).any()
    with pytest.raises(NumericalError, match="precision is not positive definite"):
        potrf(-K, what="precision")
    with pytest.raises(NumericalError, match="precision"):
        potrf(np.full((3, 3), np.nan, order="F"), what="precision")
    with pytest.raises(NumericalError, match="pivot 1 of 4 is not positive"):
        potrf(np.asfortranarray(-K), what="precision", overwrite=True)
    with pytest.raises(NumericalError, match="NaN or infinite"):
        potrf(np.full((3, 3), np.nan, order="F"), what="precision", overwrite=True)
    overwritten = potrf(K, what="precision", overwrite=True)
    assert np.shares_memory(overwritten, K)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_triangular_products_and_solves(rng, order, overwrite):
    L = np.array(lower(rng, 5), order=order)
    B, C, x = (np.array(rng.normal(size=shape), order=order) for shape in [(5, 3), (3, 5), (5,)])
    for trans in (False, True):
        op = L.T if trans else L
        options = {"trans": trans, "overwrite": overwrite}
        assert op @ trsm(L, B.copy(order), **options) == pytest.approx(B, rel=1e-12)
        assert trsm(L, C.copy(order), side="right", **options) @ op == pytest.approx(C, rel=1e-12)
        assert trmm(L, B.copy(order), **options) == pytest.approx(op @ B, rel=1e-12)
        assert trmm(L, C.copy(order), side="right", **options) == pytest.approx(C @ op, rel=1e-12)
        assert op @ trsv(L, x.copy(), **options) == pytest.approx(x, rel=1e-12)
        assert trmv(L, x.copy(), **options) == pytest.approx(op @ x, rel=1e-12)


def test_without_overwrite_arguments_stay(rng):
    L, B, x = lower(rng, 4), np.asfortranarray(rng.normal(size=(4, 2))), rng.normal(size=4)
    before = [array.copy() for array in (L, B, x)]
    trsm(L, B), trmm(L, B), trsv(L, x), trmv(L, x), inverse_lower(L), potrf(np.asfortranarray(L @ L.T), what="")
    assert all(np.array_equal(*pair) for pair in zip((L, B, x), before, strict=True))


def test_overwrite_works_in_place_on_fortran_arrays(rng):
    L, B = lower(rng, 4), np.asfortranarray(rng.normal(size=(4, 2)))
    assert np.shares_memory(trsm(L, B, overwrite=True), B)
    assert np.shares_memory(trmm(L, B, overwrite=True), B)


def test_syrk_fills_the_lower_triangle(rng):
    A = np.asfortranarray(rng.normal(size=(4, 6)))
    C = np.asfortranarray(np.eye(4))
    assert np.tril(syrk(A)) == pytest.approx(np.tril(A @ A.T), rel=1e-12)
    assert np.tril(syrk(A, trans=True)) == pytest.approx(np.tril(A.T @ A), rel=1e-12)
    total = syrk(A, alpha=2.0, beta=0.5, C=C)
    assert np.tril(total) == pytest.approx(np.tril(2 * A @ A.T + 0.5 * np.eye(4)), rel=1e-12)
    assert np.array_equal(C, np.eye(4))
    assert np.shares_memory(syrk(A, beta=1.0, C=C, overwrite=True), C)


def test_diagonal_is_added_in_place_in_both_orders(rng):
    for order in "CF":
        A = np.array(rng.normal(size=(4, 4)), order=order)
        before = A.copy()
        add_to_diagonal(A, 0.5)
        assert pytest.approx(before + 0.5 * np.eye(4)) == A


def test_inverse_of_a_triangular_factor(rng):
    L = lower(rng, 6)
    assert inverse_lower(L) @ L == pytest.approx(np.eye(6), abs=1e-12)
    L[3, 3] = 0.0
    with pytest.raises(NumericalError, match="pivot 4"):
        inverse_lower(L)


def test_the_inverse_of_a_product_from_its_factor():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((9, 9))
    A = A @ A.T + np.eye(9)
    L = np.asfortranarray(np.linalg.cholesky(A))
    assert inverse_of(L) == pytest.approx(np.tril(np.linalg.inv(A)), abs=1e-12)
    with pytest.raises(NumericalError, match="pivot"):
        inverse_of(np.zeros((2, 2), order="F"))
