"""sod-laplace: Laplace's approximation on a subset of the data, the baseline of Sheth, Wang and Khardon (2015).

q(u) = N(f̂, (K⁻¹ + W)⁻¹) on the active set's own rows; hyper-parameters by the approximate marginal likelihood log Z.
Mode, log Z and its gradient stand in :mod:`gpbench.schemes.general.laplace`. An iteration is one mode, found by
Newton's method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpbench.schemes.general import settings
from gpbench.schemes.general.laplace import Laplace
from gpbench.schemes.general.training import SubsetScheme

__all__ = ["SoDLaplace"]


@dataclass(frozen=True, kw_only=True)
class SoDLaplace(SubsetScheme):
    """Laplace's approximation on random rows."""

    edges: str | None = settings.edges()
    slope: float = settings.slope()
    learn_slope: bool = settings.learn_slope()

    name: ClassVar[str] = "sod-laplace"

    def solver(self) -> Laplace:
        """Laplace's approximation itself."""
        return Laplace()
