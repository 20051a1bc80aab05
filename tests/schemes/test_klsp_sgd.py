"""klsp-sgd and svi-adadelta: they learn, freeze, choose a rate, take failed steps back, repeat themselves."""

from typing import NamedTuple

import numpy as np
import pytest

from gpbench.errors import NumericalError, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.kl_bound import KLBound
from gpbench.schemes.base import StopTraining
from gpbench.schemes.klsp_sgd import KLSpSGD

SVI = {
    "link": "logit",
    "whiten": False,
    "learn_inducing": False,
    "freeze_iterations": 0,
    "objective": "batch",
    "rate_grid": 3,
    "grid_iterations": 20,
}


@pytest.fixture
def train(fit):
    """Fits with six inducing inputs, or as many as a rule says."""

    def run(scheme, X, y, *, M=6, rule=None, **options):
        return fit(scheme, X, y, inducing=rule or InducingRule("kmeans", count=M, seed=1), **options)

    return run


class Seen(NamedTuple):
    """What a training looked like at a step."""

    rate: float
    spread: float


@pytest.fixture
def followed():
    """Trains; gives the training at its end and what was seen of it at each step."""

    def run(scheme, X, y):
        training = scheme.start(
            X,
            y,
            inducing=InducingRule("kmeans", count=6, seed=1),
            likelihood=scheme.likelihood_for("binary", 2),
            classes=2,
            rng=np.random.default_rng(0),
        )
        seen = []
        training.trainer.on_step = lambda step: seen.append(
            Seen(training.rate, np.abs(step.posterior().latents[0].m_w).max())
        )
        training.train()
        return training, seen

    return run


@pytest.mark.parametrize("kernel", ["se-ard", "matern32-ard+linear-ard"])
@pytest.mark.parametrize("optimizer", ["adadelta", "adam"])
@pytest.mark.parametrize("whiten", [True, False])
def test_learns_everything(train, boundary, optimizer, whiten, kernel):
    X, y = boundary()
    scheme = KLSpSGD(
        optimizer=optimizer, whiten=whiten, kernel=kernel, batch_size=20, max_iterations=400, freeze_iterations=50
    )
    rule = InducingRule("kmeans", count=6, seed=1)
    posterior = train(scheme, X, y, rule=rule).posterior
    assert posterior.score(X, y).error.mean() < 0.2
    (latent,) = posterior.latents
    assert (latent.kernel.theta != scheme.initial_kernel(np.zeros((1, 2))).theta).all()
    assert (rule.choose(X) != latent.Z).all()


def test_the_first_steps_move_q_alone(train, boundary):
    X, y = boundary()
    kernels, inputs, means = [], [], []

    def look(step):
        (latent,) = step.posterior().latents
        kernels.append(latent.kernel.theta)
        inputs.append(latent.Z)
        means.append(latent.m_w)

    scheme = KLSpSGD(freeze_iterations=5, max_iterations=8, batch_size=20)
    train(scheme, X, y, on_step=look)
    assert (kernels[4] == scheme.initial_kernel(np.zeros((1, 2))).theta).all()
    assert (inputs[4] == inputs[0]).all()
    assert (means[0] != 0).all()
    assert (kernels[5] != kernels[4]).all()
    assert (inputs[5] != inputs[4]).all()


@pytest.mark.parametrize(
    ("options", "moved"),
    [
        ({"hyperparameters": "fixed"}, (False, True)),
        ({"learn_inducing": False}, (True, False)),
        ({"hyperparameters": "fixed", "learn_inducing": False}, (False, False)),
    ],
)
@pytest.mark.parametrize("optimizer", ["adadelta", "adam"])
def test_what_is_to_stay_stays(train, boundary, options, moved, optimizer):
    X, y = boundary()
    scheme = KLSpSGD(max_iterations=12, freeze_iterations=2, batch_size=20, optimizer=optimizer, **options)
    rule = InducingRule("kmeans", count=6, seed=1)
    (latent,) = train(scheme, X, y, rule=rule).posterior.latents
    assert (latent.kernel.theta != scheme.initial_kernel(np.zeros((1, 2))).theta).any() == moved[0]
    assert (rule.choose(X) != latent.Z).any() == moved[1]


def test_svi_chooses_its_rate_and_starts_afresh(followed, boundary):
    X, y = boundary(200)
    training, seen = followed(KLSpSGD(max_iterations=160, **SVI), X, y)
    rates, spread = ([getattr(each, name) for each in seen] for name in ("rate", "spread"))
    assert rates[:60] == pytest.approx(np.repeat([0.1, 0.2, 0.3], 20))
    assert rates[60:] == [training.rate] * 100
    assert spread[60] < spread[59]
    assert training.facts() == {"rate": training.rate}
    assert training.posterior().score(X, y).error.mean() < 0.25


def test_the_grid_prefers_the_rate_that_learns(train, boundary):
    X, y = boundary(200)
    # 20 steps: the largest rate is ahead
    assert train(KLSpSGD(max_iterations=121, **SVI), X, y).facts["rate"] == pytest.approx(0.3)


def test_the_grid_takes_no_more_than_half_of_the_iterations(followed, boundary):
    _, seen = followed(KLSpSGD(max_iterations=60, **SVI), *boundary(200))
    rates = [each.rate for each in seen]
    assert rates[:30] == pytest.approx(np.repeat([0.1, 0.2, 0.3], 10))
    assert len(set(rates[30:])) == 1
    assert len(rates) == 60


def test_the_same_seed_gives_the_same_bits(train, boundary):
    X, y = boundary()
    a, b, c = (
        train(KLSpSGD(batch_size=20, max_iterations=50), X, y, seed=seed).posterior.latents[0] for seed in (0, 0, 1)
    )
    assert (a.m_w == b.m_w).all()
    assert (a.root == b.root).all()
    assert (a.m_w != c.m_w).all()


def test_a_stop_returns_the_state_so_far(train, boundary):
    X, y = boundary()

    def stop(step):
        if step.iteration == 7:
            raise StopTraining

    found = train(KLSpSGD(**SVI), X, y, on_step=stop)
    assert found.iterations == 7
    assert found.stopped_by == "on_step"


def test_a_failed_step_is_taken_back_at_half_the_rate(followed, boundary, monkeypatch):
    X, y = boundary()
    honest, calls = KLBound.at_batch, []

    def now_and_then(self, *args, **kwargs):
        calls.append(None)
        if len(calls) in {10, 11}:
            raise NumericalError("no factor")
        return honest(self, *args, **kwargs)

    monkeypatch.setattr(KLBound, "at_batch", now_and_then)
    training, seen = followed(KLSpSGD(max_iterations=20, freeze_iterations=0), X, y)
    assert [each.rate for each in seen] == [0.1] * 9 + [0.025] * 11
    assert np.isfinite(training.posterior().score(X, y).log_density).all()


def test_a_step_that_fails_for_good_is_an_error(train, boundary, monkeypatch):
    def broken(*_, **__):
        raise NumericalError("no factor")

    X, y = boundary()
    monkeypatch.setattr(KLBound, "at_batch", broken)
    with pytest.raises(NumericalError, match="klsp-sgd, iteration 0: no factor"):
        train(KLSpSGD(), X, y)


HARD = {
    "large variance": ({"variance": 160.0}, lambda X: X),
    "larger variance": ({"variance": 1e5, "noise": 0.0}, lambda X: X),
    "a large rate": ({"rate": 50.0}, lambda X: X),
    "duplicates": ({}, lambda X: np.repeat(X[:15], 4, axis=0)),
    "a line": ({"noise": 1e-6}, lambda X: np.outer(np.linspace(-1, 1, len(X)), [1.0, 2.0])),
    "unscaled": ({}, lambda X: X * [1e6, 1e-6] + [1e7, 0.0]),
    "constant column": ({}, lambda X: X * [1.0, 0.0]),
}


@pytest.mark.parametrize("optimizer", ["adadelta", "adam"])
@pytest.mark.parametrize("case", HARD)
def test_hard_problems_stay_finite(train, boundary, case, optimizer):
    options, change = HARD[case]
    X, y = boundary()
    scheme = KLSpSGD(max_iterations=150, batch_size=10, optimizer=optimizer, freeze_iterations=20, **options)
    assert np.isfinite(train(scheme, change(X), y, M=12).posterior.score(change(X), y).log_density).all()


def test_duplicated_inducing_inputs_and_three_rows(train):
    X, y = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0]]), np.array([0, 1, 1])
    for options in ({}, SVI):
        posterior = train(KLSpSGD(max_iterations=50, **options), X, y, rule=InducingRule("all")).posterior
        assert np.isfinite(posterior.score(X, y).log_density).all()


def test_other_tasks_are_refused():
    with pytest.raises(UsageError, match="binary"):
        KLSpSGD().likelihood_for("count", 0)
