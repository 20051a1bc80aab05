import pytest

from gpbench.bench.watchdog import Board, Patience, State, Watchdog


def asked(watchdog, *, ticks, cpu, trains=True, changes=1, start=0.0):
    """The tick at which it would kill and why; a second each, ``cpu`` processor seconds in each."""
    for tick in range(1, ticks + 1):
        state = State(trains, changes, 5, 0.0, 0.0)
        if (why := watchdog.ask(state, elapsed=1.0, cpu=start + cpu * tick)) is not None:
            return tick, why
    return None


def a_watchdog(*, limit=10.0, threads=1, hard=None):
    return Watchdog(limit=limit, threads=threads, hard=hard, patience=Patience())


@pytest.mark.parametrize(("threads", "cpu", "tick"), [(1, 1.0, 80), (1, 0.5, 160), (4, 4.0, 80)])
def test_twice_the_limit_and_a_minute_of_processor_time(threads, cpu, tick):
    found, why = asked(a_watchdog(threads=threads), ticks=1000, cpu=cpu)
    assert found == tick
    assert "without heeding the limit of 10 s" in why


def test_a_minute_with_less_than_a_hundredth_of_a_core():
    found, why = asked(a_watchdog(), ticks=1000, cpu=0.0)
    assert found == 60
    assert "less than 1% of a core" in why
    assert asked(a_watchdog(), ticks=1000, cpu=0.0099)[0] == 60
    assert asked(a_watchdog(), ticks=1000, cpu=0.011) is None


def test_work_in_between_starts_the_minute_anew():
    watchdog = a_watchdog(limit=100.0)
    assert asked(watchdog, ticks=59, cpu=0.0) is None
    assert asked(watchdog, ticks=1, cpu=1.0) is None
    assert asked(watchdog, ticks=100, cpu=0.0, start=1.0)[0] == 60


def test_loading_and_evaluating_do_not_count():
    watchdog = a_watchdog(hard=50.0)
    for changes in range(1, 200, 2):
        assert asked(watchdog, ticks=100, cpu=0.0, trains=False, changes=changes) is None
    assert asked(watchdog, ticks=100, cpu=1.0, changes=300)[0] == 50


def test_one_evaluation_that_never_ends():
    found, why = asked(a_watchdog(hard=50.0), ticks=1000, cpu=0.0, trains=False)
    assert found == 110
    assert "loading or evaluating alone" in why
    assert asked(a_watchdog(), ticks=1000, cpu=1.0, trains=False) is None


def test_without_a_limit_the_hard_one_alone_kills():
    assert asked(a_watchdog(limit=None), ticks=10_000, cpu=0.0) is None
    assert asked(a_watchdog(limit=None), ticks=10_000, cpu=1.0) is None
    assert asked(a_watchdog(limit=None, hard=99.0), ticks=10_000, cpu=1.0)[0] == 99


def test_a_board_is_read_by_another_process():
    ours = Board()
    theirs = Board(ours.path)
    theirs.remove()
    assert not ours.path.exists()
    theirs.clear()
    theirs.trains(iteration=3, cpu_seconds=1.5)
    theirs.rests(iteration=4, cpu_seconds=2.5)
    state = ours.read()
    assert state[:4] == (False, 2, 4, 2.5)
    assert state.process_seconds > 0.0
    theirs.clear()
    assert ours.read() == State(False, 0, 0, 0.0, 0.0)
    ours.remove()
