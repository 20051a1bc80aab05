"""A fake rival, registered like a real one, whose script runs on this interpreter."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from gpbench.model.inducing import InducingRule
from gpbench.peers import environments
from gpbench.peers.environments import Peer
from gpbench.peers.rivals import STATIONARY, SparseRival
from gpbench.schemes.base import setting

SCRIPT = Path(__file__).with_name("fake_rival.py")


@dataclass(frozen=True, kw_only=True)
class FakeRival(SparseRival):
    link: str = setting("probit", "Link.", choices=("probit",))
    clip: float = setting(0.0, "How far probabilities are kept from 0 and 1.")

    name: ClassVar[str] = "fake-rival"
    peer: ClassVar[str] = "fake"
    kernels: ClassVar[frozenset] = STATIONARY

    @property
    def floor(self):
        return self.clip


def two_moons(n=60, *, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (np.sin(2 * X[:, 0]) + X[:, -1] + 0.5 * rng.normal(size=n) > 0).astype(int)


def ignore(step):
    pass


@pytest.fixture
def fake(monkeypatch):
    """Gives a function that fits the fake rival in one of its modes."""
    monkeypatch.setitem(environments.PEERS, "fake", Peer("fake", "A fake", {}, SCRIPT))
    monkeypatch.setenv("FAKE_CHILDREN", str(environments.CHILDREN))

    def run(mode="good", *, on_step=ignore, X=None, y=None, **settings):
        monkeypatch.setenv("FAKE_MODE", mode)
        if X is None:
            X, y = two_moons()
        return fit(FakeRival(**{"inducing": "5", "max_iterations": 20} | settings), X, y, on_step=on_step)

    return run


def fit(scheme, X, y, *, on_step=ignore):
    return scheme.fit(
        X,
        y,
        inducing=InducingRule("random", count=getattr(scheme, "inducing", "5"), seed=1),
        likelihood=scheme.likelihood_for("binary", 2),
        classes=2,
        rng=np.random.default_rng(0),
        on_step=on_step,
    )


@pytest.fixture
def fitted():
    """Fits any rival on the toy data or others."""
    return fit


@pytest.fixture
def moons():
    return two_moons


@pytest.fixture
def interpreter(tmp_path):
    """Makes a folder look like an environment whose interpreter is this one."""

    def make(home):
        python = home / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        return python

    return make
