"""A third party's scheme, as its author would write it: one import of gpbench, at most 40 lines."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import gpbench


@dataclass(frozen=True, kw_only=True)
class Laplace(gpbench.BinaryScheme):
    """Laplace's approximation for u = L v under f = T v, the kernel as it starts."""

    link: str = gpbench.settings.link("logit", "probit")
    hyperparameters: str = gpbench.setting("fixed", "fixed, or METHOD's", choices=("fixed",), rules=("from:METHOD",))
    max_iterations: int = gpbench.settings.max_iterations(30, "Newton steps at most")
    tolerance: float = gpbench.setting(1e-10, "largest change of the mode at the end", minimum=0.0, maximum=1.0)

    name: ClassVar[str] = "laplace"

    def start(self, X, y, *, inducing, likelihood, classes, rng):  # noqa: ARG002
        return Newton(self, X, y, Z=inducing.choose(X), likelihood=likelihood)


class Newton(gpbench.Training):
    def __init__(self, scheme, X, y, *, Z, likelihood):
        super().__init__(limit=scheme.max_iterations)
        self.y, self.likelihood, self.tolerance = y, likelihood, scheme.tolerance
        self.basis = gpbench.Basis(scheme.initial_kernel(X), Z)
        self.T, _ = self.basis.whiten(X[:])
        self.q = gpbench.GaussianQ.prior(len(Z))

    def train(self):
        while self.trainer.running:
            before = self.q.mean
            f = self.T @ before
            slope, curvature = self.likelihood.derivatives(self.y, f)
            W = -curvature[:, None] * self.T
            self.q = gpbench.GaussianQ.of_sites(self.T.T @ W, self.T.T @ (slope - curvature * f))
            self.trainer.report()
            if self.trainer.running and np.abs(self.q.mean - before).max() <= self.tolerance:
                return "converged"
        return self.trainer.stopped_by

    def posterior(self):
        return gpbench.Posterior((gpbench.Latent.of(self.basis, self.q),), self.likelihood, classes=2)


LAPLACE = gpbench.Method(id="laplace", title="Sparse Laplace", tasks=gpbench.BINARY, scheme=Laplace)
