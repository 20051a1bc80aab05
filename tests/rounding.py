"""A pytest plugin: BLAS and LAPACK as a processor would have them that nobody has built.

Each result of scipy's wrappers is changed in its last bits, by a few units, as another order of summation would: the
same for the same shapes, so that what is computed twice is still the same to the bit; another for another
``GPBENCH_ROUNDING``, a number. Zeros stay. It finds what the kernels at hand happen to agree on. Usage:

    PYTHONPATH=tests GPBENCH_ROUNDING=1 python -m pytest -p rounding ...
"""

import os
from functools import lru_cache

import numpy as np
from scipy.linalg import blas, lapack

SEED = int(os.environ["GPBENCH_ROUNDING"])
UNITS = 8
"""Of the last place, at most; a sum of a hundred products has as many."""
CALLS = {
    blas: "ddot dgemm dgemv dger dsymm dsymv dsyr dsyr2k dsyrk dtrmm dtrmv dtrsm dtrsv",
    lapack: "dpotrf dpotri dpotrs dtrtri dtrtrs",
}


@lru_cache(maxsize=500)
def factors(name, shape):
    """What a result of this shape is multiplied with."""
    rng = np.random.default_rng([SEED, *name.encode(), *shape])
    return np.asfortranarray(1.0 + np.finfo(float).eps * rng.integers(-UNITS, UNITS + 1, size=shape))


def changed(name, result):
    if isinstance(result, np.ndarray):
        return np.multiply(result, factors(name, result.shape), out=result)
    return result * float(factors(name, ()))


def wrapped(module, name):
    call = getattr(module, name)

    def other(*args, **options):
        found = call(*args, **options)
        if isinstance(found, tuple):  # LAPACK's, with what it says of them
            return (changed(name, found[0]), *found[1:])
        return changed(name, found)

    return other


for each, names in CALLS.items():
    for word in names.split():
        setattr(each, word, wrapped(each, word))
