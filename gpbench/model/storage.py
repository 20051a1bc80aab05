"""Posteriors as npz files: arrays, and one JSON text for the rest. Nothing is ever pickled or unpickled.

All keys begin with ``posterior.``, so that other arrays (predicted probabilities) can lie in the same file.
"""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpbench.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["META", "described", "pack", "read", "write"]

_PREFIX = "posterior."
META = _PREFIX + "meta"
"""The array that holds the JSON part."""
_FORMAT = 1

Arrays = dict[str, npt.NDArray[Any]]


def pack(kind: str, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Arrays:
    """Arrays that hold a posterior, ready for ``numpy.savez``.

    Parameters
    ----------
    kind : str
        What the reader must build: ``"gp"`` for :class:`gpbench.model.posterior.Posterior`.
    meta : mapping
        What JSON can hold (no NaN).
    arrays : mapping
        Numeric arrays.

    Raises
    ------
    UsageError
        ``meta`` is not what JSON can hold.
    """
    try:
        text = json.dumps({"format": _FORMAT, "kind": kind, **meta}, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"a posterior's facts and parameters must be what JSON can hold: {error}") from None
    packed: Arrays = {META: np.frombuffer(text.encode(), dtype=np.uint8)}
    packed.update({_PREFIX + name: values for name, values in arrays.items()})
    return packed


def described(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """The JSON part of a packed posterior; empty where there is none.

    Parameters
    ----------
    arrays : mapping
        With :data:`META` among them.
    """
    found: dict[str, Any] = json.loads(arrays[META].tobytes()) if META in arrays else {}
    return found


def write(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write an npz file under a temporary name, then rename it."""
    unfinished = path.with_name(path.name + ".unfinished")
    with unfinished.open("wb") as file:
        np.savez(file, allow_pickle=False, **dict(arrays))
    unfinished.replace(path)


def read(path: Path) -> tuple[str, dict[str, Any], Arrays]:
    """Kind, JSON part and arrays of a posterior in an npz file.

    Raises
    ------
    DataError
        The file cannot be read, is broken, holds pickles, or holds no posterior.
    """
    try:
        found = np.load(path, allow_pickle=False)
        if not isinstance(found, np.lib.npyio.NpzFile):
            raise DataError(f"{path} holds no saved posterior: expected an npz file, got a single array")
        with found:
            arrays = {name.removeprefix(_PREFIX): found[name] for name in found.files if name.startswith(_PREFIX)}
        meta = json.loads(arrays.pop("meta").tobytes())
        kind, version = meta.pop("kind"), meta.pop("format")
    except (OSError, EOFError, ValueError, KeyError, AttributeError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} holds no saved posterior: {type(error).__name__}: {error}") from error
    if version != _FORMAT:
        raise DataError(f"{path} holds a posterior of format {version}; this gpbench reads format {_FORMAT}")
    return str(kind), meta, arrays
