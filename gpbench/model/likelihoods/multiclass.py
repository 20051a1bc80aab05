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
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gpbench.errors import UsageError
from gpbench.model.likelihoods.base import Likelihood, Prediction, Score, check_classes
from gpbench.model.likelihoods.multiclass_agreement import RULES, agreement
from gpbench.model.likelihoods.multiclass_argmax import log_argmax_probabilities

if TYPE_CHECKING:
    from gpbench.model.rows import Array, Labels

__all__ = ["RobustMax"]


@dataclass(frozen=True)
class RobustMax(Likelihood):
    """p(y | f) = a where y = argmax f, b elsewhere.

    Parameters
    ----------
    epsilon : float
        ε in [0, 1).
    rule : {"trapezoid", "hermite"}
        Quadrature of ``expectations``; predictions have a rule of their own.
    nodes : int
        Its nodes.

    Raises
    ------
    UsageError
        A parameter is out of range.
    """

    epsilon: float = 0.0
    rule: str = "trapezoid"
    nodes: int = 100
    name: ClassVar[str] = "robust-max"
    tasks: ClassVar[frozenset[str]] = frozenset({"binary", "multiclass"})

    def __post_init__(self) -> None:
        if not 0.0 <= self.epsilon < 1.0:
            raise UsageError(f"epsilon of the robust-max likelihood must lie in [0, 1); got {self.epsilon}")
        if self.rule not in RULES:
            raise UsageError(f"the quadrature rule must be one of {', '.join(RULES)}; got {self.rule!r}")

    def spec(self) -> dict[str, Any]:
        """Name and parameters as JSON can hold them; ``likelihood_from_spec`` reads them."""
        return {"name": self.name, "epsilon": float(self.epsilon), "rule": self.rule, "nodes": self.nodes}

    def n_latent(self, classes: int) -> int:
        """One latent function for each class.

        Raises
        ------
        UsageError
            There are fewer than two classes.
        """
        if classes < 2:
            raise UsageError(f"likelihood {self.name} needs 2 classes or more; got {classes}")
        return classes

    def check_targets(self, y: Labels, classes: int) -> None:
        """Check that there are two classes or more and that the labels are 0..C-1 (some may be absent).

        Raises
        ------
        UsageError
            There are fewer than two classes.
        DataError
            A label is out of range.
        """
        self.n_latent(classes)
        check_classes(y, classes)

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
        P, g, h = agreement(y, mu, var, rule=self.rule, nodes=self.nodes)
        gain = right - wrong
        g *= gain
        h *= gain
        return wrong + gain * P, g, h

    def predict(self, mean: Array, var: Array) -> Prediction:
        """Most probable class and probabilities (n, C), not renormalised, from the latent mean and variance (n, C)."""
        log_p = self._log_probabilities(mean, var)
        return Prediction(log_p.argmax(axis=1), np.exp(log_p))

    def log_predictive(self, y: Labels, mean: Array, var: Array) -> Array:
        """Log predictive probability of the observed class, shape (n,); as exact for 1e-100 as for 0.1."""
        return _observed(self._log_probabilities(mean, var), y)

    def error(self, y: Labels, point: Labels) -> Array:
        """Zero-one error, shape (n,)."""
        return np.not_equal(y, point).astype(np.float64)

    def score(self, y: Labels, mean: Array, var: Array) -> Score:
        """Log predictive probability, error and probabilities; the integrals are computed once for all three."""
        log_p = self._log_probabilities(mean, var)
        return Score(_observed(log_p, y), self.error(y, log_p.argmax(axis=1)), np.exp(log_p))

    def _log_probabilities(self, mean: Array, var: Array) -> Array:
        log_p = log_argmax_probabilities(mean, var)
        if self.epsilon == 0.0:
            return log_p
        _, wrong = self.log_levels(mean.shape[1])
        return np.logaddexp(log_p + math.log1p(-self.epsilon), wrong)


def _observed(log_p: Array, y: Labels) -> Array:
    return np.take_along_axis(log_p, np.asarray(y)[:, None], axis=1)[:, 0]
