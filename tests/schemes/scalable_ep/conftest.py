"""What tests of scalable EP share: kernels and gradients of the oracles, factors, and the problem's unknowns flat."""

from types import SimpleNamespace

import numpy as np
import pytest

from gpbench.model.kernels import SE, Sum, White
from gpbench.schemes.scalable_ep.factors import BinaryFactors, PairFactors


def _kernel(hyper, *, amp=1.0, stretch=1.0):
    """Of an oracle's hyper-parameters, the variance and length scales some multiple of them."""
    parts = [SE.of(variance=amp * hyper["amp2"], lengthscales=stretch * np.array(hyper["ls"]))]
    if hyper["noise2"] > 0:
        parts.append(White.of(variance=hyper["noise2"]))
    return Sum(tuple(parts))


def _theta(grad, hyper):
    """An oracle's gradient in the order of ``theta``."""
    noise = [grad["log_noise2"]] if hyper["noise2"] > 0 else []
    return np.array([grad["log_amp2"], *grad["log_ls"], *noise])


def _factors(y, classes):
    return BinaryFactors(y) if classes == 2 else PairFactors(y, classes)


def _flat(parts):
    """Pairs of theta (P,) and Z (M, d), or of their gradients, one after the other."""
    return np.concatenate([np.concatenate([theta, Z.ravel()]) for theta, Z in parts])


def _unflat(v, kernels, Z):
    """Kernels and inducing inputs from a flat vector; all have as many."""
    P = kernels[0].theta.size
    parts = v.reshape(len(Z), P + Z[0].size)
    return [k.with_theta(p[:P]) for k, p in zip(kernels, parts, strict=True)], [
        p[P:].reshape(Z[0].shape) for p in parts
    ]


def _differences(f, v, step=1e-5):
    """Central differences of f at v."""
    out = np.empty_like(v)
    for i in range(len(v)):
        high, low = v.copy(), v.copy()
        high[i] += step
        low[i] -= step
        out[i] = (f(high) - f(low)) / (2 * step)
    return out


def _normaliser(precision, shift):
    """Log normaliser of exp(-½ uᵀ precision u + shiftᵀ u), but for a constant."""
    return 0.5 * shift @ np.linalg.solve(precision, shift) - 0.5 * np.linalg.slogdet(precision)[1]


def _in_u(sites, c):
    """Precision and shift in u of all sites of latent function c."""
    L = sites.bases[c].L
    return np.linalg.solve(L.T, np.linalg.solve(L.T, sites.G[c]).T), np.linalg.solve(L.T, sites.e[c])


def _q_of_u(sites, c):
    """Mean and covariance of q(u) of latent function c."""
    L, latent = sites.bases[c].L, sites.latents()[c]
    return L @ latent.m_w, L @ latent.covariance() @ L.T


@pytest.fixture(scope="session")
def dense():
    """Scalable EP in u, by dense algebra."""
    return SimpleNamespace(
        kernel=_kernel,
        theta=_theta,
        factors=_factors,
        flat=_flat,
        unflat=_unflat,
        differences=_differences,
        normaliser=_normaliser,
        in_u=_in_u,
        q_of_u=_q_of_u,
    )
