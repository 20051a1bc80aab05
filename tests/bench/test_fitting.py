"""One model on all rows: what ends its training."""

from dataclasses import dataclass

import numpy as np
import pytest
from bench_fakes import FakePosterior, FakeScheme

from gpbench.bench.choices import Choice
from gpbench.bench.fitting import fit_rows
from gpbench.bench.methods import Method
from gpbench.errors import UsageError
from gpbench.schemes.base import Fit, Step, StopTraining

LOOKS = []


@dataclass(frozen=True)
class Elsewhere(FakeScheme):
    """Trains on a clock of its own, a second a step, and reports no oftener than it is asked to."""

    def fit(self, X, y, *, inducing, likelihood, classes, rng, on_step):  # noqa: ARG002
        def posterior():
            raise AssertionError("nobody looks at it before the end")

        stopped_by, iteration = "iterations", 0
        with on_step.paused():  # its start-up
            pass
        try:
            while iteration < self.max_iterations:
                seconds, last = on_step.next_look()
                LOOKS.append(seconds)
                iteration = int(min(self.max_iterations, last, max(iteration + 1, np.ceil(seconds))))
                on_step(Step(iteration, bound=None, posterior=posterior, elapsed=(2.0 * iteration, float(iteration))))
        except StopTraining:
            stopped_by = "on_step"
        return Fit(posterior=FakePosterior(np.zeros(X.shape[1])), stopped_by=stopped_by, iterations=iteration)


def fitted(*, seconds, seed=0, threads=1, **settings):
    LOOKS.clear()
    method = Method(id="elsewhere", title="Elsewhere", tasks=frozenset({"binary"}), scheme=Elsewhere)
    choice = Choice(method, method.resolve(settings))
    X = np.arange(12.0).reshape(6, 2)
    return fit_rows(choice, X, np.arange(6) % 2, task="binary", classes=2, seed=seed, seconds=seconds, threads=threads)


@pytest.mark.parametrize(("seconds", "ended"), [(5.0, (5, "on_step")), (200.0, (100, "iterations"))])
def test_the_clock_of_a_scheme_in_a_process_of_its_own_counts(seconds, ended):
    found = fitted(seconds=seconds)
    assert (found.iterations, found.stopped_by) == ended


@pytest.mark.parametrize("threads", [2, None])
def test_with_several_threads_the_wall_counts_as_for_a_cell(threads):
    found = fitted(seconds=10.0, threads=threads)  # each iteration takes a second of the processor and two on the wall
    assert found.stopped_by == "on_step"
    assert found.iterations < fitted(seconds=10.0).iterations == 10


def test_a_state_is_asked_for_at_moments_that_grow_apart():
    found = fitted(seconds=None, max_iterations=10_000)
    assert found.iterations == 10_000
    assert len(LOOKS) < 50
    assert np.diff(LOOKS)[-1] > 1000.0


@pytest.mark.parametrize("seconds", [-1, 0.0, np.nan, np.inf, "3"])
def test_a_limit_that_is_none_is_refused(seconds):
    with pytest.raises(UsageError, match="the limit on seconds must be a positive number; got "):
        fitted(seconds=seconds)
