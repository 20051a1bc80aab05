"""dirichlet-gpc against dense algebra: evidence, posterior, targets; its predictions; its choice of α_ε."""

import numpy as np
import pytest
from scipy.special import polygamma, psi, softmax
from scipy.stats import multivariate_normal

from gpbench.model.basis import Basis
from gpbench.model.inducing import InducingRule
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Softmax, likelihood_from_spec
from gpbench.schemes.dirichlet import GRID, DirichletGPC, Regressions, Targets


def rows(n=60, *, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n)
    return X, np.digitize(f, np.quantile(f, np.arange(1, classes) / classes))


def fit(X, y, *, classes=2, **settings):
    scheme = DirichletGPC(**settings)
    return scheme.fit(
        X,
        y,
        inducing=InducingRule("mixed", count=settings.get("inducing", "20")),
        likelihood=scheme.likelihood_for("binary" if classes == 2 else "multiclass", classes),
        classes=classes,
        rng=np.random.default_rng(0),
        on_step=lambda _: None,
    )


def test_targets_match_the_moments_of_a_lognormal_to_the_gamma():
    targets = Targets.of(np.array([0, 1, 1, 2]), classes=3, alpha_epsilon=0.01)
    alpha = np.array([0.01, 1.01])
    transformed = targets.targets + targets.offsets
    # mean and variance of exp N(ỹ, s²) are those of a gamma variable of shape α
    assert np.exp(transformed[:, 0] + 0.5 * targets.s2) == pytest.approx(alpha)
    assert np.exp(targets.s2) - 1.0 == pytest.approx(1.0 / alpha)
    assert transformed[:, 0] == pytest.approx(transformed[:, 2])
    # offsets differ as the logarithms of the shares do, and leave targets a mean of zero over rows and classes
    assert np.diff(targets.offsets) == pytest.approx(np.diff(np.log([1, 2, 1])))
    one_hot = np.eye(3)[[0, 1, 1, 2]].astype(int)
    assert np.mean([targets.targets[one_hot[n, k], k] for n in range(4) for k in range(3)]) == pytest.approx(0.0)


def test_the_match_is_no_digamma():
    """Moments of the gamma, not of its logarithm: the paper's (5)."""
    targets = Targets.of(np.array([0, 1]), classes=2, alpha_epsilon=0.01)
    assert not np.allclose(targets.s2, polygamma(1, [0.01, 1.01]))
    assert not np.allclose((targets.targets + targets.offsets)[:, 0], psi([0.01, 1.01]))


def test_with_all_rows_as_inducing_inputs_the_evidence_is_the_exact_one():
    X, y = rows(40)
    targets = Targets.of(y, classes=3, alpha_epsilon=0.02)
    kernel = make_kernel("se-ard", 2, variance=2.0, lengthscale=1.2, noise=0.0)
    solved = Regressions(X, y, targets, size=7).solve(Basis(kernel, X, jitter=1e-9))
    exact = 0.0
    for k in range(3):
        own = (y == k).astype(int)
        covariance = kernel.gram(X) + np.diag(targets.s2[own])
        r = targets.targets[own, k]
        exact += multivariate_normal(np.zeros(40), covariance).logpdf(r)
        mean = kernel.gram(X) @ np.linalg.solve(covariance, r)
        assert solved.basis.L @ solved.qs[k].mean == pytest.approx(mean, abs=1e-6)
    assert solved.value == pytest.approx(exact, abs=1e-5)


def test_with_fewer_the_evidence_is_a_bound():
    X, y = rows(40)
    targets = Targets.of(y, classes=3, alpha_epsilon=0.02)
    kernel = make_kernel("se-ard", 2, variance=2.0, lengthscale=1.2, noise=0.0)
    regressions = Regressions(X, y, targets)
    values = [regressions.solve(Basis(kernel, X[:M], jitter=1e-9)).value for M in (3, 10, 40)]
    assert values[0] < values[1] < values[2]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kernel", ["se-ard", "matern32", "se+linear-ard"])
def test_the_gradient_is_that_of_differences(classes, kernel):
    X, y = rows(50, classes=classes)
    scheme = DirichletGPC(kernel=kernel, block_rows=16)
    objective, x = scheme.differentiable(
        X,
        y,
        inducing=InducingRule("mixed", count="6"),
        likelihood=Softmax(),
        classes=classes,
        rng=np.random.default_rng(0),
    )
    _, exact = objective(x)
    step = 1e-5
    estimate = [(objective(x + step * e)[0] - objective(x - step * e)[0]) / (2 * step) for e in np.eye(len(x))]
    assert exact == pytest.approx(np.array(estimate), abs=1e-6 * np.abs(exact).max())


def test_training_raises_the_evidence_and_says_what_it_chose():
    X, y = rows(200, classes=2)
    first, last = (fit(X, y, alpha_epsilon=0.01, max_iterations=most) for most in (1, 60))
    assert last.bound > first.bound
    assert last.facts["alpha_epsilon"] == 0.01
    assert last.facts["hyperparameters"] != first.facts["hyperparameters"]
    assert fit(X, y, max_iterations=3).facts["alpha_epsilon"] in GRID


def test_the_choice_is_better_than_the_worst_of_the_grid():
    X, y = rows(400, classes=2, seed=2)
    more, right = rows(2000, classes=2, seed=3)

    def nll(**settings):
        return -fit(X, y, max_iterations=30, **settings).posterior.score(more, right).log_density.mean()

    each = [nll(alpha_epsilon=alpha) for alpha in (*GRID, 1.0)]
    assert nll() < np.mean([min(each), max(each)])


def test_a_class_without_rows_is_predicted_rarely():
    X, y = rows(90, classes=2)
    p = fit(X, y, classes=3, alpha_epsilon=0.01, max_iterations=5).posterior.predict(X).probabilities
    assert p.sum(axis=1) == pytest.approx(1.0)
    assert 0 < p[:, 2].max() < 0.05


def test_softmax_of_two_is_the_logit_of_the_difference_and_of_more_an_average():
    rng = np.random.default_rng(1)
    mean, var = rng.normal(size=(5, 2)), rng.uniform(0.1, 4.0, size=(5, 2))
    f = mean[:, None] + np.sqrt(var[:, None]) * rng.normal(size=(5, 200_000, 2))
    assert Softmax().predict(mean, var).probabilities == pytest.approx(softmax(f, axis=2).mean(axis=1), abs=5e-3)
    mean, var = rng.normal(size=(5, 4)), rng.uniform(0.1, 4.0, size=(5, 4))
    f = mean[:, None] + np.sqrt(var[:, None]) * rng.normal(size=(5, 100_000, 4))
    p = Softmax().predict(mean, var).probabilities
    assert p == pytest.approx(softmax(f, axis=2).mean(axis=1), abs=0.02)
    assert p.sum(axis=1) == pytest.approx(1.0)
    alone = [Softmax().predict(mean[[row]], var[[row]]).probabilities[0] for row in range(5)]
    assert (np.array(alone) == p).all()
    assert Softmax().predict(mean, 0 * var).probabilities == pytest.approx(softmax(mean, axis=1))


def test_softmax_gives_its_derivatives_and_is_read_from_its_description():
    f, y = np.random.default_rng(0).normal(size=(4, 3)), np.array([0, 2, 1, 2])
    kind = Softmax()
    first, second = kind.derivatives(y, f)
    for k in range(3):
        step = 1e-5 * np.eye(3)[k]
        up, down = kind.log_density(y, f + step), kind.log_density(y, f - step)
        assert first[:, k] == pytest.approx((up - down) / 2e-5, abs=1e-8)
        assert second[:, k] == pytest.approx((up - 2 * kind.log_density(y, f) + down) / 1e-10, abs=1e-4)
    assert likelihood_from_spec(Softmax(draws=10).spec()) == Softmax(draws=10)
