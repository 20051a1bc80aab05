"""What the harness adds to training: x-gpc under the harness's watcher against a bare ``fit``, and to a cell.

Bare and watched fits alternate; of the watched ones the harness's own clock counts, which leaves its evaluations out,
so that what is left is the watcher's calls and the disturbance that evaluations leave in the caches. The call at which
nothing is due is timed alone too, and may cost a fiftieth of a step.

A sweep of small cells on a warm worker says what a cell costs beyond training and looks: handing it over, dividing and
scaling its rows, its provenance, its way back and its file. Processor seconds of both processes, per cell, less those
of training and of the looks; at most 10 ms. The worker's start is told apart. Usage: bench_harness.py [--quick]
"""

import tempfile
from contextlib import closing
from pathlib import Path
from time import perf_counter, process_time, thread_time

import numpy as np
import psutil
from _timing import Report, fit, seconds_of, turns

from gpbench.bench.cell import Limits
from gpbench.bench.choices import choose
from gpbench.bench.clock import Clock, LogGrid
from gpbench.bench.expand import Request, expand
from gpbench.bench.methods import method
from gpbench.bench.sources import CatalogueSource
from gpbench.bench.store import Store
from gpbench.bench.sweep import sweep
from gpbench.bench.trace import Watcher
from gpbench.bench.watchdog import Usage
from gpbench.bench.workers import Workers
from gpbench.schemes.base import Step

INPUTS, M, B = 20, 100, 100
SHARE = 0.02
"""Of a step, for the call at which nothing is due."""


def evaluation(X, y):
    """What the harness does at a look."""

    def evaluate(posterior):
        log_density, error, _ = posterior.score(X, y)
        return -float(np.mean(log_density)), float(np.mean(error))

    return evaluate


def watcher_of(clock, evaluate, grid=None):
    return Watcher(clock, evaluate, limits=Limits(seconds=1e6, iterations=10**9), grid=grid)


def call_when_nothing_is_due(calls):
    """Seconds of one call, less those of an empty one; after the first step the next look is a lifetime away."""
    clock = Clock()
    watcher = watcher_of(clock, lambda _: (0.0, 0.0), LogGrid(first=1e9))
    step = Step(1, bound=None, posterior=lambda: None)
    clock.start()
    watcher(step)
    seconds = [seconds_of(lambda call=call: call(step), calls) for call in (watcher, lambda _: None)]
    clock.stop()
    assert len(watcher.trace.iteration) == 1, "nothing was due"
    return seconds[0] - seconds[1]


CELL = 10e-3
"""Seconds of a cell beyond training and looks."""


def cells(count):
    """What a sweep of so many cells costs: seconds a cell beyond training and looks, and of the worker's start."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        source = CatalogueSource("twonorm-gen:500", place / "data", None)
        methods = choose([method("x-gpc")], {}, assignments={}, iterations=20)
        tasks = expand(
            Request(choices=methods, sources=[source], split=f"holdout:50*{count}", limits=Limits(iterations=20))
        )
        begin = perf_counter()
        with closing(Workers(1)) as workers:
            list(workers.run(tasks[:1]))
            start = perf_counter() - begin
            (child,) = psutil.Process().children()
            usage = Usage(child.pid)
            own, worker = process_time(), usage.own()
            results = sweep(tasks[1:], Store(place / "runs"), executor=workers)
            used = process_time() - own + usage.own() - worker
    inside = sum(cell.metrics["cpu_seconds"] + cell.provenance["look_seconds"] for cell in results)
    return (used - inside) / len(results), start


def main():
    with Report.of(__doc__) as report:
        quick = report.options.quick
        rows, tests, iterations, rounds = (1_000, 200, 100, 2) if quick else (10_000, 2_000, 4_000, 7)
        rng = np.random.default_rng(1)
        X = rng.normal(size=(rows + tests, INPUTS))
        y = (np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=len(X)) > 0).astype(np.int64)
        evaluate = evaluation(X[rows:], y[rows:])
        call = np.median([call_when_nothing_is_due(2_000 if quick else 200_000) for _ in range(5)])
        for kind in ("fixed", "learned"):
            options = {"M": M, "batch_size": B, "stop": "none", "hyperparameters": kind, "max_iterations": iterations}

            def bare(options=options):
                start = thread_time()
                fit("x-gpc", X[:rows], y[:rows], on_step=lambda _: None, **options)
                return thread_time() - start

            def watched(options=options):
                clock = Clock()
                watcher = watcher_of(clock, evaluate)
                clock.start()
                fit("x-gpc", X[:rows], y[:rows], on_step=watcher, **options)
                clock.stop()
                assert len(watcher.trace.iteration) > 1, "expected looks while it trains"
                return clock.cpu_seconds

            bare()  # what a process does once is behind it
            found = turns({"bare": bare, "watched": watched}, rounds=rounds)
            steps = np.array(found["bare"]) / iterations
            print(f"hyper-parameters {kind}")
            report.seconds("a step", steps)
            report.ratio("watched / bare", found["watched"], found["bare"])
            report.number("a call at which nothing is due, of a step", call / np.median(steps), limit=SHARE)
        print("a cell on a warm worker")
        found = [cells(5 if quick else 60) for _ in range(rounds)]
        report.seconds("the worker's start and first cell", [start for _, start in found], unit="s")
        beyond = float(np.median([seconds for seconds, _ in found]))
        report.number("beyond training and looks", 1e3 * beyond, "ms", limit=1e3 * CELL)


if __name__ == "__main__":
    main()
