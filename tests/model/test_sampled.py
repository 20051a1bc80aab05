"""A posterior that predicts from draws: against the Gaussian posterior, dense formulae, and its own stored form."""

import subprocess
import sys

import numpy as np
import pytest

from gpbench.errors import DataError, NumericalError, UsageError
from gpbench.model import sampled
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Logit, Probit
from gpbench.model.posterior import Posterior, load_posterior
from gpbench.model.sampled import SampledPosterior


def rows(n=9, *, seed=7):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X, (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("link", [Probit(), Logit()], ids=["probit", "logit"])
@pytest.mark.parametrize("I", [1, 3])
def test_equal_draws_of_the_mean_are_the_gaussian_posterior(some_latent, link, I):
    latent, (X, y) = some_latent(mean=0.4), rows()
    draws = np.tile(latent.m_w, (I, 1))
    one = SampledPosterior.of_means(latent, draws, likelihood=link, classes=2)
    other = Posterior((latent,), link, classes=2)
    for got, want in zip(one.score(X, y), other.score(X, y), strict=True):
        assert got == pytest.approx(want, rel=1e-10)
    assert one.predict(X).probabilities == pytest.approx(other.predict(X).probabilities, rel=1e-10)
    assert np.array_equal(one.predict(X).point, other.predict(X).point)
    for got, want in zip(one.latent(X), other.latent(X), strict=True):
        assert got == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("link", [Probit(), Logit()], ids=["probit", "logit"])
def test_draws_are_averaged_as_probabilities(some_latent, link):
    latent, (X, y) = some_latent(), rows()
    draws = np.random.default_rng(1).normal(scale=3.0, size=(4, len(latent.m_w)))
    one = SampledPosterior.of_means(latent, draws, likelihood=link, classes=2)
    single = [SampledPosterior.of_means(latent, v[None], likelihood=link, classes=2).predict(X) for v in draws]
    want = np.mean([each.probabilities for each in single], axis=0)
    score = one.score(X, y)
    assert one.predict(X).probabilities == pytest.approx(want, rel=1e-12)
    assert score.log_density == pytest.approx(np.log(want[np.arange(len(y)), y]), rel=1e-9)
    assert np.array_equal(score.error, (want.argmax(axis=1) != y).astype(float))


def test_draws_of_values_condition_on_them():
    """Mean and variance of f(x) given f(Z), by dense formulae; white noise belongs to the values."""
    rng = np.random.default_rng(2)
    kernel = make_kernel("se-ard", 3, variance=2.0, lengthscale=1.5, noise=0.1)
    Z, (X, _) = rng.normal(size=(6, 3)), rows()
    u, mean = rng.normal(size=(5, 6)), 0.3
    posterior = SampledPosterior.of_values(kernel, Z, u, jitter=1e-6, likelihood=Logit(), classes=2, mean=mean)
    K, k = kernel.gram(Z) + 1e-6 * np.eye(6), kernel.cross(X, Z)
    mu = mean + k @ np.linalg.solve(K, (u - mean).T)
    s = kernel.diag(X) - np.einsum("nm,mn->n", k, np.linalg.solve(K, k.T))
    got_mean, got_var = posterior.latent(X)
    assert got_mean[:, 0] == pytest.approx(mu.mean(axis=1), rel=1e-9)
    assert got_var[:, 0] == pytest.approx(mu.var(axis=1) + s, rel=1e-9)


def test_row_blocks_do_not_matter(some_latent, monkeypatch):
    latent, (X, y) = some_latent(), rows(50)
    draws = np.random.default_rng(1).normal(size=(6, len(latent.m_w)))
    posterior = SampledPosterior.of_means(latent, draws, likelihood=Probit(), classes=2)
    whole = posterior.score(X, y)
    monkeypatch.setattr(sampled, "BLOCK", 40)
    for got, want in zip(posterior.score(X, y), whole, strict=True):
        assert got == pytest.approx(want, rel=1e-12)


def test_probabilities_far_in_the_tail_stay_finite(some_latent):
    latent, (X, y) = some_latent(), rows()
    draws = np.full((3, len(latent.m_w)), 1e4)
    score = SampledPosterior.of_means(latent, draws, likelihood=Probit(), classes=2).score(X, y)
    assert np.isfinite(score.log_density).all()
    assert score.log_density.min() < -1e4


def test_stored_and_loaded_in_a_new_process_it_predicts_the_same_bits(some_latent, tmp_path):
    latent, (X, y) = some_latent(), rows()
    draws = np.random.default_rng(1).normal(size=(6, len(latent.m_w)))
    posterior = SampledPosterior.of_means(latent, draws, likelihood=Logit(), classes=2)
    posterior.save(tmp_path / "p.npz")
    loaded = load_posterior(tmp_path / "p.npz")
    assert np.array_equal(loaded.score(X, y).log_density, posterior.score(X, y).log_density)
    code = f"from gpbench.model.posterior import load_posterior as l; print(l({str(tmp_path / 'p.npz')!r}).n_draws)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "6\n"


def test_what_does_not_fit_is_refused(some_latent):
    latent, (X, y) = some_latent(), rows()
    M = len(latent.m_w)
    good = np.zeros((2, M))
    with pytest.raises(UsageError, match="as many sets of draws; got 1 and 2"):
        SampledPosterior((latent,), (good, good), Probit(), 2)
    for bad in (np.zeros((2, M + 1)), np.zeros((0, M))):
        with pytest.raises(UsageError, match=f"shape \\(draws, {M}\\)"):
            SampledPosterior((latent,), (bad,), Probit(), 2)
    with pytest.raises(NumericalError, match="1 numbers"):
        SampledPosterior((latent,), (np.where(np.arange(2 * M).reshape(2, M) == 3, np.nan, 0.0),), Probit(), 2)
    posterior = SampledPosterior((latent,), (good,), Probit(), 2)
    with pytest.raises(UsageError, match="3 columns"):
        posterior.predict(X[:, :2])
    with pytest.raises(DataError, match="one target for each of 9 rows"):
        posterior.score(X, y[:4])
