"""Data sets that come with scikit-learn: no network, no files of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpbench.data.dataset import Dataset, dataset_from_arrays

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpbench.data.catalogue import Entry

__all__ = ["EMBEDDED", "load_embedded"]


def _bunch(loader: str) -> Any:
    from sklearn import datasets  # noqa: PLC0415  # slow to import

    return getattr(datasets, loader)()


def _named(loader: str) -> tuple[Any, Any, list[str]]:
    bunch = _bunch(loader)
    return bunch.data, bunch.target, [str(name) for name in bunch.feature_names]


def _odd_even() -> tuple[Any, Any, list[str]]:
    X, y, features = _named("load_digits")
    return X, y % 2, features


def _three_five() -> tuple[Any, Any, list[str]]:
    X, y, features = _named("load_digits")
    both = (y == 3) | (y == 5)
    return X[both], (y[both] == 5).astype(np.int64), features


EMBEDDED: dict[str, Callable[[], tuple[Any, Any, list[str]]]] = {
    "breast-cancer-wisconsin": lambda: _named("load_breast_cancer"),
    "wine": lambda: _named("load_wine"),
    "digits": lambda: _named("load_digits"),
    "digits-odd-even": _odd_even,
    "digits-3-5": _three_five,
}
"""id -> inputs, targets 0..C-1 and the names of the features."""


def load_embedded(entry: Entry) -> Dataset:
    """Data set from scikit-learn's own files.

    Parameters
    ----------
    entry : Entry
        One whose id is in :data:`EMBEDDED`.
    """
    X, y, features = EMBEDDED[entry.id]()
    return dataset_from_arrays(
        np.asarray(X, dtype=np.float64),
        np.asarray(y),
        id=entry.id,
        title=entry.title,
        task=entry.task,
        classes=entry.classes,
        features=features,
        notes=entry.notes,
    )
