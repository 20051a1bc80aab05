"""The same sweep alone and beside three busy processes on one core: the same numbers, limits by its own clock, and it
is said. How far apart the training seconds are is a matter of caches, and for a benchmark."""

import os
import subprocess
import sys
from contextlib import ExitStack, closing

import numpy as np
import psutil
import pytest

from gpbench.bench.cell import Limits
from gpbench.bench.choices import choose
from gpbench.bench.execution import executor
from gpbench.bench.expand import Request, expand
from gpbench.bench.methods import method
from gpbench.bench.sources import CatalogueSource
from gpbench.report.groups import disturbed_words

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(psutil.Process(), "cpu_affinity"), reason="needs Linux, to share one core"),
]
BUSY = "import numpy as np\nx = np.ones((300, 300))\nwhile True: x @ x"


@pytest.fixture
def core():
    """One core for this process and what it starts."""
    own = psutil.Process()
    before = own.cpu_affinity()
    own.cpu_affinity(before[:1])
    yield
    own.cpu_affinity(before)


def run(tasks, *, others):
    with ExitStack() as stack:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        for _ in range(others):
            busy = stack.enter_context(subprocess.Popen([sys.executable, "-c", BUSY], env=environment))
            stack.callback(busy.kill)
        with closing(executor(1)) as workers:
            return [outcome.result for outcome in workers.run(tasks)]


def test_a_busy_machine_is_named_and_cuts_nothing_short(core, tmp_path):
    source = CatalogueSource("twonorm-gen:3000", tmp_path, None)
    fixed = choose([method("x-gpc")], {}, assignments={"hyperparameters": "fixed", "stop": "none"}, iterations=600)
    tasks = expand(Request(choices=fixed, sources=[source], split="folds:5", limits=Limits(iterations=600)))
    timed = expand(Request(choices=fixed, sources=[source], split="folds:5", limits=Limits(seconds=0.1), indices=[0]))
    run(tasks[:1], others=0)
    alone, busy = run(tasks, others=0), run(tasks, others=3)
    assert [cell.metrics["nll"] for cell in busy] == [cell.metrics["nll"] for cell in alone]

    def middle(cells, name):
        return np.median([cell.metrics[name] for cell in cells])

    assert middle(busy, "wall_seconds") > 2.0 * middle(busy, "train_seconds")
    assert "the machine was busy" in disturbed_words(busy)[0]
    (limited,) = run(timed, others=3)
    assert limited.stopped_by == "seconds"
    assert 0.1 <= limited.metrics["train_seconds"] < 0.5 * limited.metrics["wall_seconds"]
