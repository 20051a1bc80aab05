import numpy as np
import pytest

from gpbench.optimize.steps import Adam


def test_trajectory_is_the_oracles(read_oracle):
    inputs, expected = read_oracle("optimiser_trajectories")
    A, b, x = inputs["A"], inputs["b"], inputs["x0"].copy()
    adam = Adam(x.size)
    for step in range(1, 21):
        x += adam.step(b - A @ x, rate=0.01)
        if step in {1, 2, 20}:
            # climin adds epsilon to the uncorrected root: at most 0.01 * 1e-8 / sqrt(1 - 0.999) a step apart
            assert x == pytest.approx(expected["adam_rate0.01"][f"after_{step}"], abs=1e-8 * step)


def test_first_step_is_the_rate_in_every_entry():
    step = Adam(3).step(np.array([1e-3, -5.0, 1e6]), rate=0.2)
    assert step == pytest.approx([0.2, -0.2, 0.2], rel=1e-4)


def test_no_gradient_no_step():
    assert (Adam(2).step(np.zeros(2), rate=0.1) == 0.0).all()
