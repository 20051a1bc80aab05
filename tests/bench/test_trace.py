import math

import pytest

from gpbench.bench import clock as clock_module
from gpbench.bench import trace as trace_module
from gpbench.bench.cell import Limits
from gpbench.bench.clock import Clock, LogGrid
from gpbench.bench.trace import Trace, Watcher
from gpbench.schemes.base import Step, StopTraining


class Hands:
    """A wall clock that moves when it is told to, and counts who looks at it."""

    def __init__(self):
        self.wall = 10.0
        self.share = 1.0  # of the processor
        self.looks = 0
        self.cpu_looks = 0

    def perf_counter(self):
        self.looks += 1
        return self.wall

    def process_time(self):
        self.cpu_looks += 1
        return self.share * self.wall


@pytest.fixture
def hands(monkeypatch):
    found = Hands()
    for module in (clock_module, trace_module):
        monkeypatch.setattr(module, "perf_counter", found.perf_counter)
    monkeypatch.setattr(clock_module, "process_time", found.process_time)
    return found


def a_watcher(hands, *, cost=0.0, counts="processor", gauge=None, **limits):
    def evaluate(posterior):
        hands.wall += cost
        return posterior, posterior / 10

    clock = Clock(counts)
    grid = LogGrid(first=1.0, per_decade=1)
    watcher = Watcher(clock, evaluate, limits=Limits(**limits), grid=grid, gauge=gauge)
    watcher.begin()
    return clock, watcher


def step(iteration, bound=None):
    return Step(iteration, bound=bound, posterior=lambda: float(iteration))


def run(hands, watcher, *, steps, each):
    for iteration in range(1, steps + 1):
        hands.wall += each
        watcher(step(iteration, bound=-iteration))


def test_evaluates_the_first_step_and_then_on_the_grid(hands):
    _, watcher = a_watcher(hands)
    run(hands, watcher, steps=250, each=0.5)
    # 1, 10 and 100 seconds are reached at steps 2, 20 and 200.
    assert watcher.trace.iteration == [1, 2, 20, 200]
    assert watcher.trace.seconds == pytest.approx([0.5, 1.0, 10.0, 100.0])
    assert watcher.trace.nll == [1.0, 2.0, 20.0, 200.0]
    assert watcher.trace.bound == [-1, -2, -20, -200]


def test_without_test_rows_it_holds_to_limits_and_asks_for_no_posterior(hands):
    watcher = Watcher(Clock(), None, limits=Limits(seconds=20.0))
    watcher.begin()
    with pytest.raises(StopTraining):
        run(hands, watcher, steps=100, each=0.5)
    assert (watcher.iteration, watcher.stopped_by, watcher.trace) == (40, "seconds", Trace())


def test_evaluation_is_not_on_the_clock(hands):
    clock, watcher = a_watcher(hands, cost=1000.0)
    run(hands, watcher, steps=30, each=0.5)
    clock.stop()
    assert clock.seconds == pytest.approx(15.0)
    assert watcher.trace.iteration == [1, 2, 20]


def test_a_step_at_which_nothing_is_due_costs_one_look_at_the_clock(hands):
    _, watcher = a_watcher(hands)
    run(hands, watcher, steps=2, each=0.5)
    hands.looks = hands.cpu_looks = 0
    run(hands, watcher, steps=10, each=0.1)
    assert (hands.looks, hands.cpu_looks) == (10, 0)


def test_limit_on_iterations(hands):
    _, watcher = a_watcher(hands, iterations=7)
    with pytest.raises(StopTraining):
        run(hands, watcher, steps=100, each=0.01)
    assert (watcher.iteration, watcher.stopped_by, watcher.bound) == (7, "iterations", -7)


def test_limit_on_seconds_counts_training_alone(hands):
    clock, watcher = a_watcher(hands, cost=50.0, seconds=3.2)
    with pytest.raises(StopTraining):
        run(hands, watcher, steps=100, each=0.5)
    assert (watcher.iteration, watcher.stopped_by) == (7, "seconds")
    clock.stop()
    assert clock.seconds == pytest.approx(3.5)


def test_clock_runs_on_after_the_end_of_training_is_asked_for(hands):
    clock, watcher = a_watcher(hands, iterations=1)
    with pytest.raises(StopTraining):
        watcher(step(1))
    hands.wall += 2.0  # the scheme still makes its posterior
    clock.stop()
    assert clock.seconds == pytest.approx(2.0)


def test_clock_runs_on_when_an_evaluation_fails(hands):
    clock, watcher = a_watcher(hands)
    broken = Step(1, bound=None, posterior=lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        watcher(broken)
    hands.wall += 1.0
    clock.stop()
    assert clock.seconds == pytest.approx(1.0)


def test_a_measurement_of_the_same_iteration_takes_the_last_ones_place():
    trace = Trace()
    trace.add(seconds=1.0, iteration=1, nll=3.0, error=0.3, bound=None)
    trace.add(seconds=2.0, iteration=4, nll=2.0, error=0.2, bound=-1.0)
    trace.add(seconds=2.5, iteration=4, nll=1.0, error=0.1, bound=-2.0)
    assert trace.columns() == {
        "seconds": [1.0, 2.5],
        "iteration": [1, 4],
        "nll": [3.0, 1.0],
        "error": [0.3, 0.1],
        "bound": [None, -2.0],
    }


def test_json_has_null_for_what_is_not_finite():
    trace = Trace()
    trace.add(seconds=1.0, iteration=1, nll=math.inf, error=math.nan, bound=-math.inf)
    assert (trace.columns()["nll"], trace.columns()["error"], trace.columns()["bound"]) == ([None], [None], [None])


def test_a_step_with_a_clock_of_its_own_moves_the_hands(hands):
    clock, watcher = a_watcher(hands, counts="wall", seconds=15.0, iterations=900)
    assert watcher.next_look() == (0.0, 1.0)
    for iteration, seconds in ((1, 0.2), (40, 10.0)):
        hands.wall += 100.0  # start-up, compilation, evaluation: on nobody's clock
        watcher(Step(iteration, bound=None, posterior=lambda: 1.0, elapsed=(seconds, 2 * seconds)))
        assert (clock.seconds, clock.cpu_seconds) == (seconds, 2 * seconds)
    assert watcher.next_look() == (15.0, 900)
    with pytest.raises(StopTraining):
        watcher(Step(50, bound=None, posterior=lambda: 1.0, elapsed=(15.5, 15.5)))
    clock.stop()
    assert (watcher.stopped_by, clock.seconds) == ("seconds", 15.5)
    assert watcher.trace.seconds == [0.2, 10.0]


def test_says_when_it_will_look(hands):
    _, watcher = a_watcher(hands)
    run(hands, watcher, steps=2, each=0.6)
    assert watcher.next_look() == (10.0, math.inf)


def test_looks_and_limits_follow_the_processor_on_a_busy_machine(hands):
    hands.share = 0.25
    clock, watcher = a_watcher(hands, seconds=20.0)
    with pytest.raises(StopTraining):
        run(hands, watcher, steps=10_000, each=0.5)
    # An eighth of a processor second a step: the steps of a machine that nobody else uses.
    assert watcher.trace.iteration == [1, 8, 80]
    assert (watcher.iteration, watcher.stopped_by) == (160, "seconds")
    clock.stop()
    assert (clock.seconds, clock.wall_seconds) == (pytest.approx(20.0), pytest.approx(80.0))


def test_a_process_of_several_threads_is_stopped_about_when_its_seconds_are_used_up(hands):
    hands.share = 4.0
    _, watcher = a_watcher(hands, seconds=20.0)
    with pytest.raises(StopTraining):
        run(hands, watcher, steps=10_000, each=0.03125)
    assert (watcher.iteration, watcher.stopped_by) == (160, "seconds")


def test_a_long_step_ends_where_a_limit_on_seconds_has_passed(hands):
    clock, watcher = a_watcher(hands, cost=100.0, seconds=3.0)
    hands.wall += 1.0
    watcher(step(1))
    for _ in range(3):
        hands.wall += 0.6
        watcher.check()
    hands.wall += 0.6
    with pytest.raises(StopTraining):
        watcher.check()
    assert (watcher.iteration, watcher.stopped_by) == (1, "seconds")
    assert watcher.trace.iteration == [1]  # nothing is evaluated there
    hands.wall += 1.0
    clock.stop()
    assert clock.seconds == pytest.approx(4.4)


def test_a_check_before_the_limit_costs_one_look_at_the_clock(hands):
    _, watcher = a_watcher(hands, seconds=1000.0)
    watcher.check()
    hands.looks = hands.cpu_looks = 0
    for _ in range(10):
        hands.wall += 1.0
        watcher.check()
    assert (hands.looks, hands.cpu_looks) == (10, 0)


def test_the_fixed_step_is_timed_when_it_is_due_and_not_on_the_clock(hands):
    gauge = FakeGauge(hands)
    clock, watcher = a_watcher(hands, gauge=gauge, seconds=100.0)
    run(hands, watcher, steps=130, each=0.5)
    for _ in range(60):  # within a step
        hands.wall += 0.5
        watcher.check()
    clock.stop()
    assert len(gauge.taken) == 4  # at the first step, and after each half minute
    assert clock.seconds == pytest.approx(95.0)
    assert watcher.trace.iteration == [1, 2, 20]


class FakeGauge:
    def __init__(self, hands):
        self.hands, self.due, self.taken = hands, 0.0, []

    def take_if_due(self):
        if self.hands.wall >= self.due:
            self.taken.append(self.hands.wall)
            self.hands.wall += 5.0
            self.due = self.hands.wall + 30.0


def test_a_pause_is_not_on_the_clock(hands):
    clock, watcher = a_watcher(hands)
    hands.wall += 1.0
    with watcher.paused():
        hands.wall += 50.0
    hands.wall += 1.0
    watcher.end()
    assert clock.seconds == pytest.approx(2.0)
