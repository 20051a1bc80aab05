"""mfsp-joint: sparse mean field without an inner optimum (Hensman, Matthews and Ghahramani 2015, section 3.1).

One search over (θ, Z, a), as a reader of the paper may run it, in place of the nested one of :mod:`mfsp`, whose symbols
these are. The factors are N(a_n, s_n) cut to the side of y_n, with s_n the reciprocal of π_n, which is the best there
is, or π_n itself, as the paper prints it; the bound holds for either.

========  ====================================================================================  ======
symbol    meaning                                                                               shape
========  ====================================================================================  ======
s         variance of the factors before they are cut: 1/π (``reciprocal``) or π (``printed``)  (n,)
z         y_n a_n / √s_n                                                                        (n,)
r, c, c'  φ(z)/Φ(z), r (z + r), and dc/dz = r - c (z + 2r)                                      (n,)
ḡ, v      y √s (z + r) and s (1 - c): mean and variance of a cut factor                         (n,)
β         (Q + I)⁻¹ ḡ                                                                           (n,)
========  ====================================================================================  ======

    F = Σ [log Φ(z) + ½ log s + ½ - ½ z r - ½ π v] - ½ (|ḡ|² - |C⁻¹p|²) - Σ log C_jj - ½ Σ κ̃

    dF/da = y (r + z c + π s c') / (2 √s) - β (1 - c)
    dF/ds = 1/(2s) - z (r + z c) / (4s) - β y (r + z c) / (2 √s) - ½ π (1 - c + ½ z c'),   a held

π moves F by -½ v + dF/ds ds/dπ a row, which is all that θ and Z need beside ḡ (:func:`mfsp.rows_gradient`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gpbench.model.basis import Basis
from gpbench.model.likelihoods.bernoulli import log_ndtr, mills, probit_curvature
from gpbench.model.linalg import trsv
from gpbench.model.posterior import Latent, Posterior
from gpbench.optimize.maximise import LOG_BOUND, Point, maximise
from gpbench.optimize.unknowns import Part, Unknowns
from gpbench.schemes import settings
from gpbench.schemes.base import Training, setting
from gpbench.schemes.nested.mfsp import MeanFieldRows, mean_field_rows, rows_gradient
from gpbench.schemes.settings import BinaryScheme, SearchSettings

if TYPE_CHECKING:
    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.training import StoppedBy

__all__ = ["JointPoint", "MFSpJoint"]


@dataclass(frozen=True, kw_only=True)
class MFSpJoint(SearchSettings, BinaryScheme):
    """Batch maximisation of the sparse mean-field bound over everything at once."""

    link: str = settings.link("probit")
    learn_inducing: bool = settings.learn_inducing()
    factor_variance: str = setting(
        "reciprocal",
        "variance of a factor: the reciprocal of the diagonal of (Q + I)⁻¹, or that diagonal, as printed",
        choices=("reciprocal", "printed"),
    )
    max_iterations: int = settings.max_iterations(1000, "evaluations of the bound at most")
    block_rows: int = settings.block_rows()

    name: ClassVar[str] = "mfsp-joint"

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,  # noqa: ARG002 - two
        rng: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> JointTraining:
        """Training at its beginning."""
        return JointTraining(self, X, y, Z=inducing.choose(X), likelihood=likelihood)


class JointPoint:
    """F and its gradients at one kernel, Z and a; one walk over the rows for the value.

    Parameters
    ----------
    rows : MeanFieldRows
    a : (n,)
    printed : bool
        s = π, and not its reciprocal.
    """

    def __init__(self, rows: MeanFieldRows, a: Array, *, printed: bool) -> None:
        self.rows, pi = rows, rows.pi
        self._s = pi if printed else 1.0 / pi
        self._ds = np.ones_like(pi) if printed else -1.0 / np.square(pi)
        self._root = np.sqrt(self._s)
        self._z = z = rows.signs * a / self._root
        self._r, self._c = r, c = mills(z), probit_curvature(z)
        # ḡ = a + y √s r keeps its digits where z + r cancels
        self.mean = a + rows.signs * self._root * r
        self._v = self._s * (1.0 - c)
        p = rows.projected(self.mean)
        self.m_w = rows.solve(p)
        self._beta = self.mean - rows.times(self.m_w)
        explained = trsv(rows.q.root, p)
        # the rows' constant holds -½ Σ log π, which is ½ Σ log s of the reciprocal alone
        constant = rows.constant + 0.5 * float((np.log(pi) + np.log(self._s)).sum())
        terms = log_ndtr(z) + 0.5 - 0.5 * z * r - 0.5 * pi * self._v
        quadratic = float(self.mean @ self.mean - explained @ explained)
        self.value = constant + float(terms.sum()) - 0.5 * quadratic

    def gradient(self) -> dict[str, Array]:
        """Of F in ``theta`` (P,), ``Z`` (M, d) and ``a`` (n,)."""
        pi, z, r, c, root, signs = self.rows.pi, self._z, self._r, self._c, self._root, self.rows.signs
        slope = r - c * (z + 2.0 * r)
        pull = r + z * c
        in_a = signs * (pull + pi * self._s * slope) / (2.0 * root) - self._beta * (1.0 - c)
        in_s = (
            (0.5 - 0.25 * z * pull) / self._s
            - self._beta * signs * pull / (2.0 * root)
            - 0.5 * pi * (1.0 - c + 0.5 * z * slope)
        )
        theta, Z = rows_gradient(self.rows, self.mean, self._v - 2.0 * in_s * self._ds)
        return {"theta": theta, "Z": Z, "a": in_a}

    def latent(self) -> Latent:
        """The Gaussian q(u) with g at its mean."""
        return Latent.of(self.rows.basis, self.rows.q.with_mean(self.m_w))


class JointTraining(Training):
    """The search over everything; keeps the best state."""

    unit = "evaluation"

    def __init__(self, scheme: MFSpJoint, X: Rows, y: Labels, *, Z: Array, likelihood: Likelihood) -> None:
        super().__init__(limit=scheme.max_iterations)
        self._scheme, self._X, self._y, self._likelihood = scheme, X, y, likelihood
        self._kernel = scheme.initial_kernel(X)
        self._unknowns = Unknowns(
            theta=Part(
                value=self._kernel.theta, free=scheme.hyperparameters == "learned", low=-LOG_BOUND, high=LOG_BOUND
            ),
            Z=Part(value=Z, free=scheme.learn_inducing),
            a=Part(value=np.zeros(len(X))),
        )
        self._best = self._at(self._unknowns.x, jitter=None)

    def train(self) -> StoppedBy:
        """Search until nothing is gained or the evaluations are used up."""
        jitter = self._best.rows.basis.jitter

        def begin(x: Array) -> None:
            nonlocal jitter
            jitter = self._basis(self._unknowns.values(x), jitter=None).jitter

        def objective(x: Array) -> Point[JointPoint]:
            self.trainer.check()
            at = self._at(x, jitter=jitter)
            return Point(at.value, self._unknowns.gradient(at.gradient()), at)

        def evaluated(best: JointPoint, value: float) -> None:
            self._best = best
            self.trainer.report(value)

        return maximise(
            objective,
            self._unknowns.x,
            search=self._scheme.search(),
            evaluations=lambda: self.trainer.left,
            bounds=self._unknowns.bounds,
            begin=begin,
            on_evaluation=evaluated,
        ).stopped_by

    def posterior(self) -> Posterior:
        """The posterior of the best state so far."""
        return Posterior((self._best.latent(),), self._likelihood, classes=2)

    def bound(self) -> float:
        """The bound there."""
        return self._best.value

    def _basis(self, at: dict[str, Array], *, jitter: float | None) -> Basis:
        return Basis(self._kernel.with_theta(at["theta"]), np.array(at["Z"]), jitter=jitter)

    def _at(self, x: Array, *, jitter: float | None) -> JointPoint:
        at = self._unknowns.values(x.copy())
        rows = mean_field_rows(self._basis(at, jitter=jitter), self._X, self._y, size=self._scheme.block_rows)
        return JointPoint(rows, np.array(at["a"]), printed=self._scheme.factor_variance == "printed")
