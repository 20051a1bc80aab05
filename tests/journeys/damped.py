"""Laplace's approximation by damped Newton steps."""

from dataclasses import dataclass
from typing import ClassVar

import gpbench


@dataclass(frozen=True, kw_only=True)
class Damped(gpbench.BinaryScheme):
    """Newton's method on q's natural parameters, a share of each step."""

    link: str = gpbench.settings.link("logit", "probit")
    damping: float = gpbench.setting(0.7, "share of a step", minimum=0.01, maximum=1.0)
    max_iterations: int = gpbench.settings.max_iterations(40, "Newton steps at most")
    name: ClassVar[str] = "damped"

    def start(self, X, y, *, inducing, likelihood, classes, rng):  # noqa: ARG002
        return Newton(self, X, y, Z=inducing.choose(X), likelihood=likelihood)


class Newton(gpbench.Training):
    def __init__(self, scheme, X, y, *, Z, likelihood):
        super().__init__(limit=scheme.max_iterations)
        self.y, self.likelihood, self.share = y, likelihood, scheme.damping
        self.basis = gpbench.Basis(scheme.initial_kernel(X), Z)
        self.T, _ = self.basis.whiten(X[:])
        self.precision = self.shift = 0.0

    def train(self):
        self.q = gpbench.GaussianQ.prior(self.T.shape[1])
        while self.trainer.running:
            f = self.T @ self.q.mean
            slope, curvature = self.likelihood.derivatives(self.y, f)
            precision, shift = self.T.T @ (-curvature[:, None] * self.T), self.T.T @ (slope - curvature * f)
            self.precision = (1 - self.share) * self.precision + self.share * precision
            self.shift = (1 - self.share) * self.shift + self.share * shift
            self.q = gpbench.GaussianQ.of_sites(self.precision, self.shift)
            self.trainer.report()
        return self.trainer.stopped_by

    def posterior(self):
        return gpbench.Posterior((gpbench.Latent.of(self.basis, self.q),), self.likelihood, classes=2)


DAMPED = gpbench.Method(id="damped", title="Damped Newton", tasks=gpbench.BINARY, scheme=Damped)
