"""What iterations of scalable EP cost, against the products and triangular solves that they cannot do without.

Run ``python benchmarks/bench_ep.py``; one BLAS thread. Everything is measured turn by turn in many rounds, in processor
time of this thread, and the least of each is compared, so that other work on the machine does not decide the ratios.
The floor holds no exponential, no pass over memory, and no scalar function of the factors.
"""

import time

import numpy as np
from scipy.linalg import blas, lapack
from threadpoolctl import threadpool_limits

from gpbench.model.inducing import InducingRule
from gpbench.schemes.scalable_ep.ep_mgpc import EPMGPC
from gpbench.schemes.scalable_ep.sep_mgpc import SEPMGPC
from gpbench.schemes.scalable_ep.settings import Problem
from gpbench.schemes.scalable_ep.unknowns import Unknowns

ROUNDS = 40
CASES = {
    # vehicle: 90 % of 846 rows, M = 10 % and 20 %
    "batch EP, vehicle, M = 76": {"scheme": EPMGPC(mode="batch"), "n": 761, "d": 18, "C": 4, "M": 76, "b": 761},
    "batch EP, vehicle, M = 152": {"scheme": EPMGPC(mode="batch"), "n": 761, "d": 18, "C": 4, "M": 152, "b": 761},
    "mini-batch SEP": {
        "scheme": SEPMGPC(mode="stochastic", batch_size=200),
        "n": 4000,
        "d": 20,
        "C": 10,
        "M": 200,
        "b": 200,
    },
    "mini-batch SEP, as MNIST": {
        "scheme": SEPMGPC(mode="stochastic", batch_size=200, lengthscale=28.0),
        "n": 1000,
        "d": 784,
        "C": 10,
        "M": 200,
        "b": 200,
    },
    "mini-batch EP": {
        "scheme": EPMGPC(mode="stochastic", batch_size=200),
        "n": 4000,
        "d": 20,
        "C": 10,
        "M": 200,
        "b": 200,
    },
}


def run_of(scheme, *, n, d, C, M, **_):
    """A training run on generated rows, a few iterations on."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.argmax(X[:, :C] if d >= C else X @ rng.standard_normal((d, C)), axis=1)
    rule = InducingRule("random", count=M, seed=0)
    Z = [rule.for_latent(c).choose(X) for c in range(C)]
    unknowns = Unknowns(scheme.initial_kernel(d), Z, theta=True, inducing=True)
    return scheme.start(Problem(X, y, unknowns, scheme.likelihood("multiclass", C), C, rng))


def stepper(scheme, **sizes):
    """A function that takes one iteration."""
    run = run_of(scheme, **sizes)
    if sizes["b"] == sizes["n"]:
        return run.advance
    rng = np.random.default_rng(1)

    def step():
        rows = rng.choice(sizes["n"], sizes["b"], replace=False)
        run.advance(run.look(rows, scale=sizes["n"] / sizes["b"], damping=1.0, gradient=True))

    return step


def pieces(kind, *, b, d, M):
    """Products and solves of one latent function in one iteration: calls, and how often each is needed."""
    rng = np.random.default_rng(2)
    T, out = (np.asfortranarray(rng.standard_normal((b, M))) for _ in range(2))
    X, Z = np.asfortranarray(rng.standard_normal((b, d))), np.asfortranarray(rng.standard_normal((M, d)))
    S, square = np.asfortranarray(np.eye(M)), np.empty((M, M), order="F")
    A = np.asfortranarray(T.T @ T + M * np.eye(M))
    L = np.asfortranarray(np.linalg.cholesky(A))
    passes = np.empty((M, d), order="F")
    calls = {
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
    once = {"kernel": 1, "kernel pullback": 1, "gram": 1, "gram pullback": 1, "gemm Y": 1}
    counts = {
        # T, its adjoint; T S; factors of K_mm and of the precision; S; the adjoint of K_mm
        "batch EP": {"trsm b": 2, "gemm b": 1, "syrk b": 1, "potrf": 2, "trsm M": 3, "syrk M": 1},
        # the cavity has a precision of its own, and sites move with the kernel
        "mini-batch SEP": {"trsm b": 2, "gemm b": 1, "syrk b": 1, "potrf": 3, "trsm M": 5, "syrk M": 2, "trmm M": 2},
        # vectors that sites stand on: whitened, projected, made anew; old sites leave the sums
        "mini-batch EP": {"trsm b": 4, "gemm b": 2, "syrk b": 2, "potrf": 2, "trsm M": 4, "syrk M": 1, "trmm M": 2},
    }
    return calls, once | counts[kind]


def milliseconds(call):
    start = time.thread_time()
    call()
    return (time.thread_time() - start) * 1e3


def main():
    print(f"float64, one thread, processor time, least of {ROUNDS} rounds, ms")
    with threadpool_limits(1):
        for title, case in CASES.items():
            sizes = {name: case[name] for name in ("b", "d", "M")}
            calls, counts = pieces(title.partition(",")[0], **sizes)
            step = stepper(**case)
            for _ in range(3):
                step()
            rounds = ROUNDS // 4 if case["d"] > 100 else ROUNDS
            steps, floors = [], []
            for _ in range(rounds):
                steps.append(milliseconds(step))
                floors.append({name: milliseconds(call) for name, call in calls.items()})
            least = {name: min(each[name] for each in floors) for name in calls}
            floor = case["C"] * sum(count * least[name] for name, count in counts.items())
            print(f"  {title:<28} floor {floor:7.2f}   iteration {min(steps):7.2f}", end="")
            print(f"   iteration / floor (goal 2.5)  {min(steps) / floor:.2f}", flush=True)


if __name__ == "__main__":
    main()
