import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpbench.errors import DataError, NumericalError, UsageError
from gpbench.model import posterior as module
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Likelihood, Logit, Prediction, Probit
from gpbench.model.linalg import cholesky
from gpbench.model.posterior import Latent, Posterior

NAMES = ["klsp_probit_bound_grad", "klsp_probit_whitened_bound_grad", "klsp_logit_bound_grad"]
OPTIMA = [
    ("klsp_probit_optimum", "m", "S"),
    ("klsp_logit_optimum", "m", "S"),
    ("sheth_logit_optimum", "m", "V"),
    ("xgpc_jj_optimum_a", "mu", "Sigma"),
    ("xgpc_jj_optimum_b", "mu", "Sigma"),
]


def whitened(kernel, jitter, Z, m, S):
    L, _ = cholesky(kernel.gram(Z), what="K", jitter=jitter)
    S_w = np.linalg.solve(L, np.linalg.solve(L, S).T)
    return np.linalg.solve(L, m), 0.5 * (S_w + S_w.T)


def dense(latent, X):
    """Mean and variance by dense formulae with K⁻¹, in the original coordinates."""
    K = latent.kernel.gram(latent.Z) + latent.jitter * np.eye(len(latent.Z))
    L = np.linalg.cholesky(K)
    m, S = L @ latent.m_w, L @ latent.covariance() @ L.T
    A = np.linalg.solve(K, latent.kernel.cross(latent.Z, X))
    var = latent.kernel.diag(X) + np.einsum("mn,mk,kn->n", A, S - K, A)
    return latent.mean + A.T @ m, var


@pytest.mark.parametrize("name", NAMES)
def test_marginals_and_probabilities_of_the_bound_oracles(read_oracle, name):
    inputs, expected = read_oracle(name)
    kernel, jitter = inputs["kernel"]
    m_w, root = inputs["m"], inputs["L"]
    if not inputs["whitened"]:
        L, _ = cholesky(kernel.gram(inputs["Z"]), what="K", jitter=jitter)
        m_w, root = np.linalg.solve(L, m_w), np.linalg.solve(L, root)
    likelihood = {"probit": Probit(), "logit": Logit()}[inputs["likelihood"]]
    posterior = Posterior((Latent(kernel, inputs["Z"], m_w, root, form="covariance", jitter=jitter),), likelihood, 2)
    for rows, mean_key, var_key in [("X", "q_f_mean", "q_f_var"), ("X_test", "test_latent_mean", "test_latent_var")]:
        mean, var = posterior.latent(inputs[rows])
        assert mean[:, 0] == pytest.approx(expected[mean_key], abs=1e-9)
        assert var[:, 0] == pytest.approx(expected[var_key], abs=1e-9)
    assert posterior.predict(inputs["X_test"]).probabilities[:, 1] == pytest.approx(expected["test_prob"], abs=1e-9)


@pytest.mark.parametrize(("name", "mean_key", "covariance_key"), OPTIMA)
@pytest.mark.parametrize("form", ["covariance", "precision"])
def test_predictions_of_the_optima(read_oracle, name, mean_key, covariance_key, form):
    inputs, expected = read_oracle(name)
    kernel, jitter = inputs["kernel"]
    m_w, S_w = whitened(kernel, jitter, inputs["Z"], expected[mean_key], expected[covariance_key])
    root = np.linalg.cholesky(S_w if form == "covariance" else np.linalg.inv(S_w))
    likelihood = Probit() if "probit" in name else Logit()
    posterior = Posterior((Latent(kernel, inputs["Z"], m_w, root, form=form, jitter=jitter),), likelihood, 2)
    mean, var = posterior.latent(inputs["X_test"])
    assert mean[:, 0] == pytest.approx(expected["test_latent_mean"], abs=1e-7)
    assert var[:, 0] == pytest.approx(expected["test_latent_var"], abs=1e-7)
    assert posterior.predict(inputs["X_test"]).probabilities[:, 1] == pytest.approx(expected["test_prob"], abs=1e-7)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    form=st.sampled_from(["covariance", "precision"]),
    name=st.sampled_from(["se", "matern32-ard", "linear-ard", "se-ard+linear-ard"]),
    wide=st.booleans(),
    mean=st.floats(-3, 3),
)
def test_whitened_prediction_is_the_dense_formula(some_latent, *, seed, form, name, wide, mean):
    latent = some_latent(seed, form=form, name=name, wide=wide, mean=mean)
    X = np.random.default_rng(seed).normal(size=(7, 3))
    got, want = latent.marginals()(X), dense(latent, X)
    assert got[0] == pytest.approx(want[0], rel=1e-7, abs=1e-7)
    assert got[1] == pytest.approx(np.maximum(want[1], 0), rel=1e-7, abs=1e-7)


def test_projection_is_as_accurate_as_triangular_solves():
    """An ill-conditioned K_mm (condition 1e8): errors of both routes against extended precision."""
    rng = np.random.default_rng(3)
    M, d = 60, 2
    kernel = make_kernel("se", d, variance=1.0, lengthscale=3.0, noise=0.0)
    Z, X = rng.normal(size=(M, d)), rng.normal(size=(50, d))
    L, jitter = cholesky(kernel.gram(Z), what="K")
    k = kernel.cross(Z, X)
    Lam = np.eye(M) + 5.0 * np.linalg.solve(L, k) @ np.linalg.solve(L, k).T
    C = np.linalg.cholesky(Lam)
    m_w = np.linalg.solve(Lam, np.linalg.solve(L, k) @ np.sign(rng.normal(size=50)))

    def forward(A, b):
        """Forward substitution in extended precision."""
        A, x = A.astype(np.longdouble), b.astype(np.longdouble)
        for i in range(len(A)):
            x[i] = (x[i] - A[i, :i] @ x[:i]) / A[i, i]
        return x

    T = forward(L, k)
    exact_var = kernel.diag(X) - (T**2).sum(axis=0) + (forward(C, T) ** 2).sum(axis=0)
    exact_mean = T.T @ m_w.astype(np.longdouble)
    mean, var = Latent(kernel, Z, m_w, C, form="precision", jitter=jitter).marginals()(X)
    by_solves = np.linalg.solve(L, k)
    solved_var = kernel.diag(X) - (by_solves**2).sum(axis=0) + (np.linalg.solve(C, by_solves) ** 2).sum(axis=0)
    scale = np.finfo(float).eps * np.sqrt(np.linalg.cond(L @ L.T))
    assert np.abs(mean - exact_mean).max() < 10 * scale * np.linalg.norm(m_w)
    assert np.abs(var - exact_var).max() < max(4 * np.abs(solved_var - exact_var).max(), 4 * scale)


def test_prior_is_returned_where_the_data_say_nothing(some_latent):
    base = some_latent()
    M = len(base.Z)
    latent = Latent(base.kernel, base.Z, np.zeros(M), np.eye(M), form="covariance", jitter=base.jitter, mean=0.7)
    X = np.random.default_rng(1).normal(size=(5, 3))
    mean, var = latent.marginals()(X)
    assert mean == pytest.approx(np.full(5, 0.7))
    assert var == pytest.approx(base.kernel.diag(X), rel=1e-13)


@pytest.mark.parametrize("lengthscale", [1e-3, 1e3])
@pytest.mark.parametrize("variance", [1.0, 1e6])
@pytest.mark.parametrize("model", [Logit(), Probit()], ids=["logit", "probit"])
def test_extreme_posteriors_give_finite_scores(lengthscale, variance, model):
    rng = np.random.default_rng(4)
    kernel = make_kernel("se-ard", 2, variance=variance, lengthscale=lengthscale, noise=1e-6)
    Z = rng.normal(size=(10, 2))
    Z[5:] = Z[:5]
    _, jitter = cholesky(kernel.gram(Z), what="K")
    X = np.concatenate([Z, rng.normal(size=(20, 2)), np.full((1, 2), 1e3)])
    y = rng.integers(0, 2, len(X))
    for m_w in (np.zeros(10), np.full(10, 40.0), np.full(10, -1e4)):
        latent = Latent(kernel, Z, m_w, 1e-3 * np.eye(10), form="covariance", jitter=jitter)
        score = Posterior((latent,), model, 2).score(X, y)
        assert all(np.isfinite(part).all() for part in score)
        assert ((score.values >= 0) & (score.values <= 1)).all()


def test_row_blocks_do_not_matter(some_latent, monkeypatch):
    posterior = Posterior((some_latent(),), Logit(), 2)
    X = np.random.default_rng(5).normal(size=(2 * module.BLOCK + 17, 3))
    y = (X[:, 0] > 0).astype(int)
    whole = posterior.score(X, y)
    monkeypatch.setattr(module, "BLOCK", 100)
    for got, want in zip(posterior.score(X, y), whole, strict=True):
        assert got == pytest.approx(want, rel=1e-12)


def test_rows_are_read_in_blocks_of_bounded_size(some_latent):
    X = np.random.default_rng(6).normal(size=(3 * module.BLOCK, 3))
    sizes = []

    class Lazy:
        shape = X.shape

        def __len__(self):
            return len(X)

        def __getitem__(self, rows):
            sizes.append(len(X[rows]))
            return X[rows]

    posterior = Posterior((some_latent(),), Logit(), 2)
    assert np.array_equal(posterior.predict(Lazy()).probabilities, posterior.predict(X).probabilities)
    assert max(sizes) <= module.BLOCK


class TwoLatents(Likelihood):
    """Stand-in for a likelihood of several latent functions and real predictions."""

    name = "two"
    tasks = frozenset({"count"})

    def n_latent(self, classes):  # noqa: ARG002
        return 2

    def check_targets(self, y, classes):
        pass

    def log_density(self, y, f):
        raise NotImplementedError

    def derivatives(self, y, f):
        raise NotImplementedError

    def expectations(self, y, mu, var):
        raise NotImplementedError

    def predict(self, mean, var):  # noqa: ARG002
        return Prediction(point=mean[:, 0] + mean[:, 1])

    def log_predictive(self, y, mean, var):  # noqa: ARG002
        return -0.5 * (y - mean.sum(axis=1)) ** 2

    def error(self, y, point):
        return np.abs(y - point)


def test_several_latent_functions_each_with_its_own_inputs(some_latent):
    latents = (some_latent(seed=1, M=5), some_latent(seed=2, M=9, mean=1.0))
    posterior = Posterior(latents, TwoLatents(), 0)
    X = np.random.default_rng(7).normal(size=(4, 3))
    mean, var = posterior.latent(X)
    for index, latent in enumerate(latents):
        want = dense(latent, X)
        assert mean[:, index] == pytest.approx(want[0], rel=1e-8)
        assert var[:, index] == pytest.approx(want[1], rel=1e-7)
    score = posterior.score(X, np.zeros(4))
    assert score.values == pytest.approx(mean.sum(axis=1))
    assert score.error == pytest.approx(np.abs(mean.sum(axis=1)))
    with pytest.raises(UsageError, match="needs 2 latent functions; got 1"):
        Posterior(latents[:1], TwoLatents(), 0)


def test_a_latent_keeps_its_numbers():
    m_w, root, Z = np.zeros(3), np.eye(3), np.zeros((3, 1))
    kernel = make_kernel("se", 1, variance=1.0, lengthscale=1.0, noise=0.0)
    latent = Latent(kernel, Z, m_w, root, form="covariance", jitter=1e-6)
    m_w += 1
    root += 1
    Z += 1
    assert not latent.m_w.any()
    assert not latent.Z.any()
    assert np.array_equal(latent.root, np.eye(3))


def test_bad_latents_are_refused(some_latent):
    base = some_latent(M=4)
    good = {"Z": base.Z, "m_w": base.m_w, "root": base.root}
    for change, error, message in [
        ({"Z": np.zeros(4)}, UsageError, r"shape \(M, d\)"),
        ({"m_w": np.zeros(3)}, UsageError, "4 inducing inputs need m_w"),
        ({"root": np.eye(3)}, UsageError, "4 inducing inputs need m_w"),
        ({"m_w": np.full(4, np.nan)}, NumericalError, "m_w of a posterior must be finite; got 4"),
    ]:
        with pytest.raises(error, match=message):
            Latent(base.kernel, **(good | change), form="precision", jitter=1e-6)
    with pytest.raises(UsageError, match="form must be"):
        Latent(base.kernel, **good, form="root", jitter=1e-6)


def test_wrong_rows_and_targets_are_refused(some_latent):
    posterior = Posterior((some_latent(),), Logit(), 2)
    with pytest.raises(UsageError, match=r"3 columns, as in training; got shape \(5, 2\)"):
        posterior.predict(np.zeros((5, 2)))
    with pytest.raises(DataError, match="one target for each of 5 rows; got 4"):
        posterior.score(np.zeros((5, 3)), np.zeros(4, dtype=int))
    with pytest.raises(DataError, match="from 0 to 2"):
        posterior.score(np.zeros((3, 3)), np.array([0, 1, 2]))
    with pytest.raises(UsageError, match="needs 2 classes"):
        Posterior((some_latent(),), Logit(), 3)
    assert posterior.predict(np.zeros((0, 3))).probabilities.shape == (0, 2)
