"""A weak prior of a kernel's hyper-parameters, which keeps a few hundred noisy rows from being learned by heart.

Length scales of one part of the kernel have a level in common: log l_d = s + e_d with s ~ N(log sqrt D, 1) and
e_d ~ N(0, .7²). A level costs little, that inputs differ costs something: a few hundred rows tell which inputs matter
by chance. With independent log l_d ~ N(log sqrt D, 1) the NLL of held-out rows under ``pep`` is 2 to 3 % higher on
breast-cancer-wisconsin, heart and diabetis, 5 % on twonorm-gen, the same or higher on 14 of 16 sets of 130 to 1,300
rows (splice 4 % and image 2 % lower).

A variance of e_d that is itself learned, the logarithm of its determinant by Laplace's method with 3 as curvature of
each e_d, was left: of 19 sets the NLL of held-out rows is lower on eleven (twonorm 6 %, breast-cancer-wisconsin 5 %,
breast-cancer 2 %), higher on eight (digits-3-5 22 %, ringnorm 3 %). One length scale for all inputs is as good or
better on noisy rows (heart 6 %, breast-cancer 3 %), but 60 % worse on splice.
"""

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
LEVEL, OWN = 1.0, 0.49
"""Variances of s and of e_d."""
VARIANCE_PRECISION = 0.25
"""Of log v, and of each variance of a linear kernel."""


class KernelPrior:
    """The weak prior of the kernel's logarithms: log l as above, log v ~ N(1, 2²); none of white noise.

    Parameters
    ----------
    kernel : Kernel
    name : str
        By which it was made.
    D : int
        Inputs.
    weak : bool
        Whether there is any.
    level, own : float
        Variances of s and of e_d.
    """

    def __init__(
        self, kernel: Kernel, name: str, D: int, *, weak: bool, level: float = LEVEL, own: float = OWN
    ) -> None:
        names = kernel.names
        self._centre = np.zeros(len(names))
        smooth = [i for i, each in enumerate(names) if each != "log_white"]
        made = make_kernel(name, D, variance=PRIOR_VARIANCE, lengthscale=math.sqrt(D), noise=0.0)
        self._centre[smooth] = made.theta
        self._precision = np.zeros((len(names), len(names)))
        if not weak:
            return
        parts: dict[str, list[int]] = {}
        for i in smooth:
            part, _, rest = names[i].rpartition(".")
            if "lengthscale" in rest:
                parts.setdefault(part, []).append(i)
            else:
                self._precision[i, i] = VARIANCE_PRECISION
        for lengths in parts.values():
            together = level / (own + len(lengths) * level)
            self._precision[np.ix_(lengths, lengths)] = (np.eye(len(lengths)) - together) / own

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Log density (nats, without its constant) and its gradient (P,)."""
        away = theta - self._centre
        slope = -self._precision @ away
        return 0.5 * float(slope @ away), slope
