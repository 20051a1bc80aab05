"""The bound of hensman2015 (21) with all its gradients, by kernels and likelihoods alone, against the oracles.

Adjoints are formed with dense inverses here, so that nothing but the kernels' pullbacks and the likelihoods'
expectations is tested.
"""

import numpy as np
import pytest

from gpbench.model.likelihoods import Logit, Probit
from gpbench.model.linalg import cholesky

NAMES = ["klsp_probit_bound_grad", "klsp_probit_whitened_bound_grad", "klsp_logit_bound_grad"]


def halved(Y):
    """Lower triangle with half the diagonal."""
    return np.tril(Y, -1) + 0.5 * np.diag(np.diag(Y))


@pytest.mark.parametrize("name", NAMES)
def test_bound_and_gradients(read_oracle, name):
    inputs, expected = read_oracle(name)
    kernel, jitter = inputs["kernel"]
    X, Z, scale = inputs["X"], inputs["Z"], inputs["scale"]
    y = (inputs["y"] > 0).astype(int)
    model = {"probit": Probit, "logit": Logit}[inputs["likelihood"]](nodes=120)

    L, _ = cholesky(kernel.gram(Z), what="K", jitter=jitter)
    Linv = np.linalg.inv(L)
    m_w, root = inputs["m"], inputs["L"]
    if not inputs["whitened"]:
        m_w, root = Linv @ m_w, Linv @ root
    S_w = root @ root.T
    T = Linv @ kernel.cross(X, Z).T
    mu = T.T @ m_w
    var = kernel.diag(X) - np.square(T).sum(axis=0) + np.square(root.T @ T).sum(axis=0)
    assert mu == pytest.approx(expected["q_f_mean"], abs=1e-9)
    assert var == pytest.approx(expected["q_f_var"], abs=1e-9)

    e, g, h = (scale * part for part in model.expectations(y, mu, var))
    KL = 0.5 * (np.trace(S_w) + m_w @ m_w - len(Z)) - np.log(np.abs(np.diag(root))).sum()
    assert pytest.approx(expected["KL"], abs=1e-9) == KL
    assert e.sum() - KL == pytest.approx(expected["bound"], abs=1e-9)

    E, P, p = S_w - np.eye(len(Z)), (T * h) @ T.T, T @ g
    cross_adjoint = (Linv.T @ (np.outer(m_w, g) + 2 * E @ T * h)).T
    if inputs["whitened"]:
        Y = halved(np.outer(m_w, p) + 2 * E @ P)
        inner = -0.5 * (Y + Y.T)
    else:
        inner = -0.5 * (np.outer(p, m_w) + np.outer(m_w, p)) + P - P @ S_w - S_w @ P + 0.5 * (E + np.outer(m_w, m_w))
    features = kernel.bind(Z)
    features.cross(X)
    by_cross, by_gram = features.pullback(cross_adjoint), features.gram_pullback(Linv.T @ inner @ Linv)
    dtheta = by_cross[0] + by_gram[0] + kernel.diag_pullback(X, h)

    wanted = []
    for part, values in expected["grad_log_hyper"].items():
        wanted.extend(np.atleast_1d(values))
        assert any(known.startswith(part) for known in kernel.names)
    assert dtheta == pytest.approx(np.array(wanted), abs=1e-7)
    assert by_cross[1] + by_gram[1] == pytest.approx(expected["grad_Z"], abs=1e-7)
