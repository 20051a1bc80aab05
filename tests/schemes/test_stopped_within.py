"""Limits hold inside a step: schemes whose evaluations are long ask, and give what they have come to."""

import numpy as np
import pytest

from gpbench.bench.methods import method
from gpbench.model.inducing import InducingRule
from gpbench.schemes.base import StopTraining

SLOW = [
    ("ep", {}), ("ep", {"order": "sequential"}), ("gfitc", {}), ("kl", {}), ("mfsp", {}), ("mfsp", {"inner": "newton"}),
    ("sparse-map", {}), ("pep", {}),
]  # fmt: skip


class Asked:
    """An on_step whose ``check`` ends the training the n-th time that it is asked."""

    def __init__(self, end):
        self.end, self.asked, self.steps = end, 0, 0

    def __call__(self, _):
        self.steps += 1

    def check(self):
        self.asked += 1
        if self.asked == self.end:
            raise StopTraining


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    return X, (np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=60) > 0).astype(np.int64)


def fit(name, settings, rows, on_step):
    known = method(name)
    scheme = known.build(known.resolve(settings | {"max_iterations": 4}))
    return scheme.fit(
        *rows, inducing=InducingRule("random", count="10", seed=0), likelihood=scheme.likelihood_for("binary", 2),
        classes=2, rng=np.random.default_rng(0), on_step=on_step,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "settings"), SLOW)
def test_a_scheme_stops_where_it_is_asked_to(name, settings, rows):
    whole = Asked(10**9)
    fit(name, settings, rows, whole)
    assert whole.asked > whole.steps  # within its steps
    scores = []
    for end in (1, 2, whole.asked // 2, whole.asked):
        asked = Asked(end)
        found = fit(name, settings, rows, asked)
        assert asked.asked == end
        assert (found.stopped_by, found.iterations) == ("on_step", asked.steps)
        log_density, _, _ = found.posterior.score(*rows)
        scores.append(-log_density.mean())
    assert np.isfinite(scores).all()
    assert scores[-1] < 0.8 * np.log(2.0)
    assert scores[0] < 1.1 * np.log(2.0)
