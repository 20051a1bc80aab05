"""What a bug report needs: versions, BLAS and threads, folders, mirror and store, each with what is wrong with it."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np  # noqa: F401  # loads its BLAS, so that it is seen
import scipy.linalg  # noqa: F401  # the same

from gpbench.bench.code import changes, code, plugins
from gpbench.bench.methods import plugin_problems
from gpbench.bench.metrics import metric_problems
from gpbench.bench.provenance import PACKAGES, machine, versions
from gpbench.bench.resources import pools
from gpbench.bench.store import Store
from gpbench.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.config import Config

__all__ = ["health", "lines", "thread_warnings"]

_OTHERS = ("click", "matplotlib", "openml", "platformdirs", "psutil")
_EXTRAS = ("dask", "distributed", "polyagamma")


def health(config: Config) -> dict[str, Any]:
    """Everything at once, ready for JSON. ``warnings`` holds what is wrong, a sentence each."""
    blas = pools()
    data = _folder(config.data)
    mirror = _mirror(config.mirror)
    store = _store(config.store)
    warnings = [*thread_warnings(blas), *(str(problem) for problem in (*plugin_problems(), *metric_problems()))]
    for part in (data, mirror, store):
        warnings += part.pop("warnings")
    return {
        **code(),
        "changes": changes(),
        "plugins": plugins(),
        "python": platform.python_version(),
        "packages": versions(PACKAGES + _OTHERS),
        "extras": versions(_EXTRAS),
        "blas": blas,
        **machine(),
        "data": {**data, "origin": config.origins["data"]},
        "mirror": {**mirror, "origin": config.origins["mirror"]},
        "store": {**store, "origin": config.origins["results"]},
        "warnings": warnings,
    }


def thread_warnings(blas: Sequence[dict[str, Any]]) -> list[str]:
    """Pools that would fight over the cores outside gpbench."""
    several = [pool for pool in blas if pool["api"] == "blas" and pool["threads"] > 1]
    if len(several) < 2:
        return []
    names = " and ".join(f"{pool['owner']}'s ({pool['threads']} threads)" for pool in several)
    remedy = "`gpbench run` holds both to one thread, your own scripts should set OPENBLAS_NUM_THREADS=1"
    return [f"the BLAS pools {names} spin against one another; {remedy}"]


def lines(found: dict[str, Any]) -> list[str]:
    """The same for people, a line each."""
    commit, changed = found["commit"], found["changes"]
    state = "" if commit is None else f" (commit {commit[:12]}{', with changes' if found['dirty'] else ''})"
    text = [
        f"gpbench    {found['gpbench']}{state}",
        f"python     {found['python']} on {found['platform']}",
        f"processor  {found['cpu']}, {found['cores']} cores ({found['logical_cores']} logical)",
        f"memory     {found['memory_gb']} GB",
        *([] if changed is None else [f"changes    {changed}: files that decide on numbers are not committed"]),
        "packages   " + ", ".join(f"{name} {version or 'missing'}" for name, version in found["packages"].items()),
        "plug-ins   " + (", ".join(f"{name} {version}" for name, version in found["plugins"].items()) or "none"),
        "extras     " + ", ".join(f"{name} {version or 'not installed'}" for name, version in found["extras"].items()),
    ]
    for pool in found["blas"]:
        words = [pool["library"], pool.get("version"), pool.get("architecture")]
        name = " ".join(str(word) for word in words if word is not None)
        text.append(f"threads    {pool['owner']}: {name}, {pool['threads']} threads")
    data, mirror, store = found["data"], found["mirror"], found["store"]
    text.append(f"data       {data['place']} ({data['origin']}), {data['free_gb']} GB free")
    text.append(f"mirror     {mirror['place'] or 'none'} ({mirror['origin']})")
    counts = ", ".join(f"{number} {status}" for status, number in store["cells"].items()) or "no cells"
    text.append(f"store      {store['place']} ({store['origin']}), {counts}, {store['free_gb']} GB free")
    text += [f"warning: {words}" for words in found["warnings"]]
    return text


def _folder(place: Path) -> dict[str, Any]:
    """Whether it exists and can be written, and the room there."""
    warnings = []
    nearest = next(each for each in (place, *place.resolve().parents) if each.is_dir())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        warnings.append(f"{place} cannot be written: {error.strerror or error}")
    free = round(shutil.disk_usage(nearest).free / 2**30, 1)
    if free < 1:
        warnings.append(f"only {free} GB are free at {place}")
    return {"place": str(place), "exists": place.is_dir(), "free_gb": free, "warnings": warnings}


def _mirror(place: str | None) -> dict[str, Any]:
    """A folder that can be read, or an address that answers."""
    if place is None:
        return {"place": None, "reachable": None, "warnings": []}
    problem = _unreachable(place) if "://" in place else _unreadable(Path(place))
    warnings = [] if problem is None else [f"the mirror {place} cannot be used: {problem}"]
    return {"place": place, "reachable": problem is None, "warnings": warnings}


def _unreadable(folder: Path) -> str | None:
    try:
        os.listdir(folder)  # noqa: PTH208  # listing is the test
    except OSError as error:
        return error.strerror or str(error)
    return None


def _unreachable(address: str) -> str | None:
    import requests  # noqa: PLC0415  # only where there is an address

    try:
        requests.head(address, timeout=5, allow_redirects=True)
    except requests.RequestException as error:
        return str(error)
    return None


def _store(place: Path) -> dict[str, Any]:
    found = _folder(place)
    store = Store(place)
    counts: Counter[str] = Counter()
    try:
        counts.update(result.status for result in store.results())
    except StoreError as error:
        found["warnings"].append(str(error))
    found["warnings"] += store.problems
    others = {f"of format {name}": number for name, number in store.others.items()}
    return {**found, "cells": dict(sorted({**counts, **others}.items()))}
