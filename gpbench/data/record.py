"""What preparation made of a table's columns: one record, as JSON, from which new raw rows are prepared the same way.

A data set's header holds the record of its file; the record of a cell, or of a model, also holds what the training rows
told: fillings, means, scales and which columns vary. :mod:`gpbench.data.newrows` applies it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gpbench.data.scaling import Floats, Ints, Scaling, scaling_of
from gpbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from gpbench.data.dataset import Dataset

__all__ = ["Feature", "Preparation", "fitted", "inputs_of"]

_KINDS = ("number", "one-hot", "ordered")


@dataclass(frozen=True)
class Feature:
    """One column of the table that becomes one or more of X.

    Attributes
    ----------
    column : str
        Name in the table.
    kind : str
        number, one-hot or ordered.
    categories : tuple of str
        In the order of their codes; empty for numbers, and until they are known.
    first : int
        The first category that gets a column of X (1 where the first one is left out).
    """

    column: str
    kind: str = "number"
    categories: tuple[str, ...] = ()
    first: int = 0

    @property
    def names(self) -> list[str]:
        """Names of its columns in X."""
        if self.kind != "one-hot":
            return [self.column]
        return [f"{self.column}={category}" for category in self.categories[self.first :]]


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Everything that turns a raw row into an input row.

    Attributes
    ----------
    columns : tuple of str
        The table's, in its order.
    named : bool
        Whether the file names them; x1, x2, ... otherwise, which count positions.
    target : tuple of str
        The target's column; several where it is one-hot.
    features : tuple of Feature
        The columns that are inputs, in the order of X.
    dropped : mapping of str to str
        Column to the reason why it is no input.
    task : str
        As of the data set.
    classes : tuple of str
        The class names, in the order of their numbers; empty for counts.
    missing : tuple of str
        Words that stand for a missing value.
    impute : "median" or None
        Whether missing values are filled.
    zero_based : bool or None
        Of LIBSVM's sparse text: whether its indices count from 0; None where the file is none, or nobody looked.
    scaling : Scaling or None
        What the training rows told; None before there are any.
    """

    columns: tuple[str, ...]
    named: bool = True
    target: tuple[str, ...]
    features: tuple[Feature, ...]
    dropped: Mapping[str, str]
    task: str
    classes: tuple[str, ...]
    missing: tuple[str, ...] = ()
    impute: str | None = None
    zero_based: bool | None = None
    scaling: Scaling | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of X's columns, those that do not vary included."""
        return tuple(name for feature in self.features for name in feature.names)

    def to_json(self) -> dict[str, Any]:
        """As JSON has it; a feature that is a column of numbers is that column's name."""
        return {
            "columns": list(self.columns),
            "named": self.named,
            "target": list(self.target),
            "features": [each.column if each.kind == "number" else asdict(each) for each in self.features],
            "dropped": dict(self.dropped),
            "task": self.task,
            "classes": list(self.classes),
            "missing": list(self.missing),
            "impute": self.impute,
            "zero_based": self.zero_based,
            "scaling": None if self.scaling is None else self.scaling.to_json(),
        }

    @classmethod
    def from_json(cls, content: Any) -> Self:
        """Read what :meth:`to_json` wrote.

        Raises
        ------
        DataError
            It is no such record.
        """
        try:
            texts = {name: tuple(map(_text, content[name])) for name in ("columns", "target", "classes", "missing")}
            features = tuple(map(_feature, content["features"]))
            read = cls(
                **texts,
                named=bool(content["named"]),
                features=features,
                dropped={_text(name): _text(why) for name, why in content["dropped"].items()},
                task=_text(content["task"]),
                impute=None if content["impute"] is None else _text(content["impute"]),
                zero_based=_flag(content.get("zero_based")),  # records of earlier versions do not say
                scaling=None if content["scaling"] is None else Scaling.from_json(content["scaling"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            words = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            raise DataError(f"expected the record of a preparation; {words}") from error
        if any(each.kind not in _KINDS for each in features):
            raise DataError(f"expected the record of a preparation; a feature is none of {', '.join(_KINDS)}")
        if read.scaling is not None and len(read.scaling.mean) != len(read.names):
            raise DataError(
                f"expected the record of a preparation; {len(read.names)} columns but {len(read.scaling.mean)} means"
            )
        return read

    def fillings(self, X: npt.NDArray[np.floating], rows: Ints) -> Floats | None:
        """What missing values become, by some rows: (d,); None where nothing is filled.

        The median of a column of numbers, the most frequent category of others; 0 where these rows hold no value, so
        that the column does not vary and is left out.

        Parameters
        ----------
        X : (n, d)
            All rows, NaN where a value is missing; may be a memory map.
        rows : (k,) int64
            The training rows.
        """
        if self.impute is None:
            return None
        fill = np.zeros(X.shape[1])
        for feature, columns in self._places():
            if feature.kind == "one-hot":
                counts = np.nansum(np.asarray(X[rows, columns], dtype=np.float64), axis=0)
                most = int(np.argmax(counts)) if len(counts) else 0
                seen = int(np.isfinite(X[rows, columns.start]).sum()) if len(counts) else 0
                # The category without a column of its own has the rows that are left.
                if len(counts) and not (feature.first and seen - counts.sum() >= counts[most]):
                    fill[columns.start + most] = 1.0
                continue
            values = np.asarray(X[rows, columns.start], dtype=np.float64)
            values = values[~np.isnan(values)]
            if len(values):
                codes, counts = np.unique(values, return_counts=True) if feature.kind == "ordered" else (values, values)
                fill[columns.start] = codes[np.argmax(counts)] if feature.kind == "ordered" else np.median(values)
        return fill

    def _places(self) -> Iterator[tuple[Feature, slice]]:
        start = 0
        for feature in self.features:
            stop = start + len(feature.names)
            yield feature, slice(start, stop)
            start = stop


def fitted(dataset: Dataset, *, rows: Ints, scaling: str = "standard") -> Preparation:
    """The record of a data set, with what some training rows tell.

    Parameters
    ----------
    dataset : Dataset
        The rows; of one that was made from arrays, the record says that its columns are numbers.
    rows : (k,) int64
        The training rows.
    scaling : str
        One of :data:`gpbench.data.scaling.SCALINGS`.

    Raises
    ------
    UsageError
        Unknown scaling.
    DataError
        Values too large to scale, or no column that varies over these rows.
    """
    record = dataset.preparation or Preparation(
        columns=(*dataset.features, "target"),
        target=("target",),
        features=tuple(map(Feature, dataset.features)),
        dropped={},
        task=dataset.task,
        classes=dataset.classes,
    )
    own = scaling_of(scaling, dataset.X, rows=rows, fill=record.fillings(dataset.X, rows), names=dataset.features)
    if own.constant.all():
        raise DataError(f"data set {dataset.id}: no input varies over the {len(rows)} training rows")
    return replace(record, scaling=own)


def inputs_of(dataset: Dataset) -> int:
    """Number of a data set's inputs: the columns that vary over all of its rows.

    Raises
    ------
    DataError
        None does.
    """
    scaling = fitted(dataset, rows=np.arange(dataset.n, dtype=np.int64), scaling="none").scaling
    assert scaling is not None
    return scaling.width


def _feature(content: Any) -> Feature:
    if isinstance(content, str):
        return Feature(content)
    categories = tuple(map(_text, content["categories"]))
    return Feature(_text(content["column"]), _text(content["kind"]), categories, _whole(content["first"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text; got {value!r}")
    return value


def _flag(value: Any) -> bool | None:
    if value is not None and type(value) is not bool:
        raise TypeError(f"expected true, false or null; got {value!r}")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"expected a whole number; got {value!r}")
    return value
