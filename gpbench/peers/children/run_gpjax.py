"""GPJax's dual SVGP as a rival: natural gradients of the sites (t-SVGP), Adam for the kernel and Z.

A step is that of GPJax's own ``fit_natgrads``: its ``natural_gradient_step`` for the sites, then one step of Optax's
Adam on the negative ``dual_elbo``, both on the same mini-batch of its ``get_batch``. As there, the loop is compiled
whole; its length alone is left open, so that it may stop to be looked at. GPJax adds its jitter 1e-6 to K_mm and has
the clipped probit p = 0.001 + 0.998 Φ(f).

With sites λ, Λ, q(u) is proportional to p(u) exp(λᵀu - ½ uᵀΛu); whitened, u = L v, v has precision I + LᵀΛL.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

threads = os.environ.get("GPBENCH_PEER_THREADS", "1")
os.environ["NPROC"] = threads  # the size of XLA's pool, which it makes when it is imported
os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={'false' if threads == '1' else 'true'}"
os.environ["JAX_PLATFORMS"] = "cpu"

import equinox as eqx  # noqa: E402  # after the pools' sizes
import gpjax  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import lineax  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
import paramax  # noqa: E402
from gpjax.fit import get_batch  # noqa: E402
from gpjax.natural_gradients import natural_gradient_step, partition_variational  # noqa: E402
from gpjax.parameters import NonNegativeReal, val  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpbench.peers.children import harness
else:
    import harness

JITTER = 1e-6


class Noisy(gpjax.kernels.base.AbstractKernel):  # type: ignore[misc]  # the library's class is untyped
    """A kernel with white noise between a list of rows and itself; GPJax's own also counts equal rows of two lists."""

    name = "Noisy"
    base: Any
    noise: Any

    def __init__(self, base: Any, noise: float) -> None:
        super().__init__()
        self.base, self.noise = base, NonNegativeReal(noise)

    def __call__(self, x: Any, y: Any) -> Any:
        """The kernel without noise."""
        return self.base(x, y)

    def cross_covariance(self, x: Any, y: Any) -> Any:
        """Of two lists: without noise."""
        return self.base.cross_covariance(x, y)

    def gram(self, x: Any) -> Any:
        """Of a list with itself."""
        K = self.base.gram(x).as_matrix()
        return lineax.MatrixLinearOperator(K + val(self.noise) * jnp.eye(len(K)), lineax.positive_semidefinite_tag)

    def diagonal(self, x: Any) -> Any:
        """Its diagonal."""
        return lineax.DiagonalLinearOperator(lineax.diagonal(self.base.diagonal(x)) + val(self.noise))


def kernel_of(spec: Mapping[str, Any]) -> Any:
    """GPJax's kernel for gpbench's description of a stationary part, with or without white noise."""
    (part,) = (each for each in spec["parts"] if each["kind"] != "white")
    values = np.exp(part["theta"])
    kind = gpjax.kernels.RBF if part["kind"] == "se" else gpjax.kernels.Matern32
    kernel = kind(lengthscale=jnp.asarray(values[1:] if len(values) > 2 else values[1]), variance=float(values[0]))
    white = [each for each in spec["parts"] if each["kind"] == "white"]
    return Noisy(kernel, float(np.exp(white[0]["theta"][0]))) if white else kernel


class Trainer:
    """The family, its optimiser and the compiled loop."""

    def __init__(self, start: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        settings = start["settings"]
        self._settings, self._spec = settings, start["kernel"]
        self._key = jax.random.key(start["seed"])
        y = np.asarray(arrays["y"], dtype=np.float64)[:, None]
        data = gpjax.Dataset(X=jnp.asarray(arrays["X"]), y=jnp.asarray(y))
        kernel = kernel_of(start["kernel"])
        if settings["hyperparameters"] == "fixed":
            kernel = paramax.non_trainable(kernel)
        prior = gpjax.gps.Prior(mean_function=gpjax.mean_functions.Zero(), kernel=kernel, jitter=JITTER)
        family = gpjax.variational_families.DualVariationalGaussian(
            model=prior * gpjax.likelihoods.Bernoulli(), inducing_inputs=jnp.asarray(arrays["Z"])
        )
        if not settings["learn_inducing"]:
            frozen = paramax.non_trainable(family.inducing_inputs)
            family = eqx.tree_at(lambda each: each.inducing_inputs, family, frozen)
        self._sites, self._hyper = partition_variational(family)
        adam = optax.adam(settings["rate"])
        self._adam = adam.init(eqx.filter(self._hyper, eqx.is_array))
        size, rho, seed = min(settings["batch_size"], len(y)), settings["natural_rate"], self._key

        def negative(family: Any, batch: Any) -> Any:
            return -gpjax.objectives.dual_elbo(family, batch)

        def step(number: Any, carry: Any, data: Any) -> Any:
            sites, hyper, state = carry
            batch = data if size == data.n else get_batch(data, size, jax.random.fold_in(seed, number))
            sites, _ = natural_gradient_step(sites, hyper, batch, negative, jnp.asarray(rho))
            _, slope = eqx.filter_value_and_grad(lambda one: negative(eqx.combine(sites, one), batch))(hyper)
            moved, state = adam.update(slope, state, eqx.filter(hyper, eqx.is_array))
            return sites, eqx.apply_updates(hyper, moved), state

        @jax.jit  # type: ignore[untyped-decorator]  # the library is not here where types are checked
        def steps(first: Any, last: Any, carry: Any, data: Any) -> Any:
            return jax.lax.fori_loop(first, last, lambda number, carry: step(number, carry, data), carry)

        self._steps, self._data, self._count = steps, data, 0

    def prepare(self) -> None:
        """Compile the loop, for the types that it begins with and for those that it gives; then put all back."""
        before = self._sites, self._hyper, self._adam
        self._sites, self._hyper, self._adam = jax.block_until_ready(self._run(2))
        jax.block_until_ready(self._run(2))
        self._sites, self._hyper, self._adam = before

    def train(self, pace: harness.Pace) -> None:
        """Step to the end, or until gpbench wants no more."""
        most = self._settings["max_iterations"]
        while pace.iteration < most:
            steps = pace.allowance(most - pace.iteration)
            self._sites, self._hyper, self._adam = jax.block_until_ready(self._run(steps))
            self._count += steps
            if not bool(jnp.isfinite(val(self._sites.dual_matrix)).all()):
                raise FloatingPointError(f"sites are not finite after {self._count} steps")
            if pace.iteration + steps < most:
                pace.ran(steps)
            else:
                pace.iteration += steps
        pace.end("iterations")

    def state(self) -> dict[str, Any]:
        """q(v) and the kernel of this moment."""
        family = eqx.combine(self._sites, self._hyper)
        kernel = paramax.unwrap(family.model.prior.kernel)
        base = kernel.base if isinstance(kernel, Noisy) else kernel
        own = {"white": [kernel.noise] if isinstance(kernel, Noisy) else []}
        theta = [
            np.log(np.atleast_1d(np.asarray(val(value), dtype=np.float64)))
            for part in self._spec["parts"]
            for value in own.get(part["kind"], [base.variance, base.lengthscale])
        ]
        Z = np.asarray(val(family.inducing_inputs))
        K = np.asarray(kernel.gram(jnp.asarray(Z)).as_matrix()) + JITTER * np.eye(len(Z))
        L = np.linalg.cholesky(K)
        precision = np.eye(len(Z)) + L.T @ np.asarray(val(family.dual_matrix)) @ L
        root = np.linalg.cholesky(0.5 * (precision + precision.T))
        m_w = np.linalg.solve(precision, L.T @ np.asarray(val(family.dual_vector))[:, 0])
        return {
            "theta": np.concatenate(theta),
            "jitter": JITTER,
            "Z": Z,
            "m_w": m_w,
            "root": root,
            "form": np.array("precision"),
        }

    def _run(self, steps: int) -> Any:
        carry = (self._sites, self._hyper, self._adam)
        first = jnp.asarray(self._count)
        return self._steps(first, first + steps, carry, self._data)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    harness.converse("gpjax", ("gpjax", "jax", "jaxlib", "numpy"), Trainer, numerical=lambda: (FloatingPointError,))
