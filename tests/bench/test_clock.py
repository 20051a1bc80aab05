import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbench.bench import clock as clock_module
from gpbench.bench.clock import Clock, LogGrid, clock_for


@pytest.fixture
def hands(monkeypatch):
    """Wall and processor time that stand still unless moved."""
    times = {"wall": 100.0, "cpu": 50.0}
    monkeypatch.setattr(clock_module, "perf_counter", lambda: times["wall"])
    monkeypatch.setattr(clock_module, "process_time", lambda: times["cpu"])
    return times


@pytest.mark.parametrize(("threads", "seconds"), [(1, 3.25), (2, 2.5)])
def test_counts_only_while_it_runs(hands, threads, seconds):
    clock = Clock(clock_for(threads))
    hands["wall"] += 1000
    clock.start()
    hands["wall"] += 2.0
    hands["cpu"] += 3.0
    clock.stop()
    hands["wall"] += 70
    hands["cpu"] += 70
    clock.start()
    hands["wall"] += 0.5
    hands["cpu"] += 0.25
    clock.stop()
    assert (clock.seconds, clock.wall_seconds, clock.cpu_seconds) == (seconds, 2.5, 3.25)


def test_stopping_twice_counts_once(hands):
    clock = Clock("wall")
    clock.start()
    hands["wall"] += 2.0
    clock.stop()
    hands["wall"] += 5.0
    clock.stop()
    assert clock.seconds == 2.0


def test_moment_is_when_the_clock_will_show_so_many_seconds(hands):
    clock = Clock("wall")
    clock.start()
    hands["wall"] += 2.0
    clock.stop()
    hands["wall"] += 40.0
    clock.start()
    hands["wall"] = clock.moment(7.0)
    clock.stop()
    assert clock.seconds == pytest.approx(7.0)


@pytest.mark.parametrize(("cpu", "left"), [(2.0, 5.0), (0.5, 6.5), (4.0, 1.5)])
def test_one_threads_processor_time_is_not_expected_before_as_much_wall_has_passed(hands, cpu, left):
    clock = Clock("processor")
    clock.start()
    hands["wall"] += 2.0
    hands["cpu"] += cpu
    clock.stop()
    hands["wall"] += 40.0
    clock.start()
    assert clock.moment(7.0) == hands["wall"] + left  # on two threads it would go on twice as fast


def test_a_stopped_process_does_not_train():
    child = subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, text=True)
    with child:
        child.stdout.readline()
        child.send_signal(signal.SIGSTOP)
        time.sleep(1.0)
        child.send_signal(signal.SIGCONT)
        processor, wall = map(float, child.stdout.readline().split())
    assert wall >= processor + 0.9
    assert processor < 1.0


STOPPED = """
from time import process_time
from gpbench.bench.clock import Clock
clock = Clock("processor")
clock.start()
print("trains", flush=True)
while process_time() - clock._cpu_since < 0.3:
    pass
clock.stop()
print(clock.seconds, clock.wall_seconds)
"""


@given(st.floats(0, 1e6), st.integers(1, 50))
def test_next_time_of_the_grid_is_the_first_that_is_later(seconds, per_decade):
    grid = LogGrid(first=1e-3, per_decade=per_decade)
    following = grid.after(seconds)
    assert following > seconds
    factor = 10 ** (1 / per_decade)
    assert following == 1e-3 or following <= max(seconds, 1e-3) * factor * (1 + 1e-12)


def test_grid_is_the_same_for_all_cells():
    grid = LogGrid(first=1e-3, per_decade=4)
    times = [0.0]
    while times[-1] < 0.9:
        times.append(grid.after(times[-1]))
    assert times[1:] == pytest.approx([1e-3 * 10 ** (k / 4) for k in range(13)])
    assert grid.after(0.0123) == grid.after(0.0111)
