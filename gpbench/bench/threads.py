"""Threads of the numerical libraries.

NumPy's and SciPy's wheels carry an OpenBLAS each. With two threads each, the pools spin against one another: a step of
x-gpc (M = b = 100) then takes several times as long as with one. A cell therefore runs on one thread unless told
otherwise, held by threadpoolctl while it trains and is tested, and the number is recorded.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["one_pool_size", "pools"]


@contextmanager
def one_pool_size(threads: int) -> Iterator[None]:
    """Hold every BLAS and OpenMP pool of this process to a number of threads."""
    with _controller(len(sys.modules)).limit(limits=threads):
        _warm(threads)
        yield


@lru_cache(maxsize=1)
def _controller(modules: int) -> ThreadpoolController:  # noqa: ARG001  # a library comes with a module that needs it
    """The pools that are loaded; looking for them takes milliseconds, which a warm worker spends once."""
    return ThreadpoolController()


@cache
def _warm(threads: int) -> None:  # noqa: ARG001  # each number of threads has its own first time
    """Let BLAS make its buffers, which it does at its first call: milliseconds that belong to no scheme."""
    square = np.eye(64, order="F")
    scipy.linalg.cholesky(square @ square, lower=True)


def pools() -> list[dict[str, Any]]:
    """The libraries that hold threads: name, version, architecture of the kernels, threads at this moment."""
    names = {"user_api": "api", "internal_api": "library", "version": "version", "architecture": "architecture"}
    found = []
    for info in _controller(len(sys.modules)).info():
        entry = {new: info.get(old) for old, new in names.items() if info.get(old) is not None}
        found.append({**entry, "threads": info["num_threads"], "owner": _owner(info["filepath"])})
    return found


def _owner(path: str) -> str:
    """The package whose wheel holds a library: ``numpy`` for .../numpy.libs/libscipy_openblas64_.so."""
    folders = [part for part in path.replace("\\", "/").split("/") if part.endswith((".libs", ".dylibs"))]
    return folders[-1].split(".")[0].lstrip(".") if folders else "system"
