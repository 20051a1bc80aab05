"""The data set: rows X, targets y, and what is known about them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from gpbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpbench.data.record import Preparation

__all__ = ["MAX_COUNT", "TASKS", "Dataset", "content_checksum", "dataset_from_arrays"]

TASKS = ("binary", "multiclass", "count", "ordinal")
MAX_COUNT = 2**53
"""Counts beyond are not told apart by float64, which files give and likelihoods compute with."""

Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
GivenSplits = tuple[tuple[Ints, Ints], ...]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows and targets, as every method sees them.

    Attributes
    ----------
    id : str
        The catalogue's id, or the name of the user's file.
    title : str
        For people.
    task : str
        One of :data:`TASKS`.
    X : (n, d) float32 or float64
        Inputs, unscaled; may be a memory map. All values are finite, or missing (NaN) where the record says that they
        are filled: by the training rows of each split.
    y : (n,) int64
        Classes 0..C-1, ordinal levels 0..L-1, or counts >= 0.
    classes : tuple of str
        The original label of each class or level; empty for counts.
    features : tuple of str
        Column names of X.
    checksum : str
        sha256 of the prepared content (X, y, names and published splits); part of every cell's key.
    given : tuple of (train, test)
        The publisher's own splits, as int64 row numbers.
    notes : tuple of str
        What preparation did: columns dropped, one-hot coded, imputed; duplicates removed.
    decisions : tuple of str
        Those of the notes that gpbench came to by itself; they are said wherever numbers rest on them.
    preparation : Preparation or None
        The record of what became of a table's columns; None for what was made from arrays.

    Raises
    ------
    DataError
        The parts do not fit one another.
    """

    id: str
    title: str
    task: str
    X: Floats = field(repr=False)
    y: Ints = field(repr=False)
    classes: tuple[str, ...]
    features: tuple[str, ...] = field(repr=False)
    checksum: str
    given: GivenSplits = field(default=(), repr=False)
    notes: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    preparation: Preparation | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise DataError(f"data set {self.id}: task must be one of {', '.join(TASKS)}; got {self.task!r}")
        if self.X.ndim != 2 or self.X.dtype not in (np.float32, np.float64):
            raise DataError(
                f"data set {self.id}: X must be (n, d) float32 or float64; got {self.X.shape} {self.X.dtype}"
            )
        if self.y.shape != (len(self.X),) or self.y.dtype != np.int64:
            raise DataError(f"data set {self.id}: y must be ({len(self.X)},) int64; got {self.y.shape} {self.y.dtype}")
        if len(self.features) != self.X.shape[1]:
            raise DataError(f"data set {self.id}: {self.X.shape[1]} columns but {len(self.features)} feature names")

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    def class_counts(self) -> dict[str, int]:
        """Rows of each class, by its original label; empty for counts."""
        if not self.classes:
            return {}
        found = np.bincount(self.y, minlength=len(self.classes))
        return {label: int(count) for label, count in zip(self.classes, found, strict=True)}


def content_checksum(
    x_digest: bytes,
    y: Ints,
    *,
    task: str,
    dtype: str,
    classes: Sequence[str],
    features: Sequence[str],
    given: Iterable[tuple[Ints, Ints]],
) -> str:
    """Checksum of prepared content, from the digest of X's bytes (row after row, little-endian) and the rest.

    The title, the id and the notes play no part, so that rewording them keeps the results of earlier runs.
    """
    whole = hashlib.sha256(x_digest)
    whole.update(np.ascontiguousarray(y, dtype="<i8").tobytes())
    whole.update(json.dumps([task, dtype, list(classes), list(features)]).encode())
    for train, test in given:
        whole.update(np.ascontiguousarray(train, dtype="<i8").tobytes() + b"|")
        whole.update(np.ascontiguousarray(test, dtype="<i8").tobytes() + b";")
    return whole.hexdigest()


def dataset_from_arrays(
    X: Floats,
    y: npt.NDArray[np.integer],
    *,
    id: str,  # noqa: A002 - the field of the data set bears this name
    title: str,
    task: str,
    classes: Sequence[str],
    features: Sequence[str] | None = None,
    given: Iterable[tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]] = (),
    notes: Sequence[str] = (),
) -> Dataset:
    """Data set from arrays in memory: the embedded and the generated ones.

    Parameters
    ----------
    X : (n, d)
        Finite values.
    y : (n,)
        Integers 0..C-1, or counts.
    id, title, task, classes, features, given, notes
        As in :class:`Dataset`; features default to x1, x2, ...

    Raises
    ------
    DataError
        The parts do not fit, a value is not finite, or a target is out of range.
    """
    rows = cast("Floats", np.ascontiguousarray(X))
    targets: Ints = np.ascontiguousarray(y, dtype=np.int64)
    names = tuple(features) if features is not None else tuple(f"x{j + 1}" for j in range(rows.shape[1]))
    if not np.isfinite(rows).all():
        raise DataError(f"data set {id}: X must be finite; it holds NaN or infinite values")
    if len(targets) and (targets.min() < 0 or (classes and targets.max() >= len(classes))):
        allowed = f"0..{len(classes) - 1}" if classes else "0, 1, 2, ..."
        raise DataError(f"data set {id}: targets must lie in {allowed}; got {targets.min()}..{targets.max()}")
    splits = tuple((np.asarray(train, dtype=np.int64), np.asarray(test, dtype=np.int64)) for train, test in given)
    checksum = content_checksum(
        hashlib.sha256(rows.astype(rows.dtype.newbyteorder("<"), copy=False).tobytes()).digest(),
        targets,
        task=task,
        dtype=str(rows.dtype),
        classes=classes,
        features=names,
        given=splits,
    )
    return Dataset(
        id=id,
        title=title,
        task=task,
        X=rows,
        y=targets,
        classes=tuple(classes),
        features=names,
        checksum=checksum,
        given=splits,
        notes=tuple(notes),
    )
