"""How far rows lie from one another, for the length scale that training starts from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.distance import pdist

if TYPE_CHECKING:
    from gpbench.model.rows import Rows

__all__ = ["median_distance"]


def median_distance(X: Rows, *, rows: int = 1000) -> float | None:
    """Median Euclidean distance of two rows that differ, over at most ``rows`` rows at even steps through X.

    Rows at even steps stand for a file that is sorted, and need no randomness. Pairs of equal rows do not count: among
    many duplicates their distance would be 0, which is no length.

    Returns
    -------
    float or None
        In the units of X; None where all rows that were looked at are equal.
    """
    n = len(X)
    chosen = np.unique(np.linspace(0, n - 1, num=min(n, rows)).round().astype(np.int64))
    distances = pdist(np.asarray(X[chosen], dtype=np.float64))
    apart = distances[distances > 0]
    return float(np.median(apart)) if len(apart) else None
