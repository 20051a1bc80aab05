"""All unknowns of a variational bound in one flat vector, for optimisers that know vectors alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["Layout", "Parts"]


class Parts(NamedTuple):
    """Views into a flat vector."""

    m: Array
    L: Array
    theta: Array
    Z: Array


@dataclass(frozen=True)
class Layout:
    """Order of the unknowns: mean m (M,), root L (M, M), theta (P,), Z (M, d).

    L stands with all its M² entries, column by column, so that its view goes to BLAS as it is. Those above the diagonal
    are zero and their gradient is zero, and every optimiser here leaves such entries alone.
    """

    M: int
    P: int
    d: int

    @property
    def size(self) -> int:
        """Length of the vector."""
        return self.q_size + self.P + self.M * self.d

    @property
    def q_size(self) -> int:
        """Length of its first part, m and L, which is q."""
        return self.M + self.M * self.M

    @property
    def theta(self) -> slice:
        """Where the log hyper-parameters stand."""
        return slice(self.q_size, self.q_size + self.P)

    def split(self, x: Array) -> Parts:
        """Views of m, L (Fortran-ordered), theta and Z in x (size,)."""
        M, q = self.M, self.q_size
        L = x[M:q].reshape(M, M).T
        return Parts(x[:M], L, x[self.theta], x[q + self.P :].reshape(M, self.d))
