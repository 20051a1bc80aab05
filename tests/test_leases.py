"""Leases among threads and processes, killed and stale ones, and folders where flock fails."""

import errno
import json
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest

from gpbench import leases
from gpbench.leases import Holder, Lease, Timing, alone, holder_of, remove_unfinished, replacing, unfinished

QUICK = Timing(touch=0.05, stale=0.4, look=0.02)
SPAWN = multiprocessing.get_context("spawn")


def _write(place, holder, *, age=0.0):
    """A lease's file as another process left it ``age`` seconds ago."""
    file = place.with_name(place.name + ".lease")
    file.write_text(holder if isinstance(holder, str) else json.dumps(asdict(holder)))
    os.utime(file, (time.time() - age,) * 2)
    return file


def _elsewhere(**how):
    return replace(Holder("far", "another boot", 1, 0.0, 0.0, "t"), **how)


def _here(**how):
    return replace(leases._myself(), **how)


def test_one_thread_at_a_time_and_nothing_is_left(tmp_path):
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


def test_a_lease_that_is_held_is_refused_and_says_whose_it_is(tmp_path):
    place = tmp_path / "made"
    with Lease.take(place) as mine:
        assert mine.held
        assert Lease.take(place) is None
        assert holder_of(place).pid == os.getpid()
        assert str(holder_of(place)).startswith(f"process {os.getpid()} on ")
    assert not mine.held
    assert holder_of(place) is None
    mine.release()
    assert list(tmp_path.iterdir()) == []


def test_who_waits_is_told_once_for_whom(tmp_path):
    place, told = tmp_path / "made", []
    mine = Lease.take(place)
    threading.Timer(0.2, mine.release).start()
    with alone(place, waiting=told.append):
        assert [holder.pid for holder in told] == [os.getpid()]


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        Lease.take(tmp_path / "none" / "made")


def _hold(place, connection):
    with alone(place):
        connection.send("held")
        connection.recv()


@pytest.mark.parametrize("reaped", [True, False])
def test_a_lease_ends_with_the_process_that_holds_it(tmp_path, reaped):
    here, there = SPAWN.Pipe()
    process = SPAWN.Process(target=_hold, args=(tmp_path / "made", there))
    process.start()
    assert here.recv() == "held"
    assert Lease.take(tmp_path / "made") is None
    process.kill()
    if reaped:
        process.join()
    else:
        _until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
    with Lease.take(tmp_path / "made") as mine:
        assert mine.held
    process.join()


def _until(condition):
    """Wait, on a busy machine for long: the limit on every test ends what never comes."""
    while not condition():
        time.sleep(0.005)


def test_a_later_process_of_the_same_number_does_not_hold_the_lease(tmp_path):
    _write(tmp_path / "made", _here(started=1.0))
    with Lease.take(tmp_path / "made") as mine:
        assert mine.held


def test_a_process_of_this_machine_that_lives_holds_its_lease_however_old(tmp_path):
    _write(tmp_path / "made", _here(), age=1e6)
    assert Lease.take(tmp_path / "made", timing=QUICK) is None


@pytest.mark.parametrize(
    "content",
    [_elsewhere(), _elsewhere(pid=os.getpid()), "", "no lease", '{"host": 1}', "[" * 10_000, '{"pid": 1e999}'],
)
def test_leases_from_elsewhere_are_expired_only_when_they_are_old(tmp_path, content):
    place = tmp_path / "made"
    _write(place, content, age=QUICK.stale / 2)
    assert Lease.take(place, timing=replace(QUICK, stale=60)) is None
    _write(place, content, age=61)
    with Lease.take(place, timing=replace(QUICK, stale=60)) as mine:
        assert mine.held
    assert list(tmp_path.iterdir()) == []


def test_the_age_of_a_lease_is_told_by_the_clock_of_the_file_system(tmp_path, monkeypatch):
    _write(tmp_path / "made", _elsewhere(), age=0)
    monkeypatch.setattr(time, "time", lambda: 4e9)  # this machine's clock is wrong by decades
    assert Lease.take(tmp_path / "made", timing=QUICK) is None


@pytest.mark.parametrize("number", [-1, 0x7FFFFFFF, 1 << 70])
def test_numbers_that_no_process_has_are_expired(tmp_path, number):
    _write(tmp_path / "made", _here(pid=number))
    with Lease.take(tmp_path / "made") as mine:
        assert mine.held


def test_a_lease_that_is_held_is_touched_and_so_stays(tmp_path, monkeypatch):
    """The taker thinks that the holder runs elsewhere, so that only touches speak for it."""
    place = tmp_path / "made"
    with Lease.take(place, timing=QUICK) as mine:
        monkeypatch.setattr(leases, "_system", lambda: "elsewhere")
        for _ in range(20):
            time.sleep(QUICK.stale / 10)
            assert Lease.take(place, timing=QUICK) is None
        assert mine.held


def test_the_slower_of_two_who_found_a_lease_expired_does_not_remove_the_faster_ones(tmp_path):
    place = tmp_path / "made"
    file = _write(place, _elsewhere(), age=100)
    expired = leases._look(file)
    fast = Lease.take(place, timing=QUICK)
    assert leases._remove(file, expired, QUICK)
    assert fast.held
    fast.release()


def test_an_expired_lease_is_removed_by_one_at_a_time(tmp_path):
    place = tmp_path / "made"
    file = _write(place, _elsewhere(), age=100)
    with Lease.take(file):  # somebody is about to remove it
        assert Lease.take(place, timing=QUICK) is None
    _write(file, _elsewhere(), age=100)  # and that one was killed meanwhile
    with Lease.take(place, timing=QUICK) as mine:
        assert mine.held
    assert list(tmp_path.iterdir()) == []


def test_a_lease_that_was_lost_is_known_as_lost_and_not_released(tmp_path):
    place = tmp_path / "made"
    mine = Lease.take(place, timing=QUICK)
    file = _write(place, _elsewhere())
    assert not mine.held
    mine.release()
    assert file.exists()


@pytest.mark.parametrize("name", ["n" * 240, "ü" * 120, "n" * 201])
def test_long_names_can_be_leaseed(tmp_path, name):
    place = tmp_path / name
    with alone(place) as mine:
        assert mine.held
        assert Lease.take(place) is None
        assert Lease.take(tmp_path / name[:-1]) is not None


def no_links(*_):
    raise OSError(errno.EPERM, "Operation not permitted")


def test_without_links_a_lease_is_a_lease(tmp_path, monkeypatch):
    monkeypatch.setattr(leases.os, "link", no_links)
    with alone(tmp_path / "made") as mine:
        assert mine.held
        assert Lease.take(tmp_path / "made") is None
    assert list(tmp_path.iterdir()) == []


def test_who_dies_while_a_lease_is_written_has_not_taken_it(tmp_path, monkeypatch):
    def killed(*_):
        raise SystemExit

    with monkeypatch.context() as dying:
        dying.setattr(leases.os, "write", killed)
        with pytest.raises(SystemExit):
            Lease.take(tmp_path / "made")
    assert not (tmp_path / "made.lease").exists()
    assert Lease.take(tmp_path / "made") is not None


@pytest.mark.parametrize("links", [True, False])
def test_a_full_disk_leaves_no_empty_lease(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(leases.os, "link", no_links)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(leases.os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        Lease.take(tmp_path / "made")
    assert list(tmp_path.iterdir()) == []


def _half_written(path, kind, *, age=0.0):
    """What a process was writing when it was last heard of, ``age`` seconds ago."""
    partial = unfinished(path)
    if kind == "folder":
        partial.mkdir()
        (partial / "X.npy").write_bytes(b"half")
    else:
        partial.write_bytes(b"half")
    for each in (partial, *partial.rglob("*")):
        os.utime(each, (time.time() - age,) * 2)
    return partial


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_the_dead_left_half_written_goes_and_what_the_living_write_stays(tmp_path, monkeypatch, kind):
    mine = _half_written(tmp_path / "made", kind, age=1e6)
    monkeypatch.setattr(leases.os, "getpid", lambda: 999_999_999)
    dead = _half_written(tmp_path / "made", kind)
    remove_unfinished(tmp_path)
    assert mine.exists()
    assert not dead.exists()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_numbers_of_processes_say_nothing_of_another_system_that_bears_the_same_name(tmp_path, monkeypatch, kind):
    with monkeypatch.context() as container:
        container.setattr(leases, "_system", lambda: "another table of processes")
        container.setattr(leases.os, "getpid", lambda: 999_999_999)
        theirs = _half_written(tmp_path / "made", kind, age=3600)
        forsaken = _half_written(tmp_path / "made", kind, age=1e6)
    remove_unfinished(tmp_path)
    assert list(tmp_path.iterdir()) == [theirs]
    assert not forsaken.exists()


def test_a_folder_in_which_something_is_written_is_not_forsaken(tmp_path, monkeypatch):
    with monkeypatch.context() as container:
        container.setattr(leases, "_system", lambda: "another table of processes")
        theirs = _half_written(tmp_path / "made", "folder", age=1e6)
    (theirs / "X.npy").write_bytes(b"more")
    os.utime(theirs, (0, 0))
    remove_unfinished(tmp_path)
    assert theirs.exists()


def test_what_is_renamed_while_it_is_looked_at_is_nobodys_leftover(tmp_path, monkeypatch):
    with monkeypatch.context() as container:
        container.setattr(leases, "_system", lambda: "another table of processes")
        theirs = _half_written(tmp_path / "made", "file", age=1e6)

    def stale(_):
        raise OSError(errno.ESTALE, "Stale file handle")  # as NFS says

    monkeypatch.setattr(leases, "_now", stale)
    remove_unfinished(tmp_path)
    assert theirs.exists()


def test_files_of_other_names_are_let_alone(tmp_path):
    names = [
        "mine.partial",
        ".table.parquet.partial",
        ".x.host-999999999-0123abcd.partial",
        ".x.host-999999999-01234567.old",
        f".{'0' * 32}.{leases._mark()}-{1 << 70}.partial",
        f".{'0' * 32}.host-999999999.partial",  # names of gpbench's first version, before they are forsaken
    ]
    for name in names:
        (tmp_path / name).touch()
    remove_unfinished(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "made"
    with replacing(path) as partial:
        partial.write_text("first")

    def interrupted():
        with replacing(path) as partial:
            partial.write_text("sec")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def _work(folder, times, seed):
    """Enter and leave so often; what was done stands in the log."""
    numbers = random.Random(seed)
    log = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for _ in range(times):
        with alone(folder / "made", timing=QUICK):
            os.write(log, f"in {os.getpid()}\n".encode())
            time.sleep(numbers.random() * 0.01)
            os.write(log, f"out {os.getpid()}\n".encode())
        time.sleep(numbers.random() * 0.002)


def _contend(folder, *, times, kills, seed):
    """Three processes enter so often each; some are killed and replaced. Returns how often each got in."""
    numbers = random.Random(seed)

    def start():
        process = SPAWN.Process(target=_work, args=(folder, times, numbers.random()))
        process.start()
        return process

    processes, killed = [start() for _ in range(3)], set()
    _until(lambda: (folder / "log").exists() and len((folder / "log").read_text().split()) > 12)
    for _ in range(kills):
        time.sleep(numbers.random() * 0.3)
        victim = processes.pop(numbers.randrange(len(processes)))
        victim.kill()
        victim.join()
        killed.add(victim.pid)
        processes.append(start())
    for process in processes:
        process.join()
        assert process.exitcode == 0
    inside, entered = None, {}
    for line in (folder / "log").read_text().splitlines():
        what, pid = line.split()
        if what == "in":
            assert inside is None or int(inside) in killed, f"{pid} came in while {inside} was inside"
            entered[pid] = entered.get(pid, 0) + 1
            inside = pid
        else:
            assert pid == inside
            inside = None
    return entered


def test_three_processes_of_which_some_are_killed_never_meet(tmp_path):
    entered = _contend(tmp_path, times=60, kills=2, seed=1)
    assert sum(count == 60 for count in entered.values()) >= 3  # whoever was not killed
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("GPBENCH_STRESS"), reason="make stress runs it")
def test_the_same_for_longer(tmp_path):
    for seed in range(int(os.environ["GPBENCH_STRESS"])):
        folder = tmp_path / str(seed)
        folder.mkdir()
        _contend(folder, times=200, kills=12, seed=seed)


def test_leases_live_without_flock(tmp_path, without_flock):
    program = (
        "import sys, time; from pathlib import Path; from gpbench.leases import alone\n"
        "with alone(Path(sys.argv[1])): print('in', flush=True); time.sleep(0.1); print('out', flush=True)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "made")]
    with (tmp_path / "log").open("ab") as log:
        processes = [subprocess.Popen(command, env=without_flock, stdout=log) for _ in range(3)]
        assert [process.wait() for process in processes] == [0, 0, 0]
    assert (tmp_path / "log").read_text().split() == ["in", "out"] * 3


def test_data_sets_are_prepared_without_flock(tmp_path, without_flock):
    environ = without_flock | {"GPBENCH_DATA": str(tmp_path / "data"), "GPBENCH_MIRROR": "", "GPBENCH_RESULTS": ""}
    command = [sys.executable, "-c", "from gpbench.cli import main; main()", "fetch", "waveform3:50"]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("waveform3:50: 50 rows")
    assert not list(Path(tmp_path).rglob("*.lease"))
