"""The Gibbs sampler: the laws it draws from, exact moments on four points, and what its posterior says of itself."""

import json

import numpy as np
import pytest
from scipy.special import ndtr

from gpbench.errors import UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.likelihoods import Logit
from gpbench.model.posterior import load_posterior
from gpbench.schemes.base import StopTraining
from gpbench.schemes.gibbs import Chain, Gibbs, autocorrelation_times, polya_gamma, standard_errors

NONE = InducingRule("none")


def two_moons(n=60, *, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (np.sin(2 * X[:, 0]) + X[:, -1] + 0.5 * rng.normal(size=n) > 0).astype(int)


def ignore(step):
    pass


def fit(scheme, X, y, *, on_step=ignore, seed=0):
    return scheme.fit(
        X,
        y,
        inducing=NONE,
        likelihood=scheme.likelihood_for("binary", 2),
        classes=2,
        rng=np.random.default_rng(seed),
        on_step=on_step,
    )


@pytest.mark.parametrize("c", [0.0, 1e-6, 0.5, 3.1, 3.2, -12.0, 40.0, 59.9, 60.1, 400.0, 1e5])
def test_polya_gamma_draws(c):
    S, rng = 100_000, np.random.default_rng(1)
    omega = polya_gamma(np.full(S, c), rng=rng)
    c = abs(c)
    mean = 0.25 if c < 1e-3 else np.tanh(c / 2) / (2 * c)
    if c < 1e-3:
        variance = 1 / 24
    elif c < 50:
        variance = (np.sinh(c) - c) / (4 * c**3 * np.cosh(c / 2) ** 2)
    else:  # the same without overflow
        variance = 1 / (2 * c**3)
    assert (omega > 0).all()
    assert abs(omega.mean() - mean) < 4 * np.sqrt(variance / S)
    assert omega.var() == pytest.approx(variance, rel=0.1)
    tau = 1.0 / mean  # E exp(-ωτ) = cosh(c/2) / cosh(√((c²/2 + τ)/2))
    a, b = c / 2, np.sqrt((c * c / 2 + tau) / 2)
    expected = np.exp(a - b) * (1 + np.exp(-2 * a)) / (1 + np.exp(-2 * b))
    values = np.exp(-omega * tau)
    assert abs(values.mean() - expected) < 4 * values.std() / np.sqrt(S)


def test_exact_moments_on_four_points(read_oracle):
    inputs, expected = read_oracle("gibbs_posterior_moments")
    kernel, _ = inputs["kernel"]
    theta = np.exp(kernel.theta)
    # length scales one by one are no setting: stretch the inputs instead
    X, X_test = inputs["X"] / theta[1:], inputs["X_test"] / theta[1:]
    S = 20_000
    scheme = Gibbs(kernel="se", variance=float(theta[0]), lengthscale=1.0, noise=0.0, burn_in=200, samples=S)
    found = fit(scheme, X, (inputs["y"] > 0).astype(int))
    f = found.posterior.draws[0] @ found.posterior.latents[0].factor().T
    error = 5 * np.sqrt(expected["gibbs_integrated_autocorrelation_time_mean"] * np.diag(expected["f_cov"]) / S) + 1e-3
    assert (np.abs(f.mean(axis=0) - expected["f_mean"]) < error).all()
    assert np.diag(np.cov(f.T)) == pytest.approx(np.diag(expected["f_cov"]), rel=0.05)
    assert np.cov(f.T) == pytest.approx(expected["f_cov"], abs=0.1)
    mean, var = found.posterior.latent(X_test)
    assert mean[:, 0] == pytest.approx(expected["test_latent_mean"], abs=0.06)
    assert var[:, 0] == pytest.approx(expected["test_latent_var"], rel=0.05)
    assert found.posterior.predict(X_test).probabilities[:, 1] == pytest.approx(expected["test_prob"], abs=0.01)
    assert 0.6 * S < found.facts["ess_least"] <= found.facts["ess_median"] < 1.6 * S
    assert np.abs(f.mean(axis=0) - expected["f_mean"]).max() < 5 * found.facts["mcse_latent"]


def test_probit_moments_are_those_of_quadrature():
    X, y = np.array([[0.0], [0.8], [1.9]]), np.array([1, 0, 1])
    scheme = Gibbs(kernel="se", variance=4.0, lengthscale=1.0, noise=0.0, link="probit", burn_in=200, samples=30_000)
    found = fit(scheme, X, y)
    assert found.posterior.likelihood.name == "probit"
    L = found.posterior.latents[0].factor()
    f = found.posterior.draws[0] @ L.T
    grid = np.linspace(-7.0, 7.0, 101)
    v = np.stack(np.meshgrid(grid, grid, grid, indexing="ij")).reshape(3, -1)
    u = L @ v
    w = np.prod(ndtr((2 * y - 1)[:, None] * u), axis=0) * np.exp(-0.5 * (v * v).sum(0))
    mean = u @ w / w.sum()
    sd = np.sqrt((u * u) @ w / w.sum() - mean**2)
    error = standard_errors(f, autocorrelation_times(f))
    assert (error < 0.03 * sd).all()
    assert (np.abs(f.mean(axis=0) - mean) < 4.5 * error).all()
    assert f.std(axis=0) == pytest.approx(sd, rel=0.03)


def test_a_chain_goes_on_from_where_it_is_told():
    X, y = two_moons()
    chain = Chain(Gibbs(samples=1), X, y, likelihood=Logit(), rng=np.random.default_rng(0))
    chain.go_on_from(np.full(60, 50.0))
    first = chain.draws(1)
    assert first.shape == (1, 60)
    assert (np.abs(chain.draws(40, thinning=2)[-1]) < 20).all()


def test_the_same_seed_gives_the_same_draws_and_another_one_others():
    X, y = two_moons()
    scheme = Gibbs(burn_in=5, samples=20)
    first, second, other = (fit(scheme, X, y, seed=seed) for seed in (0, 0, 1))
    assert (first.posterior.draws[0] == second.posterior.draws[0]).all()
    assert not np.isclose(first.posterior.draws[0], other.posterior.draws[0]).any()


def test_burn_in_and_thinning_choose_draws_of_one_chain():
    X, y = two_moons()
    every = fit(Gibbs(burn_in=0, samples=40), X, y)
    some = fit(Gibbs(burn_in=10, samples=10, thinning=3), X, y)
    assert (some.posterior.draws[0] == every.posterior.draws[0][12::3]).all()
    facts = {name: some.facts[name] for name in ("burn_in", "thinning", "samples")}
    assert facts == {"burn_in": 10, "thinning": 3, "samples": 10}
    assert (some.iterations, some.stopped_by) == (40, "iterations")


@pytest.mark.parametrize(("last", "kept"), [(3, 0), (12, 7)])
def test_a_stopped_chain_has_the_draws_so_far(last, kept):
    X, y = two_moons()
    seen = []

    def stop(step):
        seen.append(step.posterior().n_draws)
        if step.iteration == last:
            raise StopTraining

    found = fit(Gibbs(burn_in=5, samples=100), X, y, on_step=stop)
    assert seen == [max(1, t - 5) for t in range(1, last + 1)]
    assert (found.facts["samples"], found.facts["burn_in"]) == (kept, min(last, 5))
    assert found.stopped_by == "on_step"
    assert ("ess_least" in found.facts) == (kept > 3)


def test_learns_and_is_saved_and_loaded(tmp_path):
    X, y = two_moons(80)
    found = fit(Gibbs(burn_in=20, samples=50), X, y)
    assert found.posterior.score(X, y).error.mean() < 0.2
    found.posterior.save(tmp_path / "q.npz")
    loaded = load_posterior(tmp_path / "q.npz")
    assert (loaded.predict(X).probabilities == found.posterior.predict(X).probabilities).all()
    json.dumps(dict(found.facts), allow_nan=False)


@pytest.mark.parametrize("settings", [{"variance": 1e6}, {"noise": 0.0}, {"noise": 0.0, "lengthscale": 1e3}])
def test_hard_problems_stay_finite(settings):
    X, y = two_moons(30)
    X = np.concatenate([X, X[:10]])  # duplicates, with both labels
    y = np.concatenate([y, 1 - y[:10]])
    found = fit(Gibbs(burn_in=20, samples=30, **settings), X, y)
    score = found.posterior.score(X, y)
    assert np.isfinite(score.log_density).all()


def test_one_class_only():
    X, _ = two_moons(20)
    found = fit(Gibbs(burn_in=10, samples=20), X, np.ones(20, dtype=int))
    assert (found.posterior.predict(X).point == 1).all()


def test_refusals():
    X, y = two_moons(30)
    with pytest.raises(UsageError, match="at most max_rows = 29 rows; got 30"):
        fit(Gibbs(max_rows=29), X, y)
    with pytest.raises(UsageError, match="binary"):
        Gibbs().likelihood_for("multiclass", 3)
    assert Gibbs().max_rows == 2000
