import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.model_selection import KFold, StratifiedKFold

from gpbench.data.dataset import dataset_from_arrays
from gpbench.data.splits import PROTOCOLS, Protocol
from gpbench.errors import UsageError


def data(n, *, counts=None, task="multiclass", given=()):
    if counts is not None:
        y = np.random.default_rng(5).permutation(np.repeat(np.arange(len(counts)), counts))
    else:
        y = np.random.default_rng(n).integers(0, 3, n)
    classes = () if task == "count" else ("a", "b", "c", "d")[: max(2, int(y.max(initial=0)) + 1)]
    return dataset_from_arrays(np.zeros((len(y), 1)), y, id="d", title="", task=task, classes=classes, given=given)


def splits(text, dataset, *, seed=0, **options):
    protocol = Protocol.parse(text)
    return [protocol.split(dataset, k, seed=seed, **options) for k in range(protocol.count(dataset))]


def equal(one, other):
    return np.array_equal(one.train, other.train) and np.array_equal(one.test, other.test)


PARTITIONS = st.sampled_from(["folds:{}", "contiguous:{}", "active:7/{}"])


@given(
    PARTITIONS, st.integers(2, 12), st.integers(20, 90), st.sampled_from(["multiclass", "count"]), st.integers(0, 2**40)
)
@settings(deadline=None, max_examples=80)
def test_folds_are_disjoint_and_complete(form, k, n, task, seed):
    dataset = data(n, task=task)
    found = splits(form.format(k), dataset, seed=seed)
    assert len(found) == k
    active = [] if found[0].active is None else found[0].active.tolist()
    tested = np.concatenate([split.test for split in found])
    assert sorted([*tested.tolist(), *active]) == list(range(n))
    for split in found:
        assert split.train.dtype == split.test.dtype == np.int64
        assert sorted([*split.train, *split.test, *active]) == list(range(n))
        assert (np.diff(split.train) > 0).all()
        assert (np.diff(split.test) > 0).all()
    sizes = [len(split.test) for split in found]
    assert max(sizes) - min(sizes) <= (3 if task == "multiclass" else 1)


@given(
    st.integers(2, 12),
    st.lists(st.integers(1, 60), min_size=2, max_size=4),
    st.sampled_from(["multiclass", "count"]),
    st.integers(0, 2**40),
)
@settings(deadline=None, max_examples=150)
def test_folds_are_those_of_scikit_learn(k, counts, task, seed):
    dataset = data(0, counts=counts, task=task)
    assume(dataset.n >= k)
    stratified = task == "multiclass" and max(counts) >= k
    kind = StratifiedKFold if stratified else KFold
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        wanted = list(kind(k, shuffle=True, random_state=seed % 2**32).split(np.empty((dataset.n, 0)), dataset.y))
    for found, (train, test) in zip(splits(f"folds:{k}", dataset, seed=seed), wanted, strict=True):
        assert np.array_equal(found.train, train)
        assert np.array_equal(found.test, test)


@given(
    st.sampled_from(["folds:{}", "contiguous:{}", "active:7/{}", "holdout:0.3*{}", "holdout:5*{}"]),
    st.integers(2, 12),
    st.integers(20, 90),
    st.sampled_from(["multiclass", "count"]),
    st.none() | st.integers(1, 60),
)
@settings(deadline=None, max_examples=80)
def test_training_rows_are_counted_without_a_split(form, k, n, task, limit):
    dataset = data(n, task=task)
    protocol = Protocol.parse(form.format(k))
    found = [len(split.train) for split in splits(protocol.text, dataset, train_rows=limit)]
    assert [protocol.training_rows(dataset, index, train_rows=limit) for index in range(k)] == found


def test_training_rows_of_given_splits_are_counted():
    dataset = data(6, given=[(np.arange(4), np.array([4, 5])), (np.arange(2), np.arange(2, 6))])
    assert [Protocol.parse("given").training_rows(dataset, index) for index in (0, 1)] == [4, 2]


def test_folds_are_stratified():
    dataset = data(0, counts=(200, 100, 20))
    for split in splits("folds:10", dataset):
        assert np.bincount(dataset.y[split.test]).tolist() == [20, 10, 2]
    for split in splits("active:20/10", dataset):
        counts = np.bincount(np.delete(dataset.y, split.active))
        assert (abs(np.bincount(dataset.y[split.test], minlength=3) - counts / 10) < 1).all()


def test_a_class_may_be_missing_from_a_fold_and_tiny_classes_do_not_matter():
    dataset = data(0, counts=(30, 2))
    assert sum(1 in dataset.y[split.test] for split in splits("folds:10", dataset)) == 2
    assert len(splits("folds:10", data(0, counts=(6, 6)))) == 10


def test_the_same_seed_gives_the_same_rows_and_another_gives_others():
    dataset = data(60)
    for text in ("folds:5", "holdout:0.25*3", "active:10/5"):
        again, other = splits(text, data(60)), splits(text, dataset, seed=1)
        assert all(map(equal, splits(text, dataset), again))
        assert not any(map(equal, again, other))
    assert all(map(equal, splits("contiguous:5", dataset), splits("contiguous:5", dataset, seed=1)))


def test_contiguous_blocks_follow_the_file():
    assert [split.test.tolist() for split in splits("contiguous:3", data(7))] == [[0, 1], [2, 3], [4, 5, 6]]


def test_holdout_takes_a_fraction_or_a_number():
    dataset = data(40)
    for text, size in (("holdout:0.25*4", 10), ("holdout:3*2", 3), ("holdout:0.5", 20)):
        for split in splits(text, dataset):
            assert len(split.test) == size
            assert sorted([*split.train, *split.test]) == list(range(40))
    first, second = splits("holdout:0.25*2", dataset)
    assert not equal(first, second)
    # How many repetitions follow does not change the first ones: more can be added to finished runs.
    assert all(map(equal, splits("holdout:0.25*2", dataset), splits("holdout:0.25*9", dataset)))


def test_given_splits_are_the_publishers():
    given_splits = [(np.array([0, 2]), np.array([1])), (np.array([1]), np.array([0, 2]))]
    found = splits("given", data(3, given=given_splits))
    assert [(split.train.tolist(), split.test.tolist()) for split in found] == [([0, 2], [1]), ([1], [0, 2])]
    with pytest.raises(UsageError, match="data set d has no published splits; use folds:10"):
        splits("given", data(3))


def test_the_active_set_is_the_same_for_all_folds_and_is_neither_trained_on_nor_tested():
    found = splits("active:12/4", data(50))
    assert all(np.array_equal(split.active, found[0].active) for split in found)
    assert len(found[0].active) == 12


@given(st.sampled_from(["folds:4", "contiguous:4", "holdout:0.5*2", "active:5/3"]), st.integers(1, 30))
@settings(deadline=None, max_examples=40)
def test_a_limit_of_test_rows_draws_from_the_test_rows_only(text, limit):
    dataset = data(60)
    for whole, limited in zip(splits(text, dataset), splits(text, dataset, test_rows=limit), strict=True):
        assert len(limited.test) == min(limit, len(whole.test))
        assert set(limited.test) <= set(whole.test)
        assert (np.diff(limited.test) > 0).all()
        assert np.array_equal(limited.train, whole.train)
        assert equal(limited, Protocol.parse(text).split(dataset, limited.index, seed=0, test_rows=limit))


@given(st.sampled_from(["folds:4", "contiguous:4", "holdout:0.5*2", "active:5/3"]), st.integers(1, 30))
@settings(deadline=None, max_examples=40)
def test_a_limit_of_training_rows_draws_from_the_training_rows_only_and_fewer_are_among_more(text, limit):
    dataset = data(60)
    every, more = splits(text, dataset), splits(text, dataset, train_rows=limit + 1)
    for whole, limited, larger in zip(every, splits(text, dataset, train_rows=limit), more, strict=True):
        assert len(limited.train) == min(limit, len(whole.train))
        assert set(limited.train) <= set(larger.train) <= set(whole.train)
        assert (np.diff(limited.train) > 0).all()
        assert np.array_equal(limited.test, whole.test)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("folds:10", "folds:10"),
        (" Folds: 010 ", "folds:10"),
        ("holdout:.2", "holdout:0.2*1"),
        ("holdout:100000*1", "holdout:100000*1"),
        ("holdout:0.20 * 05", "holdout:0.2*5"),
        ("holdout:0.00001*1", "holdout:0.00001*1"),
        ("active:200/10", "active:200/10"),
        ("given", "given"),
        ("draws:20", "draws:20"),
        ("draws: 0.10*20", "draws:20"),
        ("draws:700*20", "draws:700*20"),
        ("contiguous:3", "contiguous:3"),
    ],
)
def test_canonical_text(text, canonical):
    protocol = Protocol.parse(text)
    assert protocol.text == canonical
    assert Protocol.parse(protocol.text) == protocol


def test_the_examples_are_canonical():
    assert all(Protocol.parse(text).text == text for text in PROTOCOLS.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fold:10", "unknown split protocol 'fold'; did you mean folds"),
        ("", "unknown split protocol ''"),
        ("folds", "expected the form folds:10"),
        ("folds:", "expected the form folds:10"),
        ("folds:x", "expected the form folds:10"),
        ("folds:-3", "expected the form folds:10"),
        ("folds:1", "expected a number of at least 2; got 1"),
        ("folds:2.5", "expected the form folds:10"),
        ("contiguous:0", "expected a number of at least 2; got 0"),
        ("holdout:0*3", "expected a fraction between 0 and 1 or a number of test rows; got 0"),
        ("holdout:1.5*3", "expected a fraction between 0 and 1"),
        ("holdout:1.0", "expected a fraction between 0 and 1"),
        ("holdout:0.2*0", "expected a number of at least 1; got 0"),
        ("holdout:nan", "expected the form holdout:0.2"),
        ("holdout:1e3", "expected the form holdout:0.2"),
        ("active:10", "expected the form active:200/10"),
        ("active:0/10", "expected a number of at least 1"),
        ("active:10/1", "expected a number of at least 2"),
        ("given:3", "expected the form given"),
        ("folds:100001", "expected at most 100,000 splits; got 100001"),
        ("holdout:0.2*999999999999", "expected at most 100,000 splits; got 999999999999"),
        ("active:10/100001", "expected at most 100,000 splits; got 100001"),
    ],
)
def test_protocols_that_make_no_sense(text, message):
    with pytest.raises(UsageError, match=message):
        Protocol.parse(text)


@given(
    st.text(max_size=20)
    | st.sampled_from(list(PROTOCOLS)).flatmap(lambda word: st.text(max_size=9).map((word + ":").__add__))
)
@settings(deadline=None, max_examples=200)
def test_any_text_is_a_protocol_or_a_usage_error(text):
    try:
        protocol = Protocol.parse(text)
    except UsageError:
        return
    assert Protocol.parse(protocol.text) == protocol


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("folds:10", "split folds:10 needs at least 10 rows; data set d leaves 9"),
        ("contiguous:10", "needs at least 10 rows"),
        ("active:8/2", "split active:8/2 needs at least 2 rows; data set d leaves 1"),
        ("holdout:9*1", "would test 9 of 9 rows"),
        ("holdout:0.01*1", "would test 0 of 9 rows"),
    ],
)
def test_too_few_rows(text, message):
    with pytest.raises(UsageError, match=message):
        splits(text, data(9))


def test_numbers_out_of_range():
    protocol, dataset = Protocol.parse("folds:3"), data(9)
    with pytest.raises(UsageError, match=r"has the indices 0\.\.2; got 3"):
        protocol.split(dataset, 3, seed=0)
    with pytest.raises(UsageError, match="the seed must be an integer >= 0; got -1"):
        protocol.split(dataset, 0, seed=-1)
    with pytest.raises(UsageError, match="the limit of test rows must be at least 1; got 0"):
        protocol.split(dataset, 0, seed=0, test_rows=0)
    with pytest.raises(UsageError, match="the limit of training rows must be at least 1; got 0"):
        protocol.split(dataset, 0, seed=0, train_rows=0)


def test_draws_are_data_sets_one_after_another_with_a_split_of_each():
    dataset = data(60)
    found = splits("draws:3", dataset)
    for index, split in enumerate(found):
        assert sorted([*split.train, *split.test]) == list(range(20 * index, 20 * index + 20))
        assert (np.diff(split.train) > 0).all()
        assert len(split.test) == 2
    assert Protocol.parse("draws:3").training_rows(dataset, 1) == 18
    assert [len(split.test) for split in splits("draws:14*3", dataset)] == [14] * 3
    assert not np.array_equal(found[0].test, found[1].test - 20)
    assert equal(splits("draws:3", dataset)[1], found[1])
    with pytest.raises(UsageError, match="60 rows of d are not 7 draws of one size"):
        splits("draws:7", dataset)
    with pytest.raises(UsageError, match="would test 20 of 20 rows"):
        splits("draws:20*3", dataset)
