"""Covariance functions with hand-written pullbacks: by name, and from the description that a saved posterior holds."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpbench.errors import UsageError, unknown_name
from gpbench.model.kernels.base import Features, Kernel, Leaf, Sum, White
from gpbench.model.kernels.dot_product import Linear, Quadratic
from gpbench.model.kernels.stationary import SE, Matern12, Matern32

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

_Make = Callable[[int, float, float], Kernel]

_MAKERS: dict[str, _Make] = {
    "se": lambda _, variance, ell: SE.of(variance=variance, lengthscales=ell),
    "se-ard": lambda d, variance, ell: SE.of(variance=variance, lengthscales=np.full(d, ell)),
    "matern12": lambda _, variance, ell: Matern12.of(variance=variance, lengthscales=ell),
    "matern12-ard": lambda d, variance, ell: Matern12.of(variance=variance, lengthscales=np.full(d, ell)),
    "matern32": lambda _, variance, ell: Matern32.of(variance=variance, lengthscales=ell),
    "matern32-ard": lambda d, variance, ell: Matern32.of(variance=variance, lengthscales=np.full(d, ell)),
    "linear-ard": lambda d, variance, _: Linear.of(variances=np.full(d, variance / d)),
    "quadratic": lambda _, variance, ell: Quadratic.of(variance=variance, lengthscale=ell),
}

KERNEL_NAMES: tuple[str, ...] = tuple(_MAKERS)
"""The names that :func:`make_kernel` knows; any of them may be joined with ``+``."""

#: What others call them.
_ALSO = {
    **dict.fromkeys(("rbf", "gaussian", "squared-exponential", "sqexp"), "se"),
    **dict.fromkeys(("exponential", "ou", "matern-1/2"), "matern12"),
    **dict.fromkeys(("matern", "matern-3/2"), "matern32"),
    **dict.fromkeys(("linear", "dot-product"), "linear-ard"),
    **dict.fromkeys(("polynomial", "poly"), "quadratic"),
}

_KINDS: dict[str, type[Leaf]] = {leaf.kind: leaf for leaf in (SE, Matern12, Matern32, Linear, Quadratic, White)}


def make_kernel(name: str, d: int, *, variance: float, lengthscale: float, noise: float) -> Sum:
    """Kernel by name.

    Parameters
    ----------
    name : str
        ``se``, ``se-ard``, ``matern12``, ``matern12-ard``, ``matern32``, ``matern32-ard``, ``linear-ard``,
        ``quadratic``, or several of them joined with ``+``.
    d : int
        Number of input columns.
    variance : float
        Prior variance of each part; the linear part gets ``variance / d`` for each input, so that its prior variance is
        about ``variance`` on standardised inputs too.
    lengthscale : float
        Length scale for each input of the parts that have one.
    noise : float
        White-noise variance; no white noise where it is 0.

    Raises
    ------
    UsageError
        Unknown name, or a value out of range.
    """
    if d < 1:
        raise UsageError(f"a kernel needs at least one input column; got {d}")
    if not noise >= 0:
        raise UsageError(f"noise must be 0 or more; got {noise}")
    parts: list[Kernel] = []
    for piece in name.split("+"):
        maker = _MAKERS.get(piece.strip())
        if maker is None:
            if (known := _ALSO.get(piece.strip().lower().replace("_", "-"))) is not None:
                more = f", or {known}-ard with a length scale for each input" if f"{known}-ard" in _MAKERS else ""
                raise UsageError(f"unknown kernel {piece.strip()!r}; here it is called {known}{more}")
            raise unknown_name("kernel", piece.strip(), KERNEL_NAMES)
        parts.append(maker(d, variance, lengthscale))
    if noise > 0:
        parts.append(White.of(variance=noise))
    return Sum(tuple(parts))


def kernel_from_spec(spec: Mapping[str, Any]) -> Kernel:
    """Kernel from the description that its ``spec()`` gave, the same to the last bit.

    Raises
    ------
    UsageError
        No such description.
    """
    kind = spec.get("kind")
    if kind == "sum":
        parts = spec.get("parts")
        if not isinstance(parts, list):
            raise UsageError(f"the description of a sum must list its parts; got {parts!r}")
        return Sum(tuple(kernel_from_spec(part) for part in parts))
    if kind not in _KINDS:
        raise unknown_name("kind of kernel", str(kind), [*_KINDS, "sum"])
    return _KINDS[str(kind)](spec.get("theta", ()))
