import numpy as np
import pytest

from gpbench.bench import calibration
from gpbench.bench.calibration import Gauge


@pytest.fixture
def hands(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(calibration, "perf_counter", lambda: now[0])
    return now


def test_the_step_is_timed_at_once_and_every_half_minute(hands):
    gauge = Gauge()
    for second in range(91):
        hands[0] = 100.0 + second
        gauge.take_if_due()
    record = gauge.record()
    assert record["times"] == 4
    assert 0.0 < record["lowest"] <= record["step_seconds"] <= record["highest"] < 1.0
    gauge.begin()  # the next cell: the latest is half a second old
    assert gauge.record()["times"] == 1


def test_a_cell_that_begins_late_has_a_time_of_its_own(hands):
    gauge = Gauge()
    gauge.begin()
    gauge._taken[:] = [99.0]  # seconds: as beside a load that is gone
    hands[0] += 1000.0
    gauge.begin()
    record = gauge.record()
    assert record["times"] == 1
    assert record["highest"] < 1.0


def test_nothing_was_taken():
    assert Gauge().record() == {}


def test_half_the_work_takes_less(monkeypatch):
    slow, fast = Gauge(), Gauge()
    step = slow._step
    monkeypatch.setattr(slow, "_step", lambda: [step() for _ in range(4)])
    slow.take_if_due()
    fast.take_if_due()
    assert fast.record()["step_seconds"] < slow.record()["step_seconds"]
    assert np.isfinite(slow.due)
