"""What iterations of scalable EP cost, against the products and triangular solves that they cannot do without.

The floor holds no exponential, no pass over memory, and no scalar function of the factors; see ``_timing.py`` for how
it is measured. Usage: bench_ep.py [--quick]
"""

import numpy as np
from _timing import Iterations, Report, fit
from scipy.linalg import blas, lapack

CASES = {  # rows, inputs, classes, inducing inputs, batch
    # vehicle: 90 % of 846 rows, M = 10 % and 20 %
    "batch EP, vehicle, M = 76": ("ep-mgpc", {"n": 761, "d": 18, "C": 4, "M": 76, "b": 761}, {}),
    "batch EP, vehicle, M = 152": ("ep-mgpc", {"n": 761, "d": 18, "C": 4, "M": 152, "b": 761}, {}),
    "mini-batch SEP": ("sep-mgpc", {"n": 4000, "d": 20, "C": 10, "M": 200, "b": 200}, {}),
    "mini-batch SEP, as MNIST": (
        "sep-mgpc",
        {"n": 1000, "d": 784, "C": 10, "M": 200, "b": 200},
        {"lengthscale": 28.0},
    ),
    "mini-batch EP": ("ep-mgpc", {"n": 4000, "d": 20, "C": 10, "M": 200, "b": 200}, {}),
}
COUNTS = {
    # T, its adjoint; T S; factors of K_mm and of the precision; S; the adjoint of K_mm
    "batch EP": {"trsm b": 2, "gemm b": 1, "syrk b": 1, "potrf": 2, "trsm M": 3, "syrk M": 1},
    # the cavity has a precision of its own, and sites move with the kernel
    "mini-batch SEP": {"trsm b": 2, "gemm b": 1, "syrk b": 1, "potrf": 3, "trsm M": 5, "syrk M": 2, "trmm M": 2},
    # vectors that sites stand on: whitened, projected, made anew; old sites leave the sums
    "mini-batch EP": {"trsm b": 4, "gemm b": 2, "syrk b": 2, "potrf": 2, "trsm M": 4, "syrk M": 1, "trmm M": 2},
}
"""Of each piece, for one latent function in one iteration; the kernel's own pieces are needed once."""
ONCE = ("kernel", "kernel pullback", "gram", "gram pullback", "gemm Y")


def generated(n, d, C):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, np.argmax(X[:, :C] if d >= C else X @ rng.standard_normal((d, C)), axis=1)


def pieces(*, b, d, M):
    """Products and solves of one latent function, by name."""
    rng = np.random.default_rng(2)
    T, out = (np.asfortranarray(rng.standard_normal((b, M))) for _ in range(2))
    X, Z = np.asfortranarray(rng.standard_normal((b, d))), np.asfortranarray(rng.standard_normal((M, d)))
    S, square = np.asfortranarray(np.eye(M)), np.empty((M, M), order="F")
    A = np.asfortranarray(T.T @ T + M * np.eye(M))
    L = np.asfortranarray(np.linalg.cholesky(A))
    passes = np.empty((M, d), order="F")
    return {
        "kernel": lambda: blas.dgemm(1.0, X, Z, trans_b=1, c=out, overwrite_c=1),
        "kernel pullback": lambda: blas.dgemm(1.0, T, X, trans_a=1, c=passes, overwrite_c=1),
        "gram": lambda: blas.dgemm(1.0, Z, Z, trans_b=1, c=square, overwrite_c=1),
        "gram pullback": lambda: blas.dgemm(1.0, S, Z, trans_a=1, c=passes, overwrite_c=1),
        "trsm b": lambda: blas.dtrsm(1.0, L, out, side=1, lower=1, trans_a=1, overwrite_b=1),
        "gemm b": lambda: blas.dgemm(1.0, T, S, c=out, overwrite_c=1),
        "gemm Y": lambda: blas.dgemm(1.0, T, T, trans_a=1, c=square, overwrite_c=1),
        "syrk b": lambda: blas.dsyrk(1.0, T, trans=1, lower=1, c=square, overwrite_c=1),
        "potrf": lambda: lapack.dpotrf(A, lower=1),
        "trsm M": lambda: blas.dtrsm(1.0, L, square, lower=1, overwrite_b=1),
        "trmm M": lambda: blas.dtrmm(1.0, S, square, lower=1, overwrite_b=1),
        "syrk M": lambda: blas.dsyrk(1.0, S, trans=1, lower=1, c=square, overwrite_c=1),
    }


def main():
    with Report.of(__doc__) as report:
        for title, (name, sizes, settings) in CASES.items():
            if report.options.quick:
                sizes = sizes | {key: min(sizes[key], most) for key, most in (("n", 240), ("b", 240), ("M", 40))}  # noqa: PLW2901
            n, b, M = (sizes[key] for key in ("n", "b", "M"))
            X, y = generated(n, sizes["d"], sizes["C"])
            rounds = 3 if report.options.quick else 10 if sizes["d"] > 100 else 40
            measured = Iterations(pieces(b=b, d=sizes["d"], M=M), rounds=rounds)
            mode = (
                {"mode": "batch", "value_tolerance": 0.0}
                if b == n
                else {"mode": "stochastic", "batch_size": b, "stop": "none"}
            )
            fit(name, X, y, task="multiclass", M=M, on_step=measured, **mode, **settings)
            counts = dict.fromkeys(ONCE, 1) | COUNTS[title.partition(",")[0]]
            floor = sizes["C"] * sum(k * np.array(measured.pieces[piece]) for piece, k in counts.items())
            print(title)
            report.seconds("floor", floor, unit="ms")
            report.seconds("iteration", measured.seconds, unit="ms")
            report.ratio("iteration / floor", measured.seconds, floor, goal=2.5)


if __name__ == "__main__":
    main()
