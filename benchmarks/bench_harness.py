"""What the harness adds to training: x-gpc under the harness's watcher against a bare ``fit``, as a ratio in one run.

Bare and watched fits of the same cell alternate; the watched one is timed by the harness's own clock, which leaves its
evaluations out, so that what is left is the watcher's calls and the disturbance that evaluations leave in the caches.
The call at which nothing is due is timed alone too.

Usage: python benchmarks/bench_harness.py [--iterations N] [--pairs N]
"""

from __future__ import annotations

import argparse
import sys
from time import perf_counter

import numpy as np

from gpbench.bench.cell import Limits
from gpbench.bench.clock import Clock
from gpbench.bench.threads import one_pool_size
from gpbench.bench.trace import Watcher
from gpbench.model.inducing import InducingRule
from gpbench.schemes.base import Step
from gpbench.schemes.xgpc import XGPC

ROWS, INPUTS, TEST_ROWS = 10_000, 20, 2_000
LIMIT = 1.02


def fit(scheme, X, y, on_step):
    return scheme.fit(
        X,
        y,
        inducing=InducingRule("random", count="100", seed=0),
        likelihood=scheme.likelihood("binary", 2),
        classes=2,
        rng=np.random.default_rng(0),
        on_step=on_step,
    )


def bare(scheme, X, y):
    start = perf_counter()
    fit(scheme, X, y, lambda _: None)
    return perf_counter() - start


def watched(scheme, X, y, test):
    def evaluate(posterior):
        log_density, error, _ = posterior.score(*test)
        return -float(np.mean(log_density)), float(np.mean(error))

    clock = Clock()
    watcher = Watcher(clock, evaluate, limits=Limits(seconds=1e6, iterations=10**9))
    clock.start()
    fit(scheme, X, y, watcher)
    clock.stop()
    return clock.seconds, len(watcher.trace.iteration)


def call_when_nothing_is_due(calls=200_000):
    """Seconds of one call, less those of an empty one."""
    clock = Clock()
    watcher = Watcher(clock, lambda _: (0.0, 0.0), limits=Limits(seconds=1e6, iterations=10**9))
    step = Step(1, bound=None, posterior=lambda: None)
    clock.start()
    watcher(step)
    times = []
    for on_step in (watcher, lambda _: None):
        watcher._due = float("inf")  # noqa: SLF001  # the common case alone
        start = perf_counter()
        for _ in range(calls):
            on_step(step)
        times.append((perf_counter() - start) / calls)
    return times[0] - times[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=4000)
    parser.add_argument("--pairs", type=int, default=7)
    wanted = parser.parse_args()
    rng = np.random.default_rng(1)
    X = rng.normal(size=(ROWS + TEST_ROWS, INPUTS))
    y = (np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=len(X)) > 0).astype(np.int64)
    test = X[ROWS:], y[ROWS:]
    failed = False
    with one_pool_size(1):
        call = call_when_nothing_is_due()
        for kind in ("fixed", "learned"):
            scheme = XGPC(hyperparameters=kind, max_iterations=wanted.iterations, stop="none")
            bare(scheme, X[:ROWS], y[:ROWS])  # warm
            alone, under, looks = [], [], 0
            for _ in range(wanted.pairs):
                alone.append(bare(scheme, X[:ROWS], y[:ROWS]))
                seconds, looks = watched(scheme, X[:ROWS], y[:ROWS], test)
                under.append(seconds)
            step = min(alone) / wanted.iterations
            ratio = min(under) / min(alone)
            share = call / step
            failed |= share > LIMIT - 1
            print(
                f"hyper-parameters {kind}: bare step {step * 1e6:.0f} us; watched / bare {ratio:.3f} "
                f"({looks} evaluations off the clock); a call at which nothing is due {call * 1e6:.2f} us, "
                f"{share:.2%} of a step (at most {LIMIT - 1:.0%})"
            )
    if failed:
        sys.exit("the harness adds more than it may")


if __name__ == "__main__":
    main()
