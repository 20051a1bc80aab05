"""The batch KLSp scheme: it climbs, keeps its best state, and survives hard problems."""

import numpy as np
import pytest

from gpbench.errors import NumericalError, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.kl_bound import KLBound
from gpbench.model.likelihoods import likelihood
from gpbench.schemes.base import StopTraining
from gpbench.schemes.klsp import KLSp


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


@pytest.mark.parametrize("whiten", [True, False])
@pytest.mark.parametrize("link", ["probit", "logit"])
def test_learns_and_reports_the_bound_of_its_posterior(train, boundary, link, whiten):
    X, y = boundary()
    bounds = []
    scheme = KLSp(link=link, whiten=whiten, max_iterations=120, block_rows=25)
    found = train(scheme, X, y, on_step=lambda step: bounds.append((step.iteration, step.bound)))
    posterior = found.posterior
    assert [iteration for iteration, _ in bounds] == list(range(1, len(bounds) + 1))
    assert bounds[-1][1] == pytest.approx(bound_of(posterior, X, y, link=link), abs=1e-6)
    assert bounds[-1][1] > bounds[0][1] + 5
    assert posterior.score(X, y).error.mean() < 0.2
    assert found.iterations == len(bounds) <= 120


def test_scaled_conjugate_gradients_reach_the_same_bound(train, boundary):
    X, y = boundary()
    found = {}
    for optimizer in ("lbfgsb", "scg"):
        bounds = []
        scheme = KLSp(optimizer=optimizer, max_iterations=3000, learn_inducing=False, value_tolerance=1e-8)
        train(scheme, X, y, on_step=lambda step, bounds=bounds: bounds.append(step.bound))
        found[optimizer] = bounds
    assert found["scg"][-1] == pytest.approx(found["lbfgsb"][-1], abs=0.1)
    assert len(found["scg"]) < 3000


def test_the_first_stage_freezes_all_but_q(train, boundary):
    X, y = boundary()
    kernels, inputs = [], []

    def look(step):
        (latent,) = step.posterior().latents
        kernels.append(latent.kernel.theta)
        inputs.append(latent.Z)

    train(KLSp(freeze_iterations=5, max_iterations=40), X, y, on_step=look)
    assert (kernels[5] == kernels[0]).all()
    assert (inputs[5] == inputs[0]).all()
    assert (kernels[-1] != kernels[0]).all()
    assert (inputs[-1] != inputs[0]).all()


@pytest.mark.parametrize(
    ("options", "moved"),
    [({"hyperparameters": "fixed"}, (False, True)), ({"learn_inducing": False}, (True, False))],
)
def test_what_is_to_stay_stays(train, boundary, options, moved):
    X, y = boundary()
    scheme = KLSp(max_iterations=60, freeze_iterations=3, **options)
    rule = InducingRule("kmeans", count=6, seed=1)
    (latent,) = train(scheme, X, y, rule=rule).posterior.latents
    assert (latent.kernel.theta != scheme.initial_kernel(np.zeros((1, 2))).theta).any() == moved[0]
    assert (rule.choose(X) != latent.Z).any() == moved[1]


def test_whitened_and_unwhitened_reach_the_same_maximum_over_q(train, boundary):
    X, y = boundary()
    found = [
        train(KLSp(whiten=whiten, hyperparameters="fixed", learn_inducing=False, value_tolerance=1e-13), X, y)
        for whiten in (True, False)
    ]
    assert [each.stopped_by for each in found] == ["converged"] * 2
    posteriors = [each.posterior for each in found]
    values = [bound_of(posterior, X, y, link="probit") for posterior in posteriors]
    assert values[0] == pytest.approx(values[1], abs=1e-5)
    assert posteriors[0].latents[0].m_w == pytest.approx(posteriors[1].latents[0].m_w, abs=1e-3)


def test_a_stop_returns_the_best_state_so_far(train, boundary):
    X, y = boundary()
    last = []

    def stop(step):
        last.append(step)
        if step.iteration == 17:
            raise StopTraining

    found = train(KLSp(freeze_iterations=4), X, y, on_step=stop)
    posterior = found.posterior
    assert found.iterations == len(last) == 17
    assert found.stopped_by == "on_step"
    assert bound_of(posterior, X, y, link="probit") == pytest.approx(last[-1].bound, abs=1e-7)


def test_the_budget_is_a_reason_to_stop(train, boundary):
    X, y = boundary()
    found = train(KLSp(max_iterations=9), X, y)
    assert found.iterations == 9
    assert found.stopped_by == "iterations"


def test_the_same_seed_gives_the_same_bits(train, boundary):
    X, y = boundary()
    a, b = (train(KLSp(max_iterations=40), X, y).posterior.latents[0] for _ in range(2))
    assert (a.m_w == b.m_w).all()
    assert (a.root == b.root).all()
    assert (a.kernel.theta == b.kernel.theta).all()


HARD = {
    "large variance": ({"variance": 160.0}, lambda X: X),
    "larger variance": ({"variance": 1e5, "noise": 0.0}, lambda X: X),
    "duplicates": ({}, lambda X: np.repeat(X[:15], 4, axis=0)),
    "a line": ({"noise": 1e-6}, lambda X: np.outer(np.linspace(-1, 1, len(X)), [1.0, 2.0])),
    "unscaled": ({}, lambda X: X * [1e6, 1e-6] + [1e7, 0.0]),
    "constant column": ({}, lambda X: X * [1.0, 0.0]),
    "linear": ({"kernel": "matern32-ard+linear-ard"}, lambda X: X),
}


@pytest.mark.parametrize("link", ["probit", "logit"])
@pytest.mark.parametrize("case", HARD)
def test_hard_problems_stay_finite(train, boundary, case, link):
    options, change = HARD[case]
    X, y = boundary()
    bounds = []
    scheme = KLSp(max_iterations=80, freeze_iterations=20, link=link, **options)
    posterior = train(scheme, change(X), y, M=12, on_step=lambda step: bounds.append(step.bound)).posterior
    assert np.isfinite(bounds).all()
    score = posterior.score(change(X), y)
    assert np.isfinite(score.log_density).all()
    assert -score.log_density.mean() < 0.75  # not worse than a coin


@pytest.mark.parametrize("rule", ["all", "random"])
def test_duplicated_inducing_inputs_and_three_rows(train, rule):
    X, y = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0]]), np.array([0, 1, 1])
    posterior = train(KLSp(max_iterations=50), X, y, rule=InducingRule(rule, count=3)).posterior
    assert np.isfinite(posterior.score(X, y).log_density).all()


def test_one_class_alone(train, boundary):
    X, _ = boundary()
    posterior = train(KLSp(max_iterations=60), X, np.ones(60, dtype=int)).posterior
    assert posterior.score(X, np.ones(60, dtype=int)).error.sum() == 0


def test_rows_are_read_in_blocks(train, boundary):
    X, y = boundary()
    longest = []

    class Rows:
        shape = X.shape

        def __len__(self):
            return len(X)

        def __getitem__(self, rows):
            part = X[rows]
            longest.append(len(part))
            return part

    scheme = KLSp(max_iterations=10, block_rows=16)
    train(scheme, Rows(), y, rule=InducingRule("random", count=6))
    assert max(longest) == 16


def test_other_tasks_and_likelihoods_are_refused(train, boundary):
    with pytest.raises(UsageError, match="binary"):
        KLSp().likelihood_for("multiclass", 3)
    X, y = boundary()
    with pytest.raises(UsageError, match="fewer rows"):
        train(KLSp(), X, y, M=61)


def test_a_failure_names_the_method_and_the_evaluation(train, boundary, monkeypatch):
    def broken(*_, **__):
        raise NumericalError("no factor")

    X, y = boundary()
    monkeypatch.setattr(KLBound, "at", broken)
    with pytest.raises(NumericalError, match="klsp, evaluation 0: no factor"):
        train(KLSp(), X, y)
