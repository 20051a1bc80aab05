import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import psutil
import pytest
from bench_fakes import FAKE, FakeScheme, Serial, task, without_times

from gpbench.bench.execution import executor_for
from gpbench.bench.methods import Method
from gpbench.bench.runner import Bounds
from gpbench.bench.store import Store
from gpbench.bench.sweep import sweep
from gpbench.errors import ClusterLost, UsageError

distributed = pytest.importorskip("distributed")

from gpbench.bench.dask_cluster import DaskCluster  # noqa: E402  # not where distributed is missing

# A cluster's threads and sockets may outlive a test by a moment.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.slow,  # four processes import all of gpbench
]


WORKERS = 4


class Cluster:
    """A scheduler and workers, each a process of its own that nothing starts again when it dies."""

    def __init__(self, workers):
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
        }
        head = (
            "import sys\nfrom distributed import LocalCluster\n"
            "with LocalCluster(n_workers=0, protocol='tcp://', dashboard_address=None, host='127.0.0.1') as cluster:\n"
            "    print(cluster.scheduler_address, flush=True)\n"
            "    sys.stdin.read()\n"
        )
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.scheduler = subprocess.Popen([sys.executable, "-c", head], env=self.environment, **pipes)
        self.address = self.scheduler.stdout.readline().strip()
        command = [sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--no-nanny", "--nthreads", "2"]
        command += ["--no-dashboard"]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.workers = [subprocess.Popen(command, env=self.environment, **silent) for _ in range(workers)]
        with distributed.Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(workers)

    def end(self):
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()
        self.scheduler.stdin.close()
        self.scheduler.stdout.close()


@pytest.fixture(scope="module")
def scheduler():
    running = Cluster(WORKERS)
    yield running.address
    running.end()


@pytest.fixture
def own():
    """A cluster that a test may kill."""
    running = Cluster(1)
    yield running
    running.end()


@pytest.fixture
def cluster(scheduler):
    found = DaskCluster(scheduler)
    yield found
    found.close()


def test_a_cluster_gives_what_serial_gives_and_a_killed_worker_costs_nothing_but_the_cell_that_kills(cluster):
    good = [task(index=index, steps=20, seed=seed) for index in range(3) for seed in range(2)]
    killer, failed = task(trouble="SIGKILL"), task(trouble="error")
    tasks = [good[0], killer, *good[1:4], failed, *good[4:]]
    found = {outcome.result.key: outcome for outcome in cluster.run(tasks)}
    assert set(found) == {each.spec.key for each in tasks}
    for expected in Serial().run(good):
        outcome = found[expected.result.key]
        assert without_times(outcome.result) == without_times(expected.result)
        for name, array in expected.arrays.items():
            np.testing.assert_array_equal(outcome.arrays[name], array)
    problem = found[killer.spec.key].result.problem
    assert (found[killer.spec.key].result.status, problem.type) == ("failed", "WorkerDied")
    assert "SIGKILL" in problem.message
    assert "cpu" in found[killer.spec.key].result.provenance  # told by the Dask worker, whose machine it is
    assert found[failed.spec.key].result.problem.message == "deliberate"
    assert not any(outcome.halted for outcome in found.values())


def test_a_method_that_cannot_travel_is_refused(cluster):
    class Local(FakeScheme):
        pass

    stuck = Method(id="stuck", title="", tasks=FAKE.tasks, scheme=Local)
    with pytest.raises(UsageError, match="method stuck cannot be sent to another process"):
        list(cluster.run([task(stuck)]))


def test_an_outcome_comes_before_the_next_cell_is_handed_out(cluster):
    tasks = [task(seed=seed) for seed in range(WORKERS)]

    def asked_to_end():
        yield from tasks
        raise KeyboardInterrupt

    first, *others = cluster.run(asked_to_end())
    assert first.result.finished
    assert {outcome.result.key for outcome in (first, *others)} == {each.spec.key for each in tasks}
    assert all(outcome.halted for outcome in others)


def test_no_scheduler_answers():
    with pytest.raises(UsageError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1"):
        DaskCluster("tcp://127.0.0.1:1", timeout="1s")
    with pytest.raises(UsageError, match="no Dask scheduler answers at nonsense: missing port number"):
        DaskCluster("nonsense")
    with pytest.raises(UsageError, match="exclude one another"):
        executor_for(jobs=2, scheduler="tcp://127.0.0.1:1")


def test_an_executor_for_the_command_line(scheduler):
    runner, at_once = executor_for(jobs=None, scheduler=scheduler)
    runner.close()
    assert 1 <= at_once <= WORKERS


def test_a_worker_that_is_killed_from_outside_loses_no_cell(cluster, tmp_path):
    sign, waiting = waiting_in(tmp_path)
    outcomes = cluster.run([waiting, *(task(index=index) for index in range(3))])
    done = [next(outcomes) for _ in range(3)]  # on the other workers
    own = psutil.Process(int(sign.read_text()))
    dask = own.parent()
    dask.kill()
    assert int(sign.read_text()) > 0  # another worker has taken it up
    psutil.wait_procs([own], timeout=60)
    assert not own.is_running() or own.status() == psutil.STATUS_ZOMBIE  # it ended with the one that had started it
    outcomes.close()
    assert [outcome.result.status for outcome in done] == ["ok"] * 3


def test_what_ends_a_process_ends_its_cell_alone(cluster):
    """Crashes, hangs and prints end as they do on one machine: each cell has a process of its own."""
    ended = {trouble: task(trouble=trouble) for trouble in ("segv", "_exit", "base", "print")}
    hung = task(trouble="sleep", bounds=Bounds(hard_seconds=1.0))
    hungry = task(trouble="memory", bounds=Bounds(memory_mb=1 << 13))
    found = {outcome.result.key: outcome.result for outcome in cluster.run([*ended.values(), hung, hungry, task()])}
    words = {trouble: found[each.spec.key].problem for trouble, each in ended.items()}
    assert words["segv"].message == "its process was ended by SIGSEGV (Segmentation fault)"
    assert words["_exit"].message == "its process ended by itself with exit code 9"
    assert (words["base"].type, words["print"]) == ("Odd", None)
    assert found[hung.spec.key].status == "timeout"
    assert "bounded to 8192 MB" in found[hungry.spec.key].problem.message
    assert found[task().spec.key].finished
    assert cluster.workers <= len(cluster._addresses())  # none of them has died


def waiting_in(tmp_path, name="pid"):
    sign = tmp_path / name
    os.mkfifo(sign)
    return sign, task(trouble=f"wait:{sign}")


def test_a_scheduler_that_is_killed(own, tmp_path):
    sign, waiting = waiting_in(tmp_path)
    cluster, store = DaskCluster(own.address), Store(tmp_path / "runs")

    def kill():
        sign.read_text()
        own.scheduler.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    with closing(cluster), pytest.raises(ClusterLost) as caught:
        sweep([task(), waiting, task(index=1)], store, executor=cluster)
    thread.join()
    assert str(caught.value) == (
        f"the Dask scheduler at {own.address} is gone; 1 of 3 cells are stored in {store.folder}, and the same command "
        "goes on from there, with --scheduler naming a cluster that runs, or --jobs in its place"
    )
    first, lost = sorted(store.results(), key=lambda result: result.status, reverse=True)
    assert (first.status, lost.status) == ("ok", "interrupted")
    # Which machine ran it is not known, only that it ran from when it was handed over.
    assert lost.provenance.keys() == {"threads", "jobs", "start", "end"}
    assert lost.provenance["start"] < lost.ended


def test_all_workers_dead(own, tmp_path):
    sign, waiting = waiting_in(tmp_path)
    cluster, store = DaskCluster(own.address, patience=1.0), Store(tmp_path / "runs")

    def kill():
        sign.read_text()
        own.workers[0].kill()

    thread = threading.Thread(target=kill)
    thread.start()
    with closing(cluster), pytest.raises(ClusterLost, match=r"has had no worker for 1 s; 1 of 2 cells are stored"):
        sweep([task(), waiting], store, executor=cluster)
    thread.join()


def test_interrupt_stores_what_ran_and_frees_the_worker(own, tmp_path):
    sign, waiting = waiting_in(tmp_path)
    cluster, store = DaskCluster(own.address), Store(tmp_path / "runs")
    pids = []

    def interrupt():
        pids.append(int(sign.read_text()))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        sweep([task(), waiting, task(index=1)], store, executor=cluster)
    thread.join()
    assert sorted(result.status for result in store.results()) == ["interrupted", "ok"]
    # Nobody waits for its cell any more: the worker ends it, and takes the next one.
    assert [outcome.result.status for outcome in cluster.run([task(index=1)])] == ["ok"]
    cluster.close()
    assert not psutil.pid_exists(pids[0])
