import json
from pathlib import Path

import numpy as np
import pytest

from gpbench.model.kernels import SE, Linear, Matern32, Sum, White, make_kernel
from gpbench.model.latent import Latent
from gpbench.model.linalg import cholesky

ORACLES = Path(__file__).parents[1] / "oracles"


@pytest.fixture
def read_oracle():
    """Inputs and expected values of an oracle file, lists as arrays; a kernel as a Kernel, with its jitter."""

    def read(name):
        content = json.loads((ORACLES / f"{name}.json").read_text())
        return _arrays(content["inputs"]), _arrays(content["expected"])

    return read


def _arrays(value):
    if isinstance(value, list):
        return np.array(value, dtype=np.float64)
    if isinstance(value, dict) and "parts" in value:
        return _kernel(value), value["jitter"]
    if isinstance(value, dict):
        return {key: _arrays(item) for key, item in value.items()}
    return value


def _kernel(spec):
    parts = []
    for part in spec["parts"]:
        if part["type"] == "linear_ard":
            parts.append(Linear.of(variances=part["variances"]))
        else:
            kind = {"se_ard": SE, "matern32_ard": Matern32}[part["type"]]
            parts.append(kind.of(variance=part["variance"], lengthscales=part["lengthscales"]))
    if spec["white"] > 0:
        parts.append(White.of(variance=spec["white"]))
    return Sum(tuple(parts))


@pytest.fixture(scope="session")
def some_latent():
    """Makes a latent function with a random q(u); ``wide`` makes q wider than the prior in some directions."""
    return _some_latent


def _some_latent(seed=0, *, M=12, d=3, form="precision", name="se-ard+linear-ard", wide=False, **options):
    rng = np.random.default_rng(seed)
    kernel = make_kernel(name, d, variance=1.5, lengthscale=1.2, noise=0.1)
    Z = rng.normal(size=(M, d))
    T = rng.normal(size=(M, 3 * M))
    S_w = np.linalg.inv(np.eye(M) + 0.1 * T @ T.T)
    if wide:
        S_w[0] *= 2.0
        S_w[:, 0] *= 2.0
        S_w += 0.9 * np.eye(M)
    root = np.linalg.cholesky(S_w if form == "covariance" else np.linalg.inv(S_w))
    _, jitter = cholesky(kernel.gram(Z), what="K")
    return Latent(kernel, Z, rng.normal(size=M), root, form=form, jitter=jitter, **options)
