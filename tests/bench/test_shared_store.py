"""Sweeps that share a store share the work, and lose nothing when some are killed."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from bench_fakes import CALLS, Serial, task

from gpbench.bench import sweep as sweep_module
from gpbench.bench.store import Store
from gpbench.bench.sweep import sweep

HERE = Path(__file__).parent


def share(folder, *, kills, seed, environ=None):
    """Cells, how many were started, and how many sweeps were killed."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-W", "error", HERE / "share_driver.py", folder, str(kills), str(seed)],
        capture_output=True, text=True, check=False, env=environ,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return map(int, done.stdout.split())


def test_of_three_sweeps_on_one_store_each_cell_runs_in_one(tmp_path):
    cells, started, _ = share(tmp_path, kills=0, seed=1)
    assert started == cells


def test_in_a_folder_without_flock_too(tmp_path, without_flock):
    cells, started, _ = share(tmp_path, kills=0, seed=2, environ=without_flock)
    assert started == cells


def test_killed_ones_lose_nothing_and_no_more_runs_twice_than_was_killed(tmp_path):
    cells, started, killed = share(tmp_path, kills=6, seed=3)
    assert killed == 6
    assert cells <= started <= cells + killed


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("GPBENCH_STRESS"), reason="make stress runs it")
def test_the_same_for_longer(tmp_path):
    for seed in range(int(os.environ["GPBENCH_STRESS"])):
        cells, started, killed = share(tmp_path / str(seed), kills=25, seed=seed)
        assert cells <= started <= cells + killed


@pytest.fixture
def store(tmp_path, monkeypatch):
    CALLS.clear()
    monkeypatch.setattr(sweep_module, "_LOOK", 0.01)
    found = Store(tmp_path / "runs")
    found.prepare()
    return found


class Elsewhere:
    """Claim a cell as another process would; work and let go of it once the sweep, whose watcher this is, waits."""

    def __init__(self, store, each, *, work):
        self.lease, self.work, self.told = store.claim(each.spec.key), work, []

    def __call__(self, event):
        self.told.append(event)
        if event.kind == "waiting" and self.lease.held:
            self.work()
            self.lease.release()


def outcome_of(each, tmp_path):
    """What another process comes to."""
    other = Store(tmp_path / "other")
    (result,) = sweep([each], other, executor=Serial(), force=True)
    arrays = other.arrays(result.key) if result.finished else None
    CALLS.clear()
    return result, arrays


@pytest.mark.parametrize("force", [False, True])
def test_a_cell_that_runs_elsewhere_is_waited_for_and_not_run(store, tmp_path, force):
    tasks = [task(index=index) for index in range(2)]
    if force:
        store.put(*outcome_of(tasks[0], tmp_path))
    theirs = outcome_of(tasks[0], tmp_path)
    other = Elsewhere(store, tasks[0], work=lambda: store.put(*theirs))
    results = sweep(tasks, store, executor=Serial(), watch=other, force=force)
    assert len(CALLS) == 1
    assert results[0].ended == theirs[0].ended
    kinds = [event.kind for event in other.told]
    assert kinds[:3] == ["begin", "start", "end"]
    assert kinds[-1] == "elsewhere"
    words = f"1 cells run elsewhere, the first in process {os.getpid()} on {socket.gethostname()}"
    assert words in {event.label for event in other.told if event.kind == "waiting"}


def test_a_cell_that_failed_elsewhere_meanwhile_is_not_tried_again_but_by_the_next_sweep(store, tmp_path):
    bad = task(trouble="error")
    theirs = outcome_of(bad, tmp_path)
    other = Elsewhere(store, bad, work=lambda: store.put(*theirs))
    (result,) = sweep([bad], store, executor=Serial(), watch=other)
    assert (result.status, result.ended, len(CALLS)) == ("failed", theirs[0].ended, 0)
    sweep([bad], store, executor=Serial())
    assert len(CALLS) == 1


def test_a_cell_whose_other_process_ends_without_an_outcome_is_run(store):
    one = task()
    other = Elsewhere(store, one, work=lambda: None)
    (result,) = sweep([one], store, executor=Serial(), watch=other)
    assert (result.status, len(CALLS)) == ("ok", 1)


def test_claims_end_with_the_sweep_however_it_ends(store):
    for trouble in ("none", "error"):
        sweep([task(trouble=trouble)], store, executor=Serial())
    with pytest.raises(KeyboardInterrupt):
        sweep([task(trouble="interrupt")], store, executor=Serial())

    def refuse(event):
        if event.kind == "start":
            raise RuntimeError

    with pytest.raises(RuntimeError):
        sweep([task(index=2)], store, executor=Serial(), watch=refuse)
    assert list(store.folder.glob("*.lease")) == []
