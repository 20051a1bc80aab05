"""The clock inside a rival's process, with hands that the test moves."""

import numpy as np
import pytest

from gpbench.peers.children import harness
from gpbench.peers.children.harness import Pace, Stop


class Hands:
    """A clock that moves when it is told to."""

    def __init__(self):
        self.now = 50.0

    def __call__(self):
        return self.now


class Script:
    """gpbench's side: answers that were written beforehand, each after a pause; keeps what was said."""

    def __init__(self, hands, answers, *, pause=0.0):
        self.hands, self.answers, self.pause, self.said = hands, list(answers), pause, []

    def say(self, kind, **content):
        assert kind == "look"
        self.said.append(content)

    def hear(self, *kinds):
        self.hands.now += self.pause
        if not self.answers:
            raise Stop
        seconds, iteration = self.answers.pop(0)
        return kinds[0], {"seconds": seconds, "iteration": iteration}


@pytest.fixture
def hands(monkeypatch):
    found = Hands()
    monkeypatch.setattr(harness, "perf_counter", found)
    monkeypatch.setattr(harness, "process_time", lambda: 2 * found.now)
    return found


def train(pace, hands, *, each):
    """Steps of ``each`` seconds until gpbench wants no more; the strides."""
    strides = []
    while True:
        strides.append(pace.allowance(10**6))
        hands.now += each * strides[-1]
        try:
            pace.ran(strides[-1], bound=-2.0)
        except Stop:
            return strides


def pace_of(hands, answers, tmp_path, *, clock="wall", **options):
    def state():
        hands.now += 1000.0  # making the state is on nobody's clock
        return {"theta": np.array([0.5]), "jitter": 1e-6, "m_w": np.zeros(2)}

    script = Script(hands, answers, **options)
    return Pace(script, str(tmp_path), state, clock=clock), script


def test_only_steps_count(hands, tmp_path):
    pace, script = pace_of(hands, [(0.0, 1), (1.0, None), (3.0, None)], tmp_path, pause=500.0)
    train(pace, hands, each=0.01)
    seconds = [look["seconds"] for look in script.said]
    assert seconds == pytest.approx([0.01, 1.0, 3.0], abs=0.011)
    assert [look["cpu_seconds"] for look in script.said] == pytest.approx([2 * each for each in seconds])
    assert [look["iteration"] for look in script.said] == [round(each / 0.01) for each in seconds]
    first = script.said[0]
    assert (first["bound"], first["theta"], first["jitter"], first["ended"]) == (-2.0, [0.5], 1e-6, None)
    with np.load(tmp_path / first["state"]) as found:
        assert found.files == ["m_w"]


def test_looks_follow_the_processor_where_its_seconds_count(hands, tmp_path):
    pace, script = pace_of(hands, [(0.0, 1), (1.0, None), (3.0, None)], tmp_path, clock="processor", pause=500.0)
    train(pace, hands, each=0.01)  # of the wall: two processor seconds in each
    assert [look["cpu_seconds"] for look in script.said] == pytest.approx([0.02, 1.0, 3.0], abs=0.03)
    assert [look["seconds"] for look in script.said] == pytest.approx([0.01, 0.5, 1.5], abs=0.02)


def test_a_look_comes_at_its_iteration_exactly(hands, tmp_path):
    pace, script = pace_of(hands, [(0.0, 1), (1e9, 1234)], tmp_path)
    train(pace, hands, each=1e-4)
    assert [look["iteration"] for look in script.said] == [1, 1234]


def test_strides_grow_and_never_pass_the_look_or_a_second(hands, tmp_path):
    pace, script = pace_of(hands, [(0.0, 1), (100.0, None)], tmp_path)
    strides = train(pace, hands, each=1e-3)
    assert strides[:4] == [1, 4, 16, 64]
    assert max(strides) <= 1000
    assert len(strides) < 150
    assert script.said[-1]["seconds"] == pytest.approx(100.0, abs=2e-3)


def test_a_slow_step_is_taken_one_at_a_time(hands, tmp_path):
    pace, script = pace_of(hands, [(0.0, 1), (10.0, None)], tmp_path)
    assert train(pace, hands, each=3.0) == [1, 1, 1, 1]
    assert [look["seconds"] for look in script.said] == [3.0, 12.0]


def test_ending_by_itself_is_told(hands, tmp_path):
    pace, script = pace_of(hands, [(1e9, None)], tmp_path)
    pace.iteration += 3
    with pytest.raises(Stop):
        pace.end("converged", bound=np.nan)
    assert (script.said[0]["ended"], script.said[0]["iteration"], script.said[0]["bound"]) == ("converged", 3, None)
