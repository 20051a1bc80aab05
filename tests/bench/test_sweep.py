import os
import signal
from dataclasses import replace

import pytest
from bench_fakes import CALLS, Serial, task, without_times

from gpbench.bench.runner import lost
from gpbench.bench.store import Store
from gpbench.bench.sweep import sweep
from gpbench.errors import StoreError


@pytest.fixture
def store(tmp_path):
    CALLS.clear()
    return Store(tmp_path / "runs")


def run(tasks, store, **options):
    return sweep(tasks, store, executor=Serial(), **options)


def test_results_come_in_the_order_of_the_tasks_and_are_stored(store):
    tasks = [task(index=index) for index in (2, 0, 1)]
    results = run(tasks, store)
    assert [result.key for result in results] == [each.spec.key for each in tasks]
    assert {cell.key: cell for cell in store.results()} == {result.key: result for result in results}


def test_a_finished_cell_is_never_run_again_unless_forced(store):
    tasks = [task(index=index) for index in range(3)]
    first = run(tasks[:2], store)
    assert run(tasks, store)[:2] == first
    assert len(CALLS) == 3
    again = run(tasks, store, force=True)
    assert len(CALLS) == 6
    assert [without_times(result) for result in again[:2]] == [without_times(result) for result in first]


@pytest.mark.parametrize(
    ("trouble", "status"), [("error", "failed"), ("interrupt", "interrupted"), ("SIGTERM", "interrupted")]
)
def test_a_cell_that_did_not_end_well_is_run_again(store, trouble, status):
    bad = task(trouble=trouble)
    for attempt in (1, 2):
        if status == "failed":
            assert run([bad], store)[0].status == status
        else:
            with pytest.raises(KeyboardInterrupt):
                run([bad], store)
        assert len(CALLS) == attempt
        assert store.get(bad.spec.key).status == status


def test_a_failing_cell_fails_alone(store):
    results = run([task(), task(trouble="error"), task(index=1)], store)
    assert [result.status for result in results] == ["ok", "failed", "ok"]


def test_interrupt_keeps_what_is_finished_and_runs_nothing_more(store):
    with pytest.raises(KeyboardInterrupt):
        run([task(), task(trouble="interrupt"), task(index=1)], store)
    assert sorted(cell.status for cell in store.results()) == ["interrupted", "ok"]
    assert run([task()], store)[0].status == "ok"
    assert len(CALLS) == 2


class Ends(Serial):
    """Every cell ends so."""

    def __init__(self, status, *, halted=False):
        self.status, self.halted = status, halted

    def run(self, tasks):
        for each in tasks:
            yield lost(each, self.status, kind="Ended", message="deliberate", halted=self.halted)


def test_a_forced_cell_that_is_interrupted_leaves_its_finished_result(store):
    first, told = run([task()], store), []
    with pytest.raises(KeyboardInterrupt):
        sweep([task()], store, executor=Ends("interrupted", halted=True), force=True, watch=told.append)
    assert sweep([task()], store, executor=Ends("interrupted"), force=True) == first  # its worker alone was ended
    assert [store.get(task().spec.key)] == first
    assert store.arrays(first[0].key, digest=first[0].arrays_sha256)
    result = told[-1].result
    assert (told[-1].kind, result.status) == ("end", "interrupted")
    assert result.problem.message == "deliberate; its earlier result stays"
    (failed,) = sweep([task()], store, executor=Ends("failed"), force=True)  # what became of it, and said
    assert store.get(task().spec.key) == failed


def test_sigterm_between_cells_ends_the_sweep_as_an_interrupt(store):
    def watch(event):
        if event.kind == "end":
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        run([task(), task(index=1)], store, watch=watch)
    assert [cell.status for cell in store.results()] == ["ok"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_each_outcome_is_stored_before_the_next_cell_starts(store):
    events = []

    def watch(event):
        events.append((event.kind, event.stored, event.total, len(store.results())))

    run([task()], store)
    run([task(index=index) for index in range(3)], store, watch=watch)
    assert events == [
        ("begin", 1, 3, 1), ("start", 1, 3, 1), ("end", 1, 3, 2), ("start", 1, 3, 2), ("end", 1, 3, 3),
    ]  # fmt: skip


def test_damaged_results_are_reported_and_run_again(store):
    key = run([task()], store)[0].key
    (store.folder / f"{key}.npz").write_bytes(b"PK")
    events = []
    results = run([task()], store, watch=events.append)
    assert [event.kind for event in events] == ["damaged", "begin", "start", "end"]
    assert "does not match its digest" in events[0].label
    assert results[0] == store.get(key)
    assert len(CALLS) == 2


def test_stored_cells_that_ran_with_other_threads_or_jobs_are_used_and_named(store):
    told = []
    tasks = [task(index=index) for index in range(3)]
    first = run(tasks[:2], store)
    wanted = [replace(each, threads=2, jobs=3) for each in tasks]
    assert run(wanted, store, watch=told.append)[:2] == first
    assert [event.label for event in told if event.kind == "otherwise"] == [
        "2 of 2 stored cells were timed with threads 1, jobs 1, not with threads 2, jobs 3; --force runs them again"
    ]
    told.clear()
    run(tasks[:2], store, watch=told.append)
    run(wanted, store, force=True, watch=told.append)
    assert "otherwise" not in {event.kind for event in told}


def test_a_store_that_cannot_be_written_is_noticed_before_anything_runs(tmp_path):
    CALLS.clear()
    (tmp_path / "runs").write_text("")
    with pytest.raises(StoreError):
        run([task()], Store(tmp_path / "runs"))
    assert CALLS == []
