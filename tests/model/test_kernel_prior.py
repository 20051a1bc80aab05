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
    assert value == pytest.approx(-0.5 * 0.25 * (4 + 5 * 0.25))
    for i, each in enumerate(np.eye(len(theta))):
        rise = prior(theta + 1e-6 * each)[0] - prior(theta - 1e-6 * each)[0]
        assert slope[i] == pytest.approx(rise / 2e-6, abs=1e-7)
    assert KernelPrior(kernel, "se-ard+linear-ard", 4, weak=False)(theta)[0] == 0.0
