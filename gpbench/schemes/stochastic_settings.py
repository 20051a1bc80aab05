"""Settings and the stopping rule that mini-batch schemes with a bound of expectations share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpbench.optimize.training import Checks, HeldOut, hold_out
from gpbench.schemes.base import setting
from gpbench.schemes.binary import BinaryScheme

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from gpbench.model.posterior import Posterior
    from gpbench.model.rows import Labels, Rows

__all__ = ["MinibatchSettings", "StochasticSettings", "Watch"]

HELD_OUT_FROM = 10_000
"""Rows from which on the rule ``auto`` spares some for validation."""
FIRST_CHECK, CHECK_RATIO, PATIENCE = 500, 1.2, 4
"""Iterations at which it is looked at: 500, 600, 720 ...; a loss must fall within four looks, a doubling of t."""
LEAST_ROWS = 10
"""Rows without which nothing can be held out."""


@dataclass(frozen=True, kw_only=True)
class MinibatchSettings:
    """Of training by one mini-batch at a time, whatever the task."""

    batch_size: int = setting(100, "rows in a mini-batch", minimum=1)
    stop: str = setting(
        "auto",
        "stopping rule; auto: held-out from 10,000 rows on, else none",
        choices=("auto", "held-out", "none"),
    )
    tolerance: float = setting(1e-3, "relative fall of the held-out NLL that counts", minimum=0.0, maximum=1.0)
    validation: int = setting(2000, "rows held out for the stopping rule, at most a tenth", minimum=1)


@dataclass(frozen=True, kw_only=True)
class StochasticSettings(MinibatchSettings, BinaryScheme):
    """What a scheme for two classes that takes one mini-batch at a time can be told."""

    max_iterations: int = setting(10_000, "iterations at most", minimum=1)


class Watch:
    """Looks at the NLL of held-out training rows now and then, and says when it no longer falls.

    Parameters
    ----------
    settings : MinibatchSettings
    X, y : (n, d), (n,)
        All training rows.
    rng : numpy.random.Generator
        Draws the rows held out.

    Attributes
    ----------
    rows : (k,) or None
        Row numbers held out, ascending.
    """

    def __init__(self, settings: MinibatchSettings, X: Rows, y: Labels, *, rng: np.random.Generator) -> None:
        n = len(X)
        wanted = settings.stop == "held-out" or (settings.stop == "auto" and n >= HELD_OUT_FROM)
        self.rows: npt.NDArray[np.int64] | None = None
        if wanted and n >= LEAST_ROWS:
            self.rows = hold_out(n, min(settings.validation, n // 10), rng=rng)
        self._X, self._y = X, y
        self._rule = HeldOut(settings.tolerance, patience=PATIENCE)
        self._checks = Checks(first=FIRST_CHECK, ratio=CHECK_RATIO)

    def due(self, t: int) -> bool:
        """Whether to look at iteration t; to be asked at each."""
        return self.rows is not None and self._checks.due(t)

    def converged(self, posterior: Posterior) -> bool:
        """Look."""
        return self._rule.converged(held_out_nll(posterior, self._X, self._y, self.rows))


def held_out_nll(posterior: Posterior, X: Rows, y: Labels, rows: npt.NDArray[np.int64] | None) -> float:
    """Mean negative log predictive probability (nats) of some rows."""
    return -float(posterior.score(X[rows], y[rows]).log_density.mean())
