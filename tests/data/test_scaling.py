import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpbench.data.scaling import ScaledRows, Scaling, scaling_of, standardise
from gpbench.errors import DataError, UsageError

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr("gpbench.data.scaling._BLOCK_BYTES", 8 * 3 * 16)
    monkeypatch.setattr("gpbench.data.scaling._TILE", 16)


def test_training_rows_get_mean_zero_and_unit_deviation():
    X = RNG.normal(3, 5, (500, 3))
    rows = np.sort(RNG.choice(500, 300, replace=False))
    scaled = ScaledRows(X, rows, standardise(X, rows)).array()
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(scaled.std(axis=0), 1, rtol=1e-13)


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e12, -3e14])
def test_a_huge_offset_costs_no_accuracy(offset):
    values = offset + RNG.integers(-8, 8, 1000).astype(np.float64)  # exact in float64
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    variance = sum((value - mean) ** 2 for value in exact) / len(exact)
    scaling = standardise(values[:, None], np.arange(1000))
    np.testing.assert_allclose(scaling.scale, float(variance) ** 0.5, rtol=1e-12)
    assert abs(Fraction(scaling.mean[0]) - mean) <= 16 * Fraction(np.spacing(abs(offset) + 1.0))


def test_constant_columns_are_recorded_and_left_out():
    X = np.column_stack([np.full(100, 0.1), np.arange(100.0), np.full(100, 1e15)])
    scaling = standardise(X, np.arange(100))
    assert scaling.constant.tolist() == [True, False, True]
    assert scaling.scale[[0, 2]].tolist() == [1, 1]
    assert scaling.apply(X).shape == (100, 1)
    assert scaling.width == 1


def test_a_column_that_varies_outside_the_training_rows_only_is_constant_there():
    X = np.array([[2.0], [2.0], [5.0]])
    scaling = standardise(X, np.array([0, 1]))
    assert scaling.constant.tolist() == [True]
    assert scaling.apply(X).shape == (3, 0)
    assert scaling_of("none", X, rows=np.array([0, 1])).constant.tolist() == [True]
    assert scaling_of("none", X, rows=np.array([0, 2])).constant.tolist() == [False]


def test_only_the_training_rows_count():
    X = RNG.normal(size=(50, 3))
    rows = np.arange(0, 50, 2)
    changed = X.copy()
    changed[1::2] = 1e9
    one, other = standardise(X, rows), standardise(changed, rows)
    assert np.array_equal(one.mean, other.mean)
    assert np.array_equal(one.scale, other.scale)


def test_float32_rows_are_summed_in_float64():
    X = np.full((100_000, 1), np.float32(16_777_216.0))
    X[::2] = 16_777_218.0
    scaling = standardise(X, np.arange(len(X)))
    assert scaling.mean[0] == 16_777_217.0
    assert scaling.scale[0] == 1.0


@pytest.mark.parametrize("power", [-470, -520, -560, -990])
@pytest.mark.parametrize("kind", ["standard", "common"])
def test_values_whose_squares_underflow_are_scaled_as_others_are(power, kind):
    """They were left out as constant, without a word, or scaled by the few digits that were left."""
    rng = np.random.default_rng(0)
    X, rows = rng.normal(size=(40, 3)), np.arange(0, 40, 2)
    X[3, 1] = X[4, 1] = np.nan
    fill = np.array([0.0, 0.5, 0.0])
    ordinary = scaling_of(kind, X, rows=rows, fill=fill)
    tiny = scaling_of(kind, np.ldexp(X, power), rows=rows, fill=np.ldexp(fill, power))
    assert tiny.width == 3
    assert tiny.apply(np.ldexp(X, power)) == pytest.approx(ordinary.apply(X), rel=1e-12)
    again = Scaling.from_json(json.loads(json.dumps(tiny.to_json())))
    assert np.array_equal(again.scale, tiny.scale)
    mixed = np.column_stack([X[:, 0], np.ldexp(X[:, 2], power)])
    assert scaling_of("standard", mixed, rows=rows).apply(mixed) == pytest.approx(
        scaling_of("standard", X[:, [0, 2]], rows=rows).apply(X[:, [0, 2]]), rel=1e-12
    )


def test_values_whose_squares_overflow_are_refused():
    with pytest.raises(DataError, match=r"column 1 holds values up to 1e\+200; too large to scale"):
        standardise(np.array([[0.0, -1e200], [1.0, 1e200]]), np.arange(2))
    with pytest.raises(DataError, match="at least one training row"):
        standardise(np.zeros((3, 1)), np.arange(0))


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_lazy_rows_equal_materialised_rows(draw):
    n = draw.draw(st.integers(1, 60))
    dtype = draw.draw(st.sampled_from([np.float32, np.float64]))
    X = np.random.default_rng(n).normal(2, 3, (80, 3)).astype(dtype)
    rows = np.random.default_rng(n).permutation(80)[:n]
    lazy = ScaledRows(X, rows, standardise(X, np.sort(rows)))
    whole = lazy.array()
    assert whole.shape == lazy.shape == (n, 3 if n > 1 else 0)
    assert len(lazy) == n
    assert lazy.dtype == whole.dtype == np.float64
    start, stop = sorted(draw.draw(st.tuples(st.integers(0, n), st.integers(0, n))))
    chosen = np.array(draw.draw(st.lists(st.integers(-n, n - 1), max_size=20)), dtype=np.int64)
    mask = np.random.default_rng(n + 1).random(n) < 0.5
    for index in (slice(start, stop), slice(None, None, 2), chosen, mask):
        found = lazy[index]
        assert np.array_equal(found, whole[index])
        assert found.flags.c_contiguous
    assert np.array_equal(lazy[n - 1], whole[n - 1])


def test_rows_do_not_change_the_data(tmp_path):
    np.save(tmp_path / "X.npy", RNG.normal(size=(20, 3)))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    rows = ScaledRows(X, np.arange(20), standardise(X, np.arange(20)))
    rows[3:5][:] = 0  # an array of its own
    assert not (rows[3:5] == 0).any()
    assert type(rows[:]) is np.ndarray


def test_the_identity_changes_nothing():
    X = RNG.normal(size=(40, 3))
    assert np.array_equal(Scaling.identity(3).apply(X), X)


def test_common_scaling_divides_all_columns_by_one_number():
    X = np.random.default_rng(0).standard_normal((50, 3)) * [1.0, 10.0, 0.0] + [5.0, 0.0, 2.0]
    rows = np.arange(40)
    own, common = standardise(X, rows), scaling_of("common", X, rows=rows)
    assert np.array_equal(common.mean, own.mean)
    assert np.array_equal(common.constant, [False, False, True])
    expected = np.sqrt((X[:40, :2].var(axis=0)).mean())
    np.testing.assert_allclose(common.scale[:2], expected, rtol=1e-12)
    scaled = common.apply(X[:40])
    assert np.mean(np.square(scaled)) == pytest.approx(1.0)
    constant = scaling_of("common", np.ones((4, 2)), rows=np.arange(4))
    assert constant.apply(np.ones((4, 2))).shape == (4, 0)


def test_missing_values_are_filled_before_anything_else():
    X = np.array([[1.0, np.nan], [np.nan, 5.0], [3.0, 7.0]])
    fill = np.array([2.0, 6.0])
    whole = np.where(np.isnan(X), fill, X)
    for kind in ("standard", "common", "none"):
        scaling = scaling_of(kind, X, rows=np.arange(3), fill=fill)
        assert np.array_equal(scaling.apply(X), scaling_of(kind, whole, rows=np.arange(3)).apply(whole))
        read = Scaling.from_json(json.loads(json.dumps(scaling.to_json())))
        assert np.array_equal(read.apply(X), scaling.apply(X))


def test_values_that_are_too_large_name_their_column():
    X = np.array([[1.0, -1e200], [2.0, 1e300]])
    with pytest.raises(DataError, match=r"column 'b' holds values up to 1e\+300; too large to scale"):
        scaling_of("standard", X, rows=np.arange(2), names=("a", "b"))


def test_unknown_scaling():
    with pytest.raises(UsageError, match="scaling must be one of standard, common, none; got 'minmax'"):
        scaling_of("minmax", np.ones((4, 2)), rows=np.arange(4))
