"""rff: random Fourier features (Rahimi and Recht 2007) and logistic regression, an opponent that is nearly a GP.

=======  =======================================================================================  =========
symbol   meaning                                                                                  shape
=======  =======================================================================================  =========
D        features: cosines and sines of D/2 random frequencies
Ω        frequencies, standard normal: those of the squared exponential kernel of length scale 1  (d, D/2)
l, v     length scale of all inputs, and prior variance of the scores
φ(x)     √(2/D) [cos(Ωᵀx/l), sin(Ωᵀx/l)]: φ(x)ᵀφ(x') is the kernel but for the noise of Ω           (D,)
w        weights of a class, N(0, v I): the scores φᵀw are then a draw of the Gaussian process     (D,)
=======  =======================================================================================  =========

The weights are at their posterior mode (logistic regression, scikit-learn's); what remains unsure about them is not
predicted from, which is what a Gaussian process has ahead of it. Cosines and sines of the same frequencies have less
noise than shifted cosines (Sutherland and Schneider 2015). l and v, where they are not given, are chosen on held-out
rows, from the same frequencies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from gpbench.model.classes import ClassPosterior
from gpbench.model.posterior import register_posterior
from gpbench.schemes.base import run_training, setting
from gpbench.schemes.tuning import Opponent, Trained, Tuning, logistic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpbench.model.rows import Array, Labels
    from gpbench.schemes.base import Fit, OnStep

__all__ = ["RFF", "RFFPosterior"]

SCALES = (0.25, 0.5, 1.0, 2.0)
"""Length scales to choose from, in roots of the number of inputs."""
VARIANCES = (1.0, 10.0, 100.0)
"""Prior variances to choose from."""


@dataclass(frozen=True, kw_only=True)
class RFF(Opponent):
    """Logistic regression on random Fourier features of the squared exponential kernel."""

    features: int = setting(500, "features: cosines and sines, half of each", minimum=2, maximum=100_000)
    lengthscale: float | None = setting(
        None,
        "length scale; none: 1/4, 1/2, 1 or 2 times the root of the number of inputs, by held-out NLL",
        kind=float,
        minimum=1e-6,
        maximum=1e6,
    )
    variance: float | None = setting(
        None, "prior variance of the scores; none: 1, 10 or 100, by held-out NLL", kind=float, minimum=1e-6, maximum=1e9
    )
    validation_rows: int = setting(
        5000, "random rows that the choice uses at most, a fifth of them held out", minimum=3
    )
    max_rows: int = setting(50_000, "random rows that are used at most; their features are held in memory", minimum=10)
    max_iterations: int = setting(1000, "iterations of L-BFGS at most, for each model", minimum=1)

    name: ClassVar[str] = "rff"

    def train(self, X: Array, y: Labels, *, classes: int, rng: np.random.Generator, on_step: OnStep) -> Fit:
        """Train; an iteration is a model that is trained."""
        return run_training(self.name, lambda: RFFTraining(self, X, y, classes=classes, rng=rng), on_step)


class RFFTraining(Tuning[tuple[float, float]]):
    """Candidates are length scales and variances."""

    def __init__(self, scheme: RFF, X: Array, y: Labels, *, classes: int, rng: np.random.Generator) -> None:
        root = math.sqrt(X.shape[1])
        scales = [scale * root for scale in SCALES] if scheme.lengthscale is None else [scheme.lengthscale]
        variances = VARIANCES if scheme.variance is None else (scheme.variance,)
        candidates = [(scale, variance) for scale in scales for variance in variances]
        self._frequencies = rng.normal(size=(X.shape[1], max(1, scheme.features // 2)))
        self._max_iterations = scheme.max_iterations
        super().__init__(X, y, classes=classes, candidates=candidates, most=scheme.validation_rows, rng=rng)

    def fit(
        self, candidate: tuple[float, float], X: Array, y: Labels, *, validation: tuple[Array, Labels] | None
    ) -> Trained[tuple[float, float]]:
        """Logistic regression at one length scale and variance."""
        lengthscale, variance = candidate
        frequencies = self._frequencies / lengthscale
        fitted = logistic(
            fourier(X, frequencies),
            y,
            classes=self.classes,
            penalty=1.0 / variance,
            max_iterations=self._max_iterations,
        )
        absent = np.bincount(y, minlength=self.classes) == 0
        posterior = RFFPosterior(frequencies, fitted.weights, fitted.bias, absent=absent, rows=len(y))
        nll = math.nan if validation is None else -float(posterior.score(*validation).log_density.mean())
        return Trained(posterior, candidate, nll, "converged" if fitted.converged else "iterations")

    def chosen(self, candidate: tuple[float, float]) -> dict[str, Any]:
        """Length scale and variance."""
        return {"lengthscale": candidate[0], "variance": candidate[1]}


def fourier(X: Array, frequencies: Array) -> Array:
    """Features φ (b, D) of rows X (b, d) with frequencies Ω/l (d, D/2)."""
    half = frequencies.shape[1]
    angles = X @ frequencies
    out = np.empty((len(X), 2 * half))
    np.cos(angles, out=out[:, :half])
    np.sin(angles, out=out[:, half:])
    out *= math.sqrt(1.0 / half)
    return out


@dataclass(frozen=True, eq=False)
class RFFPosterior(ClassPosterior):
    """A linear model of random Fourier features.

    Parameters
    ----------
    frequencies : (d, D/2)
        Ω/l.
    weights : (C, D)
    bias : (C,)
    absent : (C,)
        Classes that training did not see.
    rows : int
        Number of training rows.
    """

    frequencies: Array
    weights: Array
    bias: Array
    absent: npt.NDArray[np.bool_]
    rows: int

    kind: ClassVar[str] = "rff"
    block: ClassVar[int] = 4096

    @property
    def inputs(self) -> int:
        """Number of columns, d."""
        return len(self.frequencies)

    def scores(self, X: Array) -> Array:
        """Scores (b, K) of the classes that training has seen."""
        seen = ~self.absent
        return np.asarray(fourier(X, self.frequencies) @ self.weights[seen].T + self.bias[seen])

    def parts(self) -> dict[str, npt.NDArray[Any]]:
        """Frequencies, weights, bias, and the classes that are absent."""
        return {
            "frequencies": self.frequencies,
            "weights": self.weights,
            "bias": self.bias,
            "absent": self.absent,
        }


def _build(meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> RFFPosterior:
    names = ("frequencies", "weights", "bias", "absent")
    return RFFPosterior(**{name: arrays[name] for name in names}, rows=meta["rows"])


register_posterior(RFFPosterior.kind, _build)
