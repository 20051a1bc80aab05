import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bench_fakes import FAKE, FakeScheme, task, without_times

from gpbench.bench.execution import Serial, executor_for
from gpbench.bench.methods import Method
from gpbench.errors import UsageError

distributed = pytest.importorskip("distributed")

from gpbench.bench.dask_cluster import DaskCluster  # noqa: E402  # not where distributed is missing

# A cluster's threads and sockets may outlive a test by a moment.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.slow,  # four processes import all of gpbench
]


WORKERS = 4


@pytest.fixture(scope="module")
def scheduler():
    """A scheduler and four workers, each a process of its own that nothing starts again when it dies."""
    environment = {
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
    with subprocess.Popen([sys.executable, "-c", head], env=environment, **pipes) as running:
        address = running.stdout.readline().strip()
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "2"]
        command += ["--no-dashboard"]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        workers = [subprocess.Popen(command, env=environment, **silent) for _ in range(WORKERS)]
        with distributed.Client(address, set_as_default=False) as client:
            client.wait_for_workers(WORKERS)
        yield address
        for worker in workers:
            worker.kill()
            worker.wait()
        running.stdin.close()


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
    assert found[failed.spec.key].result.problem.message == "deliberate"
    assert not any(outcome.halted for outcome in found.values())


def test_a_method_that_cannot_travel_is_refused(cluster):
    class Local(FakeScheme):
        pass

    stuck = Method(id="stuck", title="", tasks=FAKE.tasks, scheme=Local)
    with pytest.raises(UsageError, match="method stuck cannot be sent to another process"):
        list(cluster.run([task(stuck)]))


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
    sign = tmp_path / "pid"
    os.mkfifo(sign)
    waiting = task(trouble=f"wait:{sign}")
    outcomes = cluster.run([waiting, *(task(index=index) for index in range(3))])
    done = [next(outcomes) for _ in range(3)]  # on the other worker: one is busy, two were killed above
    os.kill(int(sign.read_text()), 9)
    assert int(sign.read_text()) > 0  # another worker has taken it up
    outcomes.close()
    assert [outcome.result.status for outcome in done] == ["ok"] * 3
