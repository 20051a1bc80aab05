import errno
import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bench_fakes import spec

from gpbench import leases
from gpbench.bench import store as store_module
from gpbench.bench.cell import canonical
from gpbench.bench.result import Problem, Result
from gpbench.bench.store import Store
from gpbench.errors import StoreError

ARRAYS = {"weights": np.arange(5.0), "y_test": np.array([0, 1])}


def a_result(status="ok", **options):
    return Result.of(
        spec(**options),
        status=status,
        stopped_by="iterations",
        metrics={"nll": 0.5, "error": 0.1 + 0.2, "train_seconds": 0.1},
        trace={"seconds": [0.1], "iteration": [4], "nll": [0.5], "error": [0.1 + 0.2], "bound": [None]},
        problem=None if status == "ok" else Problem("ValueError", "deliberate", 3),
    )


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


def files(store):
    return sorted(path.name for path in store.folder.iterdir())


def test_what_is_put_comes_back(store):
    result = a_result()
    written = store.put(result, ARRAYS)
    assert replace(written, arrays_sha256=None) == result
    assert Store(store.folder).get(result.key) == written
    assert Store(store.folder).results() == [written]
    assert files(store) == [f"{result.key}.json", f"{result.key}.npz"]
    arrays = store.arrays(result.key)
    assert arrays.keys() == ARRAYS.keys()
    np.testing.assert_array_equal(arrays["weights"], ARRAYS["weights"])


def test_empty_and_absent_stores_hold_nothing(store):
    assert store.get("0" * 20) is None
    assert store.results() == []
    store.prepare()
    assert (store.get("0" * 20), store.results(), files(store)) == (None, [], [])


def test_a_failed_cell_needs_no_arrays_and_takes_the_old_ones_away(store):
    store.put(a_result(), ARRAYS)
    store.put(a_result("failed"))
    assert files(store) == [f"{a_result().key}.json"]
    assert store.get(a_result().key).status == "failed"


def test_an_interrupted_cell_leaves_a_finished_one_whole(store):
    finished = store.put(a_result(), ARRAYS)
    assert store.put(a_result("interrupted")) == finished
    assert store.get(finished.key) == finished
    (store.folder / f"{finished.key}.npz").write_bytes(b"PK")  # one that is damaged stays not
    assert store.put(a_result("interrupted")).status == "interrupted"
    assert files(store) == [f"{finished.key}.json"]


def test_put_replaces(store):
    store.put(a_result("failed"))
    store.put(a_result(), ARRAYS)
    assert store.get(a_result().key).status == "ok"


def damage_json(change):
    def damage(path):
        result = json.loads(path.read_text())
        change(result)
        path.write_text(json.dumps(result))

    return damage


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-30]),
    "binary": lambda path: path.write_bytes(os.urandom(200)),
    "a list": lambda path: path.write_text("[1, 2]"),
    "deeply nested": lambda path: path.write_text("[" * 100_000),
    "no metrics": damage_json(lambda result: result.pop("metrics")),
    "other format": damage_json(lambda result: result.update(format=1)),
    "other key": damage_json(lambda result: result.update(key="0" * 20)),
    "strange status": damage_json(lambda result: result.update(status="fine")),
    "changed number": damage_json(lambda result: result["metrics"].update(nll=0.4)),
    "no digest": damage_json(lambda result: result.pop("digest")),
    "no checksum": damage_json(lambda result: result.pop("checksum")),
    "no npz": lambda path: path.with_suffix(".npz").unlink(),
    "truncated npz": lambda path: path.with_suffix(".npz").write_bytes(path.with_suffix(".npz").read_bytes()[:-1]),
    "changed npz": lambda path: flip(path.with_suffix(".npz"), 150),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a device that never ends": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
    "a link to itself": lambda path: (path.unlink(), path.symlink_to(path)),
    "too large": lambda path: os.truncate(path, 2**40),
    "a folder as npz": lambda path: (path.with_suffix(".npz").unlink(), path.with_suffix(".npz").mkdir()),
    "a pipe as npz": lambda path: (path.with_suffix(".npz").unlink(), os.mkfifo(path.with_suffix(".npz"))),
    "not a number": damage_json(lambda result: result["metrics"].update(nll=float("nan"))),
    "a setting that is no number": damage_json(lambda result: result["settings"].update(rate=float("nan"))),
    "no number in the provenance": damage_json(lambda result: result["provenance"].update(x=float("inf"))),
    "a text as a metric": damage_json(lambda result: redigested(result, "0.5")),
}


def redigested(result, nll):
    """A metric of another kind, under a digest that is right."""
    result["metrics"]["nll"] = nll
    text = canonical({name: value for name, value in result.items() if name != "digest"})
    result["digest"] = hashlib.sha256(text.encode()).hexdigest()


def flip(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_results_are_reported_set_aside_and_never_trusted(store, damage):
    key = store.put(a_result(), ARRAYS).key
    damage(store.folder / f"{key}.json")
    assert store.get(key) is None
    assert len(store.problems) == 1
    assert f"{key}.json is damaged and was set aside" in store.problems[0]
    assert f"{key}.json.damaged" in files(store)
    assert not any(name.endswith((".json", ".npz")) for name in files(store))
    written = store.put(a_result(), ARRAYS)
    assert store.get(key) == written


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_stands_at_a_cells_place_is_passed_over_by_who_reads(store, damage):
    store.put(a_result(index=1), ARRAYS)
    key = store.put(a_result(), ARRAYS).key
    damage(store.folder / f"{key}.json")
    found = {cell.split.index for cell in store.results()}
    assert found in ({1}, {0, 1})  # of the npz alone no more is asked than its own readers do
    assert len(store.problems) == 2 - len(found)
    with pytest.raises(StoreError, match=key):
        store.arrays(key if found == {0, 1} else "0" * 20 + key, digest=a_result().arrays_sha256 or "0")


@pytest.mark.parametrize("at", [".json", ".npz"])
def test_a_folder_in_the_way_is_set_aside_when_a_result_is_put_as_often_as_it_takes(store, at):
    for number in range(3):
        place = (store.folder / a_result().key).with_suffix(at)
        place.unlink(missing_ok=True)
        (place / "something").mkdir(parents=True)
        written = store.put(a_result(), ARRAYS)
        assert store.get(written.key) == written
        aside = [path for path in store.folder.iterdir() if ".damaged" in path.name]
        assert len(aside) == number + 1


def test_a_pair_that_is_being_replaced_is_not_set_aside(store, monkeypatch):
    """Who reads between the two renames of another process waits for it."""
    key = store.put(a_result(), ARRAYS).key
    other, found = Store(store.folder), []
    replace = Path.replace

    def slowly(self, to):
        replace(self, to)
        if to.suffix == ".npz" and not found:
            # as if this process had read the JSON before and the npz after
            (store.folder / f"{key}.json").write_text(old)
            reader = threading.Thread(target=lambda: found.append(other.get(key)))
            reader.start()
            threads.append(reader)
            time.sleep(0.05)

    threads = []
    old = (store.folder / f"{key}.json").read_text()
    monkeypatch.setattr(Path, "replace", slowly)
    written = store.put(a_result(), {"weights": np.zeros(3)})
    for each in threads:
        each.join()
    assert found == [written]
    assert other.problems == []


PUTTER = """
import sys, time
from pathlib import Path
import numpy as np
from test_store import Store, a_result
store = Store(Path(sys.argv[1]))
print("ready", flush=True)
end = time.monotonic() + 1.0
while time.monotonic() < end:
    store.put(a_result(), {"weights": np.full(2000, int(sys.argv[2]))})
"""


def test_processes_that_put_one_key_never_leave_json_of_one_and_npz_of_another(store):
    store.put(a_result(), ARRAYS)
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", PUTTER, str(store.folder)]
    others = [
        subprocess.Popen([*command, str(number)], env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.PIPE)
        for number in range(3)
    ]
    assert [other.stdout.readline() for other in others] == [b"ready\n"] * 3
    looks = 0
    while any(other.poll() is None for other in others):
        store.get(a_result().key)
        looks += 1
    assert [other.communicate() and other.returncode for other in others] == [0, 0, 0]
    assert looks > 10
    assert store.problems == []
    whole = store.get(a_result().key)
    store.arrays(whole.key, digest=whole.arrays_sha256)
    assert files(store) == [f"{whole.key}.json", f"{whole.key}.npz"]


def test_a_cell_is_claimed_once_and_who_has_it_is_named(store):
    store.prepare()
    with store.claim("a") as mine:
        assert mine.held
        assert Store(store.folder).claim("a") is None
        assert store.claimed_by("a") == f"process {os.getpid()} on {socket.gethostname()}"
        with Store(store.folder).claim("b"):
            pass
    assert store.claimed_by("a") == "another process"
    assert files(store) == []


def test_every_flipped_byte_of_a_result_is_noticed(store):
    key = store.put(a_result(), ARRAYS).key
    path = store.folder / f"{key}.json"
    whole = path.read_bytes()
    result = store.get(key)
    for position in range(0, len(whole), 7):
        path.write_bytes(whole)
        flip(path, position)
        found = store.get(key)
        assert found is None or found == result, position  # a blank for another changes nothing
        store.put(a_result(), ARRAYS)


def test_reports_pass_over_damaged_results_and_say_so(store):
    store.put(a_result(index=1), ARRAYS)
    key = store.put(a_result(), ARRAYS).key
    (store.folder / f"{key}.json").write_text("{")
    assert [cell.split.index for cell in store.results()] == [1]
    assert store.problems == [f"{store.folder / key}.json is passed over: it is no JSON"]
    assert f"{key}.json" in files(store)


def test_results_of_other_formats_stay_and_are_told_in_one_sentence(store):
    store.put(a_result(), ARRAYS)
    for number in range(3):
        (store.folder / f"{number}.json").write_text(json.dumps({"format": 0, "key": str(number)}))
    assert [result.key for result in store.results()] == [a_result().key]
    (told,) = store.problems
    assert told.startswith(f"results of another gpbench are passed over in {store.folder}: 3 of format 0 (0.json and")
    assert store.others == {"0": 3}
    assert {"0.json", "1.json", "2.json"} <= set(files(store))
    (store.folder / "3.json").write_text("{")
    for _ in range(2):  # who reads again says nothing twice, and counts nothing twice
        store.results()
        assert (len(store.problems), store.others) == (2, {"0": 3})


def test_a_full_disk_is_a_store_error_and_leaves_nothing_half_done(store, monkeypatch):
    store.prepare()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StoreError, match=r"cannot write the store .*runs: No space left on device"):
        store.put(a_result(), ARRAYS)
    assert files(store) == []


@pytest.mark.parametrize("which", [".json", ".npz"])
def test_what_cannot_be_written_in_full_leaves_an_earlier_result_whole(store, monkeypatch, which):
    earlier = store.put(a_result(), ARRAYS)
    name = leases.unfinished
    monkeypatch.setattr(leases, "unfinished", lambda path: path / "nowhere" if path.suffix == which else name(path))
    with pytest.raises(StoreError, match="cannot write the store"):
        store.put(a_result(), {"weights": np.zeros(3)})
    monkeypatch.undo()
    assert store.get(earlier.key) == earlier
    assert files(store) == [f"{earlier.key}.json", f"{earlier.key}.npz"]


def test_the_npz_is_in_place_before_the_json(store, monkeypatch):
    placed = []
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, to: (placed.append(to.suffix), replace(self, to)))
    store.put(a_result(), ARRAYS)
    assert placed == [".npz", ".json"]


def test_an_older_json_never_stands_beside_a_newer_npz(store, monkeypatch):
    key = store.put(a_result(), ARRAYS).key
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, to: to.suffix == ".npz" and replace(self, to))
    store.put(a_result(), {"weights": np.zeros(1)})  # as if killed before the JSON
    assert store.get(key) is None


@pytest.mark.parametrize("use", [Store.prepare, Store.results, lambda store: store.put(a_result(), ARRAYS)])
def test_a_file_in_place_of_the_folder_is_a_store_error(tmp_path, use):
    (tmp_path / "runs").write_text("")
    with pytest.raises(StoreError, match=r"the store .*runs: "):
        use(Store(tmp_path / "runs"))


def test_a_folder_that_cannot_be_read_is_a_store_error(store, monkeypatch):
    store.put(a_result(), ARRAYS)

    def refused(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refused)
    monkeypatch.setattr(store_module, "_content", refused)
    with pytest.raises(StoreError, match="cannot read the store"):
        store.results()
    with pytest.raises(StoreError, match="cannot read the store"):
        store.get(a_result().key)


def test_temporary_files_of_dead_processes_go_and_those_of_live_ones_stay(store):
    store.prepare()
    dead = os.fork()
    if dead == 0:
        os._exit(0)
    os.waitpid(dead, 0)
    mark, some = leases._mark(), f".{'0' * 31}"
    names = {"gone": f"{some}a.{mark}-{dead}.partial", "live": f"{some}b.{mark}-{os.getppid()}.partial",
             "elsewhere": f"{some}c.{mark}x-{dead}.partial"}  # fmt: skip
    for name in names.values():
        (store.folder / name).write_text("half")
    store.prepare()
    assert files(store) == sorted([names["live"], names["elsewhere"]])


def test_objects_are_not_pickled(store):
    with pytest.raises(TypeError, match="array x holds Python objects"):
        store.put(a_result(), {"x": np.array([{}], dtype=object)})
