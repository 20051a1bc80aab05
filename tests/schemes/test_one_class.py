"""Training rows of one class alone, and of two of three classes: every method fits them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from gpbench.bench.methods import method, methods
from gpbench.model.inducing import InducingRule
from gpbench.optimize.maximise import LOG_BOUND
from gpbench.schemes.base import Fit
from gpbench.schemes.ep.full import EP
from gpbench.schemes.ep.gfitc import GFITC
from gpbench.schemes.scalable_ep.mgpc import EPMGPC, SEPMGPC

OURS = [name for name in methods() if not str(method(name).scheme).startswith("gpbench.peers")]
QUICK = {"max_iterations": 60, "samples": 100, "burn_in": 30}
TASKS = {2: "binary", 3: "multiclass"}
MINI_BATCHES = {"mode": "stochastic", "batch_size": 15, "max_iterations": 300, "prior": "none"}
EP_SCHEMES = {  # the evidence alone
    "gfitc": GFITC(prior="none"),
    "ep-mgpc": EPMGPC(prior="none"),
    "ep-mgpc, outer": EPMGPC(training="outer", prior="none"),
    "ep-mgpc, mini-batches": EPMGPC(**MINI_BATCHES),
    "sep-mgpc": SEPMGPC(prior="none"),
    "sep-mgpc, mini-batches": SEPMGPC(**MINI_BATCHES),
}


def inputs(n=40):
    return np.random.default_rng(0).normal(size=(n, 2))


def train(scheme, X, y, classes):
    found = scheme.fit(
        X,
        y,
        inducing=InducingRule("random", count=8, seed=1),
        likelihood=scheme.likelihood_for(TASKS[classes], classes),
        classes=classes,
        rng=np.random.default_rng(0),
        on_step=lambda _: None,
    )
    if isinstance(found, Fit):
        return found
    facts = found.facts
    return Fit(posterior=found, stopped_by=facts.get("stopped_by", "unknown"), bound=facts.get("bound"), facts=facts)


def check_parameters(posterior):
    for latent in posterior.latents:
        assert (np.abs(latent.kernel.theta) <= LOG_BOUND).all()
        assert np.isfinite(latent.Z).all()


@pytest.mark.parametrize(
    ("name", "classes"),
    [(name, classes) for name in OURS for classes, task in TASKS.items() if task in method(name).tasks],
)
def test_every_method_fits_one_class(name, classes):
    one, X = method(name), inputs()
    scheme = one.build(one.resolve({key: value for key, value in QUICK.items() if key in one.settings()}))
    for label in (0, classes - 1):
        probabilities = train(scheme, X, np.full(len(X), label), classes).posterior.predict(X).probabilities
        assert probabilities.sum(axis=1) == pytest.approx(np.ones(len(X)), abs=1e-3)
        assert (probabilities.argmax(axis=1) == label).all()
        assert probabilities[:, label].mean() > 1.0 / classes + 0.2


@pytest.mark.parametrize("classes", TASKS)
@pytest.mark.parametrize("name", EP_SCHEMES)
def test_the_evidence_of_one_class_has_an_end(name, classes):
    """It is at most that of the first label, log 1/C, whatever the kernel."""
    X = inputs()
    found = train(EP_SCHEMES[name], X, np.full(len(X), classes - 1), classes)
    assert found.stopped_by == ("iterations" if "mini" in name else "converged")
    assert found.posterior.predict(X).probabilities[:, -1].min() > 0.9
    check_parameters(found.posterior)
    assert (found.bound is None) == (name.startswith("sep") or "mini" in name)
    if found.bound is not None:
        assert -math.log(classes) - 1.0 < found.bound <= -math.log(classes)


@pytest.mark.parametrize("scheme", [EP(), GFITC(prior="none")], ids=lambda one: one.name)
@pytest.mark.parametrize("kernel", ["se-ard", "matern32+linear-ard"])
@pytest.mark.parametrize("noise", [0.05, 0.0])
def test_a_search_that_no_tolerance_ends_stays_within_its_bounds(scheme, kernel, noise):
    X = inputs()
    limits = {"value_tolerance": 0.0, "gradient_tolerance": 0.0, "max_iterations": 100}
    endless = replace(scheme, kernel=kernel, noise=noise, **limits)
    found = train(endless, X, np.ones(len(X), dtype=int), 2)
    assert found.facts["unsettled"] == 0
    assert found.bound <= -math.log(2)
    assert found.posterior.predict(X).probabilities[:, 1].min() > 0.95
    check_parameters(found.posterior)


@pytest.mark.parametrize("absent", [0, 1, 2])
@pytest.mark.parametrize("name", EP_SCHEMES)
def test_two_of_three_classes(name, absent):
    X = inputs()
    present = [each for each in range(3) if each != absent]
    y = np.where(X[:, 0] > 0, *present)
    posterior = train(EP_SCHEMES[name], X, y, 3).posterior
    score = posterior.score(X, y)
    assert score.error.mean() <= 0.1
    assert score.values[:, absent].max() < 0.35
    assert score.values[:, absent].mean() < 0.1
    check_parameters(posterior)
