"""Three sweeps on one store, of which some are killed at random moments and begun anew.

A process of its own, which forks each sweep: a fork costs milliseconds, a fresh interpreter a second. Prints how many
cells there are, how many were started, and how many sweeps were killed.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from bench_fakes import FAKE, POINTS, Serial, task, without_times

from gpbench.bench.runner import run_cell
from gpbench.bench.store import Store
from gpbench.bench.sweep import sweep

TASKS = [
    task(method, index=index, seed=seed, steps=4)
    for seed in range(3)
    for index in range(3)
    for method in (FAKE, POINTS)
]


def main(folder, kills, seed):
    chance = random.Random(seed)
    expected = {each.spec.key: without_times(run_cell(each).result) for each in TASKS}
    began = time.perf_counter()
    os.waitpid(begin(folder / "trial", seed=0), 0)
    usual = time.perf_counter() - began
    (folder / "log").unlink()
    killed = 0
    running = [begin(folder / "runs", seed=each) for each in range(3)]
    while running:
        if killed < kills:
            time.sleep(chance.uniform(0, usual / 6))
            victim = running.pop(chance.randrange(len(running)))
            os.kill(victim, signal.SIGKILL)
            _, status = os.waitpid(victim, 0)
            killed += os.WIFSIGNALED(status)
            running.append(begin(folder / "runs", seed=killed))
        else:
            _, status = os.waitpid(running.pop(), 0)
            assert status == 0, "a sweep failed"
    started = (folder / "log").read_text().split()
    store = Store(folder / "runs")
    sweep(TASKS, store, executor=Serial())
    assert store.problems == [], store.problems
    for key, one in expected.items():
        found = store.get(key)
        same = {**without_times(found), "arrays_sha256": None}
        assert same == {**one, "arrays_sha256": None}
        store.arrays(key, digest=found.arrays_sha256)
    left = sorted(path.name for path in store.folder.iterdir() if path.suffix not in {".json", ".npz"})
    assert left == [], left
    sys.stdout.write(f"{len(TASKS)} {len(started)} {killed}\n")


def begin(folder, *, seed):
    """Start a sweep in a process of its own, that writes down which cells it starts."""
    child = os.fork()
    if child:
        return child
    chance = random.Random(seed)
    log = os.open(folder.parent / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def watch(event):
        if event.kind == "start":
            os.write(log, f"{event.task.spec.key}\n".encode())
            time.sleep(chance.uniform(0, 0.01))

    try:
        sweep(TASKS, Store(folder), executor=Serial(), watch=watch)
        os._exit(0)
    finally:
        os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
