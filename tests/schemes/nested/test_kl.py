"""The full variational Gaussian approximation as a scheme."""

import numpy as np
import pytest

from gpbench.errors import NumericalError, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.kl_bound_old import KLBound
from gpbench.model.likelihoods import likelihood
from gpbench.model.posterior import load_posterior
from gpbench.schemes.base import StopTraining
from gpbench.schemes.nested import kl
from gpbench.schemes.nested.full_kl import Prior, best_gaussian
from gpbench.schemes.nested.kl import KL


def two_moons(n=40, *, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (np.sin(2 * X[:, 0]) + X[:, -1] + 0.5 * rng.normal(size=n) > 0).astype(int)


def ignore(step):
    pass


def fit(scheme, X, y, *, on_step=ignore):
    return scheme.fit(
        X,
        y,
        inducing=InducingRule("none"),
        likelihood=scheme.likelihood("binary", 2),
        classes=2,
        rng=np.random.default_rng(0),
        on_step=on_step,
    )


def bound_of(latent, X, y, *, link="probit"):
    prior = Prior(latent.kernel, X, jitter=latent.jitter)
    return best_gaussian(prior, y, likelihood(link), tolerance=1e-9, limit=300).value


@pytest.mark.parametrize("optimizer", ["lbfgsb", "scg"])
@pytest.mark.parametrize("link", ["probit", "logit"])
def test_learns_and_reports_the_bound_of_its_posterior(link, optimizer):
    X, y = two_moons()
    bounds = []
    scheme = KL(link=link, optimizer=optimizer)
    posterior = fit(scheme, X, y, on_step=lambda step: bounds.append((step.iteration, step.bound)))
    (latent,) = posterior.latents
    assert [iteration for iteration, _ in bounds] == list(range(1, len(bounds) + 1))
    assert (np.diff([bound for _, bound in bounds]) >= 0).all()
    assert bounds[-1][1] == pytest.approx(bound_of(latent, X, y, link=link), abs=1e-6)
    assert bounds[-1][1] > bounds[0][1] + 0.5
    assert np.array_equal(latent.Z, X)
    assert posterior.score(X, y).error.mean() < 0.2
    assert posterior.facts["stopped_by"] == "converged"
    assert posterior.facts["unsettled"] == 0


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_no_sparse_q_does_better(link):
    X, y = two_moons()
    scheme = KL(link=link, hyperparameters="fixed", variance=20.0)
    best = fit(scheme, X, y).facts["bound"]
    for M in (5, 20):
        bound = KLBound(scheme.initial_kernel(np.zeros((1, 2))), likelihood(link), whitened=True, M=M, d=2)
        x = bound.start(X[:M])
        assert bound.at(x, X, y, basis=bound.basis(x)).value < best


def test_with_fixed_hyperparameters_one_evaluation_is_all():
    X, y = two_moons()
    steps = []
    posterior = fit(KL(hyperparameters="fixed"), X, y, on_step=steps.append)
    (latent,) = posterior.latents
    assert len(steps) == 1
    assert posterior.facts["stopped_by"] == "converged"
    assert np.array_equal(latent.kernel.theta, KL().initial_kernel(np.zeros((1, 2))).theta)


def test_the_latent_marginals_at_the_rows_are_those_of_q():
    X, y = two_moons()
    posterior = fit(KL(hyperparameters="fixed", noise=0.0), X, y)
    (latent,) = posterior.latents
    prior = Prior(latent.kernel, X, jitter=latent.jitter)
    best = best_gaussian(prior, y, likelihood("probit"), tolerance=1e-9, limit=300)
    mean, var = posterior.latent(X)  # at new rows in these places: they differ by the jitter alone
    assert mean[:, 0] == pytest.approx(prior.K @ best.alpha, abs=1e-5)
    assert var[:, 0] == pytest.approx(best.cov.s, abs=1e-5)


def test_a_stop_and_the_budget_return_the_best_state_so_far():
    X, y = two_moons()
    last = []

    def stop(step):
        last.append(step)
        if step.iteration == 4:
            raise StopTraining

    posterior = fit(KL(), X, y, on_step=stop)
    assert (posterior.facts["iterations"], posterior.facts["stopped_by"]) == (4, "on_step")
    assert bound_of(posterior.latents[0], X, y) == pytest.approx(last[-1].bound, abs=1e-7)
    facts = fit(KL(max_iterations=3), X, y).facts
    assert (facts["iterations"], facts["stopped_by"]) == (3, "iterations")


def test_it_is_saved_and_loaded(tmp_path):
    X, y = two_moons()
    posterior = fit(KL(max_iterations=3), X, y)
    posterior.save(tmp_path / "p.npz")
    assert np.array_equal(load_posterior(tmp_path / "p.npz").score(X, y).log_density, posterior.score(X, y).log_density)


HARD = {
    "large variance": ({"variance": 160.0}, lambda X: X),
    "larger variance": ({"variance": 1e5, "noise": 0.0}, lambda X: X),
    "duplicates": ({"noise": 0.0}, lambda X: np.repeat(X[:10], 4, axis=0)),
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
    scheme = KL(max_iterations=25, link=link, **options)
    posterior = fit(scheme, change(X), y, on_step=lambda step: bounds.append(step.bound))
    assert np.isfinite(bounds).all()
    score = posterior.score(change(X), y)
    assert np.isfinite(score.log_density).all()
    assert -score.log_density.mean() < 0.75  # not worse than a coin


def test_one_class_alone_and_one_row():
    X, _ = two_moons()
    y = np.ones(40, dtype=int)
    assert fit(KL(max_iterations=20), X, y).score(X, y).error.sum() == 0
    assert np.isfinite(fit(KL(max_iterations=20), X[:1], y[:1]).score(X, y).log_density).all()


def test_too_many_rows_are_refused_before_memory_is_taken():
    class Many:
        shape = (2001, 3)

        def __len__(self):
            return 2001

        def __getitem__(self, rows):
            raise AssertionError

    with pytest.raises(UsageError, match=r"kl needs .* at most max_rows = 2000 rows; got 2001; .* set max_rows=2001"):
        fit(KL(), Many(), np.zeros(2001, dtype=int))
    X, y = two_moons()
    with pytest.raises(UsageError, match="at most max_rows = 39 rows; got 40"):
        fit(KL(max_rows=39), X, y)


def test_other_tasks_are_refused():
    with pytest.raises(UsageError, match="binary"):
        KL().likelihood("multiclass", 3)


def test_a_failure_names_the_method_and_where_it_was(monkeypatch):
    def broken(*_, **__):
        raise NumericalError("no factor")

    monkeypatch.setattr(kl, "best_gaussian", broken)
    with pytest.raises(NumericalError, match="kl, start: no factor"):
        fit(KL(), *two_moons())
