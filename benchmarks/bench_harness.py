"""What the harness adds to training: x-gpc under the harness's watcher against a bare ``fit``.

Bare and watched fits alternate; of the watched ones the harness's own clock counts, which leaves its evaluations out,
so that what is left is the watcher's calls and the disturbance that evaluations leave in the caches. The call at which
nothing is due is timed alone too, and may cost a fiftieth of a step. Usage: bench_harness.py [--quick]
"""

from time import thread_time

import numpy as np
from _timing import Report, fit, seconds_of, turns

from gpbench.bench.cell import Limits
from gpbench.bench.clock import Clock, LogGrid
from gpbench.bench.trace import Watcher
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


if __name__ == "__main__":
    main()
