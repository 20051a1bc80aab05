"""GPflow's SVGP as a rival: whitened, Adam for all, or natural gradients for q(u) and Adam for kernel and Z.

The loop over steps is one TensorFlow graph, mini-batches drawn inside it, which is GPflow at its best: its documented
way, one call a step from Python, takes twice the time. GPflow adds its jitter 1e-6 to K_mm and has the clipped probit
p = 0.001 + 0.998 Φ(f).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import gpflow
import numpy as np
import tensorflow as tf
import tf_keras

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpbench.peers.children import harness
else:
    import harness

JITTER = 1e-6


def kernel_of(spec: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    """GPflow's kernel for gpbench's description of a sum, and its parameters in the order of ``theta``."""
    parts, parameters = [], []
    for part in spec["parts"]:
        values = np.exp(part["theta"])
        if part["kind"] == "white":
            kernel = gpflow.kernels.White(variance=values[0])
            parameters += [kernel.variance]
        elif part["kind"] == "linear":
            kernel = gpflow.kernels.Linear(variance=values)
            parameters += [kernel.variance]
        else:
            kind = gpflow.kernels.SquaredExponential if part["kind"] == "se" else gpflow.kernels.Matern32
            kernel = kind(variance=values[0], lengthscales=values[1:] if len(values) > 2 else values[1])
            parameters += [kernel.variance, kernel.lengthscales]
        parts.append(kernel)
    return (parts[0] if len(parts) == 1 else gpflow.kernels.Sum(parts)), parameters


class Trainer:
    """The model, its optimisers and the compiled loop."""

    def __init__(self, start: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        settings = start["settings"]
        self._settings = settings
        tf.random.set_seed(start["seed"])
        gpflow.config.set_default_jitter(JITTER)
        n = len(arrays["y"])
        self._X = tf.constant(np.asarray(arrays["X"]), dtype=tf.float64)
        self._Y = tf.constant(arrays["y"][:, None], dtype=tf.float64)
        kernel, self._parameters = kernel_of(start["kernel"])
        invlink = {} if settings["link"] == "probit" else {"invlink": tf.sigmoid}
        self.model = gpflow.models.SVGP(
            kernel, gpflow.likelihoods.Bernoulli(**invlink), arrays["Z"], whiten=True, num_data=n
        )
        gpflow.set_trainable(self.model.inducing_variable, settings["learn_inducing"])
        if settings["hyperparameters"] == "fixed":
            gpflow.set_trainable(kernel, False)
        self._natural = None
        if settings["optimizer"] == "natural":
            self._natural = gpflow.optimizers.NaturalGradient(gamma=settings["gamma"])
            for each in (self.model.q_mu, self.model.q_sqrt):
                gpflow.set_trainable(each, False)
        self._adam = tf_keras.optimizers.Adam(settings["rate"])
        self._adam.build(self.model.trainable_variables)
        self._size = min(settings["batch_size"], n)
        self._order = tf.Variable(tf.random.shuffle(tf.range(n)))
        self._next = tf.Variable(0)
        self._steps = tf.function(self._loop, input_signature=[tf.TensorSpec([], tf.int32)])

    def prepare(self) -> None:
        """Trace and compile the loop, and put everything back to where it was."""
        variables = [*self.model.variables, *self._adam.variables, self._order, self._next]
        before = [tf.identity(each) for each in variables]
        self._steps(tf.constant(2))
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)

    def train(self, pace: harness.Pace) -> None:
        """Step to the end, or until gpbench wants no more."""
        most = self._settings["max_iterations"]
        while pace.iteration < most:
            steps = pace.allowance(most - pace.iteration)
            self._steps(tf.constant(steps))
            if pace.iteration + steps < most:
                pace.ran(steps)
            else:
                pace.iteration += steps
        pace.end("iterations")

    def state(self) -> dict[str, Any]:
        """q(v) and the kernel of this moment."""
        return {
            "theta": np.concatenate([np.log(np.atleast_1d(each.numpy())) for each in self._parameters]),
            "jitter": JITTER,
            "Z": self.model.inducing_variable.Z.numpy(),
            "m_w": self.model.q_mu.numpy()[:, 0],
            "root": self.model.q_sqrt.numpy()[0],
            "form": np.array("covariance"),
        }

    def _loop(self, steps: Any) -> None:
        for _ in tf.range(steps):
            self._step(self._batch())

    def _batch(self) -> tuple[Any, Any]:
        """A mini-batch of distinct rows; each row once an epoch."""
        n = self._order.shape[0]
        if self._size == n:
            return self._X, self._Y
        if self._next + self._size > n:
            self._order.assign(tf.random.shuffle(self._order))
            self._next.assign(0)
        rows = tf.slice(self._order, [self._next], [self._size])
        self._next.assign_add(self._size)
        return tf.gather(self._X, rows), tf.gather(self._Y, rows)

    def _step(self, batch: tuple[Any, Any]) -> None:
        if self._natural is not None:
            self._natural.minimize(lambda: self.model.training_loss(batch), [(self.model.q_mu, self.model.q_sqrt)])
        variables = self.model.trainable_variables
        if variables:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(variables)
                loss = self.model.training_loss(batch)
            self._adam.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))


if __name__ == "__main__":
    threads = int(os.environ["GPBENCH_PEER_THREADS"])
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    harness.converse(
        "gpflow",
        ("gpflow", "tensorflow", "tensorflow-probability", "numpy"),
        Trainer,
        numerical=lambda: (tf.errors.InvalidArgumentError,),
    )
