"""How far an approximate posterior is from the exact one, row by row.

=========  =====================================================================  =======
symbol     meaning                                                                shape
=========  =====================================================================  =======
μ, σ       exact mean and standard deviation of f at the rows                     (n,)
m, s       the approximation's                                                    (n,)
p, q       exact and approximate probability of the second class                  (n,)
=========  =====================================================================  =======
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpbench.model.rows import Array

__all__ = ["Distance", "distance"]


class Distance(NamedTuple):
    """Of an approximation from the exact posterior, over rows.

    Attributes
    ----------
    mean : float
        Root mean square of (m - μ)/σ.
    sd : float
        Geometric mean of s/σ.
    kl : float
        Mean of KL(N(μ, σ²) ‖ N(m, s²)) in nats: of the normal law with the exact moments, from the approximation.
    probability : float
        Largest |q - p|.
    """

    mean: float
    sd: float
    kl: float
    probability: float


def distance(exact: Mapping[str, Array], mean: Array, sd: Array, probability: Array) -> Distance:
    """Compare moments and probabilities.

    Parameters
    ----------
    exact : mapping
        ``mean``, ``sd``, ``probability``, each (n,).
    mean, sd, probability : (n,)
        The approximation's.
    """
    apart, ratio = (mean - exact["mean"]) / exact["sd"], sd / exact["sd"]
    kl = np.log(ratio) + 0.5 * (1.0 + apart**2) / ratio**2 - 0.5
    return Distance(
        mean=float(np.sqrt(np.mean(apart**2))),
        sd=float(np.exp(np.mean(np.log(ratio)))),
        kl=float(np.mean(kl)),
        probability=float(np.abs(probability - exact["probability"]).max()),
    )
