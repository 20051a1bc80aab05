"""Cumulative-logit likelihood of ordinal categories: P(y ≤ j | f) = σ(k (φ_j - f)) (sheth2015, table 1).

=========  ==================================================================================  ==========
symbol     meaning                                                                             shape
=========  ==================================================================================  ==========
L          categories 0..L-1 (the paper counts from 1)
φ          edges φ_1 < ... < φ_(L-1); φ_0 = -∞ and φ_L = ∞                                      (L-1,)
k          slope                                                                               scalar
Δ          gaps φ_(j+1) - φ_j                                                                  (L-2,)
a, b       k (φ_upper - f) and k (φ_lower - f) of a row's category, maybe infinite             (n,)
ψ          free parameters: φ_1, log Δ, log k                                                  (L,)
=========  ==================================================================================  ==========

    ℓ = log σ(a) + log σ(-b) + log(1 - e^-(a-b)),

where a - b = kΔ does not depend on f: a row is two Bernoulli terms and a constant, which holds for infinite edges and
for edges that are as close as float64 can tell apart. Expectations are those of the two terms.

Predictive probabilities are differences of logistic-normal tails, taken on the smaller side:

=========  ====================================================================================  ==========
symbol     meaning                                                                               shape
=========  ====================================================================================  ==========
lo, hi     edges of an interval, times the slope; maybe infinite                                 (n,)
μ, s       mean and variance of k f                                                              (n,)
p          P(lo < k f + ε < hi), ε logistic: E [σ(hi - kf) - σ(lo - kf)]                         (n,)
=========  ====================================================================================  ==========

The tails come with 11 digits (:func:`gpbench.model.likelihoods.bernoulli.log_tail`), in logarithms. An interval to the
right of μ is the difference of two upper tails, one to the left that of two lower ones, so that little cancels unless
the interval is narrow; one narrower than 1e-3 is widened to that about its middle, and its probability scaled back:
the density is smooth on the scale of 1, so that this costs 1e-7 at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import special

from gpbench.errors import UsageError
from gpbench.model.likelihoods.base import Likelihood, Prediction, check_classes
from gpbench.model.likelihoods.bernoulli import log_sigmoid, log_sigmoid_and_slope, log_tail, sigmoid
from gpbench.model.quadrature import concave_expectations, hermite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.model.rows import Array, Labels

__all__ = ["Ordinal"]

_NARROW = 1e-3


class _Sides(NamedTuple):
    """Of each row: kφ_upper and kφ_lower, and kΔ, infinite where the category has no such edge."""

    upper: Array
    lower: Array
    width: Array


@dataclass(frozen=True)
class Ordinal(Likelihood):
    """Ordered categories.

    Parameters
    ----------
    edges : tuple of float
        φ_1 ... φ_(L-1), increasing.
    slope : float
        k > 0.
    nodes : int
        Gauss-Hermite nodes of ``expectations``.

    Raises
    ------
    UsageError
        Edges that do not increase, or a slope that is not positive.
    """

    edges: tuple[float, ...]
    slope: float = 1.0
    nodes: int = 20
    name: ClassVar[str] = "ordinal"
    tasks: ClassVar[frozenset[str]] = frozenset({"ordinal"})

    def __post_init__(self) -> None:
        edges = tuple(float(edge) for edge in self.edges)  # a saved likelihood's are a list
        object.__setattr__(self, "edges", edges)
        if not (edges and np.isfinite(edges).all() and (np.diff(edges) > 0).all()):
            raise UsageError(f"the edges of an ordinal likelihood must be finite and increasing; got {list(edges)}")
        if not 0 < self.slope < np.inf:
            raise UsageError(f"the slope of an ordinal likelihood must be positive and finite; got {self.slope}")

    @classmethod
    def of_counts(cls, counts: Sequence[int], *, slope: float = 1.0, nodes: int = 20) -> Self:
        """With the edges at which the categories have their empirical probabilities at f = 0.

        Half a row is added to each category, so that the edges are finite and do not meet where one has no rows.

        Parameters
        ----------
        counts : sequence of int
            Rows of each category.
        slope, nodes
            As in the class.

        Raises
        ------
        UsageError
            Fewer than two categories.
        """
        if len(counts) < 2:
            raise UsageError(f"an ordinal likelihood needs at least 2 categories; got {len(counts)}")
        weights = np.asarray(counts, dtype=np.float64) + 0.5
        below = np.cumsum(weights)[:-1]
        above = np.cumsum(weights[::-1])[::-1][1:]
        return cls(tuple((np.log(below / above) / slope).tolist()), slope=slope, nodes=nodes)

    def spec(self) -> dict[str, Any]:
        """Name and parameters as JSON can hold them; ``likelihood_from_spec`` reads them."""
        return {"name": self.name, "edges": list(self.edges), "slope": float(self.slope), "nodes": self.nodes}

    @property
    def free(self) -> Array:
        """ψ, shape (L,)."""
        return np.concatenate([self.edges[:1], np.log(np.diff(self.edges)), [np.log(self.slope)]])

    @property
    def free_names(self) -> tuple[str, ...]:
        """``edge``, ``log_gaps[i]`` and ``log_slope``."""
        return ("edge", *(f"log_gaps[{i}]" for i in range(len(self.edges) - 1)), "log_slope")

    def with_free(self, values: Array) -> Ordinal:
        """The same likelihood with other parameters ψ, shape (L,).

        Raises
        ------
        UsageError
            Wrong number of parameters, or edges that float64 cannot tell apart.
        """
        if np.shape(values) != (len(self.edges) + 1,):
            raise UsageError(f"{len(self.edges)} edges and a slope have as many parameters; got {np.shape(values)}")
        edges = values[0] + np.concatenate([[0.0], np.cumsum(np.exp(values[1:-1]))])
        return Ordinal(tuple(edges.tolist()), slope=float(np.exp(values[-1])), nodes=self.nodes)

    def identified_by(self, y: Labels) -> npt.NDArray[np.bool_]:
        """Which of the parameters ψ the targets y (n,) identify, shape (L,).

        A category without rows would shrink to nothing. Where the lowest or highest categories have none, the next one
        would grow for ever, and give them no probability at all. Such widths would tell of missing rows alone.
        """
        counts = np.bincount(np.asarray(y), minlength=len(self.edges) + 1)
        present = np.flatnonzero(counts)
        identified = np.ones(len(self.edges) + 1, dtype=bool)
        if present.size == 0:
            return ~identified
        lowest, highest = int(present[0]), int(present[-1])
        inner = np.arange(1, len(self.edges))
        identified[1:-1] = (counts[inner] > 0) & (lowest < inner) & (inner < highest)
        identified[0] = not (highest == 0 or lowest == len(self.edges))
        return identified

    def n_latent(self, classes: int) -> int:
        """One latent function.

        Raises
        ------
        UsageError
            There are more or fewer categories than the edges make.
        """
        if classes != len(self.edges) + 1:
            raise UsageError(f"{len(self.edges)} edges make {len(self.edges) + 1} categories; got {classes} classes")
        return 1

    def check_targets(self, y: Labels, classes: int) -> None:
        """Check that the targets are categories 0..L-1; some may be absent.

        Raises
        ------
        UsageError
            There are more or fewer categories than the edges make.
        DataError
            A target is out of range.
        """
        self.n_latent(classes)
        check_classes(y, classes)

    def log_density(self, y: Labels, f: Array) -> Array:
        """Log p(y | f), shape (n,)."""
        sides = self._sides(y)
        a, b = sides.upper - self.slope * f, sides.lower - self.slope * f
        return log_sigmoid(a) + log_sigmoid(-b) + _log_width(sides.width)

    def derivatives(self, y: Labels, f: Array) -> tuple[Array, Array]:
        """First and second derivative of log p(y | f) in f, each of shape (n,)."""
        (a1, a2, _), (b1, b2, _), _ = self._terms(y, f)
        return -self.slope * (a1 + b1), self.slope**2 * (a2 + b2)

    def third_derivative(self, y: Labels, f: Array) -> Array:
        """Third derivative of log p(y | f) in f, shape (n,)."""
        (_, _, a3), (_, _, b3), _ = self._terms(y, f)
        return -(self.slope**3) * (a3 + b3)

    def expectations(self, y: Labels, mu: Array, var: Array) -> tuple[Array, Array, Array]:
        """E ℓ under f ~ N(mu, var) and its derivatives e, g, h, each of shape (n,); walk over blocks for many rows."""
        k, sides = self.slope, self._sides(y)
        e, g, h = _log_width(sides.width), np.zeros(len(mu)), np.zeros(len(mu))
        for edge, sign in ((sides.upper, 1.0), (sides.lower, -1.0)):
            rows = np.flatnonzero(np.isfinite(edge))  # log σ(∞) = 0
            if rows.size:
                mean = sign * (edge[rows] - k * mu[rows])
                part_e, part_g, part_h = concave_expectations(
                    log_sigmoid_and_slope, _curvature, mean, k * k * var[rows], nodes=self.nodes
                )
                e[rows] += part_e
                g[rows] -= sign * k * part_g
                h[rows] += k * k * part_h
        return e, g, h

    def free_gradient(self, y: Labels, mu: Array, var: Array) -> Array:
        """Derivatives Σ_n ∂e_n/∂ψ of the ``expectations``, shape (L,)."""
        y, k, sides, nodes = np.asarray(y), self.slope, self._sides(y), hermite(self.nodes)
        slopes, products = np.zeros((2, len(mu))), np.zeros((2, len(mu)))  # E of A' and B', of A'a and B'b
        for side, (edge, sign) in enumerate(((sides.upper, 1.0), (sides.lower, -1.0))):
            rows = np.flatnonzero(np.isfinite(edge))
            points = (sign * (edge[rows] - k * mu[rows]))[:, None] + (k * np.sqrt(var[rows]))[:, None] * nodes[0]
            at_points = sigmoid(-points)
            slopes[side, rows] = sign * (at_points @ nodes[1])
            products[side, rows] = (at_points * points) @ nodes[1]
        shift = slopes.sum(axis=0)
        total = np.empty(len(self.edges) + 1)
        total[0] = k * shift.sum()
        for j, gap in enumerate(np.diff(self.edges)):
            at = y == j + 1
            total[1 + j] = k * gap * float(shift[y > j + 1].sum() + slopes[0, at].sum())
            total[1 + j] += float(at.sum()) / special.exprel(k * gap)  # x / (e^x - 1), from the constant
        widths = sides.width[np.isfinite(sides.width)]
        total[-1] = products.sum() + (1.0 / special.exprel(widths)).sum()
        return total

    def free_derivatives(self, y: Labels, f: Array) -> tuple[Array, Array, Array]:
        """Derivatives in ψ of ℓ and of its first and second derivative in f, each of shape (L, n).

        φ_1 moves all edges as f moves against them; log Δ_j moves the edges above it, and so the upper edge of
        category j and both edges of those above; log k scales a and b.
        """
        y, k = np.asarray(y), self.slope
        (a1, a2, a3), (b1, b2, b3), sides = self._terms(y, f)
        f1, f2, f3 = -k * (a1 + b1), k * k * (a2 + b2), -(k**3) * (a3 + b3)
        out = np.empty((3, len(self.edges) + 1, len(f)))
        out[:, 0] = -f1, -f2, -f3
        width = np.where(np.isfinite(sides.width), sides.width, 0.0)
        for j, gap in enumerate(np.diff(self.edges)):
            above, at = y > j + 1, y == j + 1
            kgap = k * gap
            out[:, 1 + j] = 0.0
            for order, (whole, own) in enumerate(((f1, a1), (f2, -k * a2), (f3, k * k * a3))):
                out[order, 1 + j, above] = -gap * whole[above]
                out[order, 1 + j, at] = kgap * own[at]
            out[0, 1 + j, at] += 1.0 / special.exprel(kgap)
        a = np.where(np.isfinite(sides.upper), sides.upper - k * f, 0.0)  # σ(-a) a is 0 at infinity
        b = np.where(np.isfinite(sides.lower), sides.lower - k * f, 0.0)
        constant = np.where(np.isfinite(sides.width), 1.0 / special.exprel(width), 0.0)
        out[0, -1] = a1 * a + b1 * b + constant
        out[1, -1] = f1 - k * (a2 * a + b2 * b)
        out[2, -1] = 2.0 * f2 + k * k * (a3 * a + b3 * b)
        return out[0], out[1], out[2]

    def predict(self, mean: Array, var: Array) -> Prediction:
        """Most probable category and probabilities (n, L), from latent mean and variance, each of shape (n, 1)."""
        edges, k = self.slope * np.asarray(self.edges), self.slope
        p = np.exp(_category_log_probabilities(edges, k * mean[:, 0], k * k * var[:, 0]))
        p /= p.sum(axis=1, keepdims=True)
        return Prediction(p.argmax(axis=1), p)

    def log_predictive(self, y: Labels, mean: Array, var: Array) -> Array:
        """Log predictive probability of the observed category, shape (n,)."""
        sides, k = self._sides(y), self.slope
        return _observed_log_probability(sides.lower, sides.upper, k * mean[:, 0], k * k * var[:, 0])

    def error(self, y: Labels, point: Labels) -> Array:
        """Zero-one error, shape (n,)."""
        return np.not_equal(y, point).astype(np.float64)

    def _sides(self, y: Labels) -> _Sides:
        edges = self.slope * np.concatenate([[-np.inf], self.edges, [np.inf]])
        y = np.asarray(y)
        return _Sides(edges[y + 1], edges[y], np.diff(edges)[y])

    def _terms(self, y: Labels, f: Array) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, Array], _Sides]:
        """First three derivatives of log σ(a) in a and of log σ(-b) in b."""
        sides = self._sides(y)
        a, b = sides.upper - self.slope * f, sides.lower - self.slope * f
        pa, qa, pb, qb = sigmoid(a), sigmoid(-a), sigmoid(b), sigmoid(-b)
        return (qa, -pa * qa, pa * qa * (pa - qa)), (-pb, -pb * qb, pb * qb * (pb - qb)), sides


def _log_width(width: Array) -> Array:
    """log(1 - e^-width); 0 where it is infinite."""
    return np.asarray(np.log(-np.expm1(-width)))


def _curvature(z: Array) -> Array:
    """Second derivative of log σ."""
    return -sigmoid(z) * sigmoid(-z)


def _observed_log_probability(lo: Array, hi: Array, mu: Array, s: Array) -> Array:
    """Log p of each row's own interval, shape (n,)."""
    out = np.empty(mu.shape)
    first, last = np.isneginf(lo), np.isposinf(hi)
    out[first] = log_tail(mu[first] - hi[first], s[first])
    out[last] = log_tail(lo[last] - mu[last], s[last])
    inner = ~(first | last)
    out[inner] = _between(lo[inner] - mu[inner], hi[inner] - mu[inner], s[inner])
    return out


def _category_log_probabilities(edges: Array, mu: Array, s: Array) -> Array:
    """Log p of each category, shape (n, L), for the edges (L-1,) times the slope."""
    out = np.empty((len(mu), len(edges) + 1))
    out[:, 0] = log_tail(mu - edges[0], s)
    out[:, -1] = log_tail(edges[-1] - mu, s)
    for j in range(1, len(edges)):
        out[:, j] = _between(edges[j - 1] - mu, edges[j] - mu, s)
    return out


def _between(lo: Array, hi: Array, s: Array) -> Array:
    middle, width = 0.5 * (lo + hi), hi - lo
    wide = np.maximum(width, _NARROW)
    side = np.abs(middle)  # by symmetry every interval lies to the right
    near, far = log_tail(side - 0.5 * wide, s), log_tail(side + 0.5 * wide, s)
    return np.asarray(near + np.log(-np.expm1(far - near)) + np.log(width / wide))
