"""A posterior that predicts from draws: Monte Carlo mean field, Gibbs sampling.

========  =====================================================================  =========
symbol    meaning                                                                shape
========  =====================================================================  =========
I, F      draws, latent functions
v_i       a draw of the whitened inducing values, or of their mean: u = c + L v  (I, M)
S_w       covariance of v around each v_i, 0 where v itself is drawn             (M, M)
μ_i       c + tᵀv_i, the mean of f(x) given the draw; t = L⁻¹ k(Z, x)            (I,)
s         κ - tᵀ(I - S_w)t, its variance given the draw, the same for all        scalar
========  =====================================================================  =========

p(y | x) is the average over draws of what the likelihood predicts at (μ_i, s): within a draw the integral over f is
done in closed form or by quadrature, never by sampling (Rao-Blackwell). Two ways to make one:

- ``SampledPosterior.of_means``: v given a draw is N(v_i, S_w), S_w common to all (the latent function that is handed in
  holds it; its own mean is replaced by that of the draws).
- ``SampledPosterior.of_values``: draws of the function's values u at the inputs Z themselves, white noise included (a
  Gibbs sampler with Z = X).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from gpbench.errors import NumericalError, UsageError
from gpbench.model.likelihoods import Likelihood, Prediction, Score, likelihood_from_spec
from gpbench.model.linalg import cholesky, trsm
from gpbench.model.posterior import (
    Latent,
    check_columns,
    check_scored,
    npz_arrays,
    packed,
    register_posterior,
    unpack_latents,
    write_npz,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["SampledPosterior"]

KIND = "gp-sampled"
BLOCK = 262_144
"""Rows times draws that the likelihood sees at a time: two megabytes for each of its vectors."""


@dataclass(frozen=True, eq=False)
class SampledPosterior:
    """Draws of the latent functions with a likelihood; offers what :class:`gpbench.model.posterior.Posterior` does.

    Parameters
    ----------
    latents : tuple of Latent
        One for each latent function: kernel, Z, jitter, and S_w around each draw; their means are those of the draws.
    draws : tuple of (I, M)
        Whitened draws v_i of each function; the i-th draws of all functions belong together.
    likelihood : Likelihood
        p(y | f).
    classes : int
        Number of classes of the data set, 0 for counts.

    Raises
    ------
    UsageError
        The numbers of functions or draws, or the shapes, do not fit.
    NumericalError
        A draw is not finite.
    """

    latents: tuple[Latent, ...]
    draws: tuple[Array, ...]
    likelihood: Likelihood
    classes: int

    def __post_init__(self) -> None:
        needed = self.likelihood.n_latent(self.classes)
        if not len(self.latents) == len(self.draws) == needed:
            raise UsageError(
                f"likelihood {self.likelihood.name} with {self.classes} classes needs {needed} latent functions and "
                f"as many sets of draws; got {len(self.latents)} and {len(self.draws)}"
            )
        kept = tuple(np.array(each, dtype=np.float64, order="C") for each in self.draws)
        I = len(kept[0])
        for latent, values in zip(self.latents, kept, strict=True):
            if values.shape != (I, len(latent.Z)) or I == 0:
                raise UsageError(f"draws must have shape (draws, {len(latent.Z)}) for all; got {values.shape}")
            if not np.isfinite(values).all():
                bad = int((~np.isfinite(values)).sum())
                raise NumericalError(f"draws of a posterior must be finite; got {bad} numbers that are not")
            values.setflags(write=False)
        object.__setattr__(self, "draws", kept)

    @classmethod
    def of_means(
        cls,
        latent: Latent,
        draws: Array,
        *,
        likelihood: Likelihood,
        classes: int,
    ) -> Self:
        """One latent function whose v, given a draw v_i, is N(v_i, S_w) with the S_w of ``latent``; draws (I, M)."""
        centred = replace(latent, m_w=np.mean(draws, axis=0))
        return cls((centred,), (draws,), likelihood, classes)

    @classmethod
    def of_values(
        cls,
        kernel: Kernel,
        Z: Array,
        u: Array,
        *,
        jitter: float,
        likelihood: Likelihood,
        classes: int,
        mean: float = 0.0,
    ) -> Self:
        """One latent function from draws of its values at inputs.

        Parameters
        ----------
        kernel : Kernel
        Z : (M, d)
        u : (I, M)
            Values at Z under k(Z, Z) with white noise and jitter.
        jitter : float
            Absolute jitter, the one that the sampler used.
        mean : float
            Constant prior mean, part of ``u``.

        Raises
        ------
        NumericalError
            k(Z, Z) is not positive definite with that jitter, or a draw is not finite.
        """
        L, _ = cholesky(kernel.gram(Z), what="the prior covariance of the draws", jitter=jitter)
        draws = trsm(L, np.asfortranarray((u - mean).T)).T
        M = len(Z)
        nothing = np.zeros((M, M))
        latent = Latent(kernel, Z, draws.mean(axis=0), nothing, form="covariance", jitter=jitter, mean=mean)
        return cls((latent,), (draws,), likelihood, classes)

    @cached_property
    def _conditionals(self) -> tuple[_Conditionals, ...]:
        return tuple(_Conditionals(latent, v) for latent, v in zip(self.latents, self.draws, strict=True))

    @property
    def n_draws(self) -> int:
        """I."""
        return len(self.draws[0])

    def latent(self, X: Rows) -> tuple[Array, Array]:
        """Mean and variance of each latent function over the draws, each of shape (n, F), at inputs X (n, d)."""
        check_columns(X, self.latents[0])
        n, F = len(X), len(self.latents)
        mean, var = np.empty((n, F)), np.empty((n, F))
        for rows in self._blocks(n):
            for index, conditional in enumerate(self._conditionals):
                mu, s = conditional(X[rows])
                mean[rows, index], var[rows, index] = mu.mean(axis=1), mu.var(axis=1) + s
        return mean, var

    def predict(self, X: Rows) -> Prediction:
        """Predictive distribution of each row of X (n, d)."""
        check_columns(X, self.latents[0])
        parts = [
            self._average(self.likelihood.predict(*self._stacked(X[rows])).values) for rows in self._blocks(len(X))
        ]
        return self._prediction(parts)

    def score(self, X: Rows, y: Labels) -> Score:
        """Log predictive probability (nats) and error of the targets y (n,) of X (n, d), and the predictive values.

        Raises
        ------
        DataError
            A target is out of range, or there are not as many as rows.
        """
        check_scored(self, X, y)
        check_columns(X, self.latents[0])
        y, log_density, parts = np.asarray(y), np.empty(len(X)), []
        for rows in self._blocks(len(X)):
            scored = self.likelihood.score(np.repeat(y[rows], self.n_draws), *self._stacked(X[rows]))
            each = scored.log_density.reshape(-1, self.n_draws)
            top = each.max(axis=1)
            log_density[rows] = top + np.log(np.exp(each - top[:, None]).mean(axis=1))
            parts.append(self._average(scored.values))
        prediction = self._prediction(parts)
        return Score(log_density, self.likelihood.error(y, prediction.point), prediction.values)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that :func:`gpbench.model.posterior.load_posterior` reads, to be saved together with others."""
        meta, arrays = packed(self)
        arrays.update({f"{index}.draws": values for index, values in enumerate(self.draws)})
        return npz_arrays(KIND, meta, arrays)

    def save(self, path: Path) -> None:
        """Write an npz file that ``load_posterior`` reads; the loaded one predicts the same to the bit."""
        write_npz(path, self.arrays())

    def _blocks(self, n: int) -> list[slice]:
        size = max(1, BLOCK // self.n_draws)
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]

    def _stacked(self, X: Array) -> tuple[Array, Array]:
        """Latent means and variances of all draws, one row's draws after the other's, each of shape (b I, F)."""
        columns = [conditional(X) for conditional in self._conditionals]
        mean = np.stack([mu.reshape(-1) for mu, _ in columns], axis=1)
        return mean, np.stack([np.repeat(s, self.n_draws) for _, s in columns], axis=1)

    def _average(self, values: Array) -> Array:
        return np.asarray(values.reshape(-1, self.n_draws, *values.shape[1:]).mean(axis=1))

    def _prediction(self, parts: list[Array]) -> Prediction:
        values = np.concatenate(parts)
        return Prediction(values) if values.ndim == 1 else Prediction(values.argmax(axis=1), values)


class _Conditionals:
    """Mean of a latent function under each draw (b, I) and its variance (b,), at new inputs."""

    def __init__(self, latent: Latent, draws: Array) -> None:
        self._marginals = latent.marginals()
        self._features = latent.kernel.bind(latent.Z)
        self._alphas = trsm(latent.factor(), np.asfortranarray(draws.T), trans=True)
        self._mean = latent.mean

    def __call__(self, X: Array) -> tuple[Array, Array]:
        _, s = self._marginals(X)
        return self._features.cross(X) @ self._alphas + self._mean, s


def _build(meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> SampledPosterior:
    latents = unpack_latents(meta["latents"], arrays)
    draws = tuple(arrays[f"{index}.draws"] for index in range(len(latents)))
    return SampledPosterior(latents, draws, likelihood_from_spec(meta["likelihood"]), meta["classes"])


register_posterior(KIND, _build)
