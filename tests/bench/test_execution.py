import os
import signal
import threading

import numpy as np
import pytest
from bench_fakes import FAKE, FakeScheme, task, without_times

from gpbench.bench import execution
from gpbench.bench.execution import Processes, Serial, executor
from gpbench.bench.methods import Method
from gpbench.errors import UsageError


def by_key(outcomes):
    return {outcome.result.key: outcome for outcome in outcomes}


def test_processes_give_what_serial_gives_and_a_dying_worker_takes_its_cell_alone():
    good = [task(index=index, steps=20) for index in range(3)]
    killed, ended, failed = (task(trouble=trouble) for trouble in ("SIGKILL", "SIGTERM", "error"))
    tasks = [killed, good[0], good[1], ended, failed, good[2]]
    found = by_key(Processes(2).run(tasks))
    assert set(found) == {each.spec.key for each in tasks}
    for expected in Serial().run(good):
        outcome = found[expected.result.key]
        assert without_times(outcome.result) == without_times(expected.result)
        for name, array in expected.arrays.items():
            np.testing.assert_array_equal(outcome.arrays[name], array)

    def ending(one):
        result = found[one.spec.key].result
        return result.status, result.problem.type, result.problem.message

    assert ending(killed) == ("failed", "WorkerDied", "its process was ended by SIGKILL")
    assert ending(ended) == ("timeout", "Terminated", "ended from outside by SIGTERM")
    assert ending(failed) == ("failed", "ValueError", "deliberate")
    assert not any(outcome.halted for outcome in found.values())


def test_interrupt_gives_every_running_cell_an_outcome_and_leaves_no_process(tmp_path):
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
    outcomes = list(Processes(2).run([*waiting, task()]))
    thread.join()
    assert {outcome.result.key for outcome in outcomes} == {each.spec.key for each in waiting}
    assert {outcome.result.status for outcome in outcomes} == {"interrupted"}
    assert all(outcome.halted for outcome in outcomes)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_what_became_of_a_dead_worker():
    def ending(code):
        result = execution._death(task(), code).result
        return result.status, result.problem.message

    assert ending(3) == ("failed", "its process ended by itself with exit code 3")
    assert ending(-signal.SIGSEGV) == ("failed", "its process was ended by SIGSEGV")
    assert ending(-signal.SIGTERM) == ("timeout", "its process was ended by SIGTERM")


def test_serial_stops_where_the_process_is_asked_to_end():
    tasks = [task(), task(trouble="interrupt"), task(index=1)]
    statuses = [outcome.result.status for outcome in Serial().run(tasks)]
    assert statuses == ["ok", "interrupted"]


def test_a_method_that_cannot_travel_is_refused():
    class Local(FakeScheme):
        pass

    stuck = Method(id="stuck", title="", tasks=FAKE.tasks, scheme=Local)
    with pytest.raises(UsageError, match="method stuck cannot be sent to another process"):
        list(Processes(2).run([task(stuck)]))


def test_one_job_is_serial():
    assert isinstance(executor(1), Serial)
    assert executor(3).jobs == 3
    with pytest.raises(UsageError, match="jobs must be at least 1; got 0"):
        executor(0)
