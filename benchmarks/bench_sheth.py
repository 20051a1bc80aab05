"""The fixed point for counts, two classes and ordinal targets: an iteration against its matrix products, and a fit.

Usage: bench_sheth.py [--quick] [--blogfeedback]: on generated rows of the shape of BlogFeedback, or on its own 52,397,
which GPBENCH_MIRROR must hold. An iteration is one Newton step of the mean and one application of T(V): the sums
Tᵀ diag(λ) T before and after the step, and the new variances, for which T is multiplied with a triangle. See
``_timing.py`` for how things are measured.
"""

import os
from time import thread_time

import numpy as np
from _timing import Iterations, Report, fit
from scipy.linalg import blas

from gpbench.bench.resources import peak_rss_mb, reset_peak
from gpbench.config import load_config
from gpbench.data.load import load
from gpbench.data.scaling import ScaledRows, standardise

N, D, M = 52_397, 280, 200
BLOCK = 1024
MEMORY = 256
"""Megabytes beyond the data that a batch scheme may take."""
FIXED = {"hyperparameters": "fixed", "kernel": "se"}


def generated(n, d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    f = 1.0 + np.sin(X[:, 0]) + 0.8 * X[:, 1] * (X[:, 2] > 0)
    return X, rng.poisson(np.exp(np.clip(f, -4.0, 6.0)))


def blogfeedback():
    dataset = load("blogfeedback", folder=load_config().data, mirror=os.environ.get("GPBENCH_MIRROR"))
    train, _ = dataset.given[0]
    return ScaledRows(dataset.X, train, standardise(dataset.X, train)).array(), dataset.y[train]


def products(n, M):
    """The products of an iteration, block by block: Tᵀ diag(λ) T twice, and T C⁻ᵀ for the variances."""
    rng = np.random.default_rng(1)
    sizes = [BLOCK] * (n // BLOCK) + ([n % BLOCK] if n % BLOCK else [])
    blocks = [np.asfortranarray(rng.standard_normal((size, M))) for size in sizes]
    L = np.asfortranarray(np.tril(np.full((M, M), 1e-9), -1) + np.eye(M))  # may be applied again and again
    G, out = np.zeros((M, M), order="F"), {size: np.empty((size, M), order="F") for size in sizes}

    def run():
        for _ in range(2):
            for T in blocks:
                blas.dsyrk(1.0, T, trans=1, lower=1, c=G, overwrite_c=1)
        for T in blocks:
            np.copyto(out[len(T)], T)
            blas.dtrmm(1.0, L, out[len(T)], side=1, lower=1, trans_a=1, overwrite_b=1)

    return run


def add_options(parser):
    parser.add_argument("--blogfeedback", action="store_true", help="the data set itself in place of generated rows")


def whole_fit(report, X, y, M):
    """Seconds, iterations and megabytes of a fit to its end."""
    steps = []
    reset_peak()
    before, start = peak_rss_mb(), thread_time()
    fit("gvi-fixed-point", X, y, task="count", M=M, on_step=lambda step: steps.append(step.bound), **FIXED)
    report.number("a fit to its end", thread_time() - start, "s", goal=60)
    report.number("its iterations", len(steps))
    report.number("memory beyond the data", peak_rss_mb() - before, "MB", limit=MEMORY)
    if not (np.isfinite(steps).all() and steps[-1] >= steps[0]):
        report.fail(f"the bound must rise; it went from {steps[0]} to {steps[-1]}")


def main():
    with Report.of(__doc__, add_options) as report:
        quick = report.options.quick
        n, d, m = (4_000, 20, 50) if quick else (N, D, M)
        X, y = blogfeedback() if report.options.blogfeedback and not quick else generated(n, d)
        print(f"{'BlogFeedback' if report.options.blogfeedback else 'generated rows'} {X.shape}, M = {m}")
        whole_fit(report, X, y, m)
        tasks = {"count": y, "binary": (y > 0).astype(int), "ordinal": np.minimum(y, 4)}
        for task, targets in tasks.items():
            seconds, floors, pieces = [], [], {"products": products(len(X), m)}
            for _ in range(3 if quick else 8):  # the second iteration of each fit: the fourth has nothing left to do
                measured = Iterations(pieces, rounds=1, warm=1)
                fit("gvi-fixed-point", X, targets, task=task, M=m, on_step=measured, newton_steps=1, **FIXED)
                seconds += measured.seconds
                floors += measured.pieces["products"]
            report.seconds(f"{task}: an iteration", seconds, unit="ms")
            report.ratio(f"{task}: an iteration / its products", seconds, floors, goal=1.5)


if __name__ == "__main__":
    main()
