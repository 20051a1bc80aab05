import errno
import importlib.util
import multiprocessing
import sys
import threading
from types import SimpleNamespace

import pytest

from gpbench.data import locks
from gpbench.data.locks import alone


def test_one_at_a_time_and_nothing_is_left(tmp_path):
    place, inside, seen = tmp_path / "made", [], []

    def make():
        for _ in range(20):
            with alone(place):
                inside.append(None)
                seen.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 80
    assert list(tmp_path.iterdir()) == []


def hold(place, connection):
    with alone(place):
        connection.send("held")
        connection.recv()


def test_a_lock_ends_with_the_process_that_holds_it(tmp_path):
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=hold, args=(tmp_path / "made", there))
    process.start()
    assert here.recv() == "held"
    process.kill()
    process.join()
    with alone(tmp_path / "made"):
        pass


@pytest.fixture
def windows(monkeypatch):
    """The module as Windows imports it, and what it asks of the system."""
    calls = []

    def locking(number, mode, size):
        calls.append((mode, size))
        if len(calls) == 1:
            raise OSError(errno.EDEADLK, "Resource deadlock avoided")
        if len(calls) == 3:
            raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_LOCK=1))
    spec = importlib.util.spec_from_file_location("locks_on_windows", locks.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, calls


def test_windows_waits_on_and_leaves_the_file(windows, tmp_path):
    module, calls = windows
    with module.alone(tmp_path / "made"):
        assert calls == [(1, 1), (1, 1)]
    assert [path.name for path in tmp_path.iterdir()] == ["made.lock"]
    with pytest.raises(PermissionError), module.alone(tmp_path / "made"):
        pass
