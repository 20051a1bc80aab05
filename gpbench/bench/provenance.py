"""Where a number came from: code, libraries, processor, threads, time."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from gpbench.bench.code import code, plugins
from gpbench.bench.resources import pools

__all__ = ["PACKAGES", "machine", "now", "provenance", "versions"]

#: Packages whose versions can change a number.
PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "pyarrow", "threadpoolctl")


def now() -> str:
    """The present moment in UTC, ISO 8601 to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def provenance(*, threads: int, jobs: int, start: str, end: str) -> dict[str, Any]:
    """What belongs to a result beside its numbers.

    Parameters
    ----------
    threads : int
        Threads that the numerical libraries were held to.
    jobs : int
        Cells that ran at the same time; above one, clocks were disturbed.
    start, end : str
        UTC, see :func:`now`.
    """
    return {
        **code(),
        "python": platform.python_version(),
        "packages": versions(PACKAGES),
        "plugins": plugins(),
        "blas": [{name: value for name, value in pool.items() if name != "threads"} for pool in pools()],
        **machine(),
        "threads": threads,
        "jobs": jobs,
        "start": start,
        "end": end,
    }


@cache
def versions(names: tuple[str, ...]) -> dict[str, str | None]:
    """Versions of installed packages; None where one is absent."""
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


@cache
def machine() -> dict[str, Any]:
    """Processor, cores, memory and system."""
    return {
        "cpu": _processor(),
        "cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "platform": platform.platform(),
    }


def _processor() -> str:
    """The processor's model; timings are comparable only where it is the same."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    except OSError:  # no Linux
        pass
    return platform.processor() or platform.machine()
