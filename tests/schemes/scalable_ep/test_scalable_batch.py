"""What training on all rows is made of: the unknowns, rates, damping, and the rules that end it."""

import numpy as np
import pytest

from gpbench.model.kernel_prior import KernelPrior
from gpbench.model.kernels import make_kernel
from gpbench.optimize.maximise import LOG_BOUND
from gpbench.schemes.scalable_ep.batch import Damping, EvidenceRule, Hyperparameters, SettledRule, SignRates


def hyper(**options):
    kernel = make_kernel("se-ard", 2, variance=2.0, lengthscale=3.0, noise=0.1)
    Z = [np.array([[0.0, 10.0], [2.0, 10.0]]), np.array([[4.0, 10.0]])]
    return Hyperparameters(kernel, Z, **{"theta": True, "inducing": True, **options}), kernel, Z


def test_what_moves_stands_in_its_units():
    """Log length scales in halves, Z in standard deviations of its columns, a column without any as it is."""
    found, kernel, Z = hyper()
    sd = np.std([0.0, 2.0, 4.0])
    theta = kernel.theta / [1.0, 0.5, 0.5, 1.0]
    assert found.p == pytest.approx([*theta, 0.0, 10.0, 2.0 / sd, 10.0, *theta, 4.0 / sd, 10.0])
    assert [part.stop - part.start for part in found.parts] == [8, 6]
    kernels, inducing = found.at(found.p)
    for ours in kernels:
        assert ours.theta == pytest.approx(kernel.theta)
    for ours, theirs in zip(inducing, Z, strict=True):
        assert ours == pytest.approx(theirs)
    gradient = found.ascent(found.p, [(np.ones(4), np.ones((2, 2))), (np.ones(4), np.ones((1, 2)))])
    units = [1.0, 0.5, 0.5, 1.0]
    assert gradient == pytest.approx([*units, sd, 1.0, sd, 1.0, *units, sd, 1.0])


def test_the_prior_of_each_latent_function_joins_the_gradient():
    """The slope in p of the log prior at p, by differences; inducing inputs have none."""
    prior = KernelPrior(make_kernel("se-ard", 2, variance=1.0, lengthscale=1.0, noise=0.1), "se-ard", 2, weak=True)
    found, _, _ = hyper(prior=prior)
    p = found.p + np.linspace(-0.4, 0.3, len(found.p))
    nothing = [(np.zeros(4), np.zeros((2, 2))), (np.zeros(4), np.zeros((1, 2)))]

    def log_prior(p):
        return sum(prior(kernel.theta)[0] for kernel in found.at(p)[0])

    steps = 1e-5 * np.eye(len(p))
    slope = [(log_prior(p + step) - log_prior(p - step)) / 2e-5 for step in steps]
    assert found.ascent(p, nothing) == pytest.approx(slope, rel=1e-6, abs=1e-8)
    assert np.abs(slope).max() > 0.1
    free, _, _ = hyper()
    assert not free.ascent(p, nothing).any()


def test_what_is_fixed_stays_as_it_is():
    found, kernel, Z = hyper(theta=False)
    kernels, inducing = found.at(found.p + 1.0)
    assert all((each.theta == kernel.theta).all() for each in kernels)
    assert all((ours != theirs).all() for ours, theirs in zip(inducing, Z, strict=True))
    found, kernel, Z = hyper(inducing=False)
    kernels, inducing = found.at(found.p + 1.0)
    assert all((each.theta != kernel.theta).all() for each in kernels)
    assert all((ours == theirs).all() for ours, theirs in zip(inducing, Z, strict=True))
    found, _, _ = hyper(theta=False, inducing=False)
    assert found.p.size == 0


def test_log_hyper_parameters_keep_their_bounds_and_inducing_inputs_have_none():
    found, _, _ = hyper()
    kernels, inducing = found.at(found.bounded(found.p + 1e3))
    assert all((each.theta == LOG_BOUND).all() for each in kernels)
    assert all((Z > LOG_BOUND).all() for Z in inducing)


def test_rates_follow_the_signs():
    """By hand: 1 % first, 2 % more while the sign stays, half when it turns, as before where it is 0."""
    ascent = SignRates(3)
    assert ascent.step(np.array([2.0, -4.0, 1.0])) == pytest.approx([0.02, -0.04, 0.01])
    assert ascent.step(np.array([1.0, 4.0, 0.0])) == pytest.approx([0.0102, 0.02, 0.0])
    assert ascent.step(np.array([1.0, 4.0, 1.0])) == pytest.approx([0.010404, 0.0204, 0.01])


def test_summed_rates_follow_the_sign_of_the_sum():
    """By hand: entries 1 and 2 are compared with 3 - 5 < 0; entry 0 with its own."""
    ascent = SignRates(3, summed=[np.array([1, 2])])
    ascent.step(np.array([1.0, 2.0, -4.0]))
    assert ascent.step(np.array([1.0, 3.0, -5.0])) == pytest.approx([0.0102, 3 * 0.005, -5 * 0.0102])


def test_the_places_of_length_scales():
    found, kernel, Z = hyper()
    kernels, _ = found.at(found.p)
    moved = found.p.copy()
    moved[np.concatenate(found.lengthscales)] += 1.0
    for before, after in zip(kernels, found.at(moved)[0], strict=True):
        changed = before.theta != after.theta
        assert changed.tolist() == ["lengthscales" in name for name in kernel.names]
    assert [len(at) for at in hyper(theta=False)[0].lengthscales] == [0] * len(Z)


def test_growth_is_a_choice():
    ascent = SignRates(1, growth=1.5)
    ascent.step(np.array([1.0]))
    assert ascent.step(np.array([1.0])) == pytest.approx([0.015])


def test_a_rate_is_1_at_most():
    ascent = SignRates(1)
    steps = [ascent.step(np.array([3.0]))[0] for _ in range(300)]
    assert steps[-1] == 3.0
    assert steps[200] < 3.0


def test_a_step_can_be_bounded_and_taken_again_at_half_the_rate():
    ascent = SignRates(2, first=0.1, longest=0.5)
    gradient = np.array([-100.0, 2.0])
    assert ascent.step(gradient) == pytest.approx([-0.5, 0.2])
    gradient[:] = 0.0  # the caller's array is the caller's
    assert ascent.shorter() == pytest.approx([-0.5, 0.1])
    assert ascent.rates == pytest.approx([0.05, 0.05])


def test_damping_is_halved_where_residuals_turn_round():
    damping = Damping(1.0)
    residual = np.array([1.0, 2.0])
    for each in (residual, residual, 0.1 * residual):
        damping.next(each)
    assert (damping.value, damping.turned) == (1.0, 0)
    damping.next(-residual)
    assert (damping.value, damping.turned) == (0.5, 1)
    damping.next(residual)  # the first after a change says nothing
    damping.next(np.array([-1.0, 2.0]))
    assert (damping.value, damping.turned) == (0.5, 1)


def test_damping_by_default():
    batch, stochastic = (Damping.of(None, all_rows=all_rows, decay=0.99) for all_rows in (True, False))
    for each in (batch, stochastic):
        each.next(None)
    assert batch.value == pytest.approx(0.495)
    assert stochastic.value == 1.0
    assert Damping.of(0.3, all_rows=True, decay=1.0).value == 0.3


def asked(values, *, tolerance):
    """What the rule says after each of these values of log Z."""
    left = iter(values)
    rule = EvidenceRule(lambda: next(left), tolerance=tolerance)
    return [rule.converged(iteration) for iteration in range(1, len(values) + 1)]


def test_evidence_that_no_longer_moves_ends_training():
    found = asked([*(-100.0 + i for i in range(50)), *[-51.0] * 60], tolerance=0.1)  # medians -88 and -63 at 50
    assert not any(found[:50])
    assert found[50:].index(True) == 31  # the median before has come to -56


def test_a_fall_from_evidence_that_was_none_is_no_end():
    """Far above at first, when sites match nothing."""
    assert not any(asked([-1.0, *np.linspace(-5000.0, -100.0, 49)], tolerance=0.1))


def test_without_a_tolerance_evidence_never_ends_training():
    assert not any(asked([-1.0] * 100, tolerance=0.0))


def test_sites_that_stand_still_end_training():
    changes = iter([1.0, 0.2, 0.1, 0.3])
    rule = SettledRule(lambda: next(changes), tolerance=0.1)
    assert [rule.converged(t) for t in (1, 2, 3, 4)] == [False, False, True, False]
