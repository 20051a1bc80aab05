import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from datetime import datetime
from pathlib import Path

import numpy as np
import psutil
import pytest
from bench_fakes import FAKE, FakeScheme, FakeSource, Serial, task, without_times

from gpbench.bench import sources
from gpbench.bench.cell import Limits
from gpbench.bench.execution import executor
from gpbench.bench.methods import Method
from gpbench.bench.runner import Bounds
from gpbench.bench.watchdog import Patience
from gpbench.bench.workers import Workers
from gpbench.errors import UsageError

SHORT = Patience(slack=0.5, idle=0.5, tick=0.1)
MEMORY = 1 << 13
"""MB: more than a worker takes, and little to fill."""


@pytest.fixture
def workers(monkeypatch):
    """Workers that can import what stands beside this file, and are ended."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    made = []

    def make(jobs=1, **options):
        made.append(Workers(jobs, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def by_key(outcomes):
    return {outcome.result.key: outcome for outcome in outcomes}


def ending(outcome):
    result = outcome.result
    return result.status, result.problem.type, result.problem.message


@pytest.mark.slow  # seven workers die
@pytest.mark.parametrize("jobs", [1, 2])
def test_good_cells_beside_bad_ones(workers, jobs, capfd):
    good = [task(index=index, steps=20) for index in range(3)]
    bad = {
        "segv": ("failed", "WorkerDied", "its process was ended by SIGSEGV (Segmentation fault)"),
        "SIGKILL": (
            "failed",
            "WorkerDied",
            "its process was ended by SIGKILL, as the system does where memory runs out",
        ),
        "SIGTERM": ("interrupted", "Terminated", "ended from outside by SIGTERM"),
        "_exit": ("failed", "WorkerDied", "its process ended by itself with exit code 9"),
        "exit": ("failed", "SystemExit", "7"),
        "interrupt": ("failed", "KeyboardInterrupt", ""),
        "generator": ("failed", "GeneratorExit", ""),
        "base": ("failed", "Odd", "deliberate"),
        "error": ("failed", "ValueError", "deliberate"),
    }
    limited = {trouble: task(trouble=trouble, limits=Limits(seconds=0.1)) for trouble in ("sleep", "spin")}
    ended = {trouble: task(trouble=trouble) for trouble in bad}
    hungry = task(trouble="memory", bounds=Bounds(memory_mb=MEMORY))
    printing = task(trouble="print")
    tasks = [good[0], *ended.values(), good[1], *limited.values(), hungry, printing, good[2]]
    found = by_key(workers(jobs, patience=SHORT).run(tasks))
    assert set(found) == {each.spec.key for each in tasks}
    for expected in Serial().run(good):
        outcome = found[expected.result.key]
        assert without_times(outcome.result) == without_times(expected.result)
        for name, array in expected.arrays.items():
            np.testing.assert_array_equal(outcome.arrays[name], array)
    for trouble, expected in bad.items():
        assert ending(found[ended[trouble].spec.key]) == expected
    for one in limited.values():
        assert ending(found[one.spec.key])[:2] == ("timeout", "Hung")
    assert "of a core" in ending(found[limited["sleep"].spec.key])[2]
    assert "without heeding the limit of 0.1 s; 0.7 s are granted" in ending(found[limited["spin"].spec.key])[2]
    status, kind, words = ending(found[hungry.spec.key])
    assert (status, "MemoryError" in kind) == ("failed", True)
    assert f"its address space was bounded to {MEMORY} MB" in words
    assert {found[each.spec.key].result.problem.iteration for each in ended.values()} <= {1, 2}
    assert found[printing.spec.key].result.finished
    out, err = capfd.readouterr()
    assert out == ""
    for who in ("Python", "C", "a child"):
        assert f"printed by {who}" in err
    assert not any(outcome.halted for outcome in found.values())


def test_one_warm_worker_serves_all_cells_until_one_dies(workers):
    own = workers()
    pids = [own._idle[0].process.pid]
    for trouble in ("none", "error", "none", "segv", "none"):
        list(own.run([task(trouble=trouble, index=0)]))
        pids.append(own._idle[0].process.pid if own._idle else None)
    assert pids[:4] == [pids[0]] * 4
    assert pids[4] is None
    assert pids[5] not in (None, pids[0])


def test_a_worker_that_died_between_two_cells_is_replaced(workers):
    own = workers()
    first = own._idle[0].process
    first.kill()
    first.wait()
    assert [outcome.result.status for outcome in own.run([task()])] == ["ok"]


def test_a_hard_limit_kills_without_any_other_limit(workers):
    one = task(trouble="sleep", bounds=Bounds(hard_seconds=0.4))
    (outcome,) = workers(patience=Patience(tick=0.1)).run([one])
    status, kind, words = ending(outcome)
    assert (status, kind) == ("timeout", "Hung")
    assert "the hard limit is 0.4 s" in words
    assert outcome.result.problem.iteration in {1, 2}  # at its latest look
    start, end = (datetime.fromisoformat(outcome.result.provenance[name]) for name in ("start", "end"))
    assert (end - start).total_seconds() >= 0.4  # from when the worker got it


def test_a_cell_that_hangs_leaves_no_children(workers, tmp_path):
    sign = tmp_path / "child"
    one = task(trouble=f"fork:{sign}", bounds=Bounds(hard_seconds=2.0))
    (outcome,) = workers(patience=Patience(tick=0.1)).run([one])
    assert outcome.result.status == "timeout"
    pid = int(sign.read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_limit_on_memory_below_what_a_worker_takes_is_refused(workers):
    with pytest.raises(
        UsageError, match=r"--memory-limit must leave room for a worker, which takes \d+ MB .* got 9 MB"
    ):
        list(workers().run([task(bounds=Bounds(memory_mb=9))]))


def test_a_worker_that_is_stopped_does_not_hang(workers, tmp_path):
    sign = tmp_path / "pid"
    os.mkfifo(sign)

    def hold():
        pid = int(sign.read_text())
        os.kill(pid, signal.SIGSTOP)
        threading.Event().wait(3.0)
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGUSR1)

    thread = threading.Thread(target=hold)
    thread.start()
    (outcome,) = workers(patience=Patience(idle=2.0, tick=0.1)).run(
        [task(trouble=f"signal:{sign}", limits=Limits(seconds=0.2))]
    )
    thread.join()
    assert outcome.result.finished


def test_interrupt_gives_every_running_cell_an_outcome_and_leaves_no_process(workers, tmp_path):
    signs = [tmp_path / "first", tmp_path / "second"]
    for sign in signs:
        os.mkfifo(sign)
    waiting = [task(trouble=f"wait:{sign}") for sign in signs]
    pids = []

    def interrupt():
        pids.extend(int(sign.read_text()) for sign in signs)  # both workers are inside their cells
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    outcomes = list(workers(2).run([*waiting, task()]))
    thread.join()
    assert {outcome.result.key for outcome in outcomes} == {each.spec.key for each in waiting}
    assert {outcome.result.status for outcome in outcomes} == {"interrupted"}
    assert all(outcome.halted for outcome in outcomes)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_nobody_waits_any_more(workers):
    assert list(workers(patience=SHORT).run([task(trouble="sleep")], wanted=lambda: False)) == []


def test_a_method_that_cannot_travel_is_refused(workers):
    class Local(FakeScheme):
        pass

    stuck = Method(id="stuck", title="", tasks=FAKE.tasks, scheme=Local)
    with pytest.raises(UsageError, match="method stuck cannot be sent to another process"):
        list(workers().run([task(stuck)]))


def test_an_outcome_comes_before_the_next_cell_is_handed_out(workers):
    class Local(FakeScheme):
        pass

    stuck = Method(id="stuck", title="", tasks=FAKE.tasks, scheme=Local)

    def asked_to_end():
        yield task()
        raise KeyboardInterrupt

    for tasks, ends in (([task(), task(stuck)], UsageError), (asked_to_end(), KeyboardInterrupt)):
        outcomes = workers().run(tasks)
        assert next(outcomes).result.finished
        with pytest.raises(ends):
            next(outcomes)


def test_a_scheme_that_the_worker_cannot_import_fails_alone(workers, monkeypatch, tmp_path):
    (tmp_path / "passing.py").write_text("from bench_fakes import FakeScheme\n\nclass Passing(FakeScheme): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    import passing  # noqa: PLC0415  # made above

    stuck = Method(id="stuck", title="", tasks=FAKE.tasks, scheme=passing.Passing)
    own = workers()
    (tmp_path / "passing.py").write_text("raise SystemExit(3)")
    first, second = own.run([task(stuck), task()])
    assert ending(first) == ("failed", "SystemExit", "the worker cannot load the cell: 3")
    assert second.result.finished


def test_a_worker_keeps_the_latest_data_sets_open_alone():
    for n in range(50, 60):
        sources.opened(FakeSource(name=f"data-{n}", n=n))
    assert [place.name for place in sources._opened] == ["data-58", "data-59"]
    sources.opened(FakeSource(name="data-58", n=58))
    sources.opened(FakeSource(name="data-60", n=60))
    assert [place.name for place in sources._opened] == ["data-58", "data-60"]


def test_workers_are_started_without_heavy_imports():
    program = (
        "import sys; from gpbench.bench.execution import executor; executor(1).close(); "
        "sys.exit(any(name in sys.modules for name in ('numpy', 'scipy', 'pandas')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_an_executor_has_workers():
    with closing(executor(3)) as three:
        assert three.jobs == 3
    with pytest.raises(UsageError, match="jobs must be at least 1; got 0"):
        executor(0)
