"""Training of scalable EP on mini-batches, with a stored vector for each row and latent function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpbench.schemes.scalable_ep.run import BatchLook, StepRun
from gpbench.schemes.scalable_ep.stored import StoredEP

if TYPE_CHECKING:
    import numpy.typing as npt

    from gpbench.model.rows import Array
    from gpbench.schemes.scalable_ep.moving import MovingSites
    from gpbench.schemes.scalable_ep.settings import MGPCSettings, Problem

__all__ = ["StoredRun", "stored_type"]

REFRESH = 5
"""Epochs after which the sums over all sites are made anew, which costs an eighth of an epoch."""
MEGABYTE = 1e6


def stored_type(n: int, M: int, megabytes: float) -> type | None:
    """The type of n M stored numbers that fits: float64, float32, or None."""
    for dtype in (np.float64, np.float32):
        if n * M * np.dtype(dtype).itemsize <= megabytes * MEGABYTE:
            return dtype
    return None


class _Look(NamedTuple):
    gradient: list[tuple[Array, Array]]
    log_z: None = None
    residual: None = None


class StoredRun(StepRun):
    """Training with :class:`gpbench.schemes.scalable_ep.stored.StoredEP`."""

    def __init__(self, settings: MGPCSettings, problem: Problem, *, dtype: type) -> None:
        super().__init__(settings, problem, batch=False)
        self._dtype, self._epochs = dtype, 0
        kernels, inducing = problem.unknowns.at(self._p)
        roles = problem.factors(slice(0, 1)).roles
        self._ep = StoredEP(kernels, inducing, n=len(problem.X), roles=roles, dtype=dtype)

    @property
    def sites(self) -> MovingSites:
        """All sites together."""
        return self._ep.sites

    def look(self, rows: slice | npt.NDArray[np.int64], *, scale: float, damping: float, gradient: bool) -> BatchLook:
        """Update the sites of some rows."""
        assert not isinstance(rows, slice), "mini-batches are row numbers"
        problem = self._problem
        return _Look(
            self._ep.look(rows, problem.X[rows], problem.factors(rows), scale=scale, damping=damping, gradient=gradient)
        )

    def end_epoch(self) -> bool:
        """Clear rounding now and then."""
        self._epochs += 1
        due = self._epochs % REFRESH == 0
        if due:
            self._ep.refresh(self._problem.factors(slice(0, len(self._problem.X))))
        return due

    def more_facts(self) -> dict[str, Any]:
        """Where the sites are kept."""
        return {"stored_vectors": np.dtype(self._dtype).name}
