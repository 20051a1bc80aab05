"""Memory of a cell: its peak, and a bound on it."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["bounded_memory", "can_bound_memory", "peak_rss_mb", "reset_peak"]

_STATUS = Path("/proc/self/status")


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
