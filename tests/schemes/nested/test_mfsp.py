"""The sparse mean-field scheme: it climbs, keeps its best state, predicts in both ways, and survives hard problems."""

import numpy as np
import pytest
from flat_bound import FlatBound

from gpbench.errors import NumericalError, UsageError
from gpbench.model.basis import Basis
from gpbench.model.inducing import InducingRule
from gpbench.model.kl_bound import KLBound
from gpbench.model.likelihoods import likelihood
from gpbench.model.posterior import Posterior, load_posterior
from gpbench.model.sampled import SampledPosterior
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.schemes.base import StopTraining
from gpbench.schemes.nested import mfsp
from gpbench.schemes.nested.mfsp import MFSp, mean_field_rows, newton


@pytest.fixture
def train(fit):
    """Fits with six inducing inputs, or as many as a rule says."""

    def run(scheme, X, y, *, M=6, rule=None, **options):
        return fit(scheme, X, y, inducing=rule or InducingRule("kmeans", count=M, seed=1), **options)

    return run


def bound_of(latent, X, y):
    """The bound at the kernel and inducing inputs of a latent function, its inner optimum found anew."""
    rows = mean_field_rows(Basis(latent.kernel, latent.Z, jitter=latent.jitter), X, y)
    return newton(rows, tolerance=1e-9, limit=500).value


@pytest.mark.parametrize("optimizer", ["lbfgsb", "scg"])
@pytest.mark.parametrize("inner", ["newton", "sweeps"])
def test_learns_and_reports_the_bound_of_its_posterior(train, boundary, inner, optimizer):
    X, y = boundary()
    bounds = []
    scheme = MFSp(inner=inner, optimizer=optimizer, max_iterations=120, block_rows=25)
    found = train(scheme, X, y, on_step=lambda step: bounds.append((step.iteration, step.bound)))
    assert [iteration for iteration, _ in bounds] == list(range(1, len(bounds) + 1))
    assert (np.diff([bound for _, bound in bounds]) >= 0).all()
    assert bounds[-1][1] == pytest.approx(bound_of(found.posterior.latents[0], X, y), abs=1e-6)
    assert bounds[-1][1] > bounds[0][1] + 5
    assert found.posterior.score(X, y).error.mean() < 0.2
    assert found.iterations == len(bounds) <= 120
    assert found.bound == bounds[-1][1]
    assert found.facts["unsettled"] == 0


def test_the_two_searches_end_at_the_same_bound(train, boundary):
    X, y = boundary()
    common = {"learn_inducing": False, "max_iterations": 2000, "value_tolerance": 1e-10}
    found = [train(MFSp(optimizer=optimizer, **common), X, y) for optimizer in ("lbfgsb", "scg")]
    assert [each.stopped_by for each in found] == ["converged"] * 2
    assert found[0].bound == pytest.approx(found[1].bound, abs=1e-2)


@pytest.mark.parametrize(
    ("options", "moved"),
    [({"hyperparameters": "fixed"}, (False, True)), ({"learn_inducing": False}, (True, False))],
)
def test_what_is_to_stay_stays(train, boundary, options, moved):
    X, y = boundary()
    scheme = MFSp(max_iterations=20, **options)
    rule = InducingRule("kmeans", count=6, seed=1)
    (latent,) = train(scheme, X, y, rule=rule).posterior.latents
    assert (latent.kernel.theta != scheme.initial_kernel(np.zeros((1, 2))).theta).any() == moved[0]
    assert (rule.choose(X) != latent.Z).any() == moved[1]


def test_with_nothing_to_learn_one_evaluation_is_all(train, boundary):
    X, y = boundary()
    steps = []
    scheme = MFSp(hyperparameters="fixed", learn_inducing=False)
    found = train(scheme, X, y, on_step=steps.append)
    assert len(steps) == 1
    assert found.stopped_by == "converged"
    assert steps[0].bound == pytest.approx(bound_of(found.posterior.latents[0], X, y), abs=1e-8)


@pytest.mark.parametrize("variance", [1.0, 20.0, 160.0])
def test_it_lies_below_the_best_gaussian_bound(train, boundary, variance):
    X, y = boundary()
    Z = InducingRule("kmeans", count=6, seed=1).choose(X)
    scheme = MFSp(hyperparameters="fixed", learn_inducing=False, variance=variance)
    ours = train(scheme, X, y).bound
    bound = FlatBound(KLBound(scheme.initial_kernel(np.zeros((1, 2))), likelihood("probit")), Z)
    x, q = bound.x, bound.q
    basis = bound.basis(x)

    def objective(values):
        at = bound.at(np.concatenate([values, x[q.stop :]]), X, y, basis=basis, kernel_gradient=False)
        return at.value, at.gradient[q]

    assert ours <= LBFGSB().maximise(objective, x[q], max_evaluations=2000).value


def test_both_predictions_agree_and_draws_are_reproducible(train, boundary, tmp_path):
    X, y = boundary(80)
    options = {"max_iterations": 40, "draws": 4000}
    gaussian = train(MFSp(**options), X[:60], y[:60]).posterior
    scheme = MFSp(prediction="monte-carlo", **options)
    sampled, again, other = (train(scheme, X[:60], y[:60], seed=seed).posterior for seed in (0, 0, 1))
    assert isinstance(gaussian, Posterior)
    assert isinstance(sampled, SampledPosterior)
    scores = [posterior.score(X[60:], y[60:]).log_density for posterior in (gaussian, sampled, again, other)]
    assert scores[0].mean() == pytest.approx(scores[1].mean(), abs=0.02)
    assert (scores[1] == scores[2]).all()
    assert (scores[1] != scores[3]).any()
    sampled.save(tmp_path / "p.npz")
    assert (load_posterior(tmp_path / "p.npz").score(X[60:], y[60:]).log_density == scores[1]).all()


def test_a_look_at_the_posterior_changes_nothing(train, boundary):
    X, y = boundary()
    scheme = MFSp(prediction="monte-carlo", max_iterations=15, draws=50)
    looked = train(scheme, X, y, on_step=lambda step: step.posterior())
    assert np.array_equal(looked.posterior.draws[0], train(scheme, X, y).posterior.draws[0])


def test_a_stop_returns_the_best_state_so_far(train, boundary):
    X, y = boundary()
    last = []

    def stop(step):
        last.append(step)
        if step.iteration == 7:
            raise StopTraining

    found = train(MFSp(), X, y, on_step=stop)
    assert found.iterations == len(last) == 7
    assert found.stopped_by == "on_step"
    assert bound_of(found.posterior.latents[0], X, y) == pytest.approx(last[-1].bound, abs=1e-7)


def test_the_budget_is_a_reason_to_stop(train, boundary):
    X, y = boundary()
    cut = train(MFSp(max_iterations=5), X, y)
    assert (cut.iterations, cut.stopped_by) == (5, "iterations")


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
def test_hard_problems_stay_finite(train, boundary, case, optimizer):
    options, change = HARD[case]
    X, y = boundary()
    bounds = []
    scheme = MFSp(max_iterations=60, optimizer=optimizer, **options)
    found = train(scheme, change(X), y, M=12, on_step=lambda step: bounds.append(step.bound))
    assert np.isfinite(bounds).all()
    assert found.facts["unsettled"] == 0
    score = found.posterior.score(change(X), y)
    assert np.isfinite(score.log_density).all()
    assert -score.log_density.mean() < 0.75  # not worse than a coin


@pytest.mark.parametrize("rule", ["all", "random"])
def test_duplicated_inducing_inputs_and_three_rows(train, rule):
    X, y = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0]]), np.array([0, 1, 1])
    found = train(MFSp(max_iterations=50), X, y, rule=InducingRule(rule, count=3))
    assert np.isfinite(found.posterior.score(X, y).log_density).all()


def test_one_class_alone(train, boundary):
    X, _ = boundary()
    y = np.ones(60, dtype=int)
    assert train(MFSp(max_iterations=60), X, y).posterior.score(X, y).error.sum() == 0


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

    train(MFSp(max_iterations=5, block_rows=16), Rows(), y, rule=InducingRule("random", count=6))
    assert max(longest) == 16


def test_other_tasks_and_links_are_refused(boundary):
    with pytest.raises(UsageError, match="binary"):
        MFSp().likelihood_for("multiclass", 3)
    X, y = boundary()
    scheme = MFSp()
    with pytest.raises(UsageError, match="needs the likelihood probit; got logit"):
        scheme.fit(
            X,
            y,
            inducing=InducingRule("kmeans", count=5),
            likelihood=likelihood("logit"),
            classes=2,
            rng=np.random.default_rng(0),
            on_step=lambda _: None,
        )


def test_a_failure_names_the_method_and_where_it_was(train, boundary, monkeypatch):
    def broken(*_, **__):
        raise NumericalError("no factor")

    monkeypatch.setattr(mfsp, "newton", broken)
    with pytest.raises(NumericalError, match="mfsp, start: no factor"):
        train(MFSp(), *boundary())
