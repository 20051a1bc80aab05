import numpy as np
import pytest

from gpbench.model.kernels import make_kernel
from gpbench.optimize.steps import KernelSteps

Z = np.zeros((3, 2))


def kernel(noise=0.1):
    return make_kernel("se-ard", 2, variance=2.0, lengthscale=1.5, noise=noise)


def steps(start, **options):
    return KernelSteps(start, **{"rate": 0.1, "decay": 10.0, "noise_floor": 1e-4, **options})


def test_the_rate_falls_like_one_over_t():
    start = kernel()
    gradient = np.ones(start.theta.size)
    early = steps(start).step(start, gradient, t=0, Z=Z).theta - start.theta
    late = steps(start).step(start, gradient, t=90, Z=Z).theta - start.theta
    assert early == pytest.approx(0.1)
    assert late == pytest.approx(0.01)


def test_steps_become_rarer_and_longer_in_proportion():
    start = kernel()
    taking = steps(start, decay=1e9, thinning=10.0)
    assert [t for t in range(30) if taking.due(t)] == [*range(11), 12, 14, 16, 18, 20, 23, 26, 29]
    assert taking.step(start, np.ones(4), t=29, Z=Z).theta - start.theta == pytest.approx(0.3)


def test_noise_stops_at_its_floor():
    start = kernel(noise=2.1e-4)
    pull = np.array([0.0, 0.0, 0.0, -1.0])
    moved = steps(start).step(start, pull, t=0, Z=Z)
    assert moved.theta[-1] == pytest.approx(np.log(1e-4 * 2.0))
    assert steps(start, noise_floor=0.0).step(start, pull, t=0, Z=Z).theta[-1] == pytest.approx(start.theta[-1] - 0.1)


def test_a_kernel_without_noise_has_no_floor():
    start = kernel(noise=0.0)
    moved = steps(start).step(start, np.ones(3), t=0, Z=Z)
    assert moved.theta == pytest.approx(start.theta + 0.1)


def test_length_scales_that_do_not_matter_stay_finite():
    start = kernel()
    taking = steps(start, rate=1.0, decay=1e9)
    for t in range(60):
        start = taking.step(start, np.ones(4), t=t, Z=Z)
    assert start.theta.max() == 30.0
