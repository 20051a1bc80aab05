"""The fixed-point iteration on maps whose fixed points are known."""

import numpy as np
import pytest

from gpbench.optimize.fixed_point import FixedPointSearch, Proposal


def linear(J, star):
    """x* + J (x - x*), with unit weights; counts its calls."""
    calls = []

    def update(x):
        calls.append(x)
        return Proposal(star + J @ (x - star), np.ones(len(x)))

    return update, calls


STAR = np.array([0.7, 1.2, 0.4, -0.3, 2.0, 0.1])


@pytest.mark.parametrize("memory", [0, 5])
def test_settles_at_the_fixed_point(memory):
    rng = np.random.default_rng(0)
    J = 0.2 * rng.normal(size=(6, 6))
    update, _ = linear(J, STAR)
    outcome = FixedPointSearch(tolerance=1e-10, memory=memory).settle(update, np.full(6, 0.1))
    assert outcome.settled
    assert outcome.x == pytest.approx(STAR, abs=1e-9)


def test_mixing_saves_most_updates_of_a_slow_map():
    J = np.diag([0.99, 0.9, 0.5, 0.3, 0.97, 0.1])
    counts = {}
    for memory in (0, 5):
        update, calls = linear(J, STAR)
        outcome = FixedPointSearch(tolerance=1e-8, memory=memory, limit=3000).settle(update, np.full(6, 0.5))
        assert outcome.settled
        assert outcome.iterations == len(calls)
        counts[memory] = len(calls)
    assert counts[5] < 40
    assert counts[0] > 1000


def test_undamped_oscillation_is_detected_and_damped():
    """Without damping this map's iterates grow as 1.5^k; half a step of it contracts."""
    update, _ = linear(np.diag(np.full(6, -1.5)), STAR)
    outcome = FixedPointSearch(damping=1.0, tolerance=1e-9, memory=0).settle(update, np.full(6, 0.6))
    assert outcome.settled
    assert outcome.restarts > 0
    assert outcome.x == pytest.approx(STAR, abs=1e-8)


def test_a_cycle_is_damped_too():
    update, _ = linear(-np.eye(6), STAR)
    outcome = FixedPointSearch(damping=1.0, tolerance=1e-9, memory=0).settle(update, np.full(6, 0.6))
    assert outcome.settled
    assert outcome.restarts > 0


def test_precisions_are_never_negative():
    seen = []

    def update(x):
        seen.append(x[:3].copy())
        target = np.concatenate([np.zeros(3), x[3:] * 0.5])
        return Proposal(target, np.ones(6))

    FixedPointSearch(tolerance=1e-12).settle(update, np.ones(6))
    assert (np.array(seen) >= 0).all()


def test_what_does_not_settle_gives_the_best_point_and_says_so():
    rng = np.random.default_rng(0)
    evaluated = []

    def update(x):
        evaluated.append(x)
        return Proposal(x + rng.normal(size=6), np.ones(6))

    outcome = FixedPointSearch(tolerance=1e-12, limit=20).settle(update, np.ones(6))
    assert not outcome.settled
    assert outcome.iterations == 20
    assert evaluated[-1] is outcome.x
