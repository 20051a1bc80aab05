"""pep from its start to its end: stages, tail, what it says of itself, and rows that are hard."""

from dataclasses import replace

import numpy as np
import pytest

from gpbench.data.generators import ringnorm, twonorm
from gpbench.errors import NumericalError, UsageError
from gpbench.model.basis import Basis
from gpbench.model.inducing import InducingRule
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Logit, Poisson
from gpbench.schemes.base import StopTraining
from gpbench.schemes.general.gvi_fixed_point import GVIFixedPoint
from gpbench.schemes.pep.energy import Energy, Sites
from gpbench.schemes.pep.pep import PEP, PEPTraining
from gpbench.schemes.pep.rows import Cavity, tilted
from gpbench.schemes.pep.stages import Stage, parse_stages
from gpbench.schemes.pep.tail import Batch


def small(**changed):
    return PEP(**{"inducing": "12", "max_iterations": 20, **changed})


@pytest.mark.parametrize(
    ("text", "n", "stages"),
    [
        (None, 500, (Stage(64, None),)),
        (None, 5_000, (Stage(8, 2000), Stage(56, None))),
        (
            None,
            20_000,
            (
                *(Stage(8, 2000), Stage(12, 8000), Stage(40, None, most=True)),
                *(Stage(20, None, most=True, power=0.9), Stage(8, None)),
            ),
        ),
        (None, 60_000, (Stage(8, 2000), Stage(12, 8000), Stage(1000, None, tail=True))),
        ("3x10, 2x20,4xall", 100, (Stage(3, 10), Stage(2, 20), Stage(4, None))),
        ("3x10,2x200,4xall", 100, (Stage(3, 10), Stage(6, None))),
        ("3xmost,2xmost,1xmost@1", 100, (Stage(5, None, most=True), Stage(1, None, most=True, power=1.0))),
        ("3xmost,1xmost@.7,2xall", 9, (Stage(6, None),)),  # of nine rows none is held out
    ],
)
def test_stages_follow_the_rows(text, n, stages):
    assert parse_stages(text, n) == stages


def test_no_other_power_is_tried_for_one_that_was_asked_for():
    assert parse_stages(None, 20_000, tries=False) == (Stage(8, 2000), Stage(12, 8000), Stage(40, None))
    assert parse_stages(None, 60_000, tail=False, tries=False)[-1] == Stage(40, None)


def test_several_classes_begin_at_one_power_and_try_another():
    last = (Stage(20, None, most=True), Stage(24, None, most=True, power=0.5), Stage(8, None))
    assert parse_stages(None, 500, tail=False) == (Stage(8, None), *last)
    assert parse_stages(None, 20_000, tail=False) == (Stage(8, 2000), Stage(12, 8000), *last)
    assert parse_stages(None, 500, tail=False, tries=False) == (Stage(48, None),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "all",
        "0xall",
        "3x0",
        "3xsome",
        "1xtail",
        "3xall,1xtail,3xall",
        "3xall@0.9",
        "3xmost@2",
        "3xmost@0.9,3xall",
        "3xmost@",
        "-3xall",
    ],
)
def test_stages_that_are_none_are_refused(text):
    with pytest.raises(UsageError, match=r"stages|tail"):
        PEP(stages=text)


def test_it_learns_what_can_be_learned(fit, boundary):
    X, y = boundary(400, noise=0.2)
    found = fit(small(max_iterations=200, stages="200xall"), X[:300], y[:300])
    score = found.posterior.score(X[300:], y[300:])
    assert -score.log_density.mean() < 0.25
    assert found.stopped_by == "converged"
    assert found.facts["clipped"] == 0
    assert 0.5 < found.facts["least_left"] <= 1.0
    assert found.facts["evaluations"] == found.iterations
    assert found.jitter > 0


def test_the_energy_rises_and_is_told_of_only_where_it_is_of_all_rows(fit, boundary):
    X, y = boundary(120)
    told = []
    fit(small(stages="4x30,8xall"), X, y, on_step=lambda step: told.append(step.bound))
    assert told[:4] == [None] * 4
    assert (np.diff(told[4:]) >= 0).all()


def test_stopped_in_a_subset_it_has_the_best_of_that_subset(fit, boundary):
    X, y = boundary(120)

    def stop(step):
        if step.iteration == 3:
            raise StopTraining

    found = fit(small(stages="4x30,8xall"), X, y, on_step=stop)
    assert (found.stopped_by, found.iterations, found.bound) == ("on_step", 3, None)
    assert np.isfinite(found.posterior.predict(X).probabilities).all()


def test_a_limit_that_passes_within_an_evaluation_ends_it(fit, boundary):
    X, y = boundary(120)

    class Clock:
        asked = 0

        def __call__(self, step):
            pass

        def check(self):
            self.asked += 1
            if self.asked == 2:
                raise StopTraining

    found = fit(small(), X, y, on_step=Clock())
    assert (found.stopped_by, found.iterations) == ("on_step", 0)
    assert np.isfinite(found.posterior.predict(X).probabilities).all()


class Judge(PEPTraining):
    """Training whose held-out rows say what they are told to: the NLL before a trial, and after each evaluation."""

    def __init__(self, *given, nlls, **options):
        super().__init__(*given, **options)
        self.nlls = iter(nlls)

    def _held_out_nll(self, _):
        return next(self.nlls)


@pytest.fixture
def training(boundary):
    def make(*nlls, **changed):
        X, y = boundary(120)
        scheme = small(max_iterations=1000, **changed)
        parts = {"inducing": InducingRule.of(vars(scheme), seed=0), "likelihood": Logit(), "classes": 2}
        made = Judge(scheme, X, y, nlls=nlls, rng=np.random.default_rng(0), **parts)
        made.trainer.on_step = lambda _: None
        return made

    return make


def lucky(training, monkeypatch, *, at=5, told=None):
    """An evaluation that gives a far too high energy, which nothing betters; ``told`` of each length of update."""
    evaluate, rates = training._evaluate, []

    def evaluated(*given, rate, **options):
        rates.append(rate)
        if told is not None:
            told(rate)
        state = evaluate(*given, rate=rate, **options)
        return state._replace(at=replace(state.at, value=state.at.value + 40.0)) if len(rates) == at else state

    monkeypatch.setattr(training, "_evaluate", evaluated)
    return rates


def test_an_energy_that_no_step_can_better_begins_a_new_search_with_shorter_updates(training, monkeypatch):
    fooled, plain = training(stages="64xall"), training(stages="64xall")
    rates = lucky(fooled, monkeypatch)
    fooled.train(), plain.train()
    assert rates[:9] == [1.0] * 9
    assert rates[9] == 0.5
    assert fooled.bound() == pytest.approx(plain.bound(), abs=0.5)


def test_another_stage_begins_with_updates_of_full_length(training, monkeypatch):
    fooled = training(stages="20x100,4xall")
    rates = lucky(fooled, monkeypatch)
    fooled.train()
    assert min(rates[:-4]) == 0.5
    assert rates[-4] == 1.0


def test_a_first_search_alone_has_never_converged(training, monkeypatch):
    """Where it begins with an energy that is too high it rises by nothing."""
    fooled = training(stages="64xall")
    rates = lucky(fooled, monkeypatch, at=1)
    fooled.train()
    assert len(rates) > 15


def test_a_new_search_that_cannot_begin_loses_nothing(training, monkeypatch):
    def fail(rate):
        if rate < 1.0:
            raise NumericalError("far away")

    made, short = training(stages="64xall"), training(stages="5xall")
    lucky(made, monkeypatch, told=fail)
    short.train()
    assert made.train() == "failed-to-improve"
    assert made.facts()["evaluations"] == 9
    assert np.array_equal(kernel_of(made), kernel_of(short))
    assert made.bound() == pytest.approx(short.bound() + 40.0)


def test_an_energy_without_a_value_where_training_begins_is_an_error(training, monkeypatch):
    made = training(stages="64xall")

    def fail(*_, **__):
        raise NumericalError("far away")

    monkeypatch.setattr(made, "_evaluate", fail)
    with pytest.raises(NumericalError, match="far away"):
        made.train()


@pytest.mark.parametrize(
    ("limit", "stages", "reason"),
    [
        (6, "8xall", "iterations"),
        (8, "8xall", "iterations"),
        (1000, "8xall", "schedule"),
        (1000, "400xall", "converged"),
        (1000, "400xall,4xtail", "schedule"),
    ],
)
def test_it_says_why_it_ended(fit, boundary, limit, stages, reason):
    X, y = boundary(120)
    assert fit(small(stages=stages, max_iterations=limit), X, y).stopped_by == reason


@pytest.mark.parametrize(("nll", "reason"), [(0.4, "schedule"), (0.6, "converged")])
def test_a_power_that_is_kept_ended_by_its_count(training, nll, reason):
    tried = training(0.5, *[nll] * 4, stages="400xmost,4xmost@0.9")
    assert tried.train() == reason


def test_a_trial_without_a_score_is_not_kept(training, monkeypatch):
    tried = training(stages="4xmost,4xmost@0.9")
    nlls = iter((0.5, 0.6, 0.4))

    def score(_):
        try:
            return next(nlls)
        except StopIteration:
            raise NumericalError("no score") from None

    monkeypatch.setattr(tried, "_held_out_nll", score)
    tried.train()
    assert tried.facts()["power"] == 0.5


@pytest.mark.parametrize(("swings", "rates"), [(True, {1.0, 0.5}), (False, {1.0})])
def test_sites_of_a_fixed_kernel_settle(training, monkeypatch, swings, rates):
    made, found = training(stages="64xall", hyperparameters="fixed", learn_inducing=False), set()
    evaluate, energies = made._evaluate, []

    def evaluated(*given, rate, **options):
        found.add(rate)
        state = evaluate(*given, rate=rate, **options)
        energies.append(state.at.value - (3.0 if swings and len(energies) == 2 else 0.0))
        return state._replace(at=replace(state.at, value=energies[-1]))

    monkeypatch.setattr(made, "_evaluate", evaluated)
    assert made.train() == "converged"
    assert found == rates
    assert len(energies) < 30


def kernel_of(training):
    return training.posterior().latents[0].kernel.theta


@pytest.mark.parametrize("better", [True, False])
def test_another_power_is_kept_where_the_rows_held_out_say_so(training, better):
    nlls = (0.5, 0.6, 0.6, 0.4, 0.6, 0.6, 0.4 if better else 0.5)
    tried, plain = training(*nlls, stages="4xmost,6xmost@0.9"), training(stages="4xmost")
    tried.train(), plain.train()
    assert not list(tried.nlls), "asked once before, and after each evaluation"
    assert tried.facts()["power"] == (0.9 if better else 0.5)
    assert tried.facts()["evaluations"] == 10
    assert np.array_equal(kernel_of(tried), kernel_of(plain)) != better
    assert tried.bound() is None, "some rows are held out"
    whole = training(*nlls, stages="4xmost,6xmost@0.9,3xall")
    whole.train()
    assert np.isfinite(whole.bound())


def test_what_is_tried_in_vain_leaves_the_bound(training):
    tried, plain = training(*[0.5] * 5, stages="8xall,4xmost@0.9"), training(stages="8xall")
    tried.train(), plain.train()
    assert tried.bound() == plain.bound()
    assert np.isfinite(plain.bound())


def test_what_is_tried_is_shown_only_while_it_is_better(training):
    tried, seen = training(0.5, 0.6, 0.6, 0.4, 0.6, 0.4, 0.4, stages="4xmost,6xmost@0.9"), []
    tried.trainer.on_step = lambda _: seen.append(kernel_of(tried))
    tried.train()
    same = [np.array_equal(theta, seen[3]) for theta in seen[4:]]
    assert same == [True, True, False, True, False, False]


@pytest.mark.parametrize(("nll", "power"), [(0.6, 0.5), (0.4, 0.9)])
def test_stopped_while_another_power_is_tried_it_says_which_it_has(training, nll, power):
    tried = training(0.5, nll, stages="4xmost,6xmost@0.9")

    def stop(step):
        if step.iteration == 5:
            raise StopTraining

    tried.trainer.on_step = stop
    with pytest.raises(StopTraining):
        tried.train()
    assert tried.facts()["power"] == power


def test_a_power_that_fails_is_not_kept(training, monkeypatch):
    tried = training(0.5, stages="4xmost,6xmost@0.9")
    climb = tried._climb

    def fail(stage):
        if stage.power is not None:
            tried._shown = None
            raise NumericalError("far away")
        return climb(stage)

    monkeypatch.setattr(tried, "_climb", fail)
    tried.train()
    assert tried.facts()["power"] == 0.5
    assert np.isfinite(kernel_of(tried)).all()


def test_the_rows_held_out_are_those_that_a_stage_on_most_leaves_out(training, monkeypatch):
    tried, rows = training(0.5, 0.4, 0.4, stages="2xmost,2xmost@0.9,2xall"), []
    energy = tried._energy
    monkeypatch.setattr(tried, "_energy", lambda X, y: rows.append(X[:]) or energy(X, y))
    tried.train()
    assert [len(each) for each in rows] == [108, 108, 120]
    held = {tuple(row) for row in rows[2][tried._held]}
    assert len(held) == 12
    assert not held & {tuple(row) for row in rows[0]}


@pytest.mark.parametrize("stages", ["20xall", "5x30,20xall", "3x40,12xtail", "5xmost,5xmost@0.9,5xall"])
def test_the_same_seed_gives_the_same_bits(fit, boundary, stages):
    X, y = boundary(120)
    one, two = (fit(small(stages=stages, batch_size=30), X, y, seed=3).posterior.arrays() for _ in range(2))
    for name, values in one.items():
        np.testing.assert_array_equal(values, two[name])


def test_a_fixed_kernel_has_its_sites_settled(fit, boundary):
    X, y = boundary(80)
    rule = InducingRule("given", Z=X[:10])
    scheme = PEP(hyperparameters="fixed", learn_inducing=False, precision="double", max_iterations=200)
    found = fit(scheme, X, y, inducing=rule)
    assert found.stopped_by == "converged"
    kernel = make_kernel("se-ard", 2, variance=np.e, lengthscale=np.sqrt(2.0), noise=0.0)
    settled = Energy(X, y, power=0.5, single=False).at(
        [kernel], [X[:10]], likelihood=Logit(), sites=Sites(y[None] - 0.5, np.full((1, 80), 0.25)), updates=200
    )
    assert found.bound == pytest.approx(settled.value, rel=1e-8)


@pytest.mark.parametrize(("task", "classes"), [("count", 0), ("ordinal", 3)])
def test_power_zero_meets_the_fixed_point_scheme(fit, task, classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = rng.poisson(np.exp(0.5 + np.sin(X[:, 0])))
    if task == "ordinal":
        y = np.digitize(y, [1, 3])
    rule = InducingRule("given", Z=X[:10])
    fixed = {"hyperparameters": "fixed", "noise": 0.0, "variance": 1.0}
    ours = PEP(power=0.0, learn_inducing=False, precision="double", max_iterations=300, **fixed)
    theirs = GVIFixedPoint(**fixed)
    one, two = (fit(each, X, y, inducing=rule, task=task, classes=classes) for each in (ours, theirs))
    assert one.bound == pytest.approx(two.bound, abs=1e-5)


@pytest.mark.parametrize("likelihood", ["poisson", "gaussian"])
def test_counts_are_learned_with_their_mean(fit, likelihood):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = rng.poisson(np.exp(2.0 + np.sin(2 * X[:, 0])))
    found = fit(small(likelihood=likelihood, max_iterations=60), X, y, task="count", classes=0)
    nll = -found.posterior.score(X, y).log_density.mean()
    plain = -Poisson().log_density(y, np.full(200, np.log(y.mean()))).mean()
    assert nll < plain - 0.5


@pytest.mark.parametrize("level", [5.0, 9.0, 12.0])
def test_large_counts_are_learned_as_small_ones_are(fit, level):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    intensity = np.exp(level + np.sin(2 * X[:, 0]))
    y = rng.poisson(intensity)
    found = fit(small(max_iterations=60), X[:200], y[:200], task="count", classes=0)
    assert found.bound < 0.0  # no probability of a count is above 1
    assert np.median(np.abs(found.posterior.predict(X[200:]).point / intensity[200:] - 1.0)) < 0.1


def test_float32_would_not_do_for_large_counts(fit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    y = rng.poisson(np.exp(12.0 + np.sin(2 * X[:, 0])))
    single, double = (
        fit(small(max_iterations=20, precision=name), X, y, task="count", classes=0).bound
        for name in ("single", "double")
    )
    assert single == double


def test_ordered_categories_are_learned_with_their_edges(fit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.digitize(np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=200), [-0.5, 0.5])
    found = fit(small(max_iterations=60), X, y, task="ordinal", classes=3)
    assert found.posterior.score(X, y).error.mean() < 0.25


def hard_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y = (X[:, 0] > 0).astype(int)
    far = X.copy()
    far[:3] *= 1000.0
    constant = X.copy()
    constant[:, 1] = 0.0
    return {
        "one class": (X, np.ones(100, dtype=int)),
        "constant column": (constant, y),
        "duplicates": (np.repeat(X[:50], 2, axis=0), np.repeat(y[:50], 2)),
        "conflicting duplicates": (np.repeat(X[:50], 2, axis=0), np.tile([0, 1], 50)),
        "a thousand standard deviations": (far, y),
        "separable": (X, y),
        "one input": (X[:, :1], y),
        "two hundred inputs": (rng.normal(size=(100, 200)), y),
        "noise": (X, rng.integers(2, size=100)),
    }


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", list(hard_rows()))
def test_hard_rows_give_finite_predictions_without_a_warning(fit, name, power):
    X, y = hard_rows()[name]
    found = fit(small(power=power, max_iterations=25), X, y)
    score = found.posterior.score(X, y)
    assert np.isfinite(score.log_density).all()


def test_all_rows_as_inducing_inputs(fit, boundary):
    X, y = boundary(40)
    found = fit(small(inducing="all"), X, y)
    assert np.isfinite(found.posterior.score(X, y).log_density).all()


def q_and_basis(boundary):
    X, y = boundary(120)
    kernel = make_kernel("se-ard", 2, variance=2.0, lengthscale=1.2, noise=0.0)
    at = Energy(X, y, power=0.5, single=False).at(
        [kernel], [X[:10]], likelihood=Logit(), sites=Sites(y[None] - 0.5, np.full((1, 120), 0.25)), updates=5
    )
    return X, y, at


def gradient_of(batch, q, *, g, h, scale):
    d = np.maximum(0.5 * g * g - 2 * h, 0.0)
    return batch.gradient(q, g=g, h=h, d=d, G=batch.sums(c=g, d=d)[0], scale=scale, jitter=1e-6)


def test_gradients_of_batches_average_to_that_of_all_rows(boundary):
    X, _, at = q_and_basis(boundary)
    rng = np.random.default_rng(0)
    g, h = rng.normal(size=120), -rng.uniform(size=120)

    def gradient(rows, scale):
        batch = Batch.of(at.bases[0], at.qs[0], X[rows], single=False)
        return gradient_of(batch, at.qs[0], g=g[rows], h=h[rows], scale=scale)

    whole, parts = gradient(np.arange(120), 1.0), [gradient(np.arange(i, 120, 4), 4.0) for i in range(4)]
    for name, values in whole.items():
        np.testing.assert_allclose(np.mean([part[name] for part in parts], axis=0), values, atol=1e-10)


def test_the_gradient_of_a_batch_is_that_of_differences(boundary):
    X, y, at = q_and_basis(boundary)
    kernel, Z = at.bases[0].kernel, at.bases[0].Z

    def value(theta, inputs):
        moved = kernel.with_theta(theta)
        basis = Basis(moved, inputs, jitter=1e-6 * float(moved.diag(inputs).mean()))
        batch = Batch.of(basis, at.qs[0], X, single=False)
        e = tilted(Logit(), y, Cavity(np.ones(120), batch.mu, batch.s, batch.s), power=0.5).e
        return 3.0 * e.sum() - at.qs[0].kl

    batch = Batch.of(Basis(kernel, Z, jitter=1e-6 * kernel.constant_diag), at.qs[0], X, single=False)
    found = tilted(Logit(), y, Cavity(np.ones(120), batch.mu, batch.s, batch.s), power=0.5)
    gradient = gradient_of(batch, at.qs[0], g=found.g, h=found.h, scale=3.0)
    for i, each in enumerate(1e-5 * np.eye(3)):
        rise = (value(kernel.theta + each, Z) - value(kernel.theta - each, Z)) / 2e-5
        assert gradient["theta0"][i] == pytest.approx(rise, abs=1e-5)
    for i in range(Z.size):
        step = np.zeros(Z.shape)
        step.flat[i] = 1e-5
        rise = (value(kernel.theta, Z + step) - value(kernel.theta, Z - step)) / 2e-5
        assert gradient["Z0"].flat[i] == pytest.approx(rise, abs=1e-5)


def test_the_tail_keeps_what_the_stages_have_found(fit, boundary):
    X, y = boundary(2000, noise=0.3)
    held, of = boundary(500, seed=1, noise=0.3)
    nll = {}
    for stages in ("4x60", "4x60,300xtail", "40xall"):
        found = fit(small(stages=stages, batch_size=200, max_iterations=1000), X, y)
        nll[stages] = -found.posterior.score(held, of).log_density.mean()
    assert nll["4x60,300xtail"] < nll["4x60"]
    assert nll["4x60,300xtail"] < 1.1 * nll["40xall"]


def test_several_classes_are_learned(fit, clusters):
    X, y = clusters(150)
    held, of = clusters(150, seed=1)
    found = fit(small(max_iterations=40), X, y, classes=3)
    score = found.posterior.score(held, of)
    assert -score.log_density.mean() < 0.35
    assert score.error.mean() < 0.15


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_classes_that_are_absent_or_alone_are_no_failure(fit, clusters, power):
    X, y = clusters(60)
    for labels in (np.zeros(60, dtype=int), np.where(y == 2, 0, y)):
        found = fit(small(max_iterations=10, power=power), X, labels, classes=3)
        assert np.isfinite(found.posterior.score(X, labels).log_density).all()


def test_with_several_classes_noise_is_not_learned(fit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 4))
    y = rng.integers(3, size=700)
    found = fit(PEP(inducing="50"), X[:300], y[:300], task="multiclass", classes=3)
    nll = -found.posterior.score(X[300:], y[300:]).log_density.mean()
    assert nll < np.log(3.0) + 0.1  # 1.35 at power 1/2 alone
    assert found.facts["power"] == 1.0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"stages": "2x30,5xtail"}, "tail"),
        ({"power": 0.0, "epsilon": 0.0}, "epsilon"),
        ({"epsilon": 0.0, "stages": "2xmost,2xmost@0"}, "epsilon"),
    ],
)
def test_what_several_classes_cannot_have_is_refused_before_any_row_is_seen(settings, words):
    with pytest.raises(UsageError, match=words):
        small(**settings).likelihood_for("multiclass", 3)


@pytest.mark.parametrize(("draw", "nll", "evaluations"), [(ringnorm, 0.17, 18), (twonorm, 0.08, 10)])
def test_so_many_evaluations_reach_a_good_nll(fit, draw, nll, evaluations):
    X, labels = draw(np.random.default_rng(0), 1600)
    y, reached = (labels > 0).astype(int), []

    def look(step):
        score = step.posterior().score(X[800:], y[800:])
        if -score.log_density.mean() <= nll:
            reached.append(step.iteration)
            raise StopTraining

    fit(PEP(inducing="50"), X[:800], y[:800], on_step=look)
    assert reached
    assert reached[0] <= evaluations
