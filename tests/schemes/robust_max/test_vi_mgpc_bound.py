from types import SimpleNamespace

import numpy as np
import pytest

from gpbench.model.kernels import SE, Sum, White, make_kernel
from gpbench.model.likelihoods import RobustMax
from gpbench.model.posterior import Latent, Posterior
from gpbench.optimize.unknowns import Unknowns
from gpbench.schemes.robust_max.bound import RobustMaxBound


class Flat:
    """The bound as a function of one vector of all unknowns, for differences."""

    def __init__(self, kernel, likelihood, *, Z, **options):
        self.bound = RobustMaxBound(kernel, likelihood, Z=Z, **options)
        self.likelihood_at_start, self.kernel, self.Z = likelihood, kernel, Z
        self.unknowns = Unknowns(**self.bound.parts())
        self.size, self.start = self.unknowns.size, self.unknowns.x

    def places(self, *kinds):
        """Where unknowns of these kinds stand."""
        names = ["rho"] if kinds == ("rho",) else [name for kind in kinds for name in self.bound.names(kind)]
        return np.concatenate([np.arange(self.size)[self.unknowns.place(name)] for name in names])

    def split(self, x):
        """The unknowns of each class as views: m, L, theta and Z."""
        at = self.unknowns.values(x)
        kinds = ("m", "L", "theta", "Z")
        return [SimpleNamespace(**{kind: at[f"{kind}{c}"] for kind in kinds}) for c in range(len(self.Z))]

    def bases(self, x, **options):
        return self.bound.bases(self.unknowns.values(x), **options)

    def likelihood(self, x):
        return self.bound.likelihood(self.unknowns.values(x))

    def latents(self, x, bases):
        return self.bound.latents(self.unknowns.values(x), bases)

    def at(self, x, X, y, **options):
        found = self.bound.at(self.unknowns.values(x), X, y, **options)
        return found._replace(gradient=self.unknowns.gradient(found.gradient))


def some_problem(*, C=3, n=40, d=2, M=(5, 4, 6), whitened=True, kernel="se-ard", epsilon=0.02, seed=0, size=1024):
    """A bound, a point far from its start, rows and labels."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)), rng.integers(0, C, n)
    form = make_kernel(kernel, d, variance=1.3, lengthscale=1.1, noise=0.1)
    Z = [rng.normal(size=(M[c % len(M)], d)) for c in range(C)]
    bound = Flat(form, RobustMax(epsilon), Z=Z, whitened=whitened, size=size)
    x = bound.start.copy()
    x += 0.2 * rng.normal(size=x.size) * (bound.at(x, X, y, bases=bound.bases(x)).gradient != 0.0)
    return bound, x, X, y


@pytest.mark.parametrize("name", ["ep/vi_robustmax_a", "ep/vi_robustmax_b"])
def test_bound_and_gradients_of_the_oracles(read_oracle, name):
    inputs, expected = read_oracle(name)
    X, y, C = inputs["X"], inputs["y"].astype(int), inputs["classes"]
    model = RobustMax(inputs["eps"])
    kernels = []
    for hyper in inputs["hyper"]:
        white = White.of(variance=hyper["noise2"] + inputs["jitter_mm"])
        kernels.append(Sum((SE.of(variance=hyper["amp2"], lengthscales=hyper["ls"]), white)))
    bound = Flat(kernels[0], model, Z=list(inputs["Z"]), whitened=False)
    x = bound.start.copy()
    for parts, kernel, m, L in zip(bound.split(x), kernels, inputs["m"], inputs["L"], strict=True):
        parts.theta[:], parts.m[:], parts.L[:] = kernel.theta, m, L
    value, gradient = bound.at(x, X, y, bases=bound.bases(x, jitters=[0.0] * C))
    assert value == pytest.approx(expected["bound"], rel=1e-10)
    for parts, hyper, want in zip(bound.split(gradient), inputs["hyper"], expected["grad"], strict=True):
        share = hyper["noise2"] / (hyper["noise2"] + inputs["jitter_mm"])
        mean, root, inputs_of_class = parts.m, parts.L, parts.Z
        assert mean == pytest.approx(want["m"], rel=1e-6, abs=1e-8)
        assert root == pytest.approx(want["L"], rel=1e-6, abs=1e-8)
        assert inputs_of_class == pytest.approx(want["Z"], rel=1e-6, abs=1e-7)
        assert parts.theta[0] == pytest.approx(want["log_amp2"], rel=1e-6, abs=1e-7)
        assert parts.theta[1:-1] == pytest.approx(want["log_ls"], rel=1e-6, abs=1e-7)
        assert parts.theta[-1] * share == pytest.approx(want["log_noise2"], rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("whitened", [True, False])
@pytest.mark.parametrize(
    ("C", "kernel"), [(2, "se"), (3, "se-ard"), (3, "matern32-ard"), (3, "linear-ard+se"), (4, "matern32")]
)
def test_gradient_by_finite_differences(whitened, C, kernel):
    bound, x, X, y = some_problem(C=C, kernel=kernel, whitened=whitened)
    jitters = [basis.jitter for basis in bound.bases(x)]

    def at(z):
        return bound.at(z, X, y, bases=bound.bases(z, jitters=jitters), scale=1.7)

    gradient = at(x).gradient
    assert gradient[bound.places("rho")] != 0.0
    moving = np.flatnonzero(gradient)
    assert len(moving) > 0.6 * bound.size  # all but the upper triangles
    for place in moving:
        step = 1e-5 * (np.arange(bound.size) == place)
        difference = (at(x + step).value - at(x - step).value) / 2e-5
        assert gradient[place] == pytest.approx(difference, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("whitened", [True, False])
def test_blocks_and_minibatches_average_to_the_whole(whitened):
    bound, x, X, y = some_problem(n=60, whitened=whitened)
    small, _, _, _ = some_problem(n=60, whitened=whitened, size=7)
    bases = bound.bases(x)
    whole = bound.at(x, X, y, bases=bases)
    by_blocks = small.at(x, X, y, bases=small.bases(x))
    assert by_blocks.value == pytest.approx(whole.value, rel=1e-12)
    assert by_blocks.gradient == pytest.approx(whole.gradient, rel=1e-9, abs=1e-10)
    order = np.random.default_rng(1).permutation(60)
    batches = [bound.at(x, X[rows], y[rows], bases=bases, scale=5.0) for rows in order.reshape(5, 12)]
    assert np.mean([each.value for each in batches]) == pytest.approx(whole.value, rel=1e-12)
    assert np.mean([each.gradient for each in batches], axis=0) == pytest.approx(whole.gradient, rel=1e-9, abs=1e-10)


def test_q_alone_has_the_same_gradient_and_nothing_else():
    bound, x, X, y = some_problem()
    full = bound.at(x, X, y, bases=bound.bases(x)).gradient
    alone = bound.at(x, X, y, bases=bound.bases(x), kernel_gradient=False).gradient
    q = bound.places("m", "L")
    assert alone[q] == pytest.approx(full[q], rel=1e-12)
    assert not alone[bound.places("theta", "Z")].any()
    assert alone[bound.places("rho")] == full[bound.places("rho")]


def test_both_forms_of_q_are_the_same_bound():
    free, x, X, y = some_problem(whitened=True)
    held = Flat(free.kernel, free.likelihood_at_start, Z=free.Z, whitened=False)
    z, bases = x.copy(), free.bases(x)
    for parts, basis in zip(held.split(z), bases, strict=True):
        parts.m[:], parts.L[:] = basis.L @ parts.m, basis.L @ parts.L
    assert held.at(z, X, y, bases=bases).value == pytest.approx(free.at(x, X, y, bases=bases).value, rel=1e-12)
    for a, b in zip(held.latents(z, bases), free.latents(x, bases), strict=True):
        assert a.m_w == pytest.approx(b.m_w, rel=1e-9)


def test_value_against_expectations_of_the_likelihood_at_the_posterior_marginals():
    bound, x, X, y = some_problem(epsilon=0.1)
    bases = bound.bases(x)
    latents = bound.latents(x, bases)
    mean, var = Posterior(latents, bound.likelihood(x), classes=3).latent(X)
    e, _, _ = bound.likelihood(x).expectations(y, mean, var)
    kl = sum(_kl(each) for each in latents)
    assert bound.at(x, X, y, bases=bases).value == pytest.approx(e.sum() - kl, rel=1e-9)


def _kl(latent: Latent) -> float:
    S = latent.covariance()
    return 0.5 * (np.trace(S) + latent.m_w @ latent.m_w - len(S) - np.linalg.slogdet(S)[1])


def test_relabelling_classes_permutes_the_gradient():
    bound, x, X, y = some_problem(M=(5,))
    turned = (y + 1) % 3
    parts = x[:-1].reshape(3, -1)
    z = np.append(np.roll(parts, 1, axis=0).ravel(), x[-1])
    one, other = bound.at(x, X, y, bases=bound.bases(x)), bound.at(z, X, turned, bases=bound.bases(z))
    assert other.value == pytest.approx(one.value, rel=1e-12)
    back = np.roll(other.gradient[:-1].reshape(3, -1), -1, axis=0).ravel()
    assert back == pytest.approx(one.gradient[:-1], rel=1e-8, abs=1e-9)


def test_the_start_is_the_prior():
    for whitened in (True, False):
        bound, _, X, y = some_problem(whitened=whitened, epsilon=0.001)
        x = bound.start.copy()
        assert bound.likelihood(x) == RobustMax(0.001)
        right, wrong = RobustMax(0.001).log_levels(3)
        bound_at_prior = bound.at(x, X, y, bases=bound.bases(x)).value
        assert bound_at_prior == pytest.approx(len(y) * (right + 2 * wrong) / 3, rel=1e-9)  # three alike: P is 1/3
