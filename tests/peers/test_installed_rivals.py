"""The rivals' own scripts, where their environments are installed (GPBENCH_PEERS): Z moves or stays, what is found."""

import numpy as np
import pytest

from gpbench.bench.methods import method
from gpbench.model.inducing import InducingRule
from gpbench.peers.rivals import RIVALS, peer_facts

ABSENT = {name: each["problem"] for each in peer_facts() for name in each["methods"] if each["problem"]}
SPARSE = [each.name for each in RIVALS if "learn_inducing" in method(each.name).settings()]


def rows(n=150):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 2))
    return X, (np.sin(2 * X[:, 0]) + X[:, 1] + 0.7 * rng.normal(size=n) > 0).astype(int)


def fit(name, **settings):
    if name in ABSENT:
        pytest.skip(ABSENT[name])
    known = method(name)
    scheme = known.build(known.resolve(settings))
    X, y = rows()
    return scheme.fit(
        X,
        y,
        inducing=InducingRule("kmeans", count="12", seed=0),
        likelihood=scheme.likelihood_for("binary", 2),
        classes=2,
        rng=np.random.default_rng(0),
        on_step=lambda _: None,
    )


def test_rivals_learn_z_as_their_users_do():
    assert set(SPARSE) == {"gpflow-svgp", "gpjax-dual", "gpytorch-svgp", "gpytorch-pg"}
    assert all(method(name).settings()["learn_inducing"].default is True for name in SPARSE)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPARSE)
def test_z_moves_or_stays_as_it_is_told(name):
    moved, still = (
        fit(name, max_iterations=30, inducing=12, batch_size=50, learn_inducing=each).posterior.latents[0].Z
        for each in (True, False)
    )
    start = InducingRule("kmeans", count="12", seed=0).choose(rows()[0])
    np.testing.assert_allclose(still, start, atol=1e-12)
    assert (np.abs(moved - start) > 1e-3).mean() > 0.8
    assert np.abs(moved - start).max() < 1.0


@pytest.mark.slow
def test_gpjax_with_a_fixed_kernel_comes_to_the_sparse_bounds_optimum():
    fixed = {"hyperparameters": "fixed", "learn_inducing": False, "max_iterations": 200, "inducing": 12}
    found = fit("gpjax-dual", batch_size=150, natural_rate=0.5, **fixed).posterior
    ours = fit("klsp", link="probit", **fixed).posterior
    X, _ = rows(400)
    (mean, var), (mean_ours, var_ours) = found.latent(X), ours.latent(X)
    # GPJax's probit is clipped to [0.001, 0.999], which changes the optimum by a few thousandths
    np.testing.assert_allclose(mean, mean_ours, atol=0.05)
    np.testing.assert_allclose(var, var_ours, atol=0.05)
