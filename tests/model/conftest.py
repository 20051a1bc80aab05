import numpy as np
import pytest

from gpbench.model.kernels import make_kernel
from gpbench.model.linalg import cholesky
from gpbench.model.posterior import Latent


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
