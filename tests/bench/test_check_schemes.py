"""``gpbench check``: every built-in method holds what every scheme must, and schemes that do not are found out."""

import inspect
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from third_party import LAPLACE, Laplace, Newton

import gpbench
from gpbench.bench.builtin import BUILT_IN
from gpbench.bench.check.behaviour import BEHAVIOUR
from gpbench.bench.check.check import check
from gpbench.bench.check.settings import is_read, values_of
from gpbench.bench.check.trial import Trial
from gpbench.bench.method import Checking
from gpbench.errors import UsageError
from gpbench.schemes.base import Setting

RIVALS = "gpbench.peers."
"""Trained in processes of their own, seconds for each fit; tests/peers holds them to their contract."""
SLOW = {
    "x-gpc",
    "klsp-sgd",
    "svi-adadelta",
    "gfitc",
    "gvi-sgd",
    "ep-mgpc",
    "sep-mgpc",
    "vi-mgpc",
    "vi-mgpc-learned",
    "hgb",
    "hgb-tuned",
    "rff",
}
"""Methods whose check takes more than five seconds."""


def failures(method, **chosen):
    return [f"{each.task} {each.check}: {each.reason}" for each in check(method, **chosen) if each.outcome == "failed"]


EVERY = [
    pytest.param(method, id=method.id, marks=[pytest.mark.slow] if method.id in SLOW else [])
    for method in BUILT_IN
    if not method.scheme.startswith(RIVALS)
]


@pytest.mark.parametrize("method", EVERY)
def test_each_built_in_method_holds_what_every_scheme_must(method):
    assert failures(method) == []


@pytest.mark.parametrize("method", BUILT_IN, ids=lambda m: m.id)
def test_what_a_method_states_for_its_check_is_of_its_settings_and_of_the_checks(method):
    stated, known = method.checking, method.settings()
    assert {*stated.short, *stated.settled, *stated.acts_with, *stated.memory} - {"block_rows"} <= set(known)
    assert set(stated.exempt) <= {*BEHAVIOUR, *(f"setting {name}" for name in known)}
    for context in (stated.short, stated.settled, *stated.acts_with.values()):
        method.resolve(context)
    assert all(len(reason) > 10 for reason in (*stated.memory.values(), *stated.exempt.values()))


def test_a_third_partys_scheme_holds_it():
    found = list(check(LAPLACE))
    assert [each for each in found if each.outcome == "failed"] == []
    assert {each.check: each.reason for each in found if each.outcome == "exempt"} == {
        "gradient": "not offered (a method differentiable)"
    }
    assert [each.check for each in found][: len(BEHAVIOUR)] == list(BEHAVIOUR)
    assert [each.check for each in found][len(BEHAVIOUR) :] == [f"setting {name}" for name in LAPLACE.settings()]
    assert {each.task for each in found} == {"binary", ""}


def with_training(change):
    """The third party's scheme with another training: ``change`` gives a subclass of Newton."""

    @dataclass(frozen=True, kw_only=True)
    class Changed(Laplace):
        def start(self, X, y, *, inducing, likelihood, **_):
            training = change(self, X, y, Z=inducing.choose(X), likelihood=likelihood)
            training.rng = np.random.default_rng()
            return training

    return Changed


class Forgetful(Newton):
    """Draws from a generator of its own."""

    def train(self):
        ended = super().train()
        self.q = self.q.with_mean(self.q.mean + 1e-12 * self.rng.normal(size=self.q.mean.shape))
        return ended


class Boastful(Newton):
    """Says converged, however it ended."""

    def train(self):
        super().train()
        return "converged"


class Biased(Newton):
    """Leans to the second class."""

    def posterior(self):
        self.q = self.q.with_mean(self.q.mean + 0.3)
        return super().posterior()


class Leaning(Newton):
    """Likewise, though looking at it changes nothing."""

    def posterior(self):
        q = self.q.with_mean(self.q.mean + 0.01)
        return gpbench.Posterior((gpbench.Latent.of(self.basis, q),), self.likelihood, classes=2)


class InOrder(Newton):
    """Knows the first rows only."""

    def __init__(self, scheme, X, y, *, Z, likelihood):
        super().__init__(scheme, X[: len(X) // 2], y[: len(X) // 2], Z=Z, likelihood=likelihood)


class Unbounded(Newton):
    """Tells bounds that are none."""

    def bound(self):
        return np.inf


class Miscounting(Newton):
    """Tells of every step twice."""

    def train(self):
        report = self.trainer.report
        self.trainer.report = lambda: (report(), self.trainer.on_step(gpbench.Step(1, bound=None, posterior=None)))
        return super().train()


class Deaf(Newton):
    """Goes on when it is stopped."""

    def train(self):
        report = self.trainer.report

        def go_on():
            try:
                report()
            except gpbench.StopTraining:
                self.trainer.stopped_by = "on_step"

        self.trainer.report = go_on
        return super().train()


class Priorish(Newton):
    """Never learns anything."""

    def posterior(self):
        q = gpbench.GaussianQ.prior(len(self.q.mean))
        return gpbench.Posterior((gpbench.Latent.of(self.basis, q),), self.likelihood, classes=2)


@pytest.mark.parametrize(
    ("training", "fails"),
    [
        (Forgetful, "same bits"),
        (Boastful, "limit"),
        (Biased, "looking"),
        (Leaning, "labels swapped"),
        (InOrder, "rows permuted"),
        (Unbounded, "steps"),
        (Miscounting, "steps"),
        (Deaf, "stopped"),
        (Priorish, "shares"),
    ],
)
def test_a_scheme_that_does_not_hold_it_is_found_out(training, fails):
    method = replace(LAPLACE, scheme=with_training(training))
    found = failures(method)
    assert any(each.startswith(f"binary {fails}: ") for each in found), found


@dataclass(frozen=True, kw_only=True)
class Idle(Laplace):
    """Has settings that nothing reads."""

    damping: float = gpbench.setting(0.5, "nothing reads it", minimum=0.0, maximum=1.0)
    rounds: int = gpbench.setting(5, "nor this", minimum=1)
    careful: bool = gpbench.setting(False, "nor this")
    mode: str = gpbench.setting("a", "nor this", choices=("a", "b"))
    text: str | None = gpbench.setting(None, "nor this", kind=str)


def test_settings_that_nothing_reads_are_found_out():
    found = failures(replace(LAPLACE, scheme=Idle))
    idle = {"damping", "rounds", "careful", "mode", "text"}
    assert {each.split()[1].rstrip(":") for each in found} == idle
    assert all("changes the posterior's bits, the iterations or whether there is a fit" in each for each in found)


@dataclass(frozen=True, kw_only=True)
class Hidden(Laplace):
    """Has a setting that acts together with a choice, one that acts under two others, and one that is refused."""

    mode: str = gpbench.setting("plain", "how", choices=("plain", "shifted"))
    shift: float = gpbench.setting(0.1, "acts if shifted", minimum=0.0, maximum=1.0)
    depth: int = gpbench.setting(1, "acts if shifted by more than a half", minimum=1)
    most: int = gpbench.setting(2000, "rows at most", minimum=1)

    def start(self, X, y, *, inducing, likelihood, classes, rng):
        if len(X) > self.most:
            raise UsageError("too many")
        training = super().start(X, y, inducing=inducing, likelihood=likelihood, classes=classes, rng=rng)
        if self.mode == "shifted":
            more = self.shift + (0.01 * self.depth if self.shift > 0.5 else 0.0)
            training.T = training.T * (1.0 + more)
        return training


def test_settings_that_act_under_others_are_seen():
    hidden = replace(LAPLACE, scheme=Hidden)
    trials = [Trial(hidden, "binary")]
    assert is_read("shift", trials).endswith("differ with mode=shifted")
    assert is_read("most", trials).startswith("binary: 2000 and 1 differ")
    assert {each.split()[1] for each in failures(hidden)} == {"depth:"}
    stated = Checking(acts_with={"depth": {"mode": "shifted", "shift": 0.9}})
    assert failures(replace(hidden, checking=stated)) == []


def test_exceptions_are_told_with_their_reason_and_memory_is_held_to_be_that_alone():
    stated = Checking(exempt={"rows permuted": "drawn in order"}, memory={"tolerance": "said to be memory"})
    found = {each.check: each for each in check(replace(LAPLACE, scheme=with_training(InOrder), checking=stated))}
    assert (found["rows permuted"].outcome, found["rows permuted"].reason) == ("exempt", "drawn in order")
    wrong = Checking(memory={"noise": "said to be memory"})
    found = {each.check: each for each in check(replace(LAPLACE, checking=wrong))}
    assert found["setting noise"].outcome == "failed"
    assert "said to change memory alone; predictions differ by" in found["setting noise"].reason


def test_a_bare_posterior_is_no_fit():
    @dataclass(frozen=True, kw_only=True)
    class Bare(Laplace):
        def fit(self, X, y, **others):
            return super().fit(X, y, **others).posterior

    found = failures(replace(LAPLACE, scheme=Bare))
    assert "binary same bits: fit must give a Fit, which says how training ended; got a Posterior" in found


def test_an_error_of_a_scheme_is_a_failure_that_names_it():
    @dataclass(frozen=True, kw_only=True)
    class Broken(Laplace):
        def start(self, *_, **__):
            raise ZeroDivisionError("no rows")

    found = failures(replace(LAPLACE, scheme=Broken))
    place = f"{Path(__file__).name}:{inspect.getsourcelines(Broken.start)[1] + 1}"
    assert f"binary same bits: ZeroDivisionError: no rows ({place})" in found


@pytest.mark.parametrize(("factor", "outcome"), [(1.0, "ok"), (1.01, "failed")])
def test_gradients_that_are_offered_are_checked(factor, outcome):
    @dataclass(frozen=True, kw_only=True)
    class Offering(Laplace):
        def differentiable(self, X, _, *, inducing, rng, **__):
            centre = inducing.choose(X).sum(axis=0)
            return lambda x: (-0.5 * np.sum((x - centre) ** 2), factor * (centre - x)), rng.normal(size=2)

    found = {each.check: each.outcome for each in check(replace(LAPLACE, scheme=Offering))}
    assert found["gradient"] == outcome


def test_a_task_that_the_method_does_not_do_is_refused():
    with pytest.raises(UsageError, match="method laplace cannot do generated data of task count"):
        check(LAPLACE, tasks=["count"])


@pytest.mark.parametrize(
    ("setting", "now", "values"),
    [
        (Setting("a", bool, False, ""), False, [True]),
        (Setting("a", str, "x", "", choices=("x", "y", "z"), rules=("from:METHOD",)), "y", ["x", "z"]),
        (Setting("a", float, 0.3, "", minimum=0.0, maximum=1.0), 0.3, [0.1, 0.9, 0.0003, 0.0, 1.0]),
        (Setting("a", int, 2000, "", minimum=1), 2000, [1, 2, 667, 6000]),
        (Setting("inducing", str, "100", ""), "6", ["3", "all", "50%"]),
        (Setting("a", float, None, "", maximum=1.0, optional=True, rules=("median",)), None,
         [0.5, 1e-3, 0.05, 1.0, "median"]),
    ],
)  # fmt: skip
def test_values_to_try(setting, now, values):
    assert list(values_of(setting, now)) == pytest.approx(values)
