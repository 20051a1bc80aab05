"""A cell: one method on one split with one seed; the unit of work, of caching, of failure and of distribution.

A cell is known by its key, a hash of its canonical description: all that its numbers depend on and nothing else. The
order of options, the plan that asked for it, threads, folders and earlier runs play no part.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpbench.bench.limits import Limits

__all__ = ["FORMAT", "CellSpec", "SplitSpec", "canonical", "key_of"]

#: Version of the stored results' format; part of every key.
FORMAT = 1

#: The fields of a stored result that describe its cell, in the order of the file.
_DESCRIPTION = (
    "format", "dataset", "checksum", "method", "version", "settings", "likelihood", "limits", "scaling", "split",
    "seed",
)  # fmt: skip


def canonical(value: Any) -> str:
    """JSON with one spelling: sorted names, no blanks, floats as Python prints them, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def key_of(description: Mapping[str, Any]) -> str:
    """The key of a description, or of a stored result, whose other fields are passed over.

    Raises
    ------
    KeyError
        A field of the description is missing.
    """
    described = {name: description[name] for name in _DESCRIPTION}
    if "origin" in description:
        described["origin"] = description["origin"]
    text = canonical(described)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:20]


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
    origin : mapping or None
        The cell whose hyper-parameters this one is given: its ``key``, ``method``, ``version`` and ``settings``.
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
    origin: Mapping[str, Any] | None = field(default=None, hash=False)

    def description(self) -> dict[str, Any]:
        """The canonical description, which is also the head of the stored result.

        What a cell without an origin does not have is left out, so that its key is what it was before there were any.
        """
        origin = {} if self.origin is None else {"origin": dict(self.origin)}
        return {
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
            **origin,
        }

    @cached_property
    def key(self) -> str:
        """Twenty hexadecimal digits that name the cell."""
        return key_of(self.description())

    @property
    def label(self) -> str:
        """The cell in words, for messages."""
        return f"{self.method} on {self.dataset}, {self.split.protocol} {self.split.index + 1}/{self.split.count}"

    def generator(self) -> np.random.Generator:
        """The scheme's source of randomness, a function of the seed and the split's index."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self.split.index, 0)))
