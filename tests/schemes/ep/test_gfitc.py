"""GFITC as a scheme, for two classes and for several: it climbs, hard data stay finite, limits are kept."""

import numpy as np
import pytest

from gpbench.errors import DataError, NumericalError, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.likelihoods import likelihood, likelihood_from_spec
from gpbench.optimize.fixed_point import FixedPointSearch
from gpbench.schemes.ep import evidence
from gpbench.schemes.ep.full import EP
from gpbench.schemes.ep.gfitc import GFITC, _Evidence


def rows(n=60, *, C=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    score = np.stack([np.cos(2 * X[:, 0] + 2 * c) + (c - 1) * X[:, 1] for c in range(C)], axis=1)
    return X, (score + 0.2 * rng.normal(size=(n, C))).argmax(axis=1)


@pytest.fixture
def train(fit):
    """Fits with six random inducing inputs unless another rule is named."""

    def run(scheme, X, y, *, C=2, M=6, rule="random", **options):
        return fit(scheme, X, y, classes=C, inducing=InducingRule(rule, count=M, seed=1), **options)

    return run


@pytest.mark.parametrize("C", [2, 3])
def test_the_weak_prior_joins_the_evidence_value_and_gradient(C):
    X, y = rows(C=C)
    evidence = _Evidence(GFITC(), X, y, inducing=InducingRule("random", count=6, seed=1), classes=C)
    search = FixedPointSearch(tolerance=1e-11)

    def at(x):
        values = evidence.unknowns.values(x)
        return evidence.at(
            values, sites=evidence.sites, search=search, jitters=[1e-6] * evidence._F, check=lambda: None
        )

    x = evidence.unknowns.x + 0.3
    found = at(x)
    assert found.objective < found.log_z - 0.01
    slope = evidence.unknowns.gradient(found.gradient())
    for i in (0, 1, 3):
        step = 1e-5 * np.eye(len(x))[i]
        assert slope[i] == pytest.approx((at(x + step).objective - at(x - step).objective) / 2e-5, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("C", [2, 3])
def test_learns_everything(train, C):
    X, y = rows(C=C)
    bounds = []
    scheme = GFITC(max_iterations=40, block_rows=25, prior="none")
    found = train(scheme, X, y, C=C, on_step=lambda step: bounds.append(step.bound))
    assert len(found.posterior.latents) == (1 if C == 2 else C)
    assert (np.diff(bounds) >= 0).all()
    assert bounds[-1] > bounds[0] + 2.0
    assert found.posterior.score(X, y).error.mean() < 0.25
    first = InducingRule("random", count=6, seed=1).choose(X)
    for latent in found.posterior.latents:
        assert (latent.kernel.theta != scheme.initial_kernel(np.zeros((1, 2))).theta).all()
        assert not np.isclose(latent.Z, first).all(axis=1).any()


@pytest.mark.parametrize("C", [2, 3])
def test_blocks_play_no_part(train, C):
    X, y = rows(C=C)
    whole, parts = (
        train(GFITC(max_iterations=5, block_rows=size, ep_tolerance=1e-10), X, y, C=C).bound for size in (100, 7)
    )
    assert whole == pytest.approx(parts, abs=1e-6)


def test_all_rows_as_inducing_inputs_give_full_ep(train):
    X, y = rows(30)
    options = {"hyperparameters": "fixed", "noise": 0.0, "ep_tolerance": 1e-10}
    sparse = train(GFITC(learn_inducing=False, **options), X, y, rule="all")
    full = train(EP(**options), X, y)
    new = np.random.default_rng(1).normal(size=(9, 2))
    for ours, theirs in zip(sparse.posterior.latent(new), full.posterior.latent(new), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)  # jitter counts twice where Z = X: in K_mm alone
    assert sparse.bound == pytest.approx(full.bound, abs=1e-3)


def test_classes_draw_their_own_inducing_inputs(train):
    X, y = rows(C=3)
    scheme = GFITC(hyperparameters="fixed", learn_inducing=False)
    found = train(scheme, X, y, C=3)
    Z = [latent.Z for latent in found.posterior.latents]
    assert Z[0] == pytest.approx(InducingRule("random", count=6, seed=1).choose(X))
    assert not np.array_equal(Z[0], Z[1])
    assert not np.array_equal(Z[1], Z[2])


@pytest.mark.parametrize(("learned", "moves"), [(True, False), (False, True)])
def test_what_is_held_does_not_move(train, learned, moves):
    X, y = rows()
    scheme = GFITC(hyperparameters="learned" if learned else "fixed", learn_inducing=moves, max_iterations=10)
    found = train(scheme, X, y)
    held_theta = (found.posterior.latents[0].kernel.theta == scheme.initial_kernel(np.zeros((1, 2))).theta).all()
    held_Z = np.allclose(found.posterior.latents[0].Z, InducingRule("random", count=6, seed=1).choose(X))
    assert held_theta == (not learned)
    assert held_Z == (not moves)


def test_a_class_without_rows_is_predicted_by_its_prior(train):
    X, y = rows(C=3)
    y[y == 2] = 1
    found = train(GFITC(max_iterations=15), X, y, C=3)
    probabilities = found.posterior.predict(X).probabilities
    assert probabilities.shape == (60, 3)
    assert np.isfinite(probabilities).all()
    assert probabilities[:, 2].max() < 0.5


def test_a_class_with_one_row(train):
    X, y = rows(C=3)
    y[y == 2] = 0
    y[7] = 2
    found = train(GFITC(max_iterations=15), X, y, C=3)
    assert np.isfinite(found.posterior.score(X, y).log_density).all()


@pytest.mark.parametrize("C", [2, 3])
def test_large_first_variance_and_duplicate_rows(train, C):
    X, y = rows(C=C)
    X[30:] = X[:30]
    found = train(GFITC(variance=160.0**2, max_iterations=15), X, y, C=C, M=10)
    assert np.isfinite(found.posterior.score(X, y).log_density).all()


@pytest.mark.parametrize("scale", [1e4, 1e-4])
def test_inputs_that_are_not_scaled(train, scale):
    X, y = rows()
    found = train(GFITC(max_iterations=30), X * scale + 7 * scale, y)
    assert np.isfinite(found.posterior.score(X * scale, y).log_density).all()


def test_separable_rows_without_noise(train):
    X, _ = rows()
    y = (X[:, 0] > 0).astype(int)
    found = train(GFITC(noise=0.0, max_iterations=60), X, y)
    assert found.posterior.score(X, y).error.mean() == 0.0


@pytest.mark.parametrize("C", [2, 3])
def test_undamped_updates_settle_too(train, C):
    X, y = rows(C=C)
    options = {"max_iterations": 1, "ep_tolerance": 1e-7, "variance": 400.0}
    damped, undamped = (train(GFITC(damping=share, **options), X, y, C=C) for share in (0.5, 1.0))
    assert damped.facts["unsettled"] == undamped.facts["unsettled"] == 0
    assert damped.bound == pytest.approx(undamped.bound, abs=1e-5)


def test_sites_that_never_settle_are_an_error_that_says_so(train, monkeypatch):
    X, y = rows(C=3)
    monkeypatch.setattr(evidence, "LEAST_SETTLED", 1e-9)
    scheme = GFITC(ep_iterations=1, ep_tolerance=1e-12)
    with pytest.raises(NumericalError, match=r"gfitc, start: EP did not settle: sites still change by"):
        train(scheme, X, y, C=3)


def test_few_updates_are_recorded_as_unsettled(train, monkeypatch):
    X, y = rows()
    monkeypatch.setattr(evidence, "LEAST_SETTLED", 10.0)
    found = train(GFITC(ep_iterations=1, ep_tolerance=1e-12, max_iterations=3), X, y)
    assert found.facts["unsettled"] >= 3


def test_same_seed_same_bits(train):
    X, y = rows(C=3)
    first, second = (train(GFITC(max_iterations=6), X, y, C=3).posterior.predict(X).probabilities for _ in range(2))
    assert (first == second).all()


def test_refusals(train):
    X, y = rows()
    with pytest.raises(DataError, match=r"labels must lie in 0\.\.1; got values from 0 to 2"):
        train(GFITC(), X, 2 * y)
    with pytest.raises(UsageError, match="needs the likelihood probit"):
        train(GFITC(), X, y, likelihood=likelihood("logit"))
    with pytest.raises(UsageError, match="without label noise"):
        train(GFITC(), X, y, C=3, likelihood=likelihood_from_spec({"name": "robust-max", "epsilon": 0.01}))
    with pytest.raises(UsageError, match="count"):
        GFITC().likelihood_for("count", 0)
