"""Training of stochastic EP: tied factors, on all rows or on mini-batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpbench.model.ep_tied import TiedEP
from gpbench.schemes.mgpc_run import BatchLook, StepRun

if TYPE_CHECKING:
    import numpy.typing as npt

    from gpbench.model.ep_moving import MovingSites
    from gpbench.model.rows import Array
    from gpbench.schemes.mgpc_settings import MGPCSettings, Problem

__all__ = ["TiedRun"]


class _Look(NamedTuple):
    gradient: list[tuple[Array, Array]]
    log_z: float | None
    residual: Array | None


class TiedRun(StepRun):
    """Training with :class:`gpbench.model.ep_tied.TiedEP`."""

    def __init__(self, settings: MGPCSettings, problem: Problem, *, batch: bool, block_rows: int) -> None:
        super().__init__(settings, problem, batch=batch)
        every = np.arange(len(problem.X))
        rows = every if self.without is None else np.delete(every, self.without)
        touching = problem.factors(rows).touching()
        self._ep = TiedEP(*problem.unknowns.at(self._p), touching=touching, size=block_rows)

    @property
    def sites(self) -> MovingSites:
        """The tied sites."""
        return self._ep.sites

    def look(self, rows: slice | npt.NDArray[np.int64], *, scale: float, damping: float, gradient: bool) -> BatchLook:
        """Update the sites from some rows."""
        problem = self._problem
        X = problem.X if self._batch else problem.X[rows]
        found = self._ep.look(X, problem.factors(rows), scale=scale, damping=damping, gradient=gradient)
        return _Look(found.gradient, found.log_z, found.residual) if self._batch else _Look(found.gradient, None, None)

    def more_facts(self) -> dict[str, Any]:
        """Where the sites are kept."""
        return {"stored_vectors": "tied"}
