import numpy as np

from gpbench.optimize.training import Checks, HeldOut, ParameterChange


def test_checks_lie_on_a_geometric_grid():
    checks = Checks(first=10, ratio=1.5)
    assert [t for t in range(1, 60) if checks.due(t)] == [10, 15, 23, 35, 53]


def test_parameter_change_is_relative_and_for_one_iteration():
    rule = ParameterChange(1e-3)
    x = np.array([1.0, -100.0])
    assert not rule.converged(100, x)
    assert not rule.converged(110, x * 1.05)  # 5 % in ten iterations
    assert rule.converged(160, x * 1.05 * 1.02)  # 2 % in fifty


def test_parameter_change_takes_zeros():
    rule = ParameterChange(1e-3)
    rule.converged(1, np.zeros(2))
    assert rule.converged(2, np.zeros(2))


def test_held_out_loss_must_fall_within_the_patience():
    rule = HeldOut(0.01, patience=2)
    falling = [rule.converged(loss) for loss in (1.0, 0.9, 0.8, 0.7)]
    assert falling == [False] * 4
    assert [rule.converged(loss) for loss in (0.699, 0.72)] == [False, True]


def test_a_held_out_loss_that_rises_is_converged():
    rule = HeldOut(1e-3, patience=1)
    assert [rule.converged(loss) for loss in (0.5, 0.6)] == [False, True]
