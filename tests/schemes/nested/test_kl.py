"""The full variational Gaussian approximation as a scheme."""

import numpy as np
import pytest
from flat_bound import FlatBound
from scipy.optimize import minimize

from gpbench.errors import NumericalError, UsageError
from gpbench.model.kl_bound import KLBound
from gpbench.model.likelihoods import likelihood
from gpbench.model.posterior import load_posterior
from gpbench.schemes.base import StopTraining
from gpbench.schemes.nested import kl
from gpbench.schemes.nested.kl import KL, Prior, best_gaussian, full_kl_gradient


def best_at(kernel, X, y, *, link, jitter):
    return best_gaussian(Prior(kernel, X, jitter=jitter), y, likelihood(link), tolerance=1e-9, limit=300)


def bound_of(latent, X, y, *, link="probit"):
    return best_at(latent.kernel, X, y, link=link, jitter=latent.jitter).value


@pytest.mark.parametrize("optimizer", ["lbfgsb", "scg"])
@pytest.mark.parametrize("link", ["probit", "logit"])
def test_learns_and_reports_the_bound_of_its_posterior(fit, boundary, link, optimizer):
    X, y = boundary(40)
    bounds = []
    scheme = KL(link=link, optimizer=optimizer)
    found = fit(scheme, X, y, on_step=lambda step: bounds.append((step.iteration, step.bound)))
    (latent,) = found.posterior.latents
    assert [iteration for iteration, _ in bounds] == list(range(1, len(bounds) + 1))
    assert (np.diff([bound for _, bound in bounds]) >= 0).all()
    assert bounds[-1][1] == pytest.approx(bound_of(latent, X, y, link=link), abs=1e-6)
    assert bounds[-1][1] > bounds[0][1] + 0.5
    assert np.array_equal(latent.Z, X)
    assert found.posterior.score(X, y).error.mean() < 0.2
    assert found.facts["unsettled"] == 0


@pytest.mark.parametrize("optimizer", ["lbfgsb", "scg"])
@pytest.mark.parametrize("link", ["probit", "logit"])
def test_both_searches_reach_the_supremum_that_one_without_gradients_finds(fit, boundary, link, optimizer):
    X, y = boundary(40)
    scheme = KL(link=link, optimizer=optimizer, value_tolerance=0.0)  # so that the gradient alone says when it is there
    (latent,) = fit(scheme, X, y).posterior.latents
    found = best_at(latent.kernel, X, y, link=link, jitter=latent.jitter)
    gradient = np.abs(full_kl_gradient(found)).max()
    assert gradient <= scheme.gradient_tolerance + 1e-5

    # Noise only harms these rows: the supremum lies at none, and as the bound is nearly linear in the noise it is as
    # far away as the gradient in the noise's logarithm is large.
    noiseless = KL(noise=0.0).initial_kernel(X)
    supremum = minimize(
        lambda theta: -best_at(noiseless.with_theta(theta), X, y, link=link, jitter=latent.jitter).value,
        noiseless.theta,
        method="Nelder-Mead",
        options={"xatol": 1e-5, "fatol": 1e-9, "maxfev": 1000},
    )
    assert supremum.success
    assert -1e-6 <= -supremum.fun - found.value <= 2 * scheme.gradient_tolerance


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_no_sparse_q_does_better(fit, boundary, link):
    X, y = boundary(40)
    scheme = KL(link=link, hyperparameters="fixed", variance=20.0)
    best = fit(scheme, X, y).bound
    for M in (5, 20):
        bound = FlatBound(KLBound(scheme.initial_kernel(np.zeros((1, 2))), likelihood(link)), X[:M])
        assert bound.at(bound.x, X, y, basis=bound.basis(bound.x)).value < best


def test_with_fixed_hyperparameters_one_evaluation_is_all(fit, boundary):
    X, y = boundary(40)
    steps = []
    found = fit(KL(hyperparameters="fixed"), X, y, on_step=steps.append)
    (latent,) = found.posterior.latents
    assert len(steps) == 1
    assert found.stopped_by == "converged"
    assert np.array_equal(latent.kernel.theta, KL().initial_kernel(np.zeros((1, 2))).theta)


def test_the_latent_marginals_at_the_rows_are_those_of_q(fit, boundary):
    X, y = boundary(40)
    found = fit(KL(hyperparameters="fixed", noise=0.0), X, y)
    (latent,) = found.posterior.latents
    prior = Prior(latent.kernel, X, jitter=latent.jitter)
    best = best_gaussian(prior, y, likelihood("probit"), tolerance=1e-9, limit=300)
    mean, var = found.posterior.latent(X)  # at new rows in these places: they differ by the jitter alone
    assert mean[:, 0] == pytest.approx(prior.K @ best.alpha, abs=1e-5)
    assert var[:, 0] == pytest.approx(best.cov.s, abs=1e-5)


def test_a_stop_and_the_budget_return_the_best_state_so_far(fit, boundary):
    X, y = boundary(40)
    last = []

    def stop(step):
        last.append(step)
        if step.iteration == 4:
            raise StopTraining

    found = fit(KL(), X, y, on_step=stop)
    assert (found.iterations, found.stopped_by) == (4, "on_step")
    assert bound_of(found.posterior.latents[0], X, y) == pytest.approx(last[-1].bound, abs=1e-7)
    cut = fit(KL(max_iterations=3), X, y)
    assert (cut.iterations, cut.stopped_by) == (3, "iterations")


def test_it_is_saved_and_loaded(fit, boundary, tmp_path):
    X, y = boundary(40)
    found = fit(KL(max_iterations=3), X, y)
    found.posterior.save(tmp_path / "p.npz")
    assert np.array_equal(
        load_posterior(tmp_path / "p.npz").score(X, y).log_density, found.posterior.score(X, y).log_density
    )


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
def test_hard_problems_stay_finite(fit, boundary, case, link):
    options, change = HARD[case]
    X, y = boundary(40)
    bounds = []
    scheme = KL(max_iterations=25, link=link, **options)
    found = fit(scheme, change(X), y, on_step=lambda step: bounds.append(step.bound))
    assert np.isfinite(bounds).all()
    score = found.posterior.score(change(X), y)
    assert np.isfinite(score.log_density).all()
    assert -score.log_density.mean() < 0.75  # not worse than a coin


def test_one_class_alone_and_one_row(fit, boundary):
    X, _ = boundary(40)
    y = np.ones(40, dtype=int)
    assert fit(KL(max_iterations=20), X, y).posterior.score(X, y).error.sum() == 0
    assert np.isfinite(fit(KL(max_iterations=20), X[:1], y[:1]).posterior.score(X, y).log_density).all()


def test_too_many_rows_are_refused_before_memory_is_taken(fit, boundary):
    class Many:
        shape = (2001, 3)

        def __len__(self):
            return 2001

        def __getitem__(self, rows):
            raise AssertionError

    with pytest.raises(UsageError, match=r"kl needs .* at most max_rows = 2000 rows; got 2001; .* set max_rows=2001"):
        fit(KL(), Many(), np.zeros(2001, dtype=int))
    X, y = boundary(40)
    with pytest.raises(UsageError, match="at most max_rows = 39 rows; got 40"):
        fit(KL(max_rows=39), X, y)


def test_other_tasks_are_refused():
    with pytest.raises(UsageError, match="binary"):
        KL().likelihood_for("multiclass", 3)


def test_a_failure_names_the_method_and_where_it_was(fit, boundary, monkeypatch):
    def broken(*_, **__):
        raise NumericalError("no factor")

    monkeypatch.setattr(kl, "best_gaussian", broken)
    with pytest.raises(NumericalError, match="kl, start: no factor"):
        fit(KL(), *boundary(40))
