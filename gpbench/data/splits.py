"""Splits: which rows train and which rows test, as a function of the data set, the protocol and the seed only.

==============  =======================================================================================
folds:K         K folds, shuffled, stratified where there are classes
contiguous:K    K blocks in file order
holdout:F*R     R random splits with a fraction F < 1 of test rows, or with F >= 1 test rows
given           the publisher's own
active:M/K      M random rows as an active set, then K folds over the remaining rows (sheth2015, section 5)
draws:R         R generated data sets, with the generator's seeds 0 to R - 1, one random split of each with a tenth of
                test rows; draws:F*R as holdout:F*R
==============  =======================================================================================
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpbench.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from gpbench.data.dataset import Dataset

__all__ = ["PROTOCOLS", "Protocol", "Split", "check_seed"]

PROTOCOLS = {
    "folds": "folds:10",
    "contiguous": "contiguous:10",
    "holdout": "holdout:0.2*5",
    "given": "given",
    "active": "active:200/10",
    "draws": "draws:20",
}
"""Each protocol's word, with an example."""

# Streams of random numbers that differ although the seed is one.
_HOLDOUT, _ACTIVE, _LIMIT, _TRAIN_LIMIT, _DRAWS = 1, 2, 3, 4, 5

_TENTH = 0.1
"""Test rows of a draw, where nothing else is asked for."""

_MOST_PARTS = 100_000
"""More splits are a slip of the hand; listing their cells would take hours."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Split:
    """One division of a data set.

    Attributes
    ----------
    protocol : str
        Canonical text.
    index, count : int
        Which of how many, from 0.
    seed : int
        The seed it was drawn from.
    train, test : int64 arrays
        Row numbers, rising, without a row in common.
    active : int64 array or None
        The active set's rows; they neither train nor test.
    """

    protocol: str
    index: int
    count: int
    seed: int
    train: Ints
    test: Ints
    active: Ints | None = None


@dataclass(frozen=True)
class Protocol:
    """How a data set is split.

    Attributes
    ----------
    kind : str
        A key of :data:`PROTOCOLS`.
    parts : int
        Folds, blocks or repetitions; 0 for ``given``.
    size : float
        holdout and draws: the fraction or number of test rows; active: the number of active rows; else 0.
    """

    kind: str
    parts: int = 0
    size: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Protocol:
        """Protocol from its text form.

        Raises
        ------
        UsageError
            Unknown, or numbers that make no sense.
        """
        kind, colon, rest = text.strip().partition(":")
        kind, rest = kind.strip().lower(), rest.replace(" ", "")
        if kind not in PROTOCOLS:
            raise unknown_name("split protocol", kind, PROTOCOLS)
        if kind == "given":
            if colon:
                raise _malformed(text, kind)
            return cls("given")
        if kind == "holdout":
            size, _, repeats = rest.partition("*")
            return cls(kind, _parts(repeats or "1", text, kind, least=1), _test_size(size, text))
        if kind == "draws":
            size, star, draws = rest.rpartition("*")
            return cls(kind, _parts(draws, text, kind, least=1), _test_size(size, text, kind) if star else _TENTH)
        if kind == "active":
            size, slash, folds = rest.partition("/")
            if not slash:
                raise _malformed(text, kind)
            return cls(kind, _parts(folds, text, kind, least=2), float(_whole(size, text, kind, least=1)))
        return cls(kind, _parts(rest, text, kind, least=2))

    @property
    def text(self) -> str:
        """The canonical text form, from which ``parse`` makes the same protocol."""
        size = str(int(self.size)) if self.size >= 1 else f"{self.size:.12f}".rstrip("0")
        if self.kind == "draws" and self.size == _TENTH:
            return f"draws:{self.parts}"
        if self.kind in {"holdout", "draws"}:
            return f"{self.kind}:{size}*{self.parts}"
        if self.kind == "active":
            return f"active:{size}/{self.parts}"
        return self.kind if self.kind == "given" else f"{self.kind}:{self.parts}"

    def count(self, dataset: Dataset) -> int:
        """Number of splits of a data set.

        Raises
        ------
        UsageError
            The data set has no published splits, or too few rows.
        """
        if self.kind == "given":
            if not dataset.given:
                raise UsageError(f"data set {dataset.id} has no published splits; use folds:10 or another protocol")
            return len(dataset.given)
        if self.kind == "draws":  # of which the data set holds one, or all, one after another
            return self.parts
        if self.kind == "holdout":
            self._test_rows(dataset.n, dataset.id)
            return self.parts
        rows = dataset.n - (int(self.size) if self.kind == "active" else 0)
        if rows < self.parts:
            raise UsageError(f"split {self.text} needs at least {self.parts} rows; data set {dataset.id} leaves {rows}")
        return self.parts

    def training_rows(self, dataset: Dataset, index: int, *, train_rows: int | None = None) -> int:
        """Number of training rows of a split, without making it.

        Parameters
        ----------
        dataset : Dataset
            The rows.
        index : int
            Which split, from 0.
        train_rows : int, optional
            As for :meth:`split`.

        Raises
        ------
        UsageError
            As :meth:`count`.
        """
        count = self.count(dataset)
        if self.kind == "given":
            number = len(dataset.given[index][0])
        elif self.kind == "contiguous":
            number = dataset.n - (dataset.n * (index + 1) // count - dataset.n * index // count)
        elif self.kind == "holdout":
            number = dataset.n - self._test_rows(dataset.n, dataset.id)
        elif self.kind == "draws":
            rows = self._draw_rows(dataset)
            number = rows - self._test_rows(rows, dataset.id)
        else:  # the first folds are one row larger where the rows do not divide evenly, stratified or not
            rows = dataset.n - (int(self.size) if self.kind == "active" else 0)
            number = rows - (rows // count + int(index < rows % count))
        return number if train_rows is None else min(number, train_rows)

    def split(
        self,
        dataset: Dataset,
        index: int,
        *,
        seed: int,
        test_rows: int | None = None,
        train_rows: int | None = None,
    ) -> Split:
        """One split.

        Parameters
        ----------
        dataset : Dataset
            The rows.
        index : int
            Which split, from 0.
        seed : int
            At least 0. ``contiguous`` and ``given`` do not depend on it, but for the choice of ``test_rows``.
        test_rows, train_rows : int, optional
            Keep at most so many test or training rows, drawn at random; fewer are a part of more.

        Raises
        ------
        UsageError
            No such split, or numbers out of range.
        """
        count = self.count(dataset)
        if not 0 <= index < count:
            raise UsageError(f"split {self.text} of {dataset.id} has the indices 0..{count - 1}; got {index}")
        check_seed(seed)
        for kind, limit in (("test", test_rows), ("training", train_rows)):
            if limit is not None and limit < 1:
                raise UsageError(f"the limit of {kind} rows must be at least 1; got {limit}")
        active = None
        if self.kind == "given":
            train, test = dataset.given[index]
        elif self.kind == "contiguous":
            train, test = _block(dataset.n, index, count)
        elif self.kind == "holdout":
            rng = np.random.default_rng([seed, _HOLDOUT, index])
            train, test = _draw(dataset.n, self._test_rows(dataset.n, dataset.id), rng)
        elif self.kind == "draws":
            rows = self._draw_rows(dataset)
            rng = np.random.default_rng([seed, _DRAWS, index])
            own = _draw(rows, self._test_rows(rows, dataset.id), rng)
            train, test = (index * rows + each for each in own)
        elif self.kind == "active":
            # The same active set for all folds.
            rest, active = _draw(dataset.n, int(self.size), np.random.default_rng([seed, _ACTIVE]))
            train, test = _fold(dataset, rest, index, count=count, seed=seed)
        else:
            train, test = _fold(dataset, None, index, count=count, seed=seed)
        if test_rows is not None and len(test) > test_rows:
            _, chosen = _draw(len(test), test_rows, np.random.default_rng([seed, _LIMIT, index]))
            test = test[chosen]
        if train_rows is not None and len(train) > train_rows:
            order = np.random.default_rng([seed, _TRAIN_LIMIT, index]).permutation(len(train))
            train = train[np.sort(order[:train_rows])]
        return Split(self.text, index, count, seed, train, test, active)

    def _draw_rows(self, dataset: Dataset) -> int:
        """Rows of each draw, of a data set that holds all of them."""
        if dataset.n % self.parts:
            raise UsageError(
                f"split {self.text}: {dataset.n} rows of {dataset.id} are not {self.parts} draws of one size"
            )
        return dataset.n // self.parts

    def _test_rows(self, n: int, name: str) -> int:
        rows = int(self.size) if self.size >= 1 else round(self.size * n)
        if not 1 <= rows < n:
            raise UsageError(
                f"split {self.text} of {name} would test {rows} of {n} rows; "
                "at least one row must test and one must train"
            )
        return rows


def check_seed(seed: int) -> None:
    """See that a seed is one, before numpy says so in its own words.

    Raises
    ------
    UsageError
        It is negative.
    """
    if seed < 0:
        raise UsageError(f"the seed must be an integer >= 0; got {seed}")


def _fold(dataset: Dataset, rows: Ints | None, index: int, *, count: int, seed: int) -> tuple[Ints, Ints]:
    """Training and test rows of one fold over ``rows`` (None: all).

    The folds are those of scikit-learn's ``StratifiedKFold`` and ``KFold``, shuffled from the same seed, row by row;
    they are made here because its import takes longer than many a cell.
    """
    y = dataset.y if rows is None else dataset.y[rows]
    random = np.random.RandomState(seed % 2**32)  # the generator that scikit-learn shuffles with
    # Where each class has fewer rows than there are folds, nothing can be stratified.
    if dataset.classes and int(np.bincount(y).max()) >= count:
        folds = _stratified(y, count, random)
    else:
        folds = np.empty(len(y), dtype=np.int64)
        folds[random.permutation(len(y))] = np.sort(np.arange(len(y)) % count)
    train, test = np.flatnonzero(folds != index), np.flatnonzero(folds == index)
    return (train, test) if rows is None else (rows[train], rows[test])


def _stratified(y: Ints, count: int, random: np.random.RandomState) -> Ints:
    """The fold of each row (n,), such that each fold has its share of each class, within one row.

    Rows in the order of their classes are dealt out to the folds in turn, which says how many of each class a fold
    gets; which rows these are, a shuffle within the class decides. Classes come in the order of their first rows.
    """
    classes, first, numbers = np.unique(y, return_index=True, return_counts=True)
    order = np.argsort(first)
    turns = np.arange(len(y)) % count
    folds = np.empty(len(y), dtype=np.int64)
    for label, number, end in zip(classes[order], numbers[order], np.cumsum(numbers[order]), strict=True):
        dealt = np.sort(turns[end - number : end])
        random.shuffle(dealt)
        folds[y == label] = dealt
    return folds


def _block(n: int, index: int, count: int) -> tuple[Ints, Ints]:
    start, stop = n * index // count, n * (index + 1) // count
    return np.concatenate([np.arange(start), np.arange(stop, n)]), np.arange(start, stop)


def _draw(n: int, size: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """The rows left and the ``size`` rows drawn, both rising."""
    drawn = np.zeros(n, dtype=bool)
    drawn[rng.choice(n, size, replace=False, shuffle=False)] = True
    return np.flatnonzero(~drawn), np.flatnonzero(drawn)


def _parts(digits: str, text: str, kind: str, *, least: int) -> int:
    parts = _whole(digits, text, kind, least=least)
    if parts > _MOST_PARTS:
        raise UsageError(f"split {text!r}: expected at most {_MOST_PARTS:,} splits; got {digits}")
    return parts


def _whole(digits: str, text: str, kind: str, *, least: int) -> int:
    if not re.fullmatch(r"[0-9]{1,12}", digits):
        raise _malformed(text, kind)
    if int(digits) < least:
        raise UsageError(f"split {text!r}: expected a number of at least {least}; got {digits}")
    return int(digits)


def _test_size(digits: str, text: str, kind: str = "holdout") -> float:
    if not re.fullmatch(r"[0-9]{1,12}|[0-9]{0,12}\.[0-9]{1,12}", digits):
        raise _malformed(text, kind)
    size = float(digits)
    if size == 0 or (size > 1 and not size.is_integer()) or (size == 1 and "." in digits):
        raise UsageError(f"split {text!r}: expected a fraction between 0 and 1 or a number of test rows; got {digits}")
    return size


def _malformed(text: str, kind: str) -> UsageError:
    return UsageError(f"split {text!r}: expected the form {PROTOCOLS[kind]}")
