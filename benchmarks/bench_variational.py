"""What one step of svgpc and klsp-sgd, and one evaluation of vi-jj, cost against the linear algebra that they need.

Usage: bench_variational.py [--quick] [--rows N]: N are vi-jj's, 100,000 by default, a million for the memory that is
promised. See ``_timing.py`` for how things are measured.
"""

import numpy as np
from _timing import Iterations, Report, fit
from scipy.linalg import blas, lapack

from gpbench.bench.resources import peak_rss_mb, reset_peak

M, B, D = 100, 100, 20
BLOCK = 1024
MEMORY = 256
"""Megabytes beyond the data that a batch scheme may take."""


def fortran(rng, *shape):
    return np.asfortranarray(rng.standard_normal(shape))


def step_pieces(rng):
    """The linear algebra of one klsp-sgd step: products, solves at their own speed, the factor; 12 Mflop."""
    A, C, out = fortran(rng, B, M), fortran(rng, B, M), fortran(rng, B, M)
    L = np.asfortranarray(np.tril(0.01 * fortran(rng, M, M)) + np.eye(M))
    S = np.asfortranarray(L @ L.T + np.eye(M))
    X, start = fortran(rng, B, D), C.copy(order="F")

    def run():
        np.copyto(C, start)  # solved again and again it would leave the range of doubles
        for _ in range(2):  # k(X, Z), k(Z, Z), and their pullbacks
            blas.dgemm(1.0, X, X, trans_b=1, c=out, overwrite_c=1)
            blas.dgemm(1.0, A, X, trans_a=1)
        lapack.dpotrf(S, lower=1)
        for right, transposed in ((1, 1), (1, 0), (0, 1), (1, 0)):
            blas.dtrsm(1.0, L, C, side=right, lower=1, trans_a=transposed, overwrite_b=1)
        for transposed in (0, 1):
            blas.dtrmm(1.0, L, C, side=1, lower=1, trans_a=transposed, overwrite_b=1)
        for _ in range(2):
            blas.dgemm(1.0, A, A, trans_a=1, c=out, overwrite_c=1)

    return run


def evaluation_pieces(n, rng):
    """The matrix products of an evaluation, one by one: T twice, Tᵀ diag(d) T, T S, K̄_nm, and the kernel's."""
    b = min(n, BLOCK)
    T, out, S, G = fortran(rng, b, M), fortran(rng, b, M), fortran(rng, M, M), fortran(rng, M, M)
    X, Z = rng.standard_normal((b, D + 2)), rng.standard_normal((M, D + 2))

    def run():
        for _ in range(n // b):
            for _ in range(2):
                np.matmul(X, Z.T, out=out)
                blas.dgemm(1.0, T, S, trans_b=1, c=out, overwrite_c=1)
            blas.dsyrk(1.0, T, trans=1, lower=1, c=G, overwrite_c=1)
            blas.dgemm(1.0, T, S, c=out, overwrite_c=1)
            blas.dgemm(1.0, T, S, c=out, overwrite_c=1)
            np.matmul(out.T, X)

    return run


STEPS = {
    "svgpc": ("svgpc", {}),
    "klsp-sgd, AdaDelta": ("klsp-sgd", {"freeze_iterations": 0}),
    "klsp-sgd, Adam": ("klsp-sgd", {"freeze_iterations": 0, "optimizer": "adam"}),
}
EVALUATIONS = {"updates": 1, "stage_evaluations": 1000, "tolerance": 0.0}
"""vi-jj: after one update of ξ, evaluations of the bound and its gradient alone."""


def add_options(parser):
    parser.add_argument("--rows", type=int, default=100_000, help="of vi-jj")


def main():
    with Report.of(__doc__, add_options) as report:
        quick = report.options.quick
        n = min(report.options.rows, 4_000) if quick else report.options.rows
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, D))
        y = (X[:, 0] + np.sin(2 * X[:, 1]) > 0).astype(int)
        print(f"steps, M = b = {M}, d = {D}")
        for label, (name, settings) in STEPS.items():
            measured = Iterations({"floor": step_pieces(rng)}, rounds=3 if quick else 60, calls=5, warm=20)
            fit(name, X, y, M=M, on_step=measured, batch_size=B, stop="none", **settings)
            report.seconds(label, measured.seconds)
            report.ratio(f"{label} / its linear algebra", measured.seconds, measured.pieces["floor"], goal=2.5)

        print(f"evaluations of vi-jj, {n} rows")
        products = evaluation_pieces(n, rng)
        products()
        reset_peak()
        before = peak_rss_mb()
        measured = Iterations({"products": products}, rounds=1 if n > 200_000 else 3 if quick else 5)
        fit("vi-jj", X, y, M=M, on_step=measured, **EVALUATIONS)
        report.seconds("vi-jj", measured.seconds, unit="ms")
        report.ratio("vi-jj / its products", measured.seconds, measured.pieces["products"], goal=1.5)
        report.number("memory beyond the data", peak_rss_mb() - before, "MB", limit=MEMORY)


if __name__ == "__main__":
    main()
