"""Settings that all Gaussian process schemes share, under the same names, so that they start alike."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gpbench.errors import UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.kernels import Kernel, kernel_from_spec, make_kernel
from gpbench.schemes.base import setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpbench.model.rows import Rows

__all__ = ["FROM", "LEARNING", "GPSettings", "KernelSettings", "Learned"]

FROM = "from:METHOD"
"""The rule by which hyper-parameters are those that another method learned on the same split; then fixed."""

LEARNING = "whether the hyper-parameters are learned; from:METHOD: fixed where METHOD's ended on the same split"


@dataclass(frozen=True, kw_only=True)
class Learned:
    """The hyper-parameters that another method ended with, as JSON can hold them.

    Attributes
    ----------
    kernel, likelihood : mapping
        Their ``spec()``.
    mean : float
        The constant prior mean.
    """

    kernel: Mapping[str, Any]
    likelihood: Mapping[str, Any]
    mean: float = 0.0


@dataclass(frozen=True, kw_only=True)
class KernelSettings:
    """Kernel and its starting values; a scheme without inducing inputs inherits these fields."""

    kernel: str = setting(
        "se-ard", "kernel: se, matern12, matern32 (each also with -ard), linear-ard, quadratic, or sums with +"
    )
    lengthscale: float | str | None = setting(
        None,
        "first length scale; none: the root of the number of inputs; median: the root of the rows' median distance "
        "(villacampa2017's code)",
        kind=float,
        minimum=1e-6,
        maximum=1e6,
        rules=("median",),
    )
    variance: float = setting(1.0, "first prior variance of each part of the kernel", minimum=1e-8, maximum=1e8)
    noise: float = setting(0.05, "first variance of the white noise; 0: the kernel has none", minimum=0.0, maximum=1e8)
    given: Learned | None = field(default=None, repr=False)  # no setting: handed in by who trained the other method

    def initial_kernel(self, X: Rows) -> Kernel:
        """The kernel that training on the rows X, shape (n, d), starts from.

        Raises
        ------
        UsageError
            Unknown kernel, or the one that is given is another.
        """
        if self.given is None:
            return self.kernel_from(X.shape[1], lengthscale=self._first_lengthscale(X))
        kernel, own = kernel_from_spec(self.given.kernel), self.kernel_from(X.shape[1], lengthscale=1.0)
        if kernel.names != own.names:
            raise UsageError(f"the kernel that is given must be {own!r} with other values; got {kernel!r}")
        return kernel

    def kernel_from(self, d: int, *, lengthscale: float) -> Kernel:
        """The kernel for d inputs with this first length scale, and variance and noise as they are set.

        Raises
        ------
        UsageError
            Unknown kernel.
        """
        return make_kernel(self.kernel, d, variance=self.variance, lengthscale=lengthscale, noise=self.noise)

    def _first_lengthscale(self, X: Rows) -> float:
        if isinstance(self.lengthscale, float | int):
            return float(self.lengthscale)
        distance = _median_distance(X) if self.lengthscale == "median" else None
        return math.sqrt(X.shape[1] if distance is None else distance)


@dataclass(frozen=True, kw_only=True)
class GPSettings(KernelSettings):
    """Kernel, its starting values, and inducing inputs; a scheme inherits these fields."""

    hyperparameters: str = setting("learned", LEARNING, choices=("learned", "fixed"), rules=(FROM,))
    inducing: str = setting("100", "number of inducing inputs: 100, 3% of the rows, or all")
    inducing_rule: str = setting(
        InducingRule.rule,
        "how inducing inputs are chosen: k-means centres and k-means++ seeds by halves, centres, or random rows",
        choices=("mixed", "kmeans", "random"),
    )
    kmeans_rows: int = setting(
        InducingRule.rows, "random rows that k-means looks at, since it runs on the clock", minimum=1
    )

    def inducing_rule_for(self, seed: int) -> InducingRule:
        """The rule for inducing inputs, drawn from a split's seed so that methods with the same rule share them.

        Raises
        ------
        UsageError
            The number of inducing inputs is none.
        """
        return InducingRule(self.inducing_rule, count=self.inducing, seed=seed, rows=self.kmeans_rows)


def _median_distance(X: Rows, *, rows: int = 1000) -> float | None:
    """Median Euclidean distance of two rows that differ, over at most ``rows`` rows at even steps through X.

    Rows at even steps stand for a file that is sorted, and need no randomness. Pairs of equal rows do not count: among
    many duplicates their distance would be 0, which is no length.

    Returns
    -------
    float or None
        In the units of X; None where all rows that were looked at are equal.
    """
    from scipy.spatial.distance import pdist  # noqa: PLC0415  # 30 ms that the default need not pay

    n = len(X)
    chosen = np.unique(np.linspace(0, n - 1, num=min(n, rows)).round().astype(np.int64))
    distances = pdist(np.asarray(X[chosen], dtype=np.float64))
    apart = distances[distances > 0]
    return float(np.median(apart)) if len(apart) else None
