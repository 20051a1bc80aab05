"""svgpc: it learns, backs off where natural gradients overshoot, and repeats itself to the bit."""

import numpy as np
import pytest

from gpbench.errors import NumericalError, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.kl_bound import KLBound
from gpbench.model.likelihoods import likelihood
from gpbench.schemes import stochastic_settings
from gpbench.schemes.base import StopTraining
from gpbench.schemes.klsp import KLSp
from gpbench.schemes.svgpc import SVGPC


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


def bound_of(posterior, X, y, *, link):
    """The bound at a posterior, worked out anew."""
    (latent,) = posterior.latents
    bound = KLBound(latent.kernel, likelihood(link), whitened=True, M=len(latent.Z), d=X.shape[1])
    x = bound.start(latent.Z)
    parts = bound.layout.split(x)
    parts.m[:], parts.L[:] = latent.m_w, np.linalg.cholesky(latent.covariance())
    return bound.at(x, X, y, basis=bound.basis(x, jitter=latent.jitter)).value


@pytest.mark.parametrize("kernel", ["se", "se-ard", "matern32-ard+linear-ard"])
@pytest.mark.parametrize("link", ["probit", "logit"])
def test_learns(link, kernel):
    X, y = two_moons()
    steps = []
    scheme = SVGPC(link=link, kernel=kernel, batch_size=20, max_iterations=300)
    posterior = fit(scheme, X, y, on_step=lambda step: steps.append(step.iteration))
    assert steps == list(range(1, 301))
    assert posterior.facts["stopped_by"] == "iterations"
    assert posterior.score(X, y).error.mean() < 0.2
    (latent,) = posterior.latents
    assert (latent.kernel.theta != scheme.initial_kernel(np.zeros((1, 2))).theta).all()


@pytest.mark.parametrize("link", ["probit", "logit"])
@pytest.mark.parametrize("variance", [1.0, 160.0, 1e4])
def test_full_steps_on_all_rows_reach_the_maximum(variance, link):
    X, y = two_moons()
    options = {"variance": variance, "hyperparameters": "fixed", "link": link}
    values = []

    def look(step):
        values.append(bound_of(step.posterior(), X, y, link=link))

    fit(SVGPC(rate=1.0, warmup=0, batch_size=60, max_iterations=40, **options), X, y, on_step=look)
    assert (np.diff(values) >= -1e-8 * np.abs(values[:-1])).all()
    best = fit(KLSp(learn_inducing=False, value_tolerance=1e-14, **options), X, y)
    assert values[-1] == pytest.approx(bound_of(best, X, y, link=link), rel=1e-6)


def test_fixed_hyperparameters_and_inducing_inputs_stay():
    X, y = two_moons()
    scheme, rule = SVGPC(hyperparameters="fixed", max_iterations=20), InducingRule("random", count=6)
    (latent,) = fit(scheme, X, y, rule=rule).latents
    assert (latent.kernel.theta == scheme.initial_kernel(np.zeros((1, 2))).theta).all()
    assert (rule.choose(X) == latent.Z).all()
    assert latent.m_w.any()


def test_the_same_seed_gives_the_same_bits():
    X, y = two_moons()
    a, b, c = (fit(SVGPC(batch_size=20, max_iterations=50), X, y, seed=seed).latents[0] for seed in (0, 0, 1))
    assert (a.m_w == b.m_w).all()
    assert (a.root == b.root).all()
    assert (a.kernel.theta == b.kernel.theta).all()
    assert (a.m_w != c.m_w).all()


def test_a_stop_returns_the_state_so_far():
    X, y = two_moons()

    def stop(step):
        if step.iteration == 7:
            raise StopTraining

    posterior = fit(SVGPC(), X, y, on_step=stop)
    assert posterior.facts["iterations"] == 7
    assert posterior.facts["stopped_by"] == "on_step"


def test_the_held_out_rule_ends_training_and_spares_its_rows(monkeypatch):
    monkeypatch.setattr(stochastic_settings, "FIRST_CHECK", 10)
    X, y = two_moons(200)
    seen = set()

    class Rows:
        shape = X.shape

        def __len__(self):
            return len(X)

        def __getitem__(self, rows):
            if isinstance(rows, np.ndarray) and len(rows) == 32:  # a batch
                seen.update(rows.tolist())
            return X[rows]

    scheme = SVGPC(stop="held-out", tolerance=1.0, batch_size=32, hyperparameters="fixed", max_iterations=200)
    posterior = fit(scheme, Rows(), y)
    assert posterior.facts["stopped_by"] == "converged"
    assert 10 < posterior.facts["iterations"] < 60
    assert len(seen) <= 180


HARD = {
    "large variance": ({"variance": 160.0}, lambda X: X),
    "larger variance": ({"variance": 1e5, "noise": 0.0}, lambda X: X),
    "rate one": ({"variance": 160.0, "rate": 1.0, "warmup": 0}, lambda X: X),
    "duplicates": ({}, lambda X: np.repeat(X[:15], 4, axis=0)),
    "a line": ({"noise": 1e-6}, lambda X: np.outer(np.linspace(-1, 1, len(X)), [1.0, 2.0])),
    "unscaled": ({}, lambda X: X * [1e6, 1e-6] + [1e7, 0.0]),
    "constant column": ({}, lambda X: X * [1.0, 0.0]),
}


@pytest.mark.parametrize("link", ["probit", "logit"])
@pytest.mark.parametrize("case", HARD)
def test_hard_problems_stay_finite(case, link):
    options, change = HARD[case]
    X, y = two_moons()
    scheme = SVGPC(max_iterations=150, batch_size=10, link=link, hyper_rate=0.1, **options)
    score = fit(scheme, change(X), y, M=12).score(change(X), y)
    assert np.isfinite(score.log_density).all()
    assert -score.log_density.mean() < 1.0


def test_duplicated_inducing_inputs_and_three_rows():
    X, y = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0]]), np.array([0, 1, 1])
    posterior = fit(SVGPC(max_iterations=50), X, y, rule=InducingRule("all"))
    assert np.isfinite(posterior.score(X, y).log_density).all()


def test_other_tasks_are_refused():
    with pytest.raises(UsageError, match="binary"):
        SVGPC().likelihood("multiclass", 3)


def test_a_failure_names_the_method_and_the_iteration(monkeypatch):
    def broken(*_, **__):
        raise NumericalError("no factor")

    X, y = two_moons()
    monkeypatch.setattr("gpbench.schemes.svgpc.BatchBasis.whiten", broken)
    with pytest.raises(NumericalError, match="svgpc, iteration 0: no factor"):
        fit(SVGPC(), X, y)
