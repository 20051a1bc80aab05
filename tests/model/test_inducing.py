import warnings

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.cluster import KMeans, kmeans_plusplus

from gpbench.errors import DataError, UsageError
from gpbench.model.inducing import InducingRule, _Cloud


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


@pytest.mark.parametrize("count", ["", "x", "0", "-3", "1.5", "20.0", "1e3", "0%", "101%", "nan%", "inf"])
def test_counts_that_are_none(count):
    said = f"must be a whole number such as 100, a percentage up to 100% such as 3%, or all; got '{count}'$"
    with pytest.raises(UsageError, match=said):
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
    with pytest.raises(UsageError, match="at least one of Lloyd's iterations; got 0"):
        InducingRule("kmeans", steps=0)


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


def squared_distances(X, Z):
    return np.square(X[:, None] - Z).sum(axis=2)


def inertia(X, Z):
    """Sum of squared distances to the nearest of Z: what k-means minimises."""
    return squared_distances(X, Z).min(axis=1).sum()


def grid():
    return np.stack(np.meshgrid(np.arange(30.0), np.arange(30.0)), axis=-1).reshape(-1, 2)


def clusters():
    rng = np.random.default_rng(4)
    return rng.normal(size=(12, 5))[rng.integers(12, size=2000)] * 4.0 + rng.normal(size=(2000, 5))


def heavy_tails():
    return np.random.default_rng(5).standard_t(2.0, size=(1500, 3))


@pytest.mark.parametrize("rows", [grid, clusters, heavy_tails])
def test_the_inertia_is_that_of_scikit_learns_kmeans(rows):
    X, seeds = rows(), range(12)
    ours = [inertia(X, InducingRule("kmeans", 25, seed=seed).choose(X)) for seed in seeds]
    theirs = [
        inertia(X, KMeans(25, n_init=1, max_iter=20, random_state=seed, algorithm="lloyd").fit(X).cluster_centers_)
        for seed in seeds
    ]
    spread = np.hypot(np.std(ours), np.std(theirs)) / np.sqrt(len(seeds))
    assert np.mean(ours) < np.mean(theirs) + 2.5 * spread
    assert spread < 0.05 * np.mean(theirs)  # or the comparison would say nothing


@pytest.mark.parametrize("rows", [grid, clusters, heavy_tails])
def test_the_inertia_of_seeds_is_that_of_scikit_learns(rows):
    X, seeds = rows(), range(12)
    ours = [inertia(X, X[_Cloud(X).seeds(25, np.random.default_rng(seed))]) for seed in seeds]
    theirs = [inertia(X, kmeans_plusplus(X, 25, random_state=seed)[0]) for seed in seeds]
    spread = np.hypot(np.std(ours), np.std(theirs)) / np.sqrt(len(seeds))
    assert np.mean(ours) < np.mean(theirs) + 2.5 * spread


def test_seeds_find_clusters_that_lie_far_apart():
    centres = 100.0 * np.random.default_rng(6).normal(size=(20, 4))
    X = np.repeat(centres, 50, axis=0) + np.random.default_rng(7).normal(size=(1000, 4))
    for seed in range(5):
        chosen = _Cloud(X).seeds(20, np.random.default_rng(seed))
        assert sorted(chosen // 50) == list(range(20))


def test_one_of_lloyds_iterations_moves_each_centre_to_the_mean_of_its_rows():
    X = np.random.default_rng(8).normal(size=(3000, 4))  # more than are looked at together
    start = X[:90]
    nearest = squared_distances(X, start).argmin(axis=1)
    want = np.stack([X[nearest == k].mean(axis=0) for k in range(90)])
    np.testing.assert_allclose(_Cloud(X).lloyd(start, 1), want, rtol=0, atol=1e-13)


def test_more_of_lloyds_iterations_lower_the_inertia_until_nothing_moves(X):
    found = [inertia(X, InducingRule("kmeans", 20, steps=steps).choose(X)) for steps in (1, 2, 5, 200, 400)]
    assert found[0] > found[1] > found[2] > found[3] == found[4]


def test_clusters_without_rows_go_on_from_the_rows_that_are_farthest_from_their_centres():
    X = np.array([[0.0], [1.0], [2.0], [3.0], [40.0], [52.0]])
    Z = _Cloud(X).lloyd(np.array([[1.0], [45.0], [1000.0], [2000.0]]), 1)
    assert Z[:, 0].tolist() == pytest.approx([1.5, 46.0, 52.0, 40.0], abs=1e-12)


@pytest.mark.parametrize("rule", ["mixed", "kmeans"])
def test_rows_far_from_the_origin_are_told_apart_as_well(X, rule):
    want = InducingRule(rule, 20, seed=2).choose(X)
    np.testing.assert_allclose(InducingRule(rule, 20, seed=2).choose(X + 1e6), want + 1e6, rtol=0, atol=1e-7)


def test_mixed_is_centres_and_the_seeds_that_they_started_from(X):
    Z = InducingRule("mixed", 20, seed=1).choose(X)
    is_row = (squared_distances(Z, X) == 0.0).any(axis=1)
    assert not is_row[:10].any()
    assert is_row[10:].all()
    np.testing.assert_allclose(_Cloud(X).lloyd(Z[10:], 20), Z[:10], rtol=0, atol=1e-12)


def test_rows_that_are_equal_but_for_rounding_are_found_however_many_there_are():
    rng = np.random.default_rng(3)
    which = np.concatenate([np.arange(400), rng.integers(400, size=600)])[rng.permutation(1000)]
    distinct = rng.normal(size=(400, 7))
    X = np.where(rng.random((1000, 1)) < 0.5, distinct[which], np.nextafter(distinct, np.inf)[which])
    assert np.array_equal(_Cloud(X).first_occurrences(), np.sort(np.unique(which, return_index=True)[1]))


@pytest.mark.parametrize("seed", range(4))
def test_a_cluster_of_equal_rows_gives_its_place_to_the_next_seed(seed):
    # a mean of three equal numbers is not always that number: a centre can differ from its seed by rounding
    rng = np.random.default_rng(9)
    X = np.concatenate([np.repeat(1000.0 * rng.normal(size=(10, 5)), 3, axis=0), 5000.0 + rng.normal(size=(60, 5))])
    Z = InducingRule("mixed", 30, seed=seed).choose(X)
    assert len(Z) == 30
    assert pdist(Z).min() > 0.1


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


@pytest.mark.parametrize("d", [1, 2, 30])
@pytest.mark.parametrize("rule", ["mixed", "kmeans", "random"])
def test_fewer_distinct_rows_than_inducing_points(rule, d):
    distinct = np.random.default_rng(1).normal(size=(7, d))
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


@pytest.mark.parametrize("rule", ["mixed", "kmeans"])
def test_rows_whose_distances_are_no_numbers_are_refused(rule, X):
    with pytest.raises(DataError, match=r"rows whose squares are numbers; got values up to 3\..*e\+200"):
        InducingRule(rule, 5).choose(1e200 * X)


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
