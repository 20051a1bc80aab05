"""scikit-learn's GaussianProcessClassifier as a rival: Laplace's method on all rows, L-BFGS on the kernel.

One step is one evaluation of the Laplace evidence with its gradient. scikit-learn keeps π = σ(f̂) and W = π(1 - π) at
the mode f̂ = K (y - π). With K = L Lᵀ and f = L v, its Gaussian posterior is q(v) with mean Lᵀ(y - π) and precision
I + Lᵀ W L: the form in which gpbench predicts, by an exact integral where scikit-learn takes an approximation of the
logistic function that is good to about a thousandth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import cholesky
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern, WhiteKernel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpbench.peers.children import harness
else:
    import harness

RELATIVE_JITTERS = (0.0, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3)
"""scikit-learn adds none to K, so the least that lets it be factorised."""


def kernel_of(spec: Mapping[str, Any]) -> Kernel:
    """scikit-learn's kernel for gpbench's description of a sum; the order of ``theta`` is the same."""
    parts = []
    for part in spec["parts"]:
        values = np.exp(part["theta"])
        if part["kind"] == "white":
            parts.append(WhiteKernel(values[0]))
            continue
        scale = values[1:] if len(values) > 2 else values[1]
        shape = RBF(scale) if part["kind"] == "se" else Matern(scale, nu=1.5)
        parts.append(ConstantKernel(values[0]) * shape)
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


class Trainer:
    """A fit, and the posterior at the best kernel so far."""

    def __init__(self, start: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        self._X, self._y = np.asarray(arrays["X"]), arrays["y"]
        self._settings = start["settings"]
        self._kernel = kernel_of(start["kernel"])
        self._best: tuple[float, np.ndarray[Any, Any]] = (-np.inf, self._kernel.theta)

    def prepare(self) -> None:
        """Nothing is compiled."""

    def train(self, pace: harness.Pace) -> None:
        """Let scikit-learn fit; it calls ``optimise`` once."""
        if self._settings["hyperparameters"] == "fixed":
            model = self._fitted(self._kernel.theta)
            evidence = float(model.log_marginal_likelihood_value_)
            pace.ran(1, bound=evidence)
            pace.end("converged", bound=evidence)
        most = self._settings["max_iterations"]

        def optimise(objective: Callable[..., tuple[float, Any]], theta: Any, bounds: Any) -> tuple[Any, float]:
            def watched(at: Any) -> tuple[float, Any]:
                value, gradient = objective(at)
                if -value > self._best[0]:
                    self._best = (-value, np.array(at))
                pace.ran(1, bound=self._best[0])
                if pace.iteration >= most:
                    pace.end("iterations", bound=self._best[0])
                return value, gradient

            minimize(watched, theta, method="L-BFGS-B", jac=True, bounds=bounds)
            pace.end("converged", bound=self._best[0])

        GaussianProcessClassifier(self._kernel, optimizer=optimise, copy_X_train=False).fit(self._X, self._y)

    def state(self) -> dict[str, Any]:
        """The posterior of this moment."""
        model = self._fitted(self._best[1]).base_estimator_
        K = model.kernel_(self._X)
        scale = float(np.trace(K)) / len(K)
        for relative in RELATIVE_JITTERS:
            jitter = relative * scale
            try:
                L = cholesky(K + jitter * np.eye(len(K)), lower=True)
            except np.linalg.LinAlgError:
                if relative == RELATIVE_JITTERS[-1]:
                    raise
                continue
            break
        W = model.pi_ * (1.0 - model.pi_)
        precision = np.eye(len(K)) + (L.T * W) @ L
        return {
            "theta": model.kernel_.theta,
            "jitter": jitter,
            "Z": self._X,
            "m_w": L.T @ (model.y_train_ - model.pi_),
            "root": cholesky(precision, lower=True),
            "form": np.array("precision"),
        }

    def _fitted(self, theta: Any) -> GaussianProcessClassifier:
        """Laplace's mode at given hyper-parameters."""
        kernel = self._kernel.clone_with_theta(theta)
        return GaussianProcessClassifier(kernel, optimizer=None, copy_X_train=False).fit(self._X, self._y)


if __name__ == "__main__":
    harness.converse("sklearn", ("scikit-learn", "numpy", "scipy"), Trainer, numerical=lambda: (np.linalg.LinAlgError,))
