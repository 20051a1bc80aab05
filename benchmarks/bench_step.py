"""What one iteration of x-gpc costs, against the pieces that it cannot do without, in one run on one BLAS thread.

Run ``python benchmarks/bench_step.py``. Everything is measured turn by turn in many short rounds (pieces, step, pieces,
step ...) and the least of each is compared, so that other work on the machine does not decide the ratios.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.linalg import blas, lapack
from threadpoolctl import threadpool_limits

from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import likelihood
from gpbench.model.posterior import Posterior
from gpbench.optimize.hyper import KernelSteps
from gpbench.optimize.minibatch import Minibatches
from gpbench.schemes.xgpc import XGPC, State

M, B, D = 100, 100, 20
ROUNDS, CALLS = 100, 10
MANY, FEW = 10_000_000, 10_000
PREDICTED = 200_000
RUN = 3_000  # iterations of a short run with default settings


class Lazy:
    """Rows of a float32 file, scaled when they are asked for, as the harness does with large data."""

    def __init__(self, values, mean, scale):
        self.values, self.mean, self.scale, self.shape = values, mean, scale, values.shape

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        rows = np.asarray(self.values[index], dtype=np.float64)
        rows -= self.mean
        rows *= self.scale
        return rows


def write_rows(path, n, rng):
    values = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, D))
    block = rng.standard_normal((100_000, D)).astype(np.float32)
    for start in range(0, n, len(block)):
        values[start : start + len(block)] = block[: n - start]
    values.flush()
    return Lazy(values, np.zeros(D), np.ones(D))


def pieces(rng):
    """The kernels of linear algebra in one step, on buffers of their own, by name."""
    T, K, out = (np.asfortranarray(rng.standard_normal((B, M))) for _ in range(3))
    X, Z = (np.asfortranarray(rng.standard_normal((B, D))) for _ in range(2))
    S = np.asfortranarray(T.T @ T + 100 * np.eye(M))
    C = np.asfortranarray(np.linalg.cholesky(S))
    L = np.asfortranarray(0.1 * C)
    negative = np.asfortranarray(-np.abs(K))

    def triangular_product():
        np.copyto(out, K)
        blas.dtrmm(1.0, L, out, side=1, lower=1, trans_a=1, overwrite_b=1)

    def triangular_solve():
        np.copyto(out, T)
        blas.dtrsm(1.0, C, out, side=1, lower=1, trans_a=1, overwrite_b=1)

    def factor():
        np.copyto(out, S)
        lapack.dpotrf(out, lower=1, overwrite_a=1)

    return {
        "gemm b x d x M": lambda: blas.dgemm(1.0, X, Z, trans_b=1, c=out, overwrite_c=1),
        "exp b x M": lambda: np.exp(negative, out=out),
        "trmm": triangular_product,
        "potrf": factor,
        "trsm": triangular_solve,
        "syrk": lambda: blas.dsyrk(1.0, T, trans=1, lower=1, c=out, overwrite_c=1),
    }


def sequence(rng):
    """The same pieces one after the other on the buffers of a step, with the passes over memory that join them."""
    X, Z = (np.asfortranarray(rng.standard_normal((B, D))) for _ in range(2))
    K, R, C, G, T = (np.asfortranarray(rng.standard_normal((B, M))) for _ in range(5))
    S = np.asfortranarray(T.T @ T + 100 * np.eye(M))
    L = np.asfortranarray(0.1 * np.linalg.cholesky(S))
    weights = np.ones((B, 1))

    def call():
        k = blas.dgemm(-1.0, X, Z, trans_b=1, c=K, overwrite_c=1)
        np.minimum(k, 0.0, out=k)
        np.exp(k, out=k)
        t = blas.dtrmm(1.0, L, k, side=1, lower=1, trans_a=1, overwrite_b=1)
        np.copyto(C, S)
        c, _ = lapack.dpotrf(C, lower=1, overwrite_a=1)
        np.copyto(R, t)
        r = blas.dtrsm(1.0, c, R, side=1, lower=1, trans_a=1, overwrite_b=1)
        np.multiply(t, weights, out=r)
        blas.dsyrk(1.0, r, trans=1, lower=1, beta=0.5, c=G, overwrite_c=1)

    return call


def stepper(X, y, Z, seed):
    """Functions that take one fixed step, and one with the hyper-parameters' gradient and move."""
    state = State(make_kernel("se-ard", D, variance=1.0, lengthscale=D**0.5, noise=0.05), Z)
    batches = Minibatches(len(X), B, rng=np.random.default_rng(seed))
    adam = KernelSteps(state.basis.kernel, rate=1e-4, decay=200.0, noise_floor=1e-4)

    def fixed():
        rows = batches.draw()
        state.step(X[rows], y[rows].astype(np.float64), scale=batches.scale, rate=0.02)

    def learning():
        rows = batches.draw()
        target, gradient = state.target_and_gradient(X[rows], y[rows].astype(np.float64), scale=batches.scale)
        state.update(target, rate=0.02)
        state.move(adam.step(state.basis.kernel, gradient, t=0, Z=Z), keep="sites")

    return state, fixed, learning


def microseconds(call, calls=CALLS):
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls * 1e6


def main():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((M, D))
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        print(f"M = b = {M}, d = {D}, float64, one thread; least of {ROUNDS} rounds, us")
        X_many = write_rows(Path(folder) / "rows.npy", MANY, rng)
        X_few = Lazy(np.array(X_many.values[:FEW]), X_many.mean, X_many.scale)
        y = np.where(rng.random(MANY) < 0.5, -1, 1).astype(np.int8)
        calls = pieces(rng)
        adam = KernelSteps(
            XGPC().initial_kernel(D), rate=1.0, decay=1.0, noise_floor=0.0, thinning=XGPC().hyper_thinning
        )
        state, calls["step, n = 1e4"], calls["step with gradient"] = stepper(X_few, y[:FEW], Z, 1)
        _, calls["step, n = 1e7"], _ = stepper(X_many, y, Z, 2)
        calls["pieces in sequence"] = sequence(rng)
        for call in calls.values():
            microseconds(call)
        rounds = [{name: microseconds(call) for name, call in calls.items()} for _ in range(ROUNDS)]
        least = {name: min(each[name] for each in rounds) for name in calls}
        for name, value in least.items():
            print(f"  {name:<22} {value:8.1f}")
        needed = sum(value for name, value in least.items() if not name.startswith(("step", "pieces")))
        fixed = least["step, n = 1e4"]
        print(f"  sum of the pieces      {needed:8.1f}")
        print(f"  step / sum of its pieces   (goal 1.3)  {fixed / needed:.2f}")
        print(f"  step / pieces in sequence  (goal 1.3)  {fixed / least['pieces in sequence']:.2f}")
        more = least["step with gradient"] / fixed
        print(f"  with gradient / fixed      (goal 3)    {more:.2f}")
        share = np.mean([adam.due(t) for t in range(RUN)])
        print(f"  mean of {RUN} iterations / fixed (goal 3)  {1 + share * (more - 1):.2f}")
        print(f"  n = 1e7 / n = 1e4          (goal 1.1)  {least['step, n = 1e7'] / fixed:.2f}")
        posterior = Posterior((state.latent(),), likelihood("logit"), classes=2)
        X = X_many.values[:PREDICTED].astype(np.float64)
        posterior.predict(X)
        seconds = min(microseconds(lambda: posterior.predict(X), 1) for _ in range(3)) / 1e6
        print(f"  prediction             (goal 800,000)  {PREDICTED / seconds:,.0f} rows/s")


if __name__ == "__main__":
    main()
