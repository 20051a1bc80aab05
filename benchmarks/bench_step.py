"""What one iteration of x-gpc costs, against the pieces that it cannot do without, and what one of pep costs.

The pieces are the linear algebra of a step, one by one and one after the other on the buffers of a step; see
``_timing.py`` for how they are measured. Rows lie in a file, as the harness has them. Usage: bench_step.py [--quick]
"""

import tempfile
from pathlib import Path

import numpy as np
from _timing import Iterations, Report, fit, per_iteration, seconds_of, turns
from scipy.linalg import blas, lapack

M, B, D = 100, 100, 20


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


def of_pep(X, y, *, evaluations, steps):
    """What measures an evaluation of pep for 1,000 rows and a step of its tail on 1,000, each by a fit of its own."""

    def measured(stages, iterations, warm):
        return per_iteration("pep", X, y, M=M, iterations=iterations, warm=warm, stages=stages, tolerance=0.0)

    return {
        "evaluation": lambda: measured(f"{evaluations + 3}xall", evaluations, 3) * 1000 / len(X),
        "tail": lambda: measured(f"2xall,{steps + 3}xtail", steps, 4),
    }


def main():
    with Report.of(__doc__) as report, tempfile.TemporaryDirectory() as folder:
        quick = report.options.quick
        rounds, pairs, iterations, run = (3, 2, 30, 60) if quick else (100, 15, 500, 3_000)
        many, few, predicted = (20_000, 2_000, 2_000) if quick else (10_000_000, 10_000, 200_000)
        rng = np.random.default_rng(0)
        X_many = write_rows(Path(folder) / "rows.npy", many, rng)
        X_few = Lazy(np.array(X_many.values[:few]), X_many.mean, X_many.scale)
        y = (rng.random(many) < 0.5).astype(np.int64)
        common = {"M": M, "batch_size": B, "stop": "none"}
        fixed = {**common, "hyperparameters": "fixed"}

        print(f"x-gpc, M = b = {M}, d = {D}, float64, one thread")
        floors = pieces(rng)
        measured = Iterations({**floors, "pieces in sequence": sequence(rng)}, rounds=rounds, calls=10)
        fit("x-gpc", X_few, y[:few], on_step=measured, **fixed)
        for name, values in measured.pieces.items():
            report.seconds(name, values)
        report.seconds("step", measured.seconds)
        needed = np.sum([measured.pieces[name] for name in floors], axis=0)
        report.ratio("step / sum of its pieces", measured.seconds, needed, goal=1.3)
        report.ratio("step / pieces in sequence", measured.seconds, measured.pieces["pieces in sequence"], goal=1.3)

        def of(X, count=iterations, **settings):
            return lambda: per_iteration("x-gpc", X, y[: len(X)], iterations=count, **{**common, **settings})

        found = turns(
            {
                "fixed": of(X_few, **fixed),
                # a step of the hyper-parameters at each iteration, so small that the kernel stays what it is
                "with gradient": of(X_few, hyper_thinning=1e9, hyper_rate=1e-6),
                "many": of(X_many, **fixed),
            },
            rounds=pairs,
        )
        report.ratio("with gradient / fixed", found["with gradient"], found["fixed"], goal=3)
        report.ratio(f"n = {many:.0e} / n = {few:.0e}", found["many"], found["fixed"], goal=1.1)
        found = turns({"fixed": of(X_few, run, **fixed), "run": of(X_few, run)}, rounds=2 if quick else 3)
        report.ratio(f"mean of {run} iterations / fixed", found["run"], found["fixed"], goal=3)

        some = Lazy(np.array(X_many.values[: 1_000 if quick else 8_000]), X_many.mean, X_many.scale)
        pep = of_pep(some, y[: len(some)], evaluations=3 if quick else 8, steps=5 if quick else 100)
        found = turns({"fixed": of(X_few, **fixed), **pep}, rounds=2 if quick else 9)
        report.seconds("pep's evaluation, 1,000 rows", found["evaluation"])
        report.ratio("pep's evaluation, 1,000 rows / fixed", found["evaluation"], found["fixed"], goal=12)
        report.ratio("pep's tail, 1,000 rows / fixed", found["tail"], found["fixed"], goal=12)

        posterior, X = measured.last.posterior(), X_many.values[:predicted].astype(np.float64)
        posterior.predict(X)
        speed = predicted / min(seconds_of(lambda: posterior.predict(X)) for _ in range(3))
        print(f"  prediction: {speed:,.0f} rows a second   [goal 800,000]")


if __name__ == "__main__":
    main()
