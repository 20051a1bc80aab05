"""What tests of schemes share: rows to learn from, and one way to call ``fit``."""

import numpy as np
import pytest

from gpbench.model.inducing import InducingRule


def _fit(scheme, X, y, *, classes=2, task=None, inducing=None, likelihood=None, seed=0, on_step=lambda _: None):
    """``scheme.fit`` with what is usual; the likelihood is the scheme's own for the task unless one is given."""
    if task is None:
        task = "binary" if classes == 2 else "multiclass"
    if inducing is None:
        inducing = InducingRule.of(vars(scheme), seed=seed)
    return scheme.fit(
        X,
        y,
        inducing=inducing,
        likelihood=scheme.likelihood_for(task, classes) if likelihood is None else likelihood,
        classes=classes,
        rng=np.random.default_rng(seed),
        on_step=on_step,
    )


def _boundary(n=60, *, d=2, seed=0, noise=0.5):
    """Rows (n, d) of two classes whose boundary is no line, and labels 0 or 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (np.sin(2 * X[:, 0]) + X[:, -1] + noise * rng.normal(size=n) > 0).astype(int)


def _clusters(n=90, C=3, *, seed=0, spread=0.7):
    """Rows (n, 2) of C classes on a circle, and labels 0..C-1."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % C
    angle = 2 * np.pi * y / C
    return 2.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + spread * rng.normal(size=(n, 2)), y


@pytest.fixture(scope="session")
def fit():
    return _fit


@pytest.fixture(scope="session")
def boundary():
    return _boundary


@pytest.fixture(scope="session")
def clusters():
    return _clusters
