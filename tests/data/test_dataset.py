import numpy as np
import pytest

from gpbench.data.dataset import Dataset, dataset_from_arrays
from gpbench.errors import DataError

X = np.arange(6.0).reshape(3, 2)
Y = np.array([0, 1, 1])


def made(**changes):
    options = {"id": "d", "title": "D", "task": "binary", "classes": ("a", "b")} | changes
    return dataset_from_arrays(options.pop("X", X), options.pop("y", Y), **options)


def test_what_it_says_of_itself():
    dataset = made()
    assert (dataset.n, dataset.d, dataset.features) == (3, 2, ("x1", "x2"))
    assert dataset.class_counts() == {"a": 1, "b": 2}
    assert dataset.y.dtype == np.int64
    assert made(task="count", classes=()).class_counts() == {}


def test_the_checksum_follows_the_content_and_not_the_words():
    whole = made().checksum
    assert made(id="e", title="E", notes=["n"]).checksum == whole
    assert made(X=np.asfortranarray(X), y=Y.astype(np.int8)).checksum == whole
    given = [(np.array([0, 1]), np.array([2]))]
    others = [
        made(X=X + 1),
        made(X=X.astype(np.float32)),
        made(y=1 - Y),
        made(classes=("b", "a")),
        made(features=("u", "v")),
        made(given=given),
        made(task="multiclass"),
    ]
    assert len({whole, *(other.checksum for other in others)}) == 8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "regression"}, "task must be one of binary, multiclass, count, ordinal; got 'regression'"),
        ({"X": X.astype(int)}, r"X must be \(n, d\) float32 or float64; got \(3, 2\) int64"),
        ({"y": Y[:2]}, r"y must be \(3,\) int64; got \(2,\)"),
        ({"features": ("u",)}, "2 columns but 1 feature names"),
        ({"X": X * np.nan}, "X must be finite"),
        ({"y": Y + 1}, r"targets must lie in 0\.\.1; got 1\.\.2"),
        ({"y": -Y, "task": "count", "classes": ()}, "targets must lie in 0, 1, 2, ...; got -1..0"),
    ],
)
def test_parts_that_do_not_fit(changes, message):
    with pytest.raises(DataError, match=message):
        made(**changes)


def test_two_data_sets_are_the_same_only_if_they_are_one():
    dataset = made()
    assert dataset == dataset  # noqa: PLR0124 - arrays must not be compared value by value
    assert dataset != made()
    assert isinstance(hash(dataset), int)
    assert isinstance(dataset, Dataset)
