"""Run tests under BLAS kernels other than this processor's own.

OpenBLAS chooses its kernels by the processor, and each adds up in an order of its own: what depends on the last bits of
a sum passes on one machine and fails on another. ``OPENBLAS_CORETYPE`` chooses otherwise. Usage:

    python tests/kernels.py [--second] [PYTEST ARGUMENT ...]

runs pytest under each kernel that this processor can run and under two made-up roundings (``rounding.py``), or under
one kernel that is not its own; ``--list`` names them. What can be run is tried in processes of their own: one without
the instructions dies of it.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

KERNELS = ("Haswell", "SkylakeX", "Sandybridge", "Nehalem", "Prescott", "NEOVERSEN1", "ARMV8")
"""Under other names these are Zen (Haswell's), Cooperlake and Sapphirerapids (SkylakeX's, for doubles)."""

TRIAL = """
import numpy, scipy.linalg, threadpoolctl
for n in (1, 3, 8, 17, 64, 200):
    A = numpy.random.default_rng(n).normal(size=(n, n))
    S = numpy.asfortranarray(A @ A.T + n * numpy.eye(n))
    L = scipy.linalg.lapack.dpotrf(S, lower=1)[0]
    for call in (scipy.linalg.blas.dtrsm, scipy.linalg.blas.dtrmm):
        call(1.0, L, S, lower=1)
    scipy.linalg.blas.dsyrk(1.0, A), scipy.linalg.blas.dgemv(1.0, A, A[0]), A[0] @ A[0], A @ A
    assert numpy.allclose(numpy.tril(L) @ numpy.tril(L).T, S)
found = {info.get("architecture") for info in threadpoolctl.threadpool_info() if info["internal_api"] == "openblas"}
print(*sorted(found))
"""


def architecture(kernel=None):
    """The name of the kernels that NumPy and SciPy then have; empty where they do not run, or have no OpenBLAS."""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    if kernel is not None:
        environment["OPENBLAS_CORETYPE"] = kernel
    done = subprocess.run([sys.executable, "-c", TRIAL], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def runnable():
    """The processor's own kernels, and those that OPENBLAS_CORETYPE can choose, by name, each once."""
    own = architecture()
    found = {}
    for kernel in KERNELS:
        name = architecture(kernel)
        # an unknown word leaves OpenBLAS its own choice; Prescott's kernels go by the name of an older core
        if name and name != own and name not in found.values():
            found[kernel] = name
    return own, found


def passes(title, variables, arguments):
    """Whether pytest passes with these variables of the environment."""
    print(f"== {title}", flush=True)
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, env=os.environ | variables, check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--second", action="store_true", help="under one kernel that is not the processor's own")
    parser.add_argument("--list", action="store_true", help="name the kernels and run nothing")
    options, rest = parser.parse_known_args()
    own, others = runnable()
    print(f"kernels: {own or 'no OpenBLAS'}; others that run here: {', '.join(others) or 'none'}", flush=True)
    if options.list:
        return
    runs = {kernel: ({"OPENBLAS_CORETYPE": kernel}, rest) for kernel in others}
    if options.second:
        runs = dict(list(runs.items())[:1])
    else:
        paths = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
        for seed in ("1", "2"):
            variables = {"GPBENCH_ROUNDING": seed, "PYTHONPATH": paths}
            runs[f"rounding {seed}"] = variables, ["-p", "rounding", *rest]
        runs = {own or "own": ({}, rest), **runs}
    failed = [title for title, (variables, arguments) in runs.items() if not passes(title, variables, arguments)]
    if failed:
        sys.exit(f"tests fail under: {', '.join(failed)}")


if __name__ == "__main__":
    main()
