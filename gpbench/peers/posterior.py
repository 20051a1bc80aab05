"""A rival's posterior: q(u) as gpbench knows it, with the rival's own clipping of probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpbench.model.likelihoods import Prediction, Score, likelihood_from_spec
from gpbench.model.posterior import Posterior, npz_arrays, packed, register_posterior, unpack_latents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["ClippedPosterior"]

KIND = "gp-clipped"


@dataclass(frozen=True, eq=False)
class ClippedPosterior(Posterior):
    """A posterior of two classes whose probabilities p become floor + (1 - 2 floor) p, as GPflow's probit has it."""

    floor: float = 0.0

    def predict(self, X: Rows) -> Prediction:
        """Predictive distribution of each row of X (n, d)."""
        found = super().predict(X)
        assert found.probabilities is not None
        return Prediction(found.point, self._clipped(found.probabilities))

    def score(self, X: Rows, y: Labels) -> Score:
        """Log predictive probability (nats) and error of the targets y (n,) of X (n, d), and the probabilities."""
        found = super().score(X, y)
        return Score(np.log(self._clipped(np.exp(found.log_density))), found.error, self._clipped(found.values))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that ``load_posterior`` reads, to be saved together with others."""
        meta, arrays = packed(self)
        return npz_arrays(KIND, {**meta, "floor": self.floor}, arrays)

    def _clipped(self, p: Array) -> Array:
        return self.floor + (1.0 - 2.0 * self.floor) * p


def _build(meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> ClippedPosterior:
    latents = unpack_latents(meta["latents"], arrays)
    likelihood = likelihood_from_spec(meta["likelihood"])
    return ClippedPosterior(latents, likelihood, meta["classes"], floor=meta["floor"])


register_posterior(KIND, _build)
