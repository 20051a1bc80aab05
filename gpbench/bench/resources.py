"""What a process uses of its machine: threads of the numerical libraries, and memory.

NumPy's and SciPy's wheels carry an OpenBLAS each. With two threads each, the pools spin against one another: a step of
x-gpc (M = b = 100) then takes several times as long as with one. A cell therefore runs on one thread unless told
otherwise, held by threadpoolctl while it trains and is tested, and the number is recorded. Its peak of memory is
recorded too, and its address space can be bounded.
"""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import scipy.linalg
from threadpoolctl import ThreadpoolController

from gpbench.errors import GpbenchWarning, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["bounded_memory", "can_bound_memory", "check_threads", "one_pool_size", "peak_rss_mb", "pools", "reset_peak"]

_STATUS = Path("/proc/self/status")


def check_threads(threads: Any) -> int:
    """A number of threads, numpy's too, as the pools take it.

    Raises
    ------
    UsageError
        It is none, or more than the libraries run, which would be recorded of cells that had fewer.

    Warns
    -----
    GpbenchWarning
        There are more threads than cores.
    """
    whole = isinstance(threads, int | np.integer) and not isinstance(threads, bool)
    if not whole or threads < 1:
        raise UsageError(f"the number of threads must be at least 1; got {threads!r}")
    if threads > (cores := _cores()):
        with _controller(len(sys.modules)).limit(limits=int(threads)):
            most = min((pool["threads"] for pool in pools() if pool["api"] == "blas"), default=threads)
        if threads > most:
            raise UsageError(f"the number of threads must be at most {most}, as many as BLAS runs; got {threads}")
        words = f"{threads} threads are more than the cores of this machine ({cores}); they wait for one another"
        warnings.warn(f"{words}, and training can take many times as long", GpbenchWarning, stacklevel=2)
    return int(threads)


def _cores() -> int:
    """The logical cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else psutil.cpu_count() or 1


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


def reset_peak() -> None:
    """Forget earlier peaks, where the system can (Linux); elsewhere a cell's peak is that of its process so far."""
    with suppress(OSError):  # no Linux, or not allowed: the peak of the process is then an upper bound
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_rss_mb() -> float:
    """Peak resident memory in MiB since :func:`reset_peak`, memory-mapped rows in use included."""
    with suppress(OSError):
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / 1024, 1)
    if sys.platform == "win32":
        return round(float(psutil.Process().memory_info().peak_wset) / 2**20, 1)
    import resource  # noqa: PLC0415  # absent on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1)


def can_bound_memory() -> bool:
    """Whether this system holds a process to an address space; others take the call and do nothing."""
    return sys.platform == "linux"


@contextmanager
def bounded_memory(megabytes: float | None) -> Iterator[None]:
    """Bound this process's address space, memory-mapped files included, within the block.

    Parameters
    ----------
    megabytes : float or None
        Of 2**20 bytes; None bounds nothing.
    """
    if megabytes is None or sys.platform == "win32":
        yield
        return
    import resource  # noqa: PLC0415  # absent on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = int(megabytes * 2**20)
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
