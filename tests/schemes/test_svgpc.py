"""svgpc: it learns, backs off where natural gradients overshoot, and repeats itself to the bit."""

import numpy as np
import pytest

from gpbench.errors import NumericalError, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.kl_bound import KLBound
from gpbench.model.likelihoods import likelihood
from gpbench.schemes.base import StopTraining
from gpbench.schemes.klsp import KLSp
from gpbench.schemes.svgpc import SVGPC


@pytest.fixture
def train(fit):
    """Fits with six inducing inputs, or as many as a rule says."""

    def run(scheme, X, y, *, M=6, rule=None, **options):
        return fit(scheme, X, y, inducing=rule or InducingRule("kmeans", count=M, seed=1), **options)

    return run


def bound_of(posterior, X, y, *, link):
    """The bound at a posterior, worked out anew."""
    (latent,) = posterior.latents
    bound = KLBound(latent.kernel, likelihood(link))
    root = np.asfortranarray(np.linalg.cholesky(latent.covariance()))
    at = {"m": latent.m_w, "L": root, "theta": latent.kernel.theta, "Z": latent.Z}
    return bound.at(at, X, y, basis=bound.basis(at, jitter=latent.jitter)).value


@pytest.mark.parametrize("kernel", ["se", "se-ard", "matern32-ard+linear-ard"])
@pytest.mark.parametrize("link", ["probit", "logit"])
def test_learns(train, boundary, link, kernel):
    X, y = boundary()
    steps = []
    scheme = SVGPC(link=link, kernel=kernel, batch_size=20, max_iterations=300)
    found = train(scheme, X, y, on_step=lambda step: steps.append(step.iteration))
    posterior = found.posterior
    assert steps == list(range(1, 301))
    assert found.stopped_by == "iterations"
    assert posterior.score(X, y).error.mean() < 0.2
    (latent,) = posterior.latents
    assert (latent.kernel.theta != scheme.initial_kernel(np.zeros((1, 2))).theta).all()


@pytest.mark.parametrize("link", ["probit", "logit"])
@pytest.mark.parametrize("variance", [1.0, 160.0, 1e4])
def test_full_steps_on_all_rows_reach_the_maximum(train, boundary, variance, link):
    X, y = boundary()
    options = {"variance": variance, "hyperparameters": "fixed", "link": link}
    values = []

    def look(step):
        values.append(bound_of(step.posterior(), X, y, link=link))

    train(SVGPC(rate=1.0, warmup=0, batch_size=60, max_iterations=80, **options), X, y, on_step=look)
    assert (np.diff(values) >= -1e-8 * np.abs(values[:-1])).all()
    best = train(KLSp(learn_inducing=False, value_tolerance=1e-14, **options), X, y)
    assert values[-1] == pytest.approx(bound_of(best.posterior, X, y, link=link), rel=1e-6)


def test_the_noise_of_batches_fades_under_a_falling_rate_and_stays_under_a_constant_one(train, boundary):
    X, y = boundary()
    common = {"batch_size": 6, "hyperparameters": "fixed", "link": "logit"}
    best = train(SVGPC(**common | {"batch_size": 60}, rate=1.0, warmup=0, max_iterations=60), X, y).posterior
    optimum = bound_of(best, X, y, link="logit")
    left = {
        rule: optimum
        - bound_of(train(SVGPC(**common, rate_rule=rule, max_iterations=2000), X, y).posterior, X, y, link="logit")
        for rule in ("falling", "constant")
    }
    assert 0.0 < left["falling"] < 0.1 * left["constant"]


def test_fixed_hyperparameters_and_inducing_inputs_stay(train, boundary):
    X, y = boundary()
    scheme, rule = SVGPC(hyperparameters="fixed", max_iterations=20), InducingRule("random", count=6)
    (latent,) = train(scheme, X, y, rule=rule).posterior.latents
    assert (latent.kernel.theta == scheme.initial_kernel(np.zeros((1, 2))).theta).all()
    assert (rule.choose(X) == latent.Z).all()
    assert latent.m_w.any()


def test_the_same_seed_gives_the_same_bits(train, boundary):
    X, y = boundary()
    a, b, c = (
        train(SVGPC(batch_size=20, max_iterations=50), X, y, seed=seed).posterior.latents[0] for seed in (0, 0, 1)
    )
    assert (a.m_w == b.m_w).all()
    assert (a.root == b.root).all()
    assert (a.kernel.theta == b.kernel.theta).all()
    assert (a.m_w != c.m_w).all()


def test_a_stop_returns_the_state_so_far(train, boundary):
    X, y = boundary()

    def stop(step):
        if step.iteration == 7:
            raise StopTraining

    found = train(SVGPC(), X, y, on_step=stop)
    assert found.iterations == 7
    assert found.stopped_by == "on_step"


def test_the_held_out_rule_ends_training_and_spares_its_rows(train, boundary):
    X, y = boundary(200)
    seen = set()

    class Rows:
        shape = X.shape

        def __len__(self):
            return len(X)

        def __getitem__(self, rows):
            if isinstance(rows, np.ndarray) and len(rows) == 32:  # a batch
                seen.update(rows.tolist())
            return X[rows]

    scheme = SVGPC(stop="held-out", tolerance=1.0, batch_size=32, hyperparameters="fixed", max_iterations=2000)
    found = train(scheme, Rows(), y)
    assert found.stopped_by == "converged"
    assert 500 < found.iterations < 2000
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
def test_hard_problems_stay_finite(train, boundary, case, link):
    options, change = HARD[case]
    X, y = boundary()
    scheme = SVGPC(max_iterations=150, batch_size=10, link=link, hyper_rate=0.1, **options)
    score = train(scheme, change(X), y, M=12).posterior.score(change(X), y)
    assert np.isfinite(score.log_density).all()
    assert -score.log_density.mean() < 1.0


def test_duplicated_inducing_inputs_and_three_rows(train):
    X, y = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0]]), np.array([0, 1, 1])
    posterior = train(SVGPC(max_iterations=50), X, y, rule=InducingRule("all")).posterior
    assert np.isfinite(posterior.score(X, y).log_density).all()


def test_other_tasks_are_refused():
    with pytest.raises(UsageError, match="binary"):
        SVGPC().likelihood_for("multiclass", 3)


def test_a_failure_names_the_method_and_the_iteration(train, boundary, monkeypatch):
    def broken(*_, **__):
        raise NumericalError("no factor")

    X, y = boundary()
    monkeypatch.setattr("gpbench.schemes.svgpc.Basis.whiten", broken)
    with pytest.raises(NumericalError, match="svgpc, iteration 0: no factor"):
        train(SVGPC(), X, y)
