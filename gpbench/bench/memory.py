"""Peak memory of a cell."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import psutil

__all__ = ["peak_rss_mb", "reset_peak"]

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
