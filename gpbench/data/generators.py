"""Generated data sets: any number of rows, none of which depends on how many are made.

Rows come in blocks of :data:`BLOCK`, each from a random stream of its own, so that ``twonorm-gen:1000`` is the head of
``twonorm-gen:1000000`` and a block can be made without those before it.

============  ================================================================================================
twonorm-gen   Breiman (1996): N(-a, I) against N(a, I) in 20 inputs, a = 2 / sqrt(20) in each
ringnorm-gen  Breiman (1996): N(a, I) against N(0, 4 I) in 20 inputs; the signs of the labels are DELVE's
waveform3     Breiman, Friedman, Olshen, Stone (1984): mixtures of two of three triangles in 21 inputs, with noise
prior3        villacampa2017, section 4.2: the largest of three functions drawn from the Gaussian process prior
gpdraw2-gen   logit labels of a draw from the prior in 2 standard normal inputs: se, length scale 0.5, variance 9
gpdraw8-gen   the same in 8 inputs, length scale 2
============  ================================================================================================
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpbench.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd

__all__ = ["BLOCK", "GENERATORS", "blocks", "parse", "prior_features"]

BLOCK = 10_000
"""Rows of one random stream."""

_ROWS_MOST = 1_000_000_000
_ENTROPY = 20150509  # any number; fixed, since a generated data set is a function of its id alone

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


def twonorm(rng: np.random.Generator, n: int) -> tuple[Array, Labels]:
    """Rows (n, 20) and labels -1, +1."""
    y = 2 * rng.integers(0, 2, size=n) - 1
    return rng.standard_normal((n, 20)) + y[:, None] * (2 / np.sqrt(20)), y


def ringnorm(rng: np.random.Generator, n: int) -> tuple[Array, Labels]:
    """Rows (n, 20) and labels: -1 around a, +1 around 0 with twice the standard deviation."""
    y = 2 * rng.integers(0, 2, size=n) - 1
    outer = (y == 1)[:, None]
    noise = rng.standard_normal((n, 20))
    return np.where(outer, 2 * noise, noise + 2 / np.sqrt(20)), y


def waveform(rng: np.random.Generator, n: int) -> tuple[Array, Labels]:
    """Rows (n, 21) and labels 1, 2, 3: u h_a + (1 - u) h_b + noise, triangles (a, b) = (1, 2), (1, 3), (2, 3)."""
    place = np.arange(1, 22)
    triangles = np.array([np.maximum(6 - np.abs(place - centre), 0) for centre in (11, 15, 7)], dtype=np.float64)
    pairs = np.array([(0, 1), (0, 2), (1, 2)])
    y = rng.integers(0, 3, size=n)
    u = rng.random((n, 1))
    first, second = triangles[pairs[y, 0]], triangles[pairs[y, 1]]
    return u * first + (1 - u) * second + rng.standard_normal((n, 21)), y + 1


def prior(rng: np.random.Generator, n: int, *, seed: int = 0) -> tuple[Array, Labels]:
    """Rows (n, 2), uniform on [-2.5, 2.5]^2, and labels 1, 2, 3 by the largest latent function.

    The functions are the same for all blocks. A draw of f on n points would cost n^3; the squared exponential has an
    exact expansion in few functions on so small a square (:func:`prior_features`), with independent normal weights.
    """
    stream = np.random.SeedSequence(_ENTROPY, spawn_key=(99, *_seeded(seed)))
    weights = np.random.default_rng(stream).standard_normal((3, 48, 48))
    X = rng.uniform(-2.5, 2.5, size=(n, 2))
    left, right = prior_features(X[:, 0]), prior_features(X[:, 1])
    f = np.einsum("ni,kij,nj->nk", left, weights, right, optimize=True)
    return X, f.argmax(axis=1).astype(np.int64) + 1


def prior_features(x: Array) -> Array:
    """Functions phi with phi(x) . phi(x') = exp(-(x - x')^2 / 2) to 1e-14 for |x|, |x'| <= 2.5.

    From exp(x x') = sum_k (x x')^k / k!, of which 48 terms suffice.

    Parameters
    ----------
    x : (n,)

    Returns
    -------
    (n, 48) array
    """
    k = np.arange(1, 48)
    terms = np.cumprod(x[:, None] / np.sqrt(k), axis=1)  # x^k / sqrt(k!)
    features: Array = np.exp(-(x**2) / 2)[:, None] * np.concatenate([np.ones((len(x), 1)), terms], axis=1)
    return features


def draw2(rng: np.random.Generator, n: int, *, seed: int = 0) -> tuple[Array, Labels]:
    """Rows (n, 2) and labels -1, +1."""
    return _draw(rng, n, d=2, lengthscale=0.5, seed=seed)


def draw8(rng: np.random.Generator, n: int, *, seed: int = 0) -> tuple[Array, Labels]:
    """Rows (n, 8) and labels -1, +1."""
    return _draw(rng, n, d=8, lengthscale=2.0, seed=seed)


def _draw(rng: np.random.Generator, n: int, *, d: int, lengthscale: float, seed: int) -> tuple[Array, Labels]:
    """Standard normal rows, and labels +1 with probability 1/(1 + exp(-f)).

    f = (2 v/F)^1/2 Σ w_i cos(ω_i x + φ_i), with F = 2,000 random features (Rahimi and Recht 2007), is a draw from the
    prior whose covariance is within 5 % of the squared exponential; it is the same for all blocks.
    """
    own = np.random.default_rng(np.random.SeedSequence(_ENTROPY, spawn_key=(98, d, *_seeded(seed))))
    F, variance = 2000, 9.0
    omega, phase, w = own.standard_normal((d, F)) / lengthscale, 2 * np.pi * own.random(F), own.standard_normal(F)
    X, u = rng.standard_normal((n, d)), rng.random(n)
    f = np.sqrt(2 * variance / F) * np.cos(X @ omega + phase) @ w
    return X, np.where(np.log(u) - np.log1p(-u) < f, 1, -1)


GENERATORS: dict[str, Callable[..., tuple[Array, Labels]]] = {
    "twonorm-gen": twonorm,
    "ringnorm-gen": ringnorm,
    "waveform3": waveform,
    "prior3": prior,
    "gpdraw2-gen": draw2,
    "gpdraw8-gen": draw8,
}
"""id -> generator of a block."""

_OF_FUNCTIONS = frozenset({"prior3", "gpdraw2-gen", "gpdraw8-gen"})
"""Those whose labels follow functions that all blocks share: they take the generator's seed."""


def parse(name: str) -> tuple[str, int | None]:
    """Split ``twonorm-gen:1000000`` into id and rows (None where none are asked for).

    Raises
    ------
    UsageError
        The number of rows is none.
    """
    base, colon, rows = name.partition(":")
    if not colon:
        return base, None
    if base not in GENERATORS:
        raise unknown_name("generated data set", base, GENERATORS)
    text = rows.replace("_", "")
    if not (text.isascii() and text.isdigit()) or not 2 <= int(text) <= _ROWS_MOST:
        raise UsageError(
            f"data set {name}: expected a number of rows from 2 to {_ROWS_MOST:,} after the colon; got {rows!r}"
        )
    return base, int(text)


def _seeded(seed: int) -> tuple[int, ...]:
    """What a generator's seed adds to the key of a stream: nothing for the data set itself, whose seed is 0."""
    return (seed,) if seed else ()


def blocks(base: str, rows: int, *, draws: int = 1) -> Iterator[pd.DataFrame]:
    """Rows as data frames: columns x1 ... xd and ``target``, the last.

    Parameters
    ----------
    base : str
        One of :data:`GENERATORS`.
    rows : int
        How many.
    draws : int
        So many data sets of as many rows one after another, with the generator's seeds 0, 1, ...; the first is the data
        set itself.
    """
    import pandas as pd  # noqa: PLC0415  # a second that `list` and failing downloads need not pay

    from gpbench.data.formats.frames import frame  # noqa: PLC0415  # likewise

    key = list(GENERATORS).index(base)
    total = rows * draws
    for seed in range(draws):
        make = partial(GENERATORS[base], seed=seed) if base in _OF_FUNCTIONS else GENERATORS[base]
        for number, start in enumerate(range(0, rows, BLOCK)):
            stream = np.random.SeedSequence(_ENTROPY, spawn_key=(key, number, *_seeded(seed)))
            X, y = make(np.random.default_rng(stream), BLOCK)
            count = min(BLOCK, rows - start)
            table = pd.DataFrame(X[:count], columns=[f"x{j + 1}" for j in range(X.shape[1])])
            table["target"] = y[:count]
            first = seed * rows + start
            numbers = range(first + 1, first + count + 1)
            yield frame(table, numbers=numbers, source=base, unit="row", read=first + count, total=total)
