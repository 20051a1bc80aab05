"""The fixed point for counts and two classes: a sweep against its matrix products, and a fit as large as BlogFeedback.

Run ``OPENBLAS_NUM_THREADS=1 python benchmarks/bench_sheth.py [blogfeedback]``: with the data set's name on its 52,397
rows, which GPBENCH_MIRROR must hold; else on generated ones of the same shape. A sweep is one application of T(V): the
expectations at all rows, Tᵀ diag(λ) T, the factor, and the new variances. Both sides are measured turn by turn in many
rounds and the least processor time of each is compared, so that other work on the machine does not decide the ratio.
"""

import os
import sys
import time

import numpy as np
import psutil
from gpbench.schemes.general.settings import Observation
from scipy.linalg import blas
from threadpoolctl import threadpool_limits

from gpbench.bench.memory import peak_rss_mb, reset_peak
from gpbench.config import load_config
from gpbench.data.load import load
from gpbench.data.scaling import ScaledRows, standardise
from gpbench.model.basis import Basis
from gpbench.model.gaussian import GaussianQ
from gpbench.model.inducing import InducingRule
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Logit, Ordinal, Poisson
from gpbench.schemes.general.bound import SparseRows, bound_at, precision_factor, precision_of
from gpbench.schemes.general.gvi_fixed_point import GVIFixedPoint

N, D, M = 52_397, 280, 200
BLOCK = 1024
ROUNDS = 12


def generated(rng):
    X = rng.standard_normal((N, D))
    f = 1.0 + np.sin(X[:, 0]) + 0.8 * X[:, 1] * (X[:, 2] > 0)
    return X, rng.poisson(np.exp(np.clip(f, -4.0, 6.0)))


def blogfeedback():
    dataset = load("blogfeedback", folder=load_config().data, mirror=os.environ.get("GPBENCH_MIRROR"))
    train, _ = dataset.given[0]
    return ScaledRows(dataset.X, train, standardise(dataset.X, train)).array(), dataset.y[train]


def sweep(rows, observation, q):
    """T(V) at q, as the fixed point does it."""
    at = bound_at(rows, observation, q)

    def run():
        _, g, h = rows.expectations(observation, at.mu, at.s)
        precision = precision_of(rows.moments(weights=-2.0 * h, targets=g))
        rows.variances(GaussianQ(q.mean, precision_factor(precision), "precision"))

    return run


def products(rows):
    """The two products of a sweep, block by block: Tᵀ diag(λ) T, and T C⁻ᵀ for the variances."""
    blocks = [T for _, T in rows.blocks()]
    L = np.asfortranarray(np.tril(np.full((M, M), 1e-9), -1) + np.eye(M))  # may be applied again and again
    G, out = np.zeros((M, M), order="F"), {len(T): np.array(T, order="F") for T in blocks}

    def run():
        for T in blocks:
            blas.dsyrk(1.0, T, trans=1, lower=1, c=G, overwrite_c=1)
        for T in blocks:
            blas.dtrmm(1.0, L, out[len(T)], side=1, lower=1, trans_a=1, overwrite_b=1)

    return run


def least(calls):
    """Least processor time of each, measured turn by turn."""
    best = dict.fromkeys(calls, np.inf)
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.process_time()
            call()
            best[name] = min(best[name], time.process_time() - start)
    return best


def fit(X, y):
    """Seconds, megabytes, and a fit with fixed hyper-parameters."""
    scheme = GVIFixedPoint(hyperparameters="fixed", kernel="se", inducing_rule="random")
    reset_peak()
    before, start, cpu = psutil.Process().memory_info().rss / 2**20, time.perf_counter(), time.process_time()
    found = scheme.fit(
        X,
        y,
        inducing=InducingRule("random", count=M, seed=1),
        likelihood=scheme.likelihood("count", 0),
        classes=0,
        rng=np.random.default_rng(0),
        on_step=lambda _: None,
    )
    seconds = time.perf_counter() - start, time.process_time() - cpu
    return seconds, peak_rss_mb() - before, found


def main():
    rng = np.random.default_rng(0)
    real = sys.argv[1:] == ["blogfeedback"]
    X, y = blogfeedback() if real else generated(rng)
    (wall, cpu), grown, found = fit(X, y)
    name = "BlogFeedback" if real else "generated rows"
    print(f"{name} {len(X)} x {X.shape[1]}, M = {M}: {wall:.1f} s ({cpu:.1f} s of processor time; goal 60)")
    print(
        f"  {found.iterations} iterations, gradient {found.facts['gradient']:.1e} (goal 1e-5), bound {found.bound:.3f}"
    )
    print(f"  {grown:.0f} MB beyond the data (goal 256)")
    basis = Basis(make_kernel("se", X.shape[1], variance=1.0, lengthscale=16.7, noise=0.05), X[:M].copy())
    levels = np.minimum(y, 4)
    observations = {
        "counts": (Observation(Poisson(), 1.0, has_mean=True), y),
        "two classes": (Observation(Logit()), (y > 0).astype(int)),
        "ordinal": (Observation(Ordinal((-1.0, 0.0, 1.0, 2.0))), levels),
    }
    rows = SparseRows(basis, y, X=X, size=BLOCK)
    calls = {"products": products(rows)}
    q = GaussianQ.prior(M)
    for kind, (observation, targets) in observations.items():
        own = SparseRows.__new__(SparseRows)
        own.__dict__.update(rows.__dict__, y=targets)
        calls[kind] = sweep(own, observation, q)
    seconds = least(calls)
    for kind, value in seconds.items():
        print(f"{kind:12} {1e3 * value:7.1f} ms  {value / seconds['products']:5.2f} of the products   (goal 1.5)")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
