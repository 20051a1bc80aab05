"""Kill sweeps by SIGKILL, resume them, and compare with one that nobody killed.

First at random moments; then, since a random moment rarely falls between the opening of a file and its renaming, at
every line of the store's writing. A process of its own, which forks each sweep: a fork costs milliseconds, a fresh
interpreter a second. Prints the numbers of kills that hit a running sweep.
"""

import os
import random
import signal
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import psutil
from bench_fakes import FAKE, POINTS, Serial, task, without_times

from gpbench.bench.runner import run_cell
from gpbench.bench.store import Store
from gpbench.bench.sweep import sweep
from gpbench.bench.workers import Workers


def main(folder, kills, seed, processes):
    began = time.perf_counter()
    run(TASKS, folder / "whole")
    usual = time.perf_counter() - began
    whole = contents(folder / "whole", TASKS)
    at_random = kill_at_random(folder, whole, kills=kills, usual=usual, chance=random.Random(seed))
    at_lines = kill_at_every_line(folder, whole)
    by_whom = kill_processes(folder, whole, kills=processes, chance=random.Random(seed))
    sys.stdout.write(f"{at_random} {at_lines} {by_whom}\n")


def kill_at_random(folder, whole, *, kills, usual, chance):
    hits = rounds = 0
    while hits < kills:
        store = folder / f"round{rounds}"
        rounds += 1
        while killed(partial(run, TASKS, store), store, after=chance.uniform(0, usual / 3)):
            hits += 1
        finish(TASKS, store, whole)
    return hits


def kill_at_every_line(folder, whole):
    outcomes = [run_cell(each) for each in TASKS[:2]]
    line = 0
    while killed(partial(write, outcomes, folder / f"line{line}", line), folder / f"line{line}"):
        finish(TASKS[:2], folder / f"line{line}", whole)
        line += 1
    return line


def kill_processes(folder, whole, *, kills, chance):
    """Kill the sweep's process, one of its workers, or the whole group, each at a random moment."""
    hits = 0
    while hits < kills:
        store = folder / f"processes{hits}"
        jobs, victim = chance.choice([1, 2]), ("parent", "worker", "group")[hits % 3]
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            try:
                with closing(Workers(jobs)) as workers:
                    sweep(TASKS, Store(store), executor=workers)
                os._exit(0)
            finally:
                os._exit(1)
        began, wait = time.perf_counter(), chance.uniform(0.0, 0.3)
        while not list(store.glob("*.json")) and time.perf_counter() - began < 60.0:
            time.sleep(0.01)  # a kill while the worker still imports finds nothing to lose
        time.sleep(wait)
        workers = [each for each in psutil.Process(child).children() if lives(each)]
        if victim == "group":
            os.killpg(child, signal.SIGKILL)
        elif victim == "parent" or not workers:
            os.kill(child, signal.SIGKILL)
        else:
            chance.choice(workers).kill()
        os.waitpid(child, 0)
        _, alive = psutil.wait_procs(workers, timeout=60)
        assert not [each for each in alive if lives(each)], "a worker outlived its sweep"
        check_files(store)
        failed = [each for each in Store(store).results() if not each.finished]
        assert len(failed) <= (victim == "worker"), "a worker takes its own cell alone"
        finish(TASKS, store, whole)
        hits += 1
    return hits


def lives(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def write(outcomes, folder, line):
    """Store results and, in place of the first, the same again; die before the n-th line of it."""
    store = Store(folder)
    store.prepare()
    sys.settrace(Killer(line))
    for outcome in [*outcomes, outcomes[0]]:
        store.put(outcome.result, outcome.arrays)


class Killer:
    """A trace function that kills its process before the n-th line that writes to the store."""

    def __init__(self, lines):
        self.left = lines

    def __call__(self, frame, event, _):
        writes = {each.__code__ for each in (Store.put, Store._put_pair, Store._written.__wrapped__)}
        return self.line if event == "call" and frame.f_code in writes else None

    def line(self, _, event, __):
        if event == "line":
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self.left -= 1
        return self.line


def finish(tasks, folder, whole):
    """Resume without a kill and compare."""
    run(tasks, folder)
    found = contents(folder, tasks)
    assert found == {key: whole[key] for key in found}
    assert not list(folder.glob("*.partial")), "temporary files are left"


def contents(folder, tasks):
    """By key: the result less what a clock decides, and the bytes of its arrays."""
    store = Store(folder)
    keys = [each.spec.key for each in tasks]
    return {
        key: (without_times(store.get(key)), {name: array.tobytes() for name, array in store.arrays(key).items()})
        for key in keys
    }


TASKS = [
    task(method, index=index, seed=seed, steps=4)
    for seed in range(3)
    for index in range(3)
    for method in (FAKE, POINTS)
]


def run(tasks, folder):
    return sweep(tasks, Store(folder), executor=Serial())


def killed(work, folder, *, after=None):
    """Do work in a child and kill it after some seconds, or see it kill itself; False if it came to its end."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the sweep failed"
    check_files(folder)
    return os.WIFSIGNALED(status)


def check_files(folder):
    """What bears a final name is whole."""
    store = Store(folder)
    for each in TASKS:
        store.get(each.spec.key)
    assert store.problems == [], store.problems


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
