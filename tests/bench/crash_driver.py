"""Kill sweeps by SIGKILL at random moments, resume them, and compare with one that nobody killed.

A process of its own, which forks each sweep: a fork costs milliseconds, a fresh interpreter a second. Prints the number
of kills that hit a running sweep.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from bench_fakes import FAKE, POINTS, task, without_times

from gpbench.bench.execution import Serial
from gpbench.bench.store import Store
from gpbench.bench.sweep import sweep


def main(folder, kills, seed):
    tasks = [
        task(method, index=index, seed=seed, steps=4)
        for seed in range(3)
        for index in range(3)
        for method in (FAKE, POINTS)
    ]
    began = time.perf_counter()
    whole = run(tasks, folder / "whole")
    usual = time.perf_counter() - began
    chance = random.Random(seed)
    hits = rounds = 0
    while hits < kills:
        store = folder / f"round{rounds}"
        rounds += 1
        while killed(tasks, store, after=chance.uniform(0, usual / 3)):
            hits += 1
            check_files(store, tasks)
        assert_same(run(tasks, store), whole, Store(store), Store(folder / "whole"))
        assert not list(store.glob("*.partial")), "temporary files are left"
    sys.stdout.write(f"{hits}\n")


def run(tasks, folder):
    return sweep(tasks, Store(folder), executor=Serial())


def killed(tasks, folder, *, after):
    """Run a sweep in a child and kill it; False if it was faster."""
    child = os.fork()
    if child == 0:
        try:
            run(tasks, folder)
            os._exit(0)
        finally:
            os._exit(1)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the sweep failed"
    return os.WIFSIGNALED(status)


def check_files(folder, tasks):
    """What bears a final name is whole."""
    store = Store(folder)
    for each in tasks:
        store.get(each.spec.key)
    assert store.problems == [], store.problems
    assert not list(folder.glob("*.damaged"))


def assert_same(found, expected, store, whole):
    assert [without_times(result) for result in found] == [without_times(result) for result in expected]
    for result in found:
        ours, theirs = store.arrays(result["key"]), whole.arrays(result["key"])
        assert {name: array.tobytes() for name, array in ours.items()} == {
            name: array.tobytes() for name, array in theirs.items()
        }


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
