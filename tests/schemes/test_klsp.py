"""The batch KLSp scheme: it climbs, keeps its best state, and survives hard problems."""

import numpy as np
import pytest

from gpbench.errors import NumericalError, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.kl_bound import KLBound
from gpbench.model.likelihoods import likelihood
from gpbench.schemes.base import StopTraining
from gpbench.schemes.klsp import KLSp


def two_moons(n=60, *, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (np.sin(2 * X[:, 0]) + X[:, -1] + 0.5 * rng.normal(size=n) > 0).astype(int)


def ignore(step):
    pass


def fit(scheme, X, y, *, M=6, rule=None, on_step=ignore):
    return scheme.fit(
        X,
        y,
        inducing=rule or InducingRule("kmeans", count=M, seed=1),
        likelihood=scheme.likelihood("binary", 2),
        classes=2,
        rng=np.random.default_rng(0),
        on_step=on_step,
    )


def bound_of(posterior, X, y, *, link):
    """The bound at a posterior, worked out anew."""
    (latent,) = posterior.latents
    bound = KLBound(latent.kernel, likelihood(link), whitened=True, M=len(latent.Z), d=X.shape[1])
    x = bound.start(latent.Z)
    parts = bound.layout.split(x)
    parts.m[:], parts.L[:] = latent.m_w, latent.root
    return bound.at(x, X, y, basis=bound.basis(x, jitter=latent.jitter)).value


@pytest.mark.parametrize("whiten", [True, False])
@pytest.mark.parametrize("link", ["probit", "logit"])
def test_learns_and_reports_the_bound_of_its_posterior(link, whiten):
    X, y = two_moons()
    bounds = []
    scheme = KLSp(link=link, whiten=whiten, max_iterations=120, block_rows=25)
    posterior = fit(scheme, X, y, on_step=lambda step: bounds.append((step.iteration, step.bound)))
    assert [iteration for iteration, _ in bounds] == list(range(1, len(bounds) + 1))
    assert bounds[-1][1] == pytest.approx(bound_of(posterior, X, y, link=link), abs=1e-6)
    assert bounds[-1][1] > bounds[0][1] + 5
    assert posterior.score(X, y).error.mean() < 0.2
    assert posterior.facts["iterations"] == len(bounds) <= 120


def test_scaled_conjugate_gradients_reach_the_same_bound():
    X, y = two_moons()
    found = {}
    for optimizer in ("lbfgsb", "scg"):
        bounds = []
        scheme = KLSp(optimizer=optimizer, max_iterations=3000, learn_inducing=False, value_tolerance=1e-8)
        fit(scheme, X, y, on_step=lambda step, bounds=bounds: bounds.append(step.bound))
        found[optimizer] = bounds
    assert found["scg"][-1] == pytest.approx(found["lbfgsb"][-1], abs=0.1)
    assert len(found["scg"]) < 3000


def test_the_first_stage_freezes_all_but_q():
    X, y = two_moons()
    kernels, inputs = [], []

    def look(step):
        (latent,) = step.posterior().latents
        kernels.append(latent.kernel.theta)
        inputs.append(latent.Z)

    fit(KLSp(freeze_iterations=5, max_iterations=40), X, y, on_step=look)
    assert (kernels[5] == kernels[0]).all()
    assert (inputs[5] == inputs[0]).all()
    assert (kernels[-1] != kernels[0]).all()
    assert (inputs[-1] != inputs[0]).all()


@pytest.mark.parametrize(
    ("options", "moved"),
    [({"hyperparameters": "fixed"}, (False, True)), ({"learn_inducing": False}, (True, False))],
)
def test_what_is_to_stay_stays(options, moved):
    X, y = two_moons()
    scheme = KLSp(max_iterations=60, freeze_iterations=3, **options)
    rule = InducingRule("kmeans", count=6, seed=1)
    (latent,) = fit(scheme, X, y, rule=rule).latents
    assert (latent.kernel.theta != scheme.initial_kernel(np.zeros((1, 2))).theta).any() == moved[0]
    assert (rule.choose(X) != latent.Z).any() == moved[1]


def test_whitened_and_unwhitened_reach_the_same_maximum_over_q():
    X, y = two_moons()
    posteriors = [
        fit(KLSp(whiten=whiten, hyperparameters="fixed", learn_inducing=False, value_tolerance=1e-13), X, y)
        for whiten in (True, False)
    ]
    assert [posterior.facts["stopped_by"] for posterior in posteriors] == ["converged"] * 2
    values = [bound_of(posterior, X, y, link="probit") for posterior in posteriors]
    assert values[0] == pytest.approx(values[1], abs=1e-5)
    assert posteriors[0].latents[0].m_w == pytest.approx(posteriors[1].latents[0].m_w, abs=1e-3)


def test_a_stop_returns_the_best_state_so_far():
    X, y = two_moons()
    last = []

    def stop(step):
        last.append(step)
        if step.iteration == 17:
            raise StopTraining

    posterior = fit(KLSp(freeze_iterations=4), X, y, on_step=stop)
    assert posterior.facts["iterations"] == len(last) == 17
    assert posterior.facts["stopped_by"] == "on_step"
    assert bound_of(posterior, X, y, link="probit") == pytest.approx(last[-1].bound, abs=1e-7)


def test_the_budget_is_a_reason_to_stop():
    X, y = two_moons()
    posterior = fit(KLSp(max_iterations=9), X, y)
    assert posterior.facts["iterations"] == 9
    assert posterior.facts["stopped_by"] == "iterations"


def test_the_same_seed_gives_the_same_bits():
    X, y = two_moons()
    a, b = (fit(KLSp(max_iterations=40), X, y).latents[0] for _ in range(2))
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
def test_hard_problems_stay_finite(case, link):
    options, change = HARD[case]
    X, y = two_moons()
    bounds = []
    scheme = KLSp(max_iterations=80, freeze_iterations=20, link=link, **options)
    posterior = fit(scheme, change(X), y, M=12, on_step=lambda step: bounds.append(step.bound))
    assert np.isfinite(bounds).all()
    score = posterior.score(change(X), y)
    assert np.isfinite(score.log_density).all()
    assert -score.log_density.mean() < 0.75  # not worse than a coin


@pytest.mark.parametrize("rule", ["all", "random"])
def test_duplicated_inducing_inputs_and_three_rows(rule):
    X, y = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0]]), np.array([0, 1, 1])
    posterior = fit(KLSp(max_iterations=50), X, y, rule=InducingRule(rule, count=3))
    assert np.isfinite(posterior.score(X, y).log_density).all()


def test_one_class_alone():
    X, _ = two_moons()
    posterior = fit(KLSp(max_iterations=60), X, np.ones(60, dtype=int))
    assert posterior.score(X, np.ones(60, dtype=int)).error.sum() == 0


def test_rows_are_read_in_blocks():
    X, y = two_moons()
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
    fit(scheme, Rows(), y, rule=InducingRule("random", count=6))
    assert max(longest) == 16


def test_other_tasks_and_likelihoods_are_refused():
    with pytest.raises(UsageError, match="binary"):
        KLSp().likelihood("multiclass", 3)
    X, y = two_moons()
    with pytest.raises(UsageError, match="fewer rows"):
        fit(KLSp(), X, y, M=61)


def test_a_failure_names_the_method_and_the_evaluation(monkeypatch):
    def broken(*_, **__):
        raise NumericalError("no factor")

    X, y = two_moons()
    monkeypatch.setattr(KLBound, "at", broken)
    with pytest.raises(NumericalError, match="klsp, evaluation 0: no factor"):
        fit(KLSp(), X, y)
