"""Covariance functions with hand-written pullbacks."""

from gpbench.model.kernels.base import Features, Kernel
from gpbench.model.kernels.linear import Linear
from gpbench.model.kernels.matern12 import Matern12
from gpbench.model.kernels.parse import KERNEL_NAMES, kernel_from_spec, make_kernel
from gpbench.model.kernels.quadratic import Quadratic
from gpbench.model.kernels.stationary import SE, Matern32
from gpbench.model.kernels.sum import Sum
from gpbench.model.kernels.white import White

__all__ = [
    "KERNEL_NAMES",
    "SE",
    "Features",
    "Kernel",
    "Linear",
    "Matern12",
    "Matern32",
    "Quadratic",
    "Sum",
    "White",
    "kernel_from_spec",
    "make_kernel",
]
