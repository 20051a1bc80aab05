"""A cell: one method on one split with one seed; the unit of work, of caching, of failure and of distribution.

A cell is known by its identity, the canonical description of all that its numbers depend on and of nothing else, and
by the hash of that, its key. The order of options, the plan that asked for it, threads, folders and earlier runs play
no part. :class:`CellSpec` is what a cell is before it runs; what became of it, :class:`gpbench.bench.result.Result`,
is a ``CellSpec`` with the outcome beside it, so that both have one :meth:`CellSpec.identity`. Whoever wants to know
whether two cells are the same, wholly or but for some of what describes them, asks it and builds no key of his own.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping  # noqa: TC003  # gpbench.typed reads the annotations
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gpbench.errors import UsageError

__all__ = [
    "CONTENT",
    "FORMAT",
    "SEEDS",
    "SPLIT",
    "CellSpec",
    "Identity",
    "Limits",
    "OriginSpec",
    "SplitSpec",
    "canonical",
    "generator",
]

#: Version of the stored results' format; part of every key.
FORMAT = 2

#: Parts of a description, for :meth:`Identity.but_for`: which of the protocol's splits.
SPLIT = ("split.index", "split.count")
#: Seeds of the shuffling and of the scheme.
SEEDS = ("split.seed", "seed")
#: What is known only once the data set is open.
CONTENT = ("checksum", "likelihood")

#: The parts of a description, in the order of the stored file.
_PARTS = (
    "format", "dataset", "checksum", "method", "version", "settings", "likelihood", "limits", "scaling", "split",
    "seed", "source", "changes", "origin",
)  # fmt: skip


def canonical(value: Any) -> str:
    """JSON with one spelling: sorted names, no blanks, floats as Python prints them, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


@dataclass(frozen=True, eq=False)
class Identity:
    """What makes a cell the cell that it is.

    Attributes
    ----------
    description : mapping
        All that its numbers depend on, as JSON has it. What a cell does not have (an origin, a plug-in's source) is
        left out, so that a new part leaves the keys of the cells without it alone.
    """

    description: Mapping[str, Any]

    @cached_property
    def key(self) -> str:
        """Twenty hexadecimal digits that name the cell."""
        return hashlib.sha256(canonical(self.description).encode("ascii")).hexdigest()[:20]

    def but_for(self, *parts: str) -> str:
        """A text that is the same for cells that differ in these parts alone.

        An origin's key plays no part, since it depends on all of them: its method, version and settings do.

        Parameters
        ----------
        *parts : str
            Of the description, or of its split with a dot: :data:`SPLIT`, :data:`SEEDS`, :data:`CONTENT` or others.
        """
        for part in parts:
            assert part.partition(".")[0] in _PARTS, f"{part} is no part of a cell's description"
        kept = {name: value for name, value in self.description.items() if name not in parts}
        for name in ("split", "origin"):
            if name in kept:
                kept[name] = {
                    each: value for each, value in kept[name].items() if f"{name}.{each}" not in (*parts, "origin.key")
                }
        return canonical(kept)

    @property
    def group(self) -> str:
        """The same for cells that may be averaged: those that differ in split and seeds alone."""
        return self.but_for(*SPLIT, *SEEDS)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long a cell may train, and on how many rows it is trained and tested. Reaching a limit is no failure.

    Attributes
    ----------
    seconds : float or None
        Training seconds after which the harness stops a scheme.
    iterations : int or None
        Iterations after which the harness stops a scheme.
    test_rows : int or None
        At most so many rows are held out for testing.
    train_rows : int or None
        At most so many of the split's training rows are trained on.

    Raises
    ------
    UsageError
        A limit is out of range.
    """

    seconds: float | None = None
    iterations: int | None = None
    test_rows: int | None = None
    train_rows: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None:
            number = type(self.seconds) in (int, float) and math.isfinite(self.seconds)
            if not (number and self.seconds > 0):
                raise UsageError(f"the limit on seconds must be a positive number; got {self.seconds!r}")
            object.__setattr__(self, "seconds", float(self.seconds))
        for name in ("iterations", "test_rows", "train_rows"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise UsageError(f"the limit on {name} must be a positive integer; got {value!r}")

    def description(self) -> dict[str, Any]:
        """The limits that are set; absent ones are left out, so that a new kind of limit leaves old keys alone."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def generator(seed: int, *, index: int) -> np.random.Generator:
    """A scheme's source of randomness, a function of the seed and the split's index."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index, 0)))


@dataclass(frozen=True, kw_only=True)
class SplitSpec:
    """Which division of a data set into training and test rows.

    Attributes
    ----------
    protocol : str
        Canonical text of the protocol: ``"folds:10"``.
    index, count : int
        Which of how many, from 0.
    seed : int
        Of the shuffling.
    """

    protocol: str
    index: int
    count: int
    seed: int

    def description(self) -> dict[str, Any]:
        """As it stands in a result."""
        return {"protocol": self.protocol, "index": self.index, "count": self.count, "seed": self.seed}

    def inducing_seed(self) -> int:
        """Seed of the inducing inputs: of the split alone, so that methods that share a rule share Z."""
        return int(np.random.SeedSequence(self.seed, spawn_key=(self.index, 1)).generate_state(1)[0])


@dataclass(frozen=True, kw_only=True)
class OriginSpec:
    """The cell whose hyper-parameters another one is given.

    Attributes
    ----------
    key : str
    method, version : str, int
    settings : mapping
    source : str or None
        As for :class:`CellSpec`.
    """

    key: str
    method: str
    version: int
    settings: Mapping[str, Any] = field(hash=False)
    source: str | None = None

    def description(self) -> dict[str, Any]:
        """As it stands in a result."""
        settings = dict(sorted(self.settings.items()))
        found = {"key": self.key, "method": self.method, "version": self.version, "settings": settings}
        return found if self.source is None else {**found, "source": self.source}


@dataclass(frozen=True, kw_only=True)
class CellSpec:
    """What one cell is, completely.

    Attributes
    ----------
    method, version : str, int
        The method's id and the version of its numbers.
    settings : mapping
        Every setting of the method with its value, defaults included.
    limits : Limits
    dataset, checksum : str
        Id, and sha256 of the prepared content.
    split : SplitSpec
    seed : int
        Of the scheme's random numbers.
    likelihood : str
        Name of p(y | f).
    scaling : str
        How the inputs are scaled by the training rows; see :mod:`gpbench.data.scaling`.
    source : str or None
        Of a plug-in's method: the hash of its package's source, see :mod:`gpbench.bench.code`.
    changes : str or None
        In a checkout with changes: the hash of the changed files that decide on numbers.
    origin : OriginSpec or None
        The cell whose hyper-parameters this one is given.
    """

    method: str
    version: int
    settings: Mapping[str, Any] = field(hash=False)
    limits: Limits
    dataset: str
    checksum: str
    split: SplitSpec
    seed: int
    likelihood: str
    scaling: str = "standard"
    source: str | None = None
    changes: str | None = None
    origin: OriginSpec | None = None

    def identity(self) -> Identity:
        """The canonical description, and its key."""
        found = {
            "format": FORMAT,
            "dataset": self.dataset,
            "checksum": self.checksum,
            "method": self.method,
            "version": self.version,
            "settings": dict(sorted(self.settings.items())),
            "likelihood": self.likelihood,
            "limits": self.limits.description(),
            "scaling": self.scaling,
            "split": self.split.description(),
            "seed": self.seed,
            "source": self.source,
            "changes": self.changes,
            "origin": None if self.origin is None else self.origin.description(),
        }
        return Identity({name: found[name] for name in _PARTS if found[name] is not None})

    @cached_property
    def key(self) -> str:
        """Twenty hexadecimal digits that name the cell."""
        return self.identity().key

    @property
    def unit(self) -> tuple[str, int, int, int]:
        """What methods are paired by on a data set: the split's protocol, index and seed, and the scheme's seed."""
        return self.split.protocol, self.split.index, self.split.seed, self.seed

    @property
    def label(self) -> str:
        """The cell in words, for messages."""
        return f"{self.method} on {self.dataset}, {self.split.protocol} {self.split.index + 1}/{self.split.count}"

    def generator(self) -> np.random.Generator:
        """The scheme's source of randomness, a function of the seed and the split's index."""
        return generator(self.seed, index=self.split.index)
