"""Each setting of each scheme for any likelihood is read: some value of it changes what training gives."""

import numpy as np
import pytest

from gpbench.errors import UsageError
from gpbench.schemes.base import settings_of
from gpbench.schemes.general.gvi_dual import GVIDual, SoDDual
from gpbench.schemes.general.gvi_fixed_point import GVIFixedPoint, SoDFixedPoint
from gpbench.schemes.general.gvi_gradient import GVIGradient, SoDGradient
from gpbench.schemes.general.gvi_sgd import GVISGD
from gpbench.schemes.general.sod_laplace import SoDLaplace

HELD_OUT = {"stop": "held-out", "max_iterations": 700, "tolerance": 0.02, "hyperparameters": "fixed"}

#: A value of each setting, the task on which it matters, and what else is set.
CHANGES = {
    "kernel": ("matern32-ard", "binary", {}),
    "lengthscale": (0.5, "binary", {}),
    "variance": (3.0, "binary", {}),
    "noise": (0.3, "binary", {}),
    "link": ("logit", "count", {}),
    "hyperparameters": ("fixed", "count", {}),
    "inducing": ("5", "binary", {}),
    "inducing_rule": ("random", "binary", {}),
    "kmeans_rows": (12, "binary", {}),
    "max_rows": (3, "binary", {}),
    "mean": (2.0, "count", {}),
    "edges": ("-1,0,1", "ordinal", {}),
    "slope": (2.0, "ordinal", {}),
    "learn_slope": (True, "ordinal", {"freeze_iterations": 1}),
    "nodes": (3, "binary", {}),
    "max_iterations": (2, "binary", {}),
    "gradient_tolerance": (1.0, "count", {"hyperparameters": "fixed"}),
    "value_tolerance": (1.0, "count", {"hyperparameters": "fixed"}),
    "hyper_gradient_tolerance": (10.0, "count", {"max_iterations": 400}),
    "hyper_value_tolerance": (0.5, "count", {"max_iterations": 400}),
    "memory": (1, "count", {"max_iterations": 400}),
    "newton_steps": (1, "count", {}),
    "newton_ratio": (0.9, "count", {}),
    "whiten": (False, "count", {}),
    "root_evaluations": (2, "count", {}),
    "dual_evaluations": (2, "count", {}),
    "batch_size": (7, "binary", {}),
    "optimizer": ("adadelta", "binary", {}),
    "rate": (0.1, "binary", {}),
    "freeze_iterations": (3, "binary", {}),
    "stop": ("held-out", "binary", {}),
    "tolerance": (1.0, "binary", HELD_OUT),
    "validation": (3, "binary", HELD_OUT),
}
#: Of memory alone.
MEMORY = {"block_rows": 7}
KINDS = [GVIFixedPoint, SoDFixedPoint, GVIGradient, SoDGradient, GVIDual, SoDDual, SoDLaplace, GVISGD]
ALL = [(kind, each) for kind in KINDS for each in settings_of(kind)]


@pytest.fixture
def outcome(fit, data, classes):
    """What training with some settings gives, or that it is refused; settings that a scheme has not are left out."""

    def run(kind, task, settings):
        known = {each.name for each in settings_of(kind)}
        X, y = data(task, 60)
        try:
            scheme = kind(**{name: value for name, value in settings.items() if name in known})
            found = fit(scheme, X, y, task=task, classes=classes[task])
        except UsageError as error:
            return str(error)
        return found

    return run


def bits(found):
    if isinstance(found, str):
        return found
    (latent,) = found.posterior.latents
    parts = (latent.Z, latent.m_w, latent.root, latent.kernel.theta, np.array(latent.mean))
    return found.stopped_by, found.iterations, [each.tobytes() for each in parts], repr(found.posterior.likelihood)


@pytest.mark.parametrize(("kind", "one"), ALL, ids=[f"{kind.name}-{one.name}" for kind, one in ALL])
def test_some_value_changes_what_training_gives(outcome, kind, one):
    if one.name in MEMORY:
        base = {"inducing": "10", "max_iterations": 20}
        before, after = (outcome(kind, "count", base | more) for more in ({}, {one.name: MEMORY[one.name]}))
        assert after.bound == pytest.approx(before.bound, rel=1e-10)
        assert after.posterior.latents[0].m_w == pytest.approx(before.posterior.latents[0].m_w, abs=1e-8)
        return
    if len(one.choices) == 1 and not one.optional:
        assert one.choices == (one.default,)
        return
    value, task, more = CHANGES[one.name]
    if kind is GVISGD and one.name in {"hyper_gradient_tolerance", "hyper_value_tolerance", "memory"}:
        more = {"hyperparameters": "active-laplace", "max_iterations": 60}
    if kind in {GVIDual, SoDDual} and task == "ordinal":
        pytest.fail(f"{kind.name} does no ordinal categories: it has nothing to do with {one.name}")
    assert one.check(value) != one.default
    settings = {"inducing": "10", "max_iterations": 40, **more}
    before, after = (outcome(kind, task, settings | change) for change in ({}, {one.name: value}))
    assert not isinstance(before, str)
    assert bits(before) == bits(outcome(kind, task, settings))
    assert bits(after) != bits(before)
