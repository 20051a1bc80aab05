"""The full size of HIGGS: a generated file in its format, 11,000,000 x 28 and the label, converted and trained on.

Each phase runs in a process of its own, so that its peak memory is its own: writing the text (8 GB; the formatted rows
of a block repeat, since their content plays no part here), converting it to memory-mapped float32, and one cell of
x-gpc and one of pep through the harness (split, scaling, training, testing). Prints seconds and peak resident memory,
memory-mapped rows in use included, and fails above the limit. Everything is deleted at the end.

Usage: python benchmarks/bench_scale.py [--quick] [--rows 11000000] [--iterations 2000] [--folder DIR] [--limit-gb 3]
The quick form has 20,000 rows and 200 iterations.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np

from gpbench.bench.cell import Limits
from gpbench.bench.choices import choose
from gpbench.bench.expand import Request, expand
from gpbench.bench.methods import method
from gpbench.bench.runner import run_cell
from gpbench.data.formats import read_table
from gpbench.data.preparation import Recipe, open_prepared, prepare

INPUTS = 28
BLOCK_ROWS = 50_000
TEST_ROWS = 100_000


def generate(folder, rows, _):
    rng = np.random.default_rng(0)
    n = min(BLOCK_ROWS, rows)
    X = rng.normal(size=(n, INPUTS))
    y = (X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.normal(size=n) > 0).astype(float)
    lines = [",".join(f"{value:.18e}" for value in row) + "\n" for row in np.column_stack([y, X])]
    block = "".join(lines).encode()
    with (folder / "HIGGS.csv").open("wb") as file:
        for _ in range(rows // n):
            file.write(block)
        file.write("".join(lines[: rows % n]).encode())
    return {"gigabytes": (folder / "HIGGS.csv").stat().st_size / 1e9}


def convert(folder, rows, _):
    dataset = prepare(
        lambda: read_table(folder / "HIGGS.csv", format="csv", delimiter=",", header=False),
        Recipe(task="binary", target=0, dtype="float32"),
        id="higgs-generated",
        title="Generated rows in the format of HIGGS",
        folder=folder / "prepared",
    )
    assert dataset.X.shape == (rows, INPUTS), dataset.X.shape
    return {}


@dataclass(frozen=True)
class Prepared:
    """Rows that were prepared already."""

    folder: Path

    def load(self, progress=None):  # noqa: ARG002  # the interface of a source
        """Open them."""
        return open_prepared(self.folder)


def train(folder, rows, iterations, *, name="x-gpc"):
    request = Request(
        choices=choose([method(name)], {}, assignments={}, iterations=iterations),
        sources=[Prepared(folder / "prepared")],
        split="folds:10",
        limits=Limits(iterations=iterations, test_rows=min(TEST_ROWS, rows)),
        indices=[0],
    )
    (task,) = expand(request)
    result = run_cell(task).result
    if not result.finished:
        sys.exit(f"the cell failed: {result.problem}")
    return result.metrics


PHASES = {"generate": generate, "convert": convert, "x-gpc": train, "pep": partial(train, name="pep")}


def peak_gb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=11_000_000)
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--folder", type=Path, help="where 10 GB are free; the system's temporary folder by default")
    parser.add_argument("--limit-gb", type=float, default=3.0)
    parser.add_argument("--phase", choices=PHASES, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="a form of seconds that only shows that it runs")
    wanted = parser.parse_args()
    if wanted.quick:
        wanted.rows, wanted.iterations = 20_000, 200
    if wanted.phase:
        start = perf_counter()
        found = PHASES[wanted.phase](wanted.folder, wanted.rows, wanted.iterations)
        print(json.dumps({"seconds": perf_counter() - start, "peak_gb": peak_gb(), **found}))
        return
    worst = 0.0
    with tempfile.TemporaryDirectory(prefix="gpbench-scale-", dir=wanted.folder) as folder:
        for phase in PHASES:
            command = [sys.executable, __file__, "--phase", phase, "--folder", folder]
            command += ["--rows", str(wanted.rows), "--iterations", str(wanted.iterations)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found = json.loads(done.stdout)
            worst = max(worst, found["peak_gb"] if phase != "generate" else 0.0)
            print(f"{phase:9s} {found.pop('seconds'):7.1f} s   peak {found.pop('peak_gb'):.2f} GB   {words(found)}")
            sys.stdout.flush()
    print(f"peak memory of conversion and training: {worst:.2f} GB (at most {wanted.limit_gb:g} GB)")
    if worst > wanted.limit_gb:
        sys.exit("peak memory is above the limit")


def words(found):
    kept = {name: value for name, value in found.items() if isinstance(value, int | float)}
    return ", ".join(f"{name} {value:.4g}" for name, value in kept.items())


if __name__ == "__main__":
    main()
