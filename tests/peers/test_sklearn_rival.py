"""scikit-learn's classifier as a rival: the same optimum, latent moments and, nearly, probabilities as by itself."""

import numpy as np
import pytest
from scipy.linalg import cho_solve, cholesky
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

import gpbench
from gpbench.errors import UsageError
from gpbench.peers.rivals import SklearnGPC


@pytest.mark.parametrize(
    ("settings", "kernel"),
    [
        ({"kernel": "se-ard"}, ConstantKernel(1.0) * RBF([2**0.5] * 2) + WhiteKernel(0.05)),
        ({"kernel": "matern32", "noise": 0.0, "lengthscale": 0.8}, ConstantKernel(1.0) * Matern(0.8, nu=1.5)),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_it_is_scikit_learns_own_fit(fitted, moons, settings, kernel):
    X, y = moons(50)
    X_test, _ = moons(30, seed=1)
    steps = []
    found = fitted(SklearnGPC(**settings), X, y, on_step=steps.append)
    own = GaussianProcessClassifier(kernel).fit(X, y)
    model = own.base_estimator_
    (latent,) = found.posterior.latents
    assert latent.kernel.theta == pytest.approx(model.kernel_.theta, abs=1e-3)
    assert steps[-1].bound == pytest.approx(own.log_marginal_likelihood_value_, abs=1e-6)
    assert found.stopped_by == "converged"
    assert found.iterations == steps[-1].iteration > 5
    k = model.kernel_(X_test, X)
    mean = k @ (model.y_train_ - model.pi_)
    W = model.pi_ * (1 - model.pi_)
    B = np.eye(len(X)) + np.sqrt(W)[:, None] * model.kernel_(X) * np.sqrt(W)
    v = np.sqrt(W)[:, None] * k.T
    var = model.kernel_.diag(X_test) - np.einsum("ij,ij->j", v, cho_solve((cholesky(B, lower=True), True), v))
    latent_mean, latent_var = found.posterior.latent(X_test)
    assert latent_mean[:, 0] == pytest.approx(mean, abs=2e-3)
    assert latent_var[:, 0] == pytest.approx(var, rel=5e-3)
    # scikit-learn approximates the integral over f; gpbench does not
    assert found.posterior.predict(X_test).probabilities == pytest.approx(own.predict_proba(X_test), abs=3e-3)


def test_fixed_hyper_parameters_and_a_limit_on_evaluations(fitted, moons):
    X, y = moons(40)
    fixed = fitted(SklearnGPC(hyperparameters="fixed"), X, y)
    assert fixed.posterior.latents[0].kernel.theta == pytest.approx(
        SklearnGPC().initial_kernel(np.zeros((1, 2))).theta, abs=1e-12
    )
    assert (fixed.iterations, fixed.stopped_by) == (1, "converged")
    few = fitted(SklearnGPC(max_iterations=3), X, y)
    assert (few.iterations, few.stopped_by) == (3, "iterations")


def test_more_rows_than_allowed_and_kernels_that_it_lacks(fitted, moons):
    X, y = moons(41)
    with pytest.raises(UsageError, match="at most max_rows = 40 rows; got 41"):
        fitted(SklearnGPC(max_rows=40), X, y)
    with pytest.raises(UsageError, match="got linear-ard"):
        SklearnGPC(kernel="se-ard+linear-ard").likelihood_for("binary", 2)
    assert SklearnGPC().max_rows == 2000


def test_the_estimator_s_limit_on_seconds_is_of_the_rival_s_process(moons):
    X, y = moons(150)
    model = gpbench.GPClassifier("sklearn-gpc", max_seconds=0.02, random_state=0).fit(X, y)
    assert model.stopped_by_ == "seconds"
