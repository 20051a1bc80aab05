"""GPyTorch as two rivals: SVGP by Adam with the probit, and Polya-Gamma augmentation with natural gradients.

Both are whitened, in float64, and move Z with the kernel unless it is fixed. GPyTorch adds its jitter 1e-6 to K_mm.
``gpytorch-pg`` follows wenzel2019's bound: with c² = E f² and θ = tanh(c/2)/(2c) held, a row gives ½ y E f - ½ θ E f²
(y = ±1), which is GPyTorch's own example of a custom likelihood; q(u) moves by its natural gradient, all else by Adam.

A step is mostly Python. Kernels that are not evaluated lazily spare a quarter of it; torch.compile breaks the step into
many graphs (``Tensor.item()`` in the variational strategy, lazy operators) and did not end within four minutes.
"""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Any

import gpytorch
import numpy as np
import torch
from linear_operator.utils.errors import NanError, NotPSDError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpbench.peers.children import harness
else:
    import harness


class White(gpytorch.kernels.Kernel):  # type: ignore[misc]  # the library has no types here
    """Noise on the diagonal, which GPyTorch's kernels lack; a row is told from another by its place in the list."""

    has_lengthscale = False

    def __init__(self, variance: float) -> None:
        super().__init__()
        self.register_parameter("raw_variance", torch.nn.Parameter(torch.zeros(1)))
        self.register_constraint("raw_variance", gpytorch.constraints.Positive())
        self.initialize(raw_variance=self.raw_variance_constraint.inverse_transform(torch.tensor([variance])))

    @property
    def variance(self) -> Any:
        """The noise's variance, shape (1,)."""
        return self.raw_variance_constraint.transform(self.raw_variance)

    def forward(self, x1: Any, x2: Any, *, diag: bool = False, **_: Any) -> Any:
        """Noise where both lists are the same; rows are shuffled, so a batch never equals Z."""
        if diag:
            return self.variance.expand(x1.shape[-2])
        if x1.shape == x2.shape and torch.equal(x1, x2):
            return self.variance * torch.eye(x1.shape[-2])
        return torch.zeros(x1.shape[-2], x2.shape[-2])


def kernel_of(spec: Mapping[str, Any], d: int) -> tuple[Any, list[Any]]:
    """GPyTorch's kernel for gpbench's description of a sum, and functions that read its ``theta``, in order."""
    parts, readers = [], []
    for part in spec["parts"]:
        values = np.exp(part["theta"])
        if part["kind"] == "white":
            kernel = White(float(values[0]))
            readers += [lambda kernel=kernel: kernel.variance]
        else:
            ard = d if len(values) == d + 1 else None
            base = (
                gpytorch.kernels.RBFKernel(ard_num_dims=ard)
                if part["kind"] == "se"
                else gpytorch.kernels.MaternKernel(nu=1.5, ard_num_dims=ard)
            )
            base.lengthscale = torch.tensor(values[1:])
            kernel = gpytorch.kernels.ScaleKernel(base)
            kernel.outputscale = float(values[0])
            readers += [lambda kernel=kernel: kernel.outputscale, lambda base=base: base.lengthscale]
        parts.append(kernel)
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total, readers


class Model(gpytorch.models.ApproximateGP):  # type: ignore[misc]  # the library has no types here
    """A sparse variational GP with mean zero."""

    def __init__(self, Z: Any, kernel: Any, distribution: Any, *, learn_inducing: bool) -> None:
        strategy = gpytorch.variational.VariationalStrategy(
            self, Z, distribution, learn_inducing_locations=learn_inducing
        )
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = kernel

    def forward(self, x: Any) -> Any:
        """The prior at inputs."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class PolyaGamma(gpytorch.likelihoods.BernoulliLikelihood):  # type: ignore[misc]  # the library has no types here
    """Wenzel et al.'s bound of the logit in place of the expected log likelihood."""

    def expected_log_prob(self, observations: Any, function_dist: Any, *_: Any, **__: Any) -> Any:
        """½ y E f - ½ θ(c) E f² of each row, y = ±1."""
        second = function_dist.variance + function_dist.mean.square()
        c = second.detach().sqrt().clamp_min(1e-6)
        theta = torch.tanh(0.5 * c) / (2.0 * c)
        return (observations - 0.5) * function_dist.mean - 0.5 * theta * second


class Trainer:
    """The model and its optimisers."""

    def __init__(self, start: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        self._settings = start["settings"]
        self._seed = start["seed"]
        torch.manual_seed(self._seed)
        n, d = arrays["X"].shape
        shuffled = np.random.default_rng(self._seed).permutation(n)  # see White
        self._X = torch.from_numpy(np.asarray(arrays["X"])[shuffled])
        self._y = torch.from_numpy(arrays["y"][shuffled].astype(np.float64))
        kernel, self._readers = kernel_of(start["kernel"], d)
        M = len(arrays["Z"])
        self._pg = self._settings["link"] == "logit"
        kind = "NaturalVariationalDistribution" if self._pg else "CholeskyVariationalDistribution"
        self.distribution = getattr(gpytorch.variational, kind)(M)
        learn_inducing = self._settings["learn_inducing"]
        self.model = Model(torch.from_numpy(arrays["Z"]), kernel, self.distribution, learn_inducing=learn_inducing)
        likelihood = PolyaGamma() if self._pg else gpytorch.likelihoods.BernoulliLikelihood()
        self._bound = gpytorch.mlls.VariationalELBO(likelihood, self.model, num_data=n)
        if self._settings["hyperparameters"] == "fixed":
            kernel.requires_grad_(False)
        hyper = [each for each in kernel.parameters() if each.requires_grad]
        if learn_inducing:
            hyper.append(self.model.variational_strategy.inducing_points)
        variational = list(self.model.variational_parameters())
        self._optimizers = []
        if self._pg:
            self._optimizers.append(gpytorch.optim.NGD(variational, num_data=n, lr=self._settings["natural_rate"]))
        moved = hyper if self._pg else hyper + variational
        if moved:
            self._optimizers.append(torch.optim.Adam(moved, lr=self._settings["rate"]))
        self._size = min(self._settings["batch_size"], n)
        self._order = torch.randperm(n)
        self._next = 0
        self.model.train()
        with torch.no_grad():
            self.model(self._X[: self._size])  # makes q(v) the prior

    def prepare(self) -> None:
        """Run what sets itself up at first use, and put everything back to where it was."""
        parts = [self.model, *self._optimizers]
        before = [copy.deepcopy(each.state_dict()) for each in parts]
        for _ in range(3):
            self._step()
        for each, state in zip(parts, before, strict=True):
            each.load_state_dict(state)
        torch.manual_seed(self._seed)
        self._order, self._next = torch.randperm(len(self._y)), 0

    def train(self, pace: harness.Pace) -> None:
        """Step to the end, or until gpbench wants no more."""
        most = self._settings["max_iterations"]
        while pace.iteration < most:
            steps = pace.allowance(most - pace.iteration)
            for _ in range(steps):
                self._step()
            if pace.iteration + steps < most:
                pace.ran(steps)
            else:
                pace.iteration += steps
        pace.end("iterations")

    def state(self) -> dict[str, Any]:
        """q(v) and the kernel of this moment."""
        with torch.no_grad():
            theta = np.concatenate([np.log(read().numpy().ravel()) for read in self._readers])
            if self._pg:
                precision = -2.0 * self.distribution.natural_mat
                root = torch.linalg.cholesky(0.5 * (precision + precision.T))
                m_w = torch.cholesky_solve(self.distribution.natural_vec[:, None], root)[:, 0]
            else:
                root = self.distribution.chol_variational_covar.tril()
                m_w = self.distribution.variational_mean
            return {
                "theta": theta,
                "jitter": self.model.variational_strategy.jitter_val,
                "Z": self.model.variational_strategy.inducing_points.detach().numpy(),
                "m_w": m_w.numpy(),
                "root": root.numpy(),
                "form": np.array("precision" if self._pg else "covariance"),
            }

    def _step(self) -> None:
        if self._next + self._size > len(self._order):
            self._order, self._next = torch.randperm(len(self._order)), 0
        rows = self._order[self._next : self._next + self._size]
        self._next += self._size
        for each in self._optimizers:
            each.zero_grad(set_to_none=True)
        loss = -self._bound(self.model(self._X[rows]), self._y[rows])
        loss.backward()
        for each in self._optimizers:
            each.step()


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ["GPBENCH_PEER_THREADS"]))
    torch.set_default_dtype(torch.float64)
    with gpytorch.settings.debug(False), gpytorch.settings.lazily_evaluate_kernels(False):
        harness.converse(
            "gpytorch",
            ("gpytorch", "torch", "linear-operator", "numpy"),
            Trainer,
            numerical=lambda: (NotPSDError, NanError, torch.linalg.LinAlgError),
        )
