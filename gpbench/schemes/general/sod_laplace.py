"""sod-laplace: Laplace's approximation on a subset of the data, the baseline of Sheth, Wang and Khardon (2015).

q(u) = N(f̂, (K⁻¹ + W)⁻¹) on the active set's own rows; hyper-parameters by the approximate marginal likelihood log Z.
Mode, log Z and its gradient stand in :mod:`gpbench.schemes.general.laplace`. An iteration is one mode, found by
Newton's method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpbench.schemes.base import setting
from gpbench.schemes.general.run import SolvedScheme

__all__ = ["SoDLaplace"]


@dataclass(frozen=True, kw_only=True)
class SoDLaplace(SolvedScheme):
    """Laplace's approximation on random rows."""

    rows: str = setting("subset", "rows to train on: the active set alone", choices=("subset",))
    inducing_rule: str = setting("random", "how the subset is chosen", choices=("random",))

    name: ClassVar[str] = "sod-laplace"
