"""Training of stochastic EP: tied factors, on all rows or on mini-batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gpbench.schemes.scalable_ep.run import BatchLook, StepRun
from gpbench.schemes.scalable_ep.tied import TiedEP

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from gpbench.model.rows import Array
    from gpbench.schemes.scalable_ep.moving import MovingSites
    from gpbench.schemes.scalable_ep.settings import MGPCSettings, Problem

__all__ = ["TiedRun"]


class _Look(NamedTuple):
    gradient: list[tuple[Array, Array]]
    log_z: float | None
    residual: Array | None


class TiedRun(StepRun):
    """Training with :class:`gpbench.schemes.scalable_ep.tied.TiedEP`."""

    def __init__(self, settings: MGPCSettings, problem: Problem, *, batch: bool, block_rows: int) -> None:
        super().__init__(settings, problem, batch=batch)
        rows = slice(0, len(problem.X))
        self._factors = problem.factors(rows)
        touching = self._factors.touching()
        if self.without is not None:
            touching = touching - problem.factors(self.without).touching()
        self._ep = TiedEP(*problem.unknowns.at(self._p), touching=touching, size=block_rows)

    @property
    def sites(self) -> MovingSites:
        """The tied sites."""
        return self._ep.sites

    def look(self, rows: slice | npt.NDArray[np.int64], *, scale: float, damping: float, gradient: bool) -> BatchLook:
        """Update the sites from some rows."""
        X, factors = self._problem.X, self._factors
        if not self._batch:
            X, factors = X[rows], self._problem.factors(rows)
        found = self._ep.look(X, factors, scale=scale, damping=damping, gradient=gradient)
        return _Look(found.gradient, found.log_z, found.residual) if self._batch else _Look(found.gradient, None, None)

    def more_facts(self) -> dict[str, Any]:
        """Where the sites are kept."""
        return {"stored_vectors": "tied"}
