"""The weak prior of a kernel's hyper-parameters."""

import numpy as np
import pytest

from gpbench.model.kernel_prior import KernelPrior
from gpbench.model.kernels import make_kernel


def test_the_weak_prior_is_normal_about_the_start():
    kernel = make_kernel("se-ard+linear-ard", 4, variance=np.e, lengthscale=2.0, noise=0.1)
    prior = KernelPrior(kernel, "se-ard+linear-ard", 4, weak=True)
    value, slope = prior(kernel.theta)
    assert value == 0.0
    assert not slope.any()
    theta = kernel.theta + 0.5
    value, slope = prior(theta)
    covariance = np.diag([4.0, *4 * [0.49], *4 * [4.0]])  # of log v, log l, and the variances of the linear part
    covariance[1:5, 1:5] += 1.0
    away = np.full(9, 0.5)
    assert value == pytest.approx(-0.5 * away @ np.linalg.solve(covariance, away))
    for i, each in enumerate(np.eye(len(theta))):
        rise = prior(theta + 1e-6 * each)[0] - prior(theta - 1e-6 * each)[0]
        assert slope[i] == pytest.approx(rise / 2e-6, abs=1e-7)
    assert KernelPrior(kernel, "se-ard+linear-ard", 4, weak=False)(theta)[0] == 0.0
