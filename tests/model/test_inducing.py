import warnings

import numpy as np
import pytest

from gpbench.errors import DataError, UsageError
from gpbench.model.inducing import InducingRule


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(300, 3))


class Lazy:
    """Rows that can be indexed by slices and integer arrays alone, and remember how many were read at most."""

    def __init__(self, X):
        self.X = X
        self.shape = X.shape
        self.most = 0

    def __len__(self):
        return len(self.X)

    def __getitem__(self, rows):
        assert isinstance(rows, slice) or rows.dtype.kind == "i"
        if not isinstance(rows, slice):
            assert (np.diff(rows) > 0).all()  # ascending, for memory-mapped files
        block = self.X[rows]
        self.most = max(self.most, len(block))
        return block


@pytest.mark.parametrize(
    ("count", "n", "number"), [("100", 250, 100), (40, 250, 40), ("3%", 1000, 30), ("0.1%", 100, 1), ("all", 7, 7)]
)
def test_number(count, n, number):
    assert InducingRule("kmeans", count).number(n) == number


@pytest.mark.parametrize("count", ["", "x", "0", "-3", "1.5", "0%", "101%", "nan%", "inf"])
def test_counts_that_are_none(count):
    with pytest.raises(UsageError, match="like 100, 3% or all"):
        InducingRule("kmeans", count)


def test_fewer_rows_than_inducing_points(X):
    with pytest.raises(UsageError, match="fewer rows than inducing points: 300 rows, 301 inducing points"):
        InducingRule("kmeans", 301).choose(X)


def test_unknown_rule_and_none(X):
    with pytest.raises(UsageError, match="mixed, kmeans, random, all, given, none; got 'grid'"):
        InducingRule("grid")
    with pytest.raises(UsageError, match="takes no inducing inputs"):
        InducingRule("none").choose(X)
    with pytest.raises(UsageError, match="at least one row"):
        InducingRule("kmeans", rows=0)


@pytest.mark.parametrize("rule", ["mixed", "kmeans", "random"])
def test_same_seed_same_inputs_and_another_seed_others(X, rule):
    first = InducingRule(rule, 20, seed=5).choose(X)
    assert first.shape == (20, 3)
    assert np.array_equal(first, InducingRule(rule, 20, seed=5).choose(X))
    assert not np.array_equal(first, InducingRule(rule, 20, seed=6).choose(X))


def test_given_inputs_are_handed_on(X):
    Z = X[[3, 3, 7]]
    rule = InducingRule("given", "all", Z=Z)
    assert rule.number(1) == 3
    found = rule.choose(X[:1])
    np.testing.assert_array_equal(found, Z)
    assert not np.shares_memory(found, Z)


def test_given_inputs_must_be_there_and_fit(X):
    with pytest.raises(UsageError, match="got rule given without Z"):
        InducingRule("given")
    with pytest.raises(UsageError, match="got rule random with Z"):
        InducingRule("random", Z=X)
    with pytest.raises(UsageError, match=r"expected inducing inputs of shape \(M, 3\); got \(2, 2\)"):
        InducingRule("given", Z=X[:2, :2]).choose(X)


def test_kmeans_beats_random_rows(X):
    def distortion(Z):
        return np.square(X[:, None] - Z).sum(axis=2).min(axis=1).sum()

    assert distortion(InducingRule("kmeans", 20).choose(X)) < 0.8 * distortion(InducingRule("random", 20).choose(X))


def test_random_rows_are_rows(X):
    Z = InducingRule("random", 50, seed=1).choose(X)
    assert {tuple(z) for z in Z} <= {tuple(x) for x in X}
    assert len({tuple(z) for z in Z}) == 50


@pytest.mark.parametrize(("rule", "count"), [("all", "100"), ("kmeans", "all"), ("random", "all")])
def test_all_keeps_every_row_in_its_place(X, rule, count):
    X = np.concatenate([X, X[:5]])
    Z = InducingRule(rule, count).choose(X)
    assert np.array_equal(Z, X)
    Z[0] = 0.0
    assert X[0].any()  # a copy


@pytest.mark.parametrize("rule", ["mixed", "kmeans", "random"])
def test_fewer_distinct_rows_than_inducing_points(rule):
    distinct = np.random.default_rng(1).normal(size=(7, 2))
    X = np.repeat(distinct, 40, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Z = InducingRule(rule, 20).choose(X)
    assert sorted(map(tuple, Z)) == sorted(map(tuple, distinct))


@pytest.mark.parametrize("rule", ["mixed", "kmeans", "random"])
def test_duplicates_are_never_chosen_twice(rule):
    rng = np.random.default_rng(2)
    X = np.concatenate([np.zeros((400, 2)), rng.normal(size=(30, 2))])
    Z = InducingRule(rule, 25, seed=3).choose(X)
    assert len(np.unique(Z, axis=0)) == len(Z) == 25


@pytest.mark.parametrize("rule", ["mixed", "kmeans", "random"])
def test_no_more_than_the_stated_rows_are_read(X, rule):
    rows = Lazy(X)
    Z = InducingRule(rule, 20, rows=64).choose(rows)
    assert Z.shape == (20, 3)
    assert rows.most == {"mixed": 64, "kmeans": 64, "random": 20}[rule]
    assert InducingRule(rule, 80, rows=64).choose(rows).shape == (80, 3)  # never fewer rows than inducing points


@pytest.mark.parametrize("rule", ["mixed", "kmeans", "random", "all"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_that_are_not_finite_are_refused(rule, value):
    with pytest.raises(DataError, match="finite"):
        InducingRule(rule, 5).choose(np.full((10, 2), value))


def test_float32_rows_give_float64_inputs(X):
    for rule in ("mixed", "kmeans", "random", "all"):
        assert InducingRule(rule, 10).choose(X.astype(np.float32)).dtype == np.float64


def test_an_active_set_knows_its_targets_where_it_holds_rows(X):
    y = np.arange(len(X))
    for rule in (InducingRule("random", 20, seed=3), InducingRule("random", "all"), InducingRule("all")):
        Z, targets = rule.active_set(X, y)
        assert np.array_equal(Z, rule.choose(X))
        assert np.array_equal(X[targets], Z)
    assert InducingRule("mixed", 20).active_set(X, y)[1] is None
    given = InducingRule("given", Z=X[:3], targets=y[:3])
    assert given.active_set(X, y)[1].tolist() == [0, 1, 2]
    assert InducingRule("given", Z=X[:3]).active_set(X, y)[1] is None
    with pytest.raises(UsageError, match="as many; got 2 targets"):
        InducingRule("given", Z=X[:3], targets=y[:2])


def test_an_active_set_of_random_rows_has_no_row_twice():
    X = np.repeat(np.arange(6.0), 5)[:, None]
    Z, targets = InducingRule("random", 6, seed=0).active_set(X, X[:, 0])
    assert sorted(Z[:, 0]) == [0, 1, 2, 3, 4, 5]
    assert targets.tolist() == Z[:, 0].tolist()
