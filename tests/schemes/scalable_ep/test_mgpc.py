"""ep-mgpc, sep-mgpc and epgpc as a whole: they learn, say how they ended, survive what is hard, and refuse what they
cannot do."""

import tracemalloc

import numpy as np
import pytest

from gpbench.bench.methods import method
from gpbench.errors import DataError, NumericalError, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.likelihoods import likelihood
from gpbench.optimize.training import StopTraining
from gpbench.schemes.base import settings_of
from gpbench.schemes.scalable_ep.evidence import CarriedSites
from gpbench.schemes.scalable_ep.mgpc import EPMGPC, SEPMGPC
from gpbench.schemes.scalable_ep.stochastic import stored_type

RANDOM = InducingRule("random", count="12", seed=1)

BATCHES = {
    "sep, all rows": (SEPMGPC, {"mode": "batch", "max_iterations": 60, "value_tolerance": 0.0}),
    "sep, mini-batches": (SEPMGPC, {"mode": "stochastic", "batch_size": 15, "max_iterations": 200}),
    "ep, mini-batches": (EPMGPC, {"mode": "stochastic", "batch_size": 15, "max_iterations": 200}),
}
ALL = {"ep, all rows": (EPMGPC, {"mode": "batch", "max_iterations": 60, "value_tolerance": 0.0}), **BATCHES}


@pytest.fixture
def train(fit):
    """Fits one of the schemes with these settings."""

    def run(kind, X, y, *, classes, inducing=RANDOM, seed=0, on_step=lambda _: None, **settings):
        if isinstance(kind, str):
            kind, given = ALL[kind]
            settings = given | settings
        return fit(kind(**settings), X, y, classes=classes, inducing=inducing, seed=seed, on_step=on_step)

    return run


class FailingRows:
    """Rows that hold NaN whenever some reads of a slice of them are due, counted from 1."""

    def __init__(self, X, due):
        self._X, self._due, self.reads, self.shape = X, due, 0, X.shape

    def __len__(self):
        return len(self._X)

    def __getitem__(self, rows):
        if not isinstance(rows, slice):
            return self._X[rows]
        self.reads += 1
        return np.full_like(self._X[rows], np.nan) if self._due(self.reads) else self._X[rows]


def nll(found, X, y):
    return -found.posterior.score(X, y).log_density.mean()


# -- ep-mgpc on all rows


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("training", ["inner-approx", "inner-exact", "outer"])
def test_log_z_rises_and_predictions_follow(train, clusters, classes, training):
    X, y = clusters(C=classes)
    bounds = []
    found = train(
        EPMGPC,
        X,
        y,
        classes=classes,
        training=training,
        max_iterations=40,
        on_step=lambda step: bounds.append(step.bound),
    )
    assert len(bounds) == found.iterations == 40
    assert max(bounds[:5]) < bounds[-1]
    assert len(found.posterior.latents) == (1 if classes == 2 else classes)
    fresh = clusters(C=classes, seed=1)
    assert nll(found, *fresh) < 0.3
    assert found.posterior.score(*fresh).error.mean() < 0.1
    assert found.stopped_by == "iterations"
    assert found.bound == bounds[-1]
    assert found.jitter == max(latent.jitter for latent in found.posterior.latents)


def test_both_gradients_end_at_the_same_evidence(train, clusters):
    X, y = clusters(n=45, spread=1.2)  # they overlap; of clusters far apart log Z has two maxima
    options = {"max_iterations": 150, "value_tolerance": 0.0, "learn_inducing": False}
    ends = [
        train(EPMGPC, X, y, classes=3, training=training, **options).bound
        for training in ("inner-approx", "inner-exact")
    ]
    assert ends[0] == pytest.approx(ends[1], rel=2e-3)


def test_fixed_hyperparameters_end_at_eps_fixed_point(train, clusters):
    X, y = clusters()
    options = {"hyperparameters": "fixed", "learn_inducing": False, "max_iterations": 3000}
    inner = train(EPMGPC, X, y, classes=3, damping=0.5, **options)
    outer = train(EPMGPC, X, y, classes=3, training="outer", ep_tolerance=1e-6, **options)
    assert inner.stopped_by == outer.stopped_by == "converged"
    assert inner.bound == pytest.approx(outer.bound, abs=1e-4)


def test_undamped_updates_oscillate_and_are_damped(train, clusters):
    X, y = clusters(n=60, spread=1.2)
    options = {"hyperparameters": "fixed", "learn_inducing": False, "variance": 50.0, "max_iterations": 300}
    damped = train(EPMGPC, X, y, classes=3, damping=0.3, **options)
    undamped = train(EPMGPC, X, y, classes=3, damping=1.0, **options)
    assert undamped.facts["oscillations"] > 0
    assert undamped.bound == pytest.approx(damped.bound, abs=0.1)


def test_the_posterior_is_the_one_that_was_reported(train, clusters):
    """Stopping at a step gives what that step could have given."""
    X, y = clusters()
    seen = []

    def stop(step):
        seen.append(step.posterior())
        if step.iteration == 5:
            raise StopTraining

    found = train(EPMGPC, X, y, classes=3, on_step=stop)
    assert (found.stopped_by, found.iterations) == ("on_step", 5)
    assert (found.posterior.latent(X)[0] == seen[-1].latent(X)[0]).all()
    assert (seen[0].latent(X)[0] != seen[-1].latent(X)[0]).any()


class Limit:
    """An ``on_step`` whose check passes a limit after so many calls."""

    def __init__(self, calls):
        self.left, self.bounds, self.posteriors = calls, [], []

    def __call__(self, step):
        self.bounds.append(step.bound)
        self.posteriors.append(step.posterior())

    def check(self):
        self.left -= 1
        if self.left < 0:
            raise StopTraining


@pytest.mark.parametrize(
    ("name", "options"), [("ep, all rows", {}), ("ep, all rows", {"training": "outer"}), ("sep, all rows", {})]
)
def test_a_limit_within_a_pass_hands_back_the_last_state(train, clusters, name, options):
    X, y = clusters()
    limit = Limit(200 if options else 123)  # five blocks a pass
    found = train(name, X, y, classes=3, on_step=limit, block_rows=20, **options)
    assert (found.stopped_by, limit.left) == ("on_step", -1)
    assert 0 < found.iterations == len(limit.bounds) < 60
    assert (found.posterior.latent(X)[0] == limit.posteriors[-1].latent(X)[0]).all()
    assert found.bound in (limit.bounds[-1], None)


@pytest.mark.parametrize("training", ["inner-approx", "outer"])
def test_a_limit_before_the_first_step_hands_back_the_prior(train, clusters, training):
    """The first fixed point of ``outer`` may take long: it is asked there as well."""
    X, y = clusters()
    found = train(EPMGPC, X, y, classes=3, training=training, block_rows=20, on_step=Limit(7))
    assert (found.stopped_by, found.iterations, found.bound) == ("on_step", 0, None)
    mean, var = found.posterior.latent(X)
    assert mean == pytest.approx(0.0)
    assert var == pytest.approx(1.05)


def test_blocks_of_rows_change_nothing_but_memory(train, clusters):
    X, y = clusters()
    for name in ("ep, all rows", "sep, all rows", "sep, mini-batches"):
        whole, parts = (train(name, X, y, classes=3, max_iterations=10, block_rows=b) for b in (None, 7))
        assert parts.posterior.latent(X)[0] == pytest.approx(whole.posterior.latent(X)[0], abs=1e-10)


def test_units_of_the_inputs_do_not_matter(train, clusters):
    X, y = clusters()
    plain = train(EPMGPC, X, y, classes=3, max_iterations=20, hyperparameters="fixed", lengthscale=1.0)
    scaled = train(EPMGPC, 1e3 * X, y, classes=3, max_iterations=20, hyperparameters="fixed", lengthscale=1e3)
    assert scaled.bound == pytest.approx(plain.bound, rel=1e-6)


def test_a_step_that_fails_is_taken_back(train, clusters):
    X, y = clusters()
    rows = FailingRows(X, lambda read: read in {4, 5})
    found = train(EPMGPC, rows, y, classes=3, max_iterations=30)
    assert found.facts["retries"] == 2
    assert found.iterations == 30
    assert nll(found, X, y) < 0.4


def test_a_step_that_fails_past_every_remedy_names_the_iteration(train, clusters):
    X, y = clusters()
    with pytest.raises(NumericalError, match="ep-mgpc, iteration 50: "):
        train(EPMGPC, FailingRows(X, lambda read: read > 50), y, classes=3, max_iterations=80)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (lambda y: np.where(y == 2, 1, y), 3),  # a class without rows
        (lambda y: np.where(np.arange(len(y)) == 5, 3, y), 4),  # a class with one row
        (lambda y: np.arange(len(y)) % 26, 26),
    ],
)
def test_rare_absent_and_many_classes(train, clusters, labels, classes):
    X, y = clusters()
    few = InducingRule("random", count="6", seed=0)
    found = train(EPMGPC, X, labels(y), classes=classes, max_iterations=10, inducing=few)
    p = found.posterior.predict(X).probabilities
    assert p.shape == (len(X), classes)
    assert p.sum(axis=1) == pytest.approx(np.ones(len(X)), abs=1e-4)


# -- one batch at a time


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", BATCHES)
def test_it_learns(train, clusters, name, classes):
    X, y = clusters(C=classes)
    steps = []
    found = train(name, X, y, classes=classes, on_step=lambda step: steps.append(step.bound))
    assert nll(found, *clusters(C=classes, seed=1)) < 0.3
    assert (found.stopped_by, found.iterations) == ("iterations", len(steps))
    assert found.facts["stored_vectors"] == ("tied" if "sep" in name else "float64")
    if "all rows" in name:
        assert steps[0] < steps[-1]
    else:
        assert set(steps) == {None}


@pytest.mark.parametrize("name", ALL)
def test_hyperparameters_move_unless_they_are_fixed(train, clusters, name):
    X, y = clusters()
    learned = train(name, X, y, classes=3, max_iterations=5).posterior
    fixed = train(name, X, y, classes=3, max_iterations=5, hyperparameters="fixed", learn_inducing=False).posterior
    start = SEPMGPC().initial_kernel(np.zeros((1, 2)))
    assert all(latent.kernel.values() == start.values() for latent in fixed.latents)
    assert all(latent.kernel.values() != start.values() for latent in learned.latents)
    assert (RANDOM.for_latent(1).choose(X) == fixed.latents[1].Z).all()
    assert (learned.latents[1].Z != fixed.latents[1].Z).any()


@pytest.mark.parametrize("name", ALL)
def test_the_same_seed_gives_the_same_bits_and_stopping_leaves_a_posterior(train, clusters, name):
    X, y = clusters()

    def stop(step):
        if step.iteration == 7:
            raise StopTraining

    first, second = (train(name, X, y, classes=3, on_step=stop) for _ in range(2))
    one, two = first.posterior.arrays(), second.posterior.arrays()
    assert all((one[key] == two[key]).all() for key in one)
    assert (first.stopped_by, first.iterations) == ("on_step", 7)


@pytest.mark.parametrize("name", BATCHES)
def test_absent_and_single_rows_of_a_class(train, clusters, name):
    X, y = clusters()
    y = np.where(y == 2, 1, y)
    y[5] = 3
    assert np.isfinite(nll(train(name, X, y, classes=5), X, y))


@pytest.mark.parametrize("name", ALL)
def test_hard_data_is_survived(train, clusters, name):
    """Inputs in all units, duplicate rows, a constant column, a large prior variance."""
    X, y = clusters()
    X = np.column_stack([1e4 * X[:, 0] + 1e5, 1e-4 * X[:, 1], np.ones(len(X))])
    X[::2] = X[1::2]
    found = train(name, X, y, classes=3, variance=160.0, noise=0.0, lengthscale=100.0)
    assert np.isfinite(nll(found, X, y))


def test_vectors_in_single_precision_change_little(train, clusters):
    X, y = clusters(n=120)
    size = 8.1e-6 * 120 * 36
    options = {"batch_size": 20, "max_iterations": 60}
    wide, narrow = (train("ep, mini-batches", X, y, classes=3, stored_mb=mb, **options) for mb in (size, 0.6 * size))
    assert (wide.facts["stored_vectors"], narrow.facts["stored_vectors"]) == ("float64", "float32")
    p = [found.posterior.predict(X).probabilities for found in (wide, narrow)]
    assert p[1] == pytest.approx(p[0], abs=1e-3)
    assert (p[1] != p[0]).any()


def test_vectors_that_do_not_fit(train, clusters):
    assert stored_type(1000, 100, 0.8) is np.float64
    assert stored_type(1000, 100, 0.79) is np.float32
    assert stored_type(1000, 100, 0.39) is None
    X, y = clusters()
    with pytest.raises(UsageError, match=r"stores 36 numbers for each row.*use sep-mgpc"):
        train(EPMGPC, X, y, classes=3, mode="stochastic", stored_mb=0.001)
    options = {"mode": "stochastic", "batch_size": 30, "max_iterations": 5}
    tied = train(EPMGPC, X, y, classes=3, **options, stored_mb=0.001, beyond="tied")
    assert tied.facts["stored_vectors"] == "tied"
    same = train(SEPMGPC, X, y, classes=3, **options)
    assert (tied.posterior.predict(X).probabilities == same.posterior.predict(X).probabilities).all()


def test_a_move_that_cannot_be_factorised_is_halved(train, clusters, monkeypatch):
    X, y = clusters()
    real, calls = CarriedSites.move, []

    def failing(self, *args, **options):
        calls.append(1)
        if len(calls) in {3, 4}:
            raise NumericalError("K_mm is not positive definite")
        real(self, *args, **options)

    monkeypatch.setattr(CarriedSites, "move", failing)
    assert train("sep, mini-batches", X, y, classes=3).facts["retries"] == 2

    def broken(self, *args, **options):
        raise NumericalError("K_mm is not positive definite")

    monkeypatch.setattr(CarriedSites, "move", broken)
    with pytest.raises(NumericalError, match="sep-mgpc, iteration 0: K_mm"):
        train("sep, mini-batches", X, y, classes=3)


def test_held_out_rows_are_not_trained_on_and_end_training(train, clusters):
    X, y = clusters(n=200, C=2)
    settings = {"stop": "held-out", "batch_size": 20, "validation": 20, "tolerance": 0.5, "max_iterations": 3000}
    found = train("sep, mini-batches", X, y, classes=2, **settings)
    assert found.stopped_by == "converged"
    assert found.iterations < 3000


@pytest.mark.parametrize("name", ALL)
def test_the_weak_prior_keeps_what_labels_do_not_tell_near_its_median(train, name):
    """The second input tells nothing: the evidence alone lets its length scales go."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)

    def farthest(**settings):
        found = train(name, X, y, classes=2, kernel="se-ard", max_iterations=600 if "mini" in name else 150, **settings)
        return float(np.abs(found.posterior.latents[0].kernel.theta[1:3] - 0.5 * np.log(2)).max())

    assert farthest() < 0.8 * farthest(prior="none")


@pytest.mark.parametrize("scheme", [EPMGPC, SEPMGPC])
def test_evidence_that_no_longer_moves_ends_training(train, clusters, scheme):
    X, y = clusters()
    found = train(scheme, X, y, classes=3, value_tolerance=0.5)
    assert found.stopped_by == "converged"
    assert found.iterations == 50


def test_epgpc_is_binary_scalable_ep_on_mini_batches(fit, clusters):
    X, y = clusters(C=2, n=300)
    known = method("epgpc")
    found = fit(known.build(known.resolve({"max_iterations": 300})), X, y, inducing=RANDOM)
    assert found.facts["stored_vectors"] == "float64"
    assert (RANDOM.choose(X) == found.posterior.latents[0].Z).all()
    assert nll(found, *clusters(C=2, n=300, seed=1)) < 0.1


def test_memory_does_not_grow_with_the_rows(train, clusters):
    """Of the same mini-batches from ten times as many rows; the labels themselves are the data's."""
    peaks = []
    for n in (9_000, 90_000):
        X, y = clusters(n=n)
        given = InducingRule("given", Z=X[:60])
        tracemalloc.start()
        train("sep, mini-batches", X, y, classes=3, inducing=given, batch_size=100, max_iterations=4, stop="none")
        peaks.append(tracemalloc.get_traced_memory()[1] - 16 * n)  # a permutation of the rows, the labels as integers
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


# -- settings, and what is refused

BATCH, STOCHASTIC = {"mode": "batch", "max_iterations": 8}, {"mode": "stochastic", "max_iterations": 8}
HELD_OUT = {**STOCHASTIC, "stop": "held-out"}
FIXED = {"hyperparameters": "fixed", "learn_inducing": False, "inducing": "4"}
SLOW = {**HELD_OUT, **FIXED, "batch_size": 5, "damping": 0.002, "max_iterations": 1100}  # ends at 1037 if it may
CHANGES = {
    "kernel": (BATCH, "matern32-ard"),
    "lengthscale": (BATCH, 0.7),
    "variance": (BATCH, 3.0),
    "noise": (BATCH, 0.2),
    "hyperparameters": (BATCH, "fixed"),
    "inducing": (BATCH, "7"),
    "inducing_rule": (BATCH, "kmeans"),
    "kmeans_rows": ({**BATCH, "inducing_rule": "kmeans"}, 40),
    "mode": (BATCH, "stochastic"),
    "prior": (BATCH, "none"),
    "learn_inducing": (BATCH, False),
    "max_iterations": (BATCH, 5),
    "batch_size": (STOCHASTIC, 30),
    "stop": (HELD_OUT, "none"),
    "tolerance": (SLOW, 1.0),
    "validation": (HELD_OUT, 4),
    "damping": (BATCH, 0.3),
    "rate": (STOCHASTIC, 0.05),
    "damping_decay": (BATCH, 0.9),
    "growth": (BATCH, 1.02),
    "lengthscale_rates": ({"mode": "batch", "max_iterations": 40}, "summed"),  # signs must part first
    "longest_step": (BATCH, 0.05),
    "value_tolerance": ({"mode": "batch", "max_iterations": 52, "value_tolerance": 0.0}, 1.0),
    "training": (BATCH, "inner-exact"),
    "ep_tolerance": ({**BATCH, "training": "outer"}, 0.1),
    "ep_iterations": ({**BATCH, "training": "outer"}, 3),
    "stored_mb": (STOCHASTIC, 0.018),
    "beyond": ({**STOCHASTIC, "stored_mb": 0.001}, "tied"),
}
MEMORY_ALONE = {"block_rows"}


@pytest.mark.parametrize("scheme", [EPMGPC, SEPMGPC])
def test_every_setting_changes_the_outcome(fit, clusters, scheme):
    X, y = clusters(n=90, spread=1.0)
    names = {each.name for each in settings_of(scheme)}
    assert names <= set(CHANGES) | MEMORY_ALONE

    def outcome(settings):
        try:
            found = fit(scheme(**{"inducing": "12", "inducing_rule": "random", **settings}), X, y, classes=3)
        except UsageError as error:
            return str(error)
        arrays = found.posterior.arrays()
        return found.iterations, {key: values.tobytes() for key, values in arrays.items()}

    for name in sorted(names - MEMORY_ALONE):
        base, value = CHANGES[name]
        base = {key: each for key, each in base.items() if key in names}
        assert outcome(base) != outcome({**base, name: value}), name


def test_what_cannot_be_done_is_refused(train, clusters, fit):
    X, y = clusters()
    with pytest.raises(DataError, match=r"labels must lie in 0\.\.2; got values from 1 to 3"):
        train(EPMGPC, X, y + 1, classes=3)
    with pytest.raises(UsageError, match="does classification; got task count"):
        EPMGPC().likelihood_for("count", 0)
    with pytest.raises(UsageError, match="without label noise"):
        fit(EPMGPC(), X, y, classes=3, inducing=RANDOM, likelihood=likelihood("probit"))
