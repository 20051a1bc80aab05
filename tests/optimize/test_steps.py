import numpy as np
import pytest

from gpbench.errors import UsageError
from gpbench.model.kernels import make_kernel
from gpbench.optimize.steps import AdaDelta, Adam, AdaptiveRate, GrowingWindow, KernelSteps

Z = np.zeros((3, 2))


def test_adams_trajectory_is_the_oracles(read_oracle):
    inputs, expected = read_oracle("optimiser_trajectories")
    A, b, x = inputs["A"], inputs["b"], inputs["x0"].copy()
    adam = Adam(x.size)
    for step in range(1, 21):
        x += adam.step(b - A @ x, rate=0.01)
        if step in {1, 2, 20}:
            # climin adds epsilon to the uncorrected root: at most 0.01 * 1e-8 / sqrt(1 - 0.999) a step apart
            assert x == pytest.approx(expected["adam_rate0.01"][f"after_{step}"], abs=1e-8 * step)


def test_adams_first_step_is_the_rate_in_every_entry():
    step = Adam(3).step(np.array([1e-3, -5.0, 1e6]), rate=0.2)
    assert step == pytest.approx([0.2, -0.2, 0.2], rel=1e-4)


def test_adam_without_gradient_takes_no_step():
    assert (Adam(2).step(np.zeros(2), rate=0.1) == 0.0).all()


@pytest.mark.parametrize("name", ["adadelta_rate0.1_momentum0.9", "adadelta_rate1_momentum0"])
def test_adadelta_walks_as_climin_does(read_oracle, name):
    inputs, every = read_oracle("optimiser_trajectories")
    expected = every[name]
    A, b, x = inputs["A"], inputs["b"], inputs["x0"].copy()
    given = expected["params"]
    walk = AdaDelta(
        3, rate=given["step_rate"], decay=given["decay"], momentum=given["momentum"], offset=given["offset"]
    )
    for t in range(1, 21):
        x = x + walk.look_ahead()
        x = x + walk.step(b - A @ x)
        if f"after_{t}" in expected:
            assert x == pytest.approx(expected[f"after_{t}"], abs=1e-10)


def test_adadelta_an_entry_without_gradient_stays():
    walk = AdaDelta(2)
    total = np.zeros(2)
    for _ in range(50):
        total += walk.look_ahead()
        total += walk.step(np.array([1.0, 0.0]))
    assert total[0] > 0
    assert total[1] == 0.0


def test_adaptive_rate_is_the_oracles(read_oracle):
    inputs, expected = read_oracle("adaptive_learning_rate")
    first = inputs["n_init"]
    adaptive = AdaptiveRate(first, tau=inputs["tau0"])
    for gradient in inputs["gradients"][:first]:
        assert not adaptive.ready
        adaptive.observe(gradient)
    assert adaptive.ready
    got = []
    for gradient in inputs["gradients"][first:]:
        rho = adaptive.rate(gradient)
        got.append([rho, adaptive.tau, adaptive.hbar])
    assert np.array(got) == pytest.approx(expected["rho_tau_hbar"], abs=1e-12)


def test_adaptive_rate_is_one_without_noise_and_small_in_pure_noise():
    adaptive = AdaptiveRate(5)
    for _ in range(5):
        adaptive.observe(np.ones(3))
    assert adaptive.rate(np.ones(3)) == pytest.approx(1.0)
    rng = np.random.default_rng(0)
    adaptive = AdaptiveRate(50)
    for _ in range(50):
        adaptive.observe(rng.normal(size=40))
    assert [adaptive.rate(rng.normal(size=40)) for _ in range(100)][-1] < 0.1


def test_adaptive_rate_survives_zero_gradients():
    adaptive = AdaptiveRate(2)
    adaptive.observe(np.zeros(3))
    adaptive.observe(np.zeros(3))
    assert adaptive.rate(np.zeros(3)) == 1.0


def test_growing_window_replaces_first_and_then_forgets_a_share_of_its_age():
    window = GrowingWindow(20.0)
    assert window.rate(0) == 1.0
    assert window.rate(1980) == pytest.approx(0.01)


def test_growing_window_of_one_is_the_plain_mean():
    values, mean = np.array([3.0, -1.0, 7.0, 4.0]), 0.0
    for t, value in enumerate(values):
        mean += GrowingWindow(1.0).rate(t) * (value - mean)
    assert mean == pytest.approx(values.mean())


def test_window_must_be_positive():
    with pytest.raises(UsageError, match="positive"):
        GrowingWindow(0.0)


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
