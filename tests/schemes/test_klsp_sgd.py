"""klsp-sgd and svi-adadelta: they learn, freeze, choose a rate, take failed steps back, repeat themselves."""

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


def two_moons(n=60, *, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (np.sin(2 * X[:, 0]) + X[:, -1] + 0.5 * rng.normal(size=n) > 0).astype(int)


def ignore(step):
    pass


def fit(scheme, X, y, *, M=6, rule=None, on_step=ignore, seed=0):
    return scheme.fit(
        X,
        y,
        inducing=rule or InducingRule("kmeans", count=M, seed=1),
        likelihood=scheme.likelihood("binary", 2),
        classes=2,
        rng=np.random.default_rng(seed),
        on_step=on_step,
    )


@pytest.mark.parametrize("kernel", ["se-ard", "matern32-ard+linear-ard"])
@pytest.mark.parametrize("optimizer", ["adadelta", "adam"])
@pytest.mark.parametrize("whiten", [True, False])
def test_learns_everything(optimizer, whiten, kernel):
    X, y = two_moons()
    scheme = KLSpSGD(
        optimizer=optimizer, whiten=whiten, kernel=kernel, batch_size=20, max_iterations=400, freeze_iterations=50
    )
    rule = InducingRule("kmeans", count=6, seed=1)
    posterior = fit(scheme, X, y, rule=rule)
    assert posterior.score(X, y).error.mean() < 0.2
    (latent,) = posterior.latents
    assert (latent.kernel.theta != scheme.initial_kernel(np.zeros((1, 2))).theta).all()
    assert (rule.choose(X) != latent.Z).all()


def test_the_first_steps_move_q_alone():
    X, y = two_moons()
    kernels, inputs, means = [], [], []

    def look(step):
        (latent,) = step.posterior().latents
        kernels.append(latent.kernel.theta)
        inputs.append(latent.Z)
        means.append(latent.m_w)

    scheme = KLSpSGD(freeze_iterations=5, max_iterations=8, batch_size=20)
    fit(scheme, X, y, on_step=look)
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
def test_what_is_to_stay_stays(options, moved, optimizer):
    X, y = two_moons()
    scheme = KLSpSGD(max_iterations=12, freeze_iterations=2, batch_size=20, optimizer=optimizer, **options)
    rule = InducingRule("kmeans", count=6, seed=1)
    (latent,) = fit(scheme, X, y, rule=rule).latents
    assert (latent.kernel.theta != scheme.initial_kernel(np.zeros((1, 2))).theta).any() == moved[0]
    assert (rule.choose(X) != latent.Z).any() == moved[1]


def test_svi_chooses_its_rate_and_starts_afresh():
    X, y = two_moons(200)
    rates, spread = [], []

    def look(step):
        posterior = step.posterior()
        rates.append(posterior.facts["rate"])
        spread.append(np.abs(posterior.latents[0].m_w).max())

    posterior = fit(KLSpSGD(max_iterations=160, **SVI), X, y, on_step=look)
    assert rates[:60] == pytest.approx(np.repeat([0.1, 0.2, 0.3], 20))
    assert rates[60:] == [posterior.facts["rate"]] * 100
    assert spread[60] < spread[59]
    assert posterior.score(X, y).error.mean() < 0.25


def test_the_grid_prefers_the_rate_that_learns():
    X, y = two_moons(200)
    # 20 steps: the largest rate is ahead
    assert fit(KLSpSGD(max_iterations=121, **SVI), X, y).facts["rate"] == pytest.approx(0.3)


def test_the_grid_takes_no_more_than_half_of_the_iterations():
    X, y = two_moons(200)
    rates = []
    fit(KLSpSGD(max_iterations=60, **SVI), X, y, on_step=lambda step: rates.append(step.posterior().facts["rate"]))
    assert rates[:30] == pytest.approx(np.repeat([0.1, 0.2, 0.3], 10))
    assert len(set(rates[30:])) == 1
    assert len(rates) == 60


def test_the_same_seed_gives_the_same_bits():
    X, y = two_moons()
    a, b, c = (fit(KLSpSGD(batch_size=20, max_iterations=50), X, y, seed=seed).latents[0] for seed in (0, 0, 1))
    assert (a.m_w == b.m_w).all()
    assert (a.root == b.root).all()
    assert (a.m_w != c.m_w).all()


def test_a_stop_returns_the_state_so_far():
    X, y = two_moons()

    def stop(step):
        if step.iteration == 7:
            raise StopTraining

    posterior = fit(KLSpSGD(**SVI), X, y, on_step=stop)
    assert posterior.facts["iterations"] == 7
    assert posterior.facts["stopped_by"] == "on_step"


def test_a_failed_step_is_taken_back_at_half_the_rate(monkeypatch):
    X, y = two_moons()
    honest, calls, rates = KLBound.at_batch, [], []

    def now_and_then(self, *args, **kwargs):
        calls.append(None)
        if len(calls) in {10, 11}:
            raise NumericalError("no factor")
        return honest(self, *args, **kwargs)

    monkeypatch.setattr(KLBound, "at_batch", now_and_then)
    posterior = fit(
        KLSpSGD(max_iterations=20, freeze_iterations=0),
        X,
        y,
        on_step=lambda step: rates.append(step.posterior().facts["rate"]),
    )
    assert rates == [0.1] * 9 + [0.025] * 11
    assert np.isfinite(posterior.score(X, y).log_density).all()


def test_a_step_that_fails_for_good_is_an_error(monkeypatch):
    def broken(*_, **__):
        raise NumericalError("no factor")

    X, y = two_moons()
    monkeypatch.setattr(KLBound, "at_batch", broken)
    with pytest.raises(NumericalError, match="klsp-sgd, iteration 0: no factor"):
        fit(KLSpSGD(), X, y)


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
def test_hard_problems_stay_finite(case, optimizer):
    options, change = HARD[case]
    X, y = two_moons()
    scheme = KLSpSGD(max_iterations=150, batch_size=10, optimizer=optimizer, freeze_iterations=20, **options)
    assert np.isfinite(fit(scheme, change(X), y, M=12).score(change(X), y).log_density).all()


def test_duplicated_inducing_inputs_and_three_rows():
    X, y = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0]]), np.array([0, 1, 1])
    for options in ({}, SVI):
        posterior = fit(KLSpSGD(max_iterations=50, **options), X, y, rule=InducingRule("all"))
        assert np.isfinite(posterior.score(X, y).log_density).all()


def test_other_tasks_are_refused():
    with pytest.raises(UsageError, match="binary"):
        KLSpSGD().likelihood("count", 0)
