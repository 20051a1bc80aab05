"""The sparse mean-field scheme: it climbs, keeps its best state, predicts in both ways, and survives hard problems."""

import numpy as np
import pytest

from gpbench.errors import NumericalError, UsageError
from gpbench.model.basis_old import Basis
from gpbench.model.inducing import InducingRule
from gpbench.model.kl_bound_old import KLBound
from gpbench.model.likelihoods import likelihood
from gpbench.model.posterior import Posterior, load_posterior
from gpbench.model.sampled import SampledPosterior
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.schemes.base import StopTraining
from gpbench.schemes.nested import mfsp
from gpbench.schemes.nested.mean_field import mean_field_rows
from gpbench.schemes.nested.mean_field_inner import newton
from gpbench.schemes.nested.mfsp import MFSp


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


def bound_of(latent, X, y):
    """The bound at the kernel and inducing inputs of a latent function, its inner optimum found anew."""
    rows = mean_field_rows(Basis(latent.kernel, latent.Z, jitter=latent.jitter), X, y)
    return newton(rows, tolerance=1e-9, limit=500).value


@pytest.mark.parametrize("optimizer", ["lbfgsb", "scg"])
@pytest.mark.parametrize("inner", ["newton", "sweeps"])
def test_learns_and_reports_the_bound_of_its_posterior(inner, optimizer):
    X, y = two_moons()
    bounds = []
    scheme = MFSp(inner=inner, optimizer=optimizer, max_iterations=120, block_rows=25)
    posterior = fit(scheme, X, y, on_step=lambda step: bounds.append((step.iteration, step.bound)))
    assert [iteration for iteration, _ in bounds] == list(range(1, len(bounds) + 1))
    assert (np.diff([bound for _, bound in bounds]) >= 0).all()
    assert bounds[-1][1] == pytest.approx(bound_of(posterior.latents[0], X, y), abs=1e-6)
    assert bounds[-1][1] > bounds[0][1] + 5
    assert posterior.score(X, y).error.mean() < 0.2
    assert posterior.facts["iterations"] == len(bounds) <= 120
    assert posterior.facts["bound"] == bounds[-1][1]
    assert posterior.facts["unsettled"] == 0


def test_the_two_searches_end_at_the_same_bound():
    X, y = two_moons()
    common = {"learn_inducing": False, "max_iterations": 2000, "value_tolerance": 1e-10}
    found = [fit(MFSp(optimizer=optimizer, **common), X, y) for optimizer in ("lbfgsb", "scg")]
    assert [posterior.facts["stopped_by"] for posterior in found] == ["converged"] * 2
    assert found[0].facts["bound"] == pytest.approx(found[1].facts["bound"], abs=1e-2)


@pytest.mark.parametrize(
    ("options", "moved"),
    [({"hyperparameters": "fixed"}, (False, True)), ({"learn_inducing": False}, (True, False))],
)
def test_what_is_to_stay_stays(options, moved):
    X, y = two_moons()
    scheme = MFSp(max_iterations=20, **options)
    rule = InducingRule("kmeans", count=6, seed=1)
    (latent,) = fit(scheme, X, y, rule=rule).latents
    assert (latent.kernel.theta != scheme.initial_kernel(np.zeros((1, 2))).theta).any() == moved[0]
    assert (rule.choose(X) != latent.Z).any() == moved[1]


def test_with_nothing_to_learn_one_evaluation_is_all():
    X, y = two_moons()
    steps = []
    scheme = MFSp(hyperparameters="fixed", learn_inducing=False)
    posterior = fit(scheme, X, y, on_step=steps.append)
    assert len(steps) == 1
    assert posterior.facts["stopped_by"] == "converged"
    assert steps[0].bound == pytest.approx(bound_of(posterior.latents[0], X, y), abs=1e-8)


@pytest.mark.parametrize("variance", [1.0, 20.0, 160.0])
def test_it_lies_below_the_best_gaussian_bound(variance):
    X, y = two_moons()
    Z = InducingRule("kmeans", count=6, seed=1).choose(X)
    scheme = MFSp(hyperparameters="fixed", learn_inducing=False, variance=variance)
    ours = fit(scheme, X, y).facts["bound"]
    bound = KLBound(scheme.initial_kernel(np.zeros((1, 2))), likelihood("probit"), whitened=True, M=6, d=2)
    x = bound.start(Z)
    basis, q = bound.basis(x), bound.layout.q_size

    def objective(values):
        at = bound.at(np.concatenate([values, x[q:]]), X, y, basis=basis, kernel_gradient=False)
        return at.value, at.gradient[:q]

    assert ours <= LBFGSB().maximise(objective, x[:q], max_evaluations=2000).value


def test_both_predictions_agree_and_draws_are_reproducible(tmp_path):
    X, y = two_moons(80)
    options = {"max_iterations": 40, "draws": 4000}
    gaussian = fit(MFSp(**options), X[:60], y[:60])
    sampled, again, other = (
        fit(MFSp(prediction="monte-carlo", **options), X[:60], y[:60], seed=seed) for seed in (0, 0, 1)
    )
    assert isinstance(gaussian, Posterior)
    assert isinstance(sampled, SampledPosterior)
    scores = [posterior.score(X[60:], y[60:]).log_density for posterior in (gaussian, sampled, again, other)]
    assert scores[0].mean() == pytest.approx(scores[1].mean(), abs=0.02)
    assert (scores[1] == scores[2]).all()
    assert (scores[1] != scores[3]).any()
    sampled.save(tmp_path / "p.npz")
    assert (load_posterior(tmp_path / "p.npz").score(X[60:], y[60:]).log_density == scores[1]).all()


def test_a_look_at_the_posterior_changes_nothing():
    X, y = two_moons()
    scheme = MFSp(prediction="monte-carlo", max_iterations=15, draws=50)
    looked = fit(scheme, X, y, on_step=lambda step: step.posterior())
    assert np.array_equal(looked.draws[0], fit(scheme, X, y).draws[0])


def test_a_stop_returns_the_best_state_so_far():
    X, y = two_moons()
    last = []

    def stop(step):
        last.append(step)
        if step.iteration == 7:
            raise StopTraining

    posterior = fit(MFSp(), X, y, on_step=stop)
    assert posterior.facts["iterations"] == len(last) == 7
    assert posterior.facts["stopped_by"] == "on_step"
    assert bound_of(posterior.latents[0], X, y) == pytest.approx(last[-1].bound, abs=1e-7)


def test_the_budget_is_a_reason_to_stop():
    X, y = two_moons()
    facts = fit(MFSp(max_iterations=5), X, y).facts
    assert (facts["iterations"], facts["stopped_by"]) == (5, "iterations")


HARD = {
    "large variance": ({"variance": 160.0}, lambda X: X),
    "larger variance": ({"variance": 1e5, "noise": 0.0}, lambda X: X),
    "duplicates": ({}, lambda X: np.repeat(X[:15], 4, axis=0)),
    "a line": ({"noise": 1e-6}, lambda X: np.outer(np.linspace(-1, 1, len(X)), [1.0, 2.0])),
    "unscaled": ({}, lambda X: X * [1e6, 1e-6] + [1e7, 0.0]),
    "constant column": ({}, lambda X: X * [1.0, 0.0]),
    "linear": ({"kernel": "matern32-ard+linear-ard"}, lambda X: X),
}


@pytest.mark.parametrize("optimizer", ["lbfgsb", "scg"])
@pytest.mark.parametrize("case", HARD)
def test_hard_problems_stay_finite(case, optimizer):
    options, change = HARD[case]
    X, y = two_moons()
    bounds = []
    scheme = MFSp(max_iterations=60, optimizer=optimizer, **options)
    posterior = fit(scheme, change(X), y, M=12, on_step=lambda step: bounds.append(step.bound))
    assert np.isfinite(bounds).all()
    assert posterior.facts["unsettled"] == 0
    score = posterior.score(change(X), y)
    assert np.isfinite(score.log_density).all()
    assert -score.log_density.mean() < 0.75  # not worse than a coin


@pytest.mark.parametrize("rule", ["all", "random"])
def test_duplicated_inducing_inputs_and_three_rows(rule):
    X, y = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0]]), np.array([0, 1, 1])
    posterior = fit(MFSp(max_iterations=50), X, y, rule=InducingRule(rule, count=3))
    assert np.isfinite(posterior.score(X, y).log_density).all()


def test_one_class_alone():
    X, _ = two_moons()
    y = np.ones(60, dtype=int)
    assert fit(MFSp(max_iterations=60), X, y).score(X, y).error.sum() == 0


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

    fit(MFSp(max_iterations=5, block_rows=16), Rows(), y, rule=InducingRule("random", count=6))
    assert max(longest) == 16


def test_other_tasks_and_links_are_refused():
    with pytest.raises(UsageError, match="binary"):
        MFSp().likelihood("multiclass", 3)
    X, y = two_moons()
    scheme = MFSp()
    with pytest.raises(UsageError, match="needs the likelihood probit; got logit"):
        scheme.fit(
            X,
            y,
            inducing=InducingRule("kmeans", count=5),
            likelihood=likelihood("logit"),
            classes=2,
            rng=np.random.default_rng(0),
            on_step=ignore,
        )


def test_a_failure_names_the_method_and_where_it_was(monkeypatch):
    def broken(*_, **__):
        raise NumericalError("no factor")

    monkeypatch.setattr(mfsp, "newton", broken)
    with pytest.raises(NumericalError, match="mfsp, start: no factor"):
        fit(MFSp(), *two_moons())
