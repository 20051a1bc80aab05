"""sod-laplace: Laplace's approximation on a subset of the data, the baseline of Sheth, Wang and Khardon (2015).

q(u) = N(f̂, (K⁻¹ + W)⁻¹) on the active set's own rows; hyper-parameters by the approximate marginal likelihood log Z.
Mode, log Z and its gradient stand in :mod:`gpbench.model.laplace`. An iteration is one mode, found by Newton's method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gpbench.schemes.base import setting
from gpbench.schemes.general_hyper import HyperSettings
from gpbench.schemes.general_run import Run

if TYPE_CHECKING:
    import numpy as np

    from gpbench.model.observation import Observation
    from gpbench.model.rows import Labels, Rows
    from gpbench.schemes.general import ActiveSet

__all__ = ["SoDLaplace"]


@dataclass(frozen=True, kw_only=True)
class SoDLaplace(HyperSettings):
    """Laplace's approximation on random rows."""

    rows: str = setting("subset", "rows to train on: the active set alone", choices=("subset",))
    inducing_rule: str = setting("random", "how the subset is chosen", choices=("random",))

    name: ClassVar[str] = "sod-laplace"

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        active: ActiveSet,
        observation: Observation,
        classes: int,
        rng: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> Run:
        """A training run at its beginning."""
        return Run(self, None, X, y, active=active, observation=observation, classes=classes)
