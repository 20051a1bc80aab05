"""Conversion of a large csv against pandas' fastest reader, in one run, with one thread each.

Writes a table in the format of HIGGS (label first, 28 numbers with 18 decimals) to a temporary folder, prepares it as a
data set, reads it with ``pandas.read_csv(engine="pyarrow")``, and prints the ratio and the peak memory of each. Each
runs in a process of its own, so that one does not inherit the memory of the other; the file is read once before both,
so that both find it in the page cache.

Usage: python benchmarks/bench_convert.py [--quick] [--gigabytes 1] [--repeats 2] [--limit 1.5]; the quick form converts
a few megabytes and judges no ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from gpbench.data.formats import read_table
from gpbench.data.preparation import Recipe, prepare

COLUMNS = 28
CHUNK_ROWS = 20_000


def write_table(path: Path, size: int) -> int:
    """Write at least ``size`` bytes of rows; the rows of a chunk repeat, since only the text's form matters."""
    rng = np.random.default_rng(0)
    chunk = np.column_stack([rng.integers(0, 2, CHUNK_ROWS), rng.standard_normal((CHUNK_ROWS, COLUMNS))])
    chunk = chunk.astype(np.float32).astype(np.float64)
    lines = "\n".join(",".join(f"{value:.18e}" for value in row) for row in chunk).encode() + b"\n"
    rows = 0
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(lines)
            rows += CHUNK_ROWS
    return rows


def convert(path: Path, folder: Path) -> dict[str, float]:
    calls = 0

    def progress(_read: int, _total: int) -> None:
        nonlocal calls
        calls += 1

    before = peak_mb()
    start = time.perf_counter()
    dataset = prepare(
        lambda: read_table(path, format="csv"),
        Recipe(task="binary", target=0, dtype="float32"),
        id="generated",
        title="generated",
        folder=folder,
        progress=progress,
    )
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "rows": dataset.n, "peak_mb": peak_mb() - before, "progress_calls": calls}


def read_pandas(path: Path) -> dict[str, float]:
    pa.set_cpu_count(1)
    before = peak_mb()
    start = time.perf_counter()
    frame = pd.read_csv(path, engine="pyarrow", header=None)
    return {"seconds": time.perf_counter() - start, "rows": len(frame), "peak_mb": peak_mb() - before}


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def child(task: str, path: Path, folder: Path) -> dict[str, float]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}
    command = [sys.executable, __file__, "--child", task, str(path), str(folder)]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        task, path, folder = sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])
        print(json.dumps(convert(path, folder) if task == "convert" else read_pandas(path)))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=2, help="the best time of each counts")
    parser.add_argument("--limit", type=float, default=1.5, help="exit with 1 above this ratio")
    parser.add_argument("--quick", action="store_true", help="a form of seconds that only shows that it runs")
    options = parser.parse_args()
    if options.quick:
        options.gigabytes, options.repeats, options.limit = 0.01, 1, float("inf")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "table.csv"
        rows = write_table(path, int(options.gigabytes * 1e9))
        size = path.stat().st_size
        with path.open("rb") as file:  # into the page cache
            while file.read(1 << 20):
                pass
        runs = {"convert": [], "pandas": []}
        for _ in range(options.repeats):
            for task, results in runs.items():
                result = child(task, path, folder / "prepared")
                assert result["rows"] == rows, (result, rows)
                results.append(result)
    best = {task: min(results, key=lambda result: result["seconds"]) for task, results in runs.items()}
    print(f"{size / 1e9:.2f} GB csv, {rows:,} rows of {COLUMNS + 1} numbers; one thread")
    for task, label in (("convert", "gpbench conversion"), ("pandas", "pandas.read_csv(engine='pyarrow')")):
        result = best[task]
        speed = size / 1e6 / result["seconds"]
        print(f"{label:36s} {result['seconds']:7.2f} s  {speed:6.0f} MB/s  peak +{result['peak_mb']:.0f} MB")
    ratio = best["convert"]["seconds"] / best["pandas"]["seconds"]
    print(f"ratio {ratio:.2f} (limit {options.limit}); the peak is beyond what was in use before")
    if ratio > options.limit or best["convert"]["peak_mb"] > 1024:
        sys.exit(f"failed: ratio {ratio:.2f}, peak {best['convert']['peak_mb']:.0f} MB where 1,024 MB are allowed")


if __name__ == "__main__":
    main()
