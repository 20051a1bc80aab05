"""A weak prior of a kernel's hyper-parameters, which keeps a few hundred noisy rows from being learned by heart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from gpbench.model.kernels import make_kernel

if TYPE_CHECKING:
    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array

__all__ = ["PRIOR_VARIANCE", "KernelPrior"]

PRIOR_VARIANCE = math.e
"""The median of the prior of v."""


class KernelPrior:
    """The weak prior of the kernel's logarithms: log l ~ N(log sqrt D, 1), log v ~ N(1, 2²); none of white noise.

    Parameters
    ----------
    kernel : Kernel
    name : str
        By which it was made.
    D : int
        Inputs.
    weak : bool
        Whether there is any.
    """

    def __init__(self, kernel: Kernel, name: str, D: int, *, weak: bool) -> None:
        names = kernel.names
        self._centre = np.zeros(len(names))
        smooth = [i for i, each in enumerate(names) if each != "log_white"]
        made = make_kernel(name, D, variance=PRIOR_VARIANCE, lengthscale=math.sqrt(D), noise=0.0)
        self._centre[smooth] = made.theta
        self._precision = np.array([1.0 if "lengthscale" in each else 0.25 for each in names])
        self._precision *= [weak and each != "log_white" for each in names]

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Log density (nats, without its constant) and its gradient (P,)."""
        away = theta - self._centre
        slope = -self._precision * away
        return 0.5 * float(slope @ away), slope
