"""Classes decided by the largest of C latent values: y = argmax f, each label replaced with probability ε.

======  ===========================================================================  ============
symbol  meaning                                                                      shape
======  ===========================================================================  ============
f       latent values, one for each class                                            (n, C)
ε       share of labels that are drawn at random from all classes                    scalar
a, b    probability of the right class, 1 - ε + ε/C, and of each other, ε/C          scalars
P       E_q of "the observed class has the largest value"                            (n,)
p_k     predictive probability that class k has it                                   (n, C)
======  ===========================================================================  ============

With ε = 0 this is the likelihood (3) of villacampa2017, which its expectation propagation uses; with ε > 0 its robust
form (13), the one that the variational rival needs. GPflow's robust-max has 1 - ε' for the right class and ε'/(C - 1)
for each other: the same with ε' = ε (C - 1)/C.

P and p_k are one integral, under two rules. Expectations are needed with their derivatives, of one class, at each step
of training: :func:`argmax_probability` has a fixed rule and the derivatives of that rule. Predictions are needed of all
classes and down to probabilities of 1e-100: :func:`log_argmax_probabilities` works in logarithms on a grid of each
row's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import special

from gpbench.errors import UsageError
from gpbench.model.likelihoods.base import LatentPerClass
from gpbench.model.likelihoods.bernoulli import log_ndtr
from gpbench.model.quadrature import hermite

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from gpbench.model.rows import Array, Labels

    Index = npt.NDArray[np.int64]

__all__ = ["RULES", "RobustMax", "argmax_probability", "log_argmax_probabilities"]

RULES = ("adaptive", "trapezoid", "hermite")
"""Quadrature rules of :func:`argmax_probability`."""

BLOCK_VALUES = 1 << 17
"""Values of Φ or log Φ computed together: 1 MB, which stays in the cache."""

TRAPEZOID_SPAN = 10.0
"""The trapezoid's nodes lie on [-10, 10] standard deviations, as in the code released with villacampa2017."""
NEGLIGIBLE = 1e-17
"""Nodes with a smaller weight are left out: a sixth of 100, and no digit changes."""
FINEST_STEP = 0.84
"""The trapezoid's error is e^-28 where its step is no longer than this over √(1 + Σ_k v_y / v_k)."""
OWN_BREAKS = np.array([-8.5, -6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0, 8.5])
"""Breakpoints of the panels, in standard deviations of the observed class."""
OTHER_BREAKS = np.array([-7.0, -5.0, -3.0, -1.5, 0.0, 1.5, 3.0, 5.0, 7.0])
"""And about where each other class has its mean, in its own."""
LEAST_VARIANCE = 1e-12
"""A variance below it counts as it: the integrand would be a step."""

SPAN = 8.5
"""Standard deviations to each side of the predictive grid; what is left out is below 1e-16."""
STEP = 0.4
"""Equal steps, in the smallest σ of the row (errors of a probability: 1e-14 at five classes, 2e-9 at 26, measured)."""
ROUND = 16
"""Rows of one block have a number of nodes in common: a multiple of this."""

BREAKS = np.array([-9.0, -7.5, -6.0, -4.5, -2.5, 0.0, 2.5, 4.5, 6.0, 7.5, 9.0])
"""Breakpoints of the panels about each m_j, in σ_j."""
TAIL_BREAKS = np.array([-6.0, -3.0, -1.0, 1.0, 3.0, 6.0])
"""And about the point where classes k and j* meet."""
DECAY_BREAKS = np.array([1.0, 2.5, 5.0, 10.0, 20.0])
"""And above M*, in units of the length over which the density of class k falls there by e."""
PANEL_NODES = 8
NODES_PER_CLASS = PANEL_NODES * (len(BREAKS) + len(TAIL_BREAKS) + len(DECAY_BREAKS))
"""Of the panels; rows that would need more equal steps than these get panels."""

_LEAST = 1e-8
"""Least σ, in units of the row's spread: what has no variance is compared as what has hardly any."""

_ROOT_2PI = float(np.sqrt(2.0 * np.pi))
_LOG_ROOT_2PI = 0.5 * np.log(2.0 * np.pi)


@dataclass(frozen=True)
class RobustMax(LatentPerClass):
    """p(y | f) = a where y = argmax f, b elsewhere.

    Parameters
    ----------
    epsilon : float
        ε in [0, 1).
    rule : {"adaptive", "trapezoid", "hermite"}
        Quadrature of ``expectations``; predictions have a rule of their own.
    nodes : int
        Its nodes; of the adaptive rule, those that rows without a narrow class have.
    noise : float
        Variance that each latent value has for itself, beside that of f; 1 gives the multinomial probit.

    Raises
    ------
    UsageError
        A parameter is out of range.
    """

    epsilon: float = 0.0
    rule: str = "adaptive"
    nodes: int = 100
    noise: float = 0.0
    name: ClassVar[str] = "robust-max"
    tasks: ClassVar[frozenset[str]] = frozenset({"binary", "multiclass"})

    def __post_init__(self) -> None:
        if not 0.0 <= self.epsilon < 1.0:
            raise UsageError(f"epsilon of the robust-max likelihood must lie in [0, 1); got {self.epsilon}")
        if not 0.0 <= self.noise < math.inf:
            raise UsageError(f"noise of the robust-max likelihood must be 0 or more; got {self.noise}")
        if self.rule not in RULES:
            raise UsageError(f"the quadrature rule must be one of {', '.join(RULES)}; got {self.rule!r}")

    def spec(self) -> dict[str, Any]:
        """Name and parameters as JSON can hold them; ``likelihood_from_spec`` reads them."""
        plain = {"name": self.name, "epsilon": float(self.epsilon), "rule": self.rule, "nodes": self.nodes}
        return {**plain, "noise": float(self.noise)} if self.noise else plain

    def log_levels(self, classes: int) -> tuple[float, float]:
        """Log a and log b (nats); log b is minus infinity where ε is 0."""
        share = self.epsilon / classes
        return math.log1p(share - self.epsilon), math.log(share) if share > 0 else -math.inf

    def log_density(self, y: Labels, f: Array) -> Array:
        """Log p(y | f), shape (n,), of latent values f (n, C)."""
        right, wrong = self.log_levels(f.shape[1])
        return np.where(f.argmax(axis=1) == y, right, wrong)

    def derivatives(self, y: Labels, f: Array) -> tuple[Array, Array]:  # noqa: ARG002 - refused
        """Refused: p(y | f) is a step in each latent value.

        Raises
        ------
        UsageError
            Always.
        """
        raise UsageError(f"likelihood {self.name} is a step in f and has no derivatives; got f of shape {f.shape}")

    def expectations(self, y: Labels, mu: Array, var: Array) -> tuple[Array, Array, Array]:
        """E ℓ under independent f_k ~ N(mu, var), each of shape (n, C), and its derivatives.

        Returns
        -------
        e : (n,)
            P log a + (1 - P) log b.
        g, h : (n, C)
            ∂e/∂mu and ∂e/∂var; h has either sign, as ℓ is not concave.

        Raises
        ------
        UsageError
            ε is 0, with which e is minus infinity.
        """
        right, wrong = self.log_levels(mu.shape[1])
        if math.isinf(wrong):
            raise UsageError(f"expectations of the {self.name} likelihood need epsilon > 0; got {self.epsilon}")
        P, g, h = argmax_probability(y, mu, var + self.noise, rule=self.rule, nodes=self.nodes)
        gain = right - wrong
        g *= gain
        h *= gain
        return wrong + gain * P, g, h

    def log_probabilities(self, mean: Array, var: Array) -> Array:
        """Log predictive probabilities (n, C) from the latent mean and variance (n, C)."""
        log_p = log_argmax_probabilities(mean, var + self.noise)
        if self.epsilon == 0.0:
            return log_p
        _, wrong = self.log_levels(mean.shape[1])
        return np.logaddexp(log_p + math.log1p(-self.epsilon), wrong)


def argmax_probability(
    y: Labels, mu: Array, var: Array, *, rule: str = "adaptive", nodes: int = 100
) -> tuple[Array, Array, Array]:
    """P, the probability that the observed class has the largest of independent f_k ~ N(mu_k, var_k), and derivatives.

    ========  =====================================================================  ============
    symbol    meaning                                                                shape
    ========  =====================================================================  ============
    y         observed classes                                                       (n,)
    μ, v      means and variances of the independent q(f_k)                          (n, C)
    t, ϖ      nodes and weights for a standard normal; of each row for the adaptive  (Q,)
    α         (μ_y + √v_y t - μ_k) / √v_k for the other classes k                    (b, C-1, Q)
    P         Σ_q ϖ_q Π_{k≠y} Φ(α_kq)                                                (n,)
    ========  =====================================================================  ============

    The derivatives are those of the rule, so that P and they agree to the last digits (the code released with
    villacampa2017 has those of the integral instead). Products without one factor come from products of those before
    and of those after, without a division, since a factor may be 0.

    Parameters
    ----------
    y : (n,)
        Classes 0..C-1.
    mu, var : (n, C)
    rule : {"adaptive", "trapezoid", "hermite"}
        The integrand is as narrow as the narrowest other class. Where v_k is a thirtieth of v_y, Gauss-Hermite with 20
        nodes errs by 1e-2, the trapezoid with 100 by 1e-5, and that by 1e-3 at a hundredth, 1e-2 at a thousandth. The
        adaptive rule is the trapezoid where its step is short enough, and Gauss-Legendre panels that lie close together
        about each mean elsewhere: P errs by less than 1e-11 (ratios from 1e-4 to 1e4, measured).
    nodes : int
        Nodes of the trapezoid or of Gauss-Hermite.

    Returns
    -------
    P : (n,)
    by_mean, by_var : (n, C)
        ∂P/∂μ and ∂P/∂v.

    Raises
    ------
    UsageError
        An unknown rule or a number of nodes out of range.
    """
    t, weights = _standard_normal_rule("trapezoid" if rule == "adaptive" else rule, nodes)
    n, C = mu.shape
    P, by_mean, by_var = np.empty(n), np.empty((n, C)), np.empty((n, C))
    y, var = np.asarray(y), np.maximum(var, LEAST_VARIANCE)
    narrow = np.zeros(n, dtype=bool)
    if rule == "adaptive":
        step = t[1] - t[0]
        # the observed class counts itself as one of the others: its share is the 1
        narrow = np.take_along_axis(var, y[:, None], axis=1)[:, 0] * (1.0 / var).sum(axis=1) > (FINEST_STEP / step) ** 2
    for panels in (False, True):
        chosen = np.flatnonzero(narrow == panels)
        Q = PANEL_NODES * (len(OWN_BREAKS) + (C - 1) * len(OTHER_BREAKS)) if panels else len(t)
        size = max(1, BLOCK_VALUES // ((C - 1) * Q))
        for start in range(0, len(chosen), size):
            rows = chosen[start : start + size]
            own = y[rows, None]
            others = np.arange(C - 1) + (np.arange(C - 1) >= own)
            m, v = mu[rows], var[rows]
            sd_own, sd = (np.sqrt(np.take_along_axis(v, each, axis=1)) for each in (own, others))
            gap = np.take_along_axis(m, own, axis=1) - np.take_along_axis(m, others, axis=1)
            rule_of_block = _standard_normal_panels(-gap / sd_own, sd / sd_own) if panels else (t, weights)
            P[rows], *slopes = _argmax_block(gap, sd_own, sd, *rule_of_block)
            for out, (of_own, of_others) in zip((by_mean, by_var), slopes, strict=True):
                out[rows[:, None], own] = of_own[:, None]
                out[rows[:, None], others] = of_others
    return P, by_mean, by_var


def _argmax_block(
    gap: Array, sd_own: Array, sd: Array, t: Array, weights: Array
) -> tuple[Array, tuple[Array, Array], tuple[Array, Array]]:
    """P (b,), and the derivatives in mean and variance: of the own class (b,) and of the others (b, C-1).

    Nodes and weights are those of all rows (Q,) or of each (b, Q).
    """
    t, weights = np.atleast_2d(t), np.atleast_2d(weights)
    alpha = (gap / sd)[:, :, None] + (sd_own / sd)[:, :, None] * t[:, None, :]
    phi = special.ndtr(alpha)
    psi = np.square(alpha)  # becomes ϖ φ(α_k) Π_{j≠k} Φ(α_j)
    psi *= -0.5
    np.exp(psi, out=psi)
    psi *= weights[:, None, :] / _ROOT_2PI
    product = phi[:, 0].copy()
    for k in range(1, phi.shape[1]):  # over classes, for all rows and nodes at once
        psi[:, k] *= product
        product *= phi[:, k]
    after = phi[:, -1].copy()
    for k in range(phi.shape[1] - 2, -1, -1):
        psi[:, k] *= after
        after *= phi[:, k]
    slope = psi.sum(axis=2) / sd
    with_node = np.vecdot(psi, t[:, None, :]) / sd
    alpha *= psi
    spread = alpha.sum(axis=2) / np.square(sd)
    of_mean = slope.sum(axis=1), -slope
    of_var = with_node.sum(axis=1) / (2.0 * sd_own[:, 0]), -0.5 * spread
    return np.vecdot(product, weights), of_mean, of_var


def _standard_normal_panels(centre: Array, width: Array) -> tuple[Array, Array]:
    """Nodes and weights (b, Q) for a standard normal times functions that change about centres, over widths (b, K)."""
    b = len(centre)
    about = (centre[:, :, None] + width[:, :, None] * OTHER_BREAKS).reshape(b, -1)
    breaks = np.concatenate([np.broadcast_to(OWN_BREAKS, (b, len(OWN_BREAKS))), about], axis=1)
    np.clip(breaks, OWN_BREAKS[0], OWN_BREAKS[-1], out=breaks)
    breaks.sort(axis=1)
    half = 0.5 * np.diff(breaks, axis=1)
    nodes, own = special.roots_legendre(PANEL_NODES)
    t = ((breaks[:, :-1] + half)[:, :, None] + half[:, :, None] * nodes).reshape(b, -1)
    weights = (half[:, :, None] * own).reshape(b, -1)
    weights *= np.exp(-0.5 * t * t) / _ROOT_2PI
    return t, weights


@lru_cache(maxsize=16)
def _standard_normal_rule(rule: str, nodes: int) -> tuple[Array, Array]:
    """Nodes and weights (Q,) for a standard normal."""
    if rule == "hermite":
        return hermite(nodes)
    if rule != "trapezoid":
        raise UsageError(f"the quadrature rule must be one of {', '.join(RULES)}; got {rule!r}")
    if not 2 <= nodes <= 10_000:
        raise UsageError(f"the number of quadrature nodes must be in [2, 10000]; got {nodes}")
    t = np.linspace(-TRAPEZOID_SPAN, TRAPEZOID_SPAN, nodes)
    weights = np.exp(-0.5 * t * t) * (t[1] - t[0]) / _ROOT_2PI
    keep = weights > NEGLIGIBLE * weights.max()
    return t[keep], weights[keep]


def log_argmax_probabilities(mean: Array, var: Array) -> Array:
    """Log p_k of each class (nats), not renormalised: their sum differs from 1 by the error of the rule.

    ========  ============================================================================  ============
    symbol    meaning                                                                       shape
    ========  ============================================================================  ============
    m, σ      mean and standard deviation of f_k                                            (n, C)
    p_k       P(f_k > f_j for all j ≠ k) = ∫ N(x | m_k, σ_k²) Π_{j≠k} Φ((x - m_j)/σ_j) dx   (n, C)
    x, w      nodes and weights of a row, the same for all its classes                      (b, Q)
    j*        the class of the largest mean, M* that mean                                   (n,)
    ========  ============================================================================  ============

    Source: villacampa2017, section 2 and likelihood (3). One grid for all classes of a row costs Q C values of log Φ,
    one for each class Q C (C - 1) of them, since log Π_{j≠k} Φ_j = Σ_j log Φ_j - log Φ_k.

    The integrand of class k is log-concave and no wider than σ_k, so that it lies between the lower end of f_k or of
    its product with class j*, whichever is higher, and M* or m_k plus what σ_k spans: the grid covers that for every k,
    and a probability of 1e-100 has as many correct digits as one of 0.1. Where the σ of a row are alike, equal steps
    converge exponentially. Where one is much smaller than the others, Gauss-Legendre panels between breakpoints that
    lie close together about each m_j take their place; they serve any ratio.

    Parameters
    ----------
    mean, var : (n, C)
        Of the latent values; a variance may be 0.

    Returns
    -------
    (n, C)
        At most 0, finite. Rows are independent: what else is in the batch does not change a result.
    """
    n, C = mean.shape
    out = np.empty((n, C))
    mean = mean - mean.max(axis=1, keepdims=True)  # differences count; narrow laws far from 0 would lose digits
    spread = np.ptp(mean, axis=1) + np.sqrt(var.max(axis=1, initial=0.0))
    least = _LEAST * np.where(spread > 0.0, spread, 1.0)
    sd = np.maximum(np.sqrt(var), least[:, None])
    low, high, meeting, width = _ranges(mean, sd)
    steps = np.ceil((high - low) / (STEP * sd.min(axis=1)))
    even = steps <= NODES_PER_CLASS * C
    counts = (np.where(even, steps, 0.0).astype(np.int64) // ROUND + 1) * ROUND
    for Q, rows in _groups(counts, even, C):
        m, s = mean[rows], sd[rows]
        if Q > 0:
            x = low[rows, None] + (high - low)[rows, None] * np.linspace(0.0, 1.0, Q)
            log_w = np.broadcast_to(np.log((high - low)[rows] / (Q - 1))[:, None], x.shape)
        else:
            x, log_w = _panels(m, s, low=low[rows], high=high[rows], meeting=meeting[rows], width=width[rows])
        out[rows] = _integrals(x, log_w, m, s)
    return np.minimum(out, 0.0, out=out)


def _ranges(mean: Array, sd: Array) -> tuple[Array, Array, Array, Array]:
    """Ends of the grid (n,), and centre and width (n, C) of the product of each class with class j*."""
    best = mean.argmax(axis=1)[:, None]
    m_best, s_best = np.take_along_axis(mean, best, axis=1), np.take_along_axis(sd, best, axis=1)
    share = s_best**2 / (s_best**2 + sd**2)
    meeting = m_best + (mean - m_best) * share
    width = sd * np.sqrt(share)
    low = np.maximum(mean - SPAN * sd, meeting - SPAN * width)
    np.put_along_axis(low, best, m_best - SPAN * s_best, axis=1)
    high = np.maximum(mean, m_best) + SPAN * sd
    return low.min(axis=1), high.max(axis=1), meeting, width


def _groups(counts: Index, even: npt.NDArray[np.bool_], C: int) -> Iterator[tuple[int, Index]]:
    """Numbers of nodes (0: panels) and blocks of rows that take so many."""
    wanted = np.where(even, counts, 0)
    order = np.argsort(wanted, kind="stable")
    values, starts = np.unique(wanted[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    for Q, first, last in zip(values.tolist(), starts.tolist(), ends, strict=False):
        size = max(1, BLOCK_VALUES // ((Q or NODES_PER_CLASS * C) * C))
        for start in range(first, last, size):
            yield Q, order[start : min(start + size, last)]


def _panels(m: Array, s: Array, *, low: Array, high: Array, meeting: Array, width: Array) -> tuple[Array, Array]:
    """Nodes and log weights (b, Q) of Gauss-Legendre panels."""
    b = len(m)
    about = m[:, :, None] + s[:, :, None] * BREAKS
    tails = meeting[:, :, None] + width[:, :, None] * TAIL_BREAKS
    decay = np.square(s) / np.maximum(-m, s)
    parts = (about, tails, decay[:, :, None] * DECAY_BREAKS)  # the means are such that M* = 0
    breaks = np.concatenate([low[:, None], *(part.reshape(b, -1) for part in parts), high[:, None]], axis=1)
    np.clip(breaks, low[:, None], high[:, None], out=breaks)
    breaks.sort(axis=1)
    half = 0.5 * np.diff(breaks, axis=1)
    nodes, weights = special.roots_legendre(PANEL_NODES)
    x = (breaks[:, :-1] + half)[:, :, None] + half[:, :, None] * nodes
    with np.errstate(divide="ignore"):  # panels of no width weigh nothing
        log_w = np.log(half)[:, :, None] + np.log(weights)
    return x.reshape(b, -1), log_w.reshape(b, -1)


def _integrals(x: Array, log_w: Array, m: Array, s: Array) -> Array:
    """Log p (b, C) by the rule x, w."""
    z = (x[:, None, :] - m[:, :, None]) / s[:, :, None]
    log_phi = log_ndtr(z)
    total = log_phi.sum(axis=1)
    total += log_w
    np.square(z, out=z)
    z *= -0.5
    z -= log_phi
    z += total[:, None, :]
    top = z.max(axis=2)
    z -= top[:, :, None]
    np.exp(z, out=z)
    return np.asarray(top + np.log(z.sum(axis=2)) - np.log(s) - _LOG_ROOT_2PI)
