import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbench.bench import clock as clock_module
from gpbench.bench.clock import Clock, LogGrid


@pytest.fixture
def hands(monkeypatch):
    """Wall and processor time that stand still unless moved."""
    times = {"wall": 100.0, "cpu": 50.0}
    monkeypatch.setattr(clock_module, "perf_counter", lambda: times["wall"])
    monkeypatch.setattr(clock_module, "process_time", lambda: times["cpu"])
    return times


def test_counts_only_while_it_runs(hands):
    clock = Clock()
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
    assert (clock.seconds, clock.cpu_seconds) == (2.5, 3.25)


def test_stopping_twice_counts_once(hands):
    clock = Clock()
    clock.start()
    hands["wall"] += 2.0
    clock.stop()
    hands["wall"] += 5.0
    clock.stop()
    assert clock.seconds == 2.0


def test_moment_is_when_the_clock_will_show_so_many_seconds(hands):
    clock = Clock()
    clock.start()
    hands["wall"] += 2.0
    clock.stop()
    hands["wall"] += 40.0
    clock.start()
    hands["wall"] = clock.moment(7.0)
    clock.stop()
    assert clock.seconds == pytest.approx(7.0)


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
