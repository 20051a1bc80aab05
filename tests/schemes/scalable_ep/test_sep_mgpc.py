"""Training batch by batch: stochastic EP on all rows and on some, EP with stored vectors, and epgpc."""

import tracemalloc

import numpy as np
import pytest

from gpbench.bench.methods import method
from gpbench.errors import NumericalError, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.schemes.base import StopTraining
from gpbench.schemes.scalable_ep.damping import Damping, Rising
from gpbench.schemes.scalable_ep.ep_mgpc import EPMGPC
from gpbench.schemes.scalable_ep.moving import MovingSites
from gpbench.schemes.scalable_ep.sep_mgpc import SEPMGPC
from gpbench.schemes.scalable_ep.stored_run import stored_type

RANDOM = InducingRule("random", count="12", seed=1)


def clusters(n=90, C=3, seed=0, spread=0.7):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % C
    angle = 2 * np.pi * y / C
    X = 2.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + spread * rng.normal(size=(n, 2))
    return X, y


def ignore(step):
    """Look at nothing."""


def fit(scheme, X, y, *, classes, inducing=RANDOM, seed=0, on_step=ignore):
    task = "binary" if classes == 2 else "multiclass"
    return scheme.fit(
        X,
        y,
        inducing=inducing,
        likelihood=scheme.likelihood(task, classes),
        classes=classes,
        rng=np.random.default_rng(seed),
        on_step=on_step,
    )


def nll(posterior, X, y):
    return -posterior.score(X, y).log_density.mean()


SCHEMES = {
    "sep, all rows": SEPMGPC(mode="batch", max_iterations=60, rise=0.0),
    "sep, mini-batches": SEPMGPC(mode="stochastic", batch_size=15, max_iterations=200, rate=0.01),
    "ep, mini-batches": EPMGPC(mode="stochastic", batch_size=15, max_iterations=200, rate=0.01),
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", SCHEMES)
def test_it_learns(name, classes):
    X, y = clusters(C=classes)
    steps = []
    posterior = fit(SCHEMES[name], X, y, classes=classes, on_step=lambda step: steps.append(step.bound))
    fresh = clusters(C=classes, seed=1)
    assert nll(posterior, *fresh) < 0.3
    assert posterior.facts["stopped_by"] == "iterations"
    assert posterior.facts["iterations"] == len(steps)
    assert posterior.facts["stored_vectors"] == ("tied" if "sep" in name else "float64")
    if "all rows" in name:
        assert steps[0] < steps[-1]
    else:
        assert set(steps) == {None}


@pytest.mark.parametrize("name", SCHEMES)
def test_hyperparameters_move_unless_they_are_fixed(name):
    X, y = clusters()
    settings = {**vars(SCHEMES[name]), "max_iterations": 5}
    learned = fit(type(SCHEMES[name])(**settings), X, y, classes=3)
    fixed = fit(
        type(SCHEMES[name])(**settings | {"hyperparameters": "fixed", "learn_inducing": False}), X, y, classes=3
    )
    start = SEPMGPC().initial_kernel(np.zeros((1, 2)))
    assert all(latent.kernel.values() == start.values() for latent in fixed.latents)
    assert all(latent.kernel.values() != start.values() for latent in learned.latents)
    assert (RANDOM.for_latent(1).choose(X) == fixed.latents[1].Z).all()
    assert (learned.latents[1].Z != fixed.latents[1].Z).any()


@pytest.mark.parametrize("name", SCHEMES)
def test_the_same_seed_gives_the_same_bits_and_stopping_leaves_a_posterior(name):
    X, y = clusters()

    def stop(step):
        if step.iteration == 7:
            raise StopTraining

    first, second = (fit(SCHEMES[name], X, y, classes=3, on_step=stop) for _ in range(2))
    assert (first.predict(X).probabilities == second.predict(X).probabilities).all()
    assert first.facts["stopped_by"] == "on_step"


@pytest.mark.parametrize("name", SCHEMES)
def test_absent_and_single_rows_of_a_class(name):
    X, y = clusters()
    y = np.where(y == 2, 1, y)
    y[5] = 3
    posterior = fit(SCHEMES[name], X, y, classes=5)
    assert np.isfinite(nll(posterior, X, y))


@pytest.mark.parametrize("name", SCHEMES)
def test_hard_data_is_survived(name):
    X, y = clusters()
    X = np.column_stack([1e4 * X[:, 0] + 1e5, 1e-4 * X[:, 1], np.ones(len(X))])
    X[::2] = X[1::2]
    settings = vars(SCHEMES[name]) | {"variance": 160.0, "noise": 0.0, "lengthscale": 100.0}
    posterior = fit(type(SCHEMES[name])(**settings), X, y, classes=3)
    assert np.isfinite(nll(posterior, X, y))


def test_vectors_in_single_precision_change_little():
    X, y = clusters(n=120)
    size = 8.1e-6 * 120 * 36
    wide, narrow = (
        fit(EPMGPC(mode="stochastic", batch_size=20, max_iterations=60, stored_mb=mb), X, y, classes=3)
        for mb in (size, 0.6 * size)
    )
    assert (wide.facts["stored_vectors"], narrow.facts["stored_vectors"]) == ("float64", "float32")
    assert narrow.predict(X).probabilities == pytest.approx(wide.predict(X).probabilities, abs=1e-3)


def test_vectors_that_do_not_fit():
    assert stored_type(1000, 100, 0.8) is np.float64
    assert stored_type(1000, 100, 0.79) is np.float32
    assert stored_type(1000, 100, 0.39) is None
    X, y = clusters()
    with pytest.raises(UsageError, match=r"stores 36 numbers for each row.*use sep-mgpc"):
        fit(EPMGPC(mode="stochastic", stored_mb=0.001), X, y, classes=3)
    options = {"mode": "stochastic", "batch_size": 30, "max_iterations": 5}
    tied = fit(EPMGPC(**options, stored_mb=0.001, beyond="tied"), X, y, classes=3)
    assert tied.facts["stored_vectors"] == "tied"
    same = fit(SEPMGPC(**options), X, y, classes=3)
    assert (tied.predict(X).probabilities == same.predict(X).probabilities).all()


def test_a_move_that_cannot_be_factorised_is_halved(monkeypatch):
    X, y = clusters()
    real, calls = MovingSites.move, []

    def failing(self, *args, **options):
        calls.append(1)
        if len(calls) in {3, 4}:
            raise NumericalError("K_mm is not positive definite")
        real(self, *args, **options)

    monkeypatch.setattr(MovingSites, "move", failing)
    assert fit(SCHEMES["sep, mini-batches"], X, y, classes=3).facts["retries"] == 2

    def broken(self, *args, **options):
        raise NumericalError("K_mm is not positive definite")

    monkeypatch.setattr(MovingSites, "move", broken)
    with pytest.raises(NumericalError, match="sep-mgpc, iteration 0: K_mm"):
        fit(SCHEMES["sep, mini-batches"], X, y, classes=3)


def test_held_out_rows_are_not_trained_on_and_end_training():
    X, y = clusters(n=200, C=2)
    settings = {"mode": "stochastic", "stop": "held-out", "batch_size": 20, "validation": 20, "tolerance": 0.5}
    posterior = fit(SEPMGPC(**settings, max_iterations=3000), X, y, classes=2)
    assert posterior.facts["stopped_by"] == "converged"
    assert posterior.facts["iterations"] < 3000


def test_epgpc_is_binary_scalable_ep_on_mini_batches():
    X, y = clusters(C=2, n=300)
    found = method("epgpc")
    scheme = found.build(found.resolve({"max_iterations": 300}))
    posterior = fit(scheme, X, y, classes=2)
    assert posterior.facts["stored_vectors"] == "float64"
    assert (RANDOM.choose(X) == posterior.latents[0].Z).all()
    assert nll(posterior, *clusters(C=2, n=300, seed=1)) < 0.1


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
    batch, stochastic = (Damping.of(None, batch=batch, decay=0.99) for batch in (True, False))
    for each in (batch, stochastic):
        each.next(None)
    assert batch.value == pytest.approx(0.495)
    assert stochastic.value == 1.0
    assert Damping.of(0.3, batch=True, decay=1.0).value == 0.3


def test_evidence_that_no_longer_rises_ends_training():
    rising = Rising(0.1)
    assert all(rising.go_on(-100.0 + i) for i in range(50))  # medians -88 and -63
    assert [rising.go_on(-51.0) for _ in range(60)].index(False) == 31  # the median before has come to -56
    falling = Rising(0.1)
    values = [-1.0, *np.linspace(-5000.0, -100.0, 49)]  # far above at first, when sites match nothing
    assert all(falling.go_on(value) for value in values)
    never = Rising(0.0)
    assert all(never.go_on(-1.0) for _ in range(100))
    X, y = clusters()
    posterior = fit(SEPMGPC(rise=0.5), X, y, classes=3)
    assert posterior.facts["stopped_by"] == "converged"
    assert posterior.facts["iterations"] < 250


def test_memory_does_not_grow_with_the_rows():
    """Of the same mini-batches from ten times as many rows; the labels themselves are the data's."""
    peaks = []
    for n in (9_000, 90_000):
        X, y = clusters(n=n)
        scheme = SEPMGPC(mode="stochastic", batch_size=100, max_iterations=4, stop="none")
        scheme_inducing = InducingRule("given", Z=X[:60])
        tracemalloc.start()
        fit(scheme, X, y, classes=3, inducing=scheme_inducing)
        peaks.append(tracemalloc.get_traced_memory()[1] - 16 * n)  # a permutation of the rows, the labels as integers
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
