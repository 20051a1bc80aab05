import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bench_fakes import spec

from gpbench.bench import store as store_module
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
}


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
    told = f"3 of format other than 2 are passed over in {store.folder}: 0.json and others"
    assert store.problems == [told]
    assert {"0.json", "1.json", "2.json"} <= set(files(store))


def test_a_full_disk_is_a_store_error_and_leaves_nothing_half_done(store, monkeypatch):
    store.prepare()

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store_module.os, "fsync", full)
    with pytest.raises(StoreError, match=r"cannot write the store .*runs: No space left on device"):
        store.put(a_result(), ARRAYS)
    assert files(store) == []


def test_the_npz_is_in_place_before_the_json(store, monkeypatch):
    placed = []
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, to: (placed.append(to.suffix), replace(self, to)))
    store.put(a_result(), ARRAYS)
    assert placed == [".npz", ".json"]


def test_an_older_json_never_stands_beside_a_newer_npz(store, monkeypatch):
    key = store.put(a_result(), ARRAYS).key
    write = Store._write
    monkeypatch.setattr(
        Store, "_write", lambda self, path, content: path.suffix == ".npz" and write(self, path, content)
    )
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
    monkeypatch.setattr(Path, "read_bytes", refused)
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
    host = store_module._host()
    names = {"gone": f"a.json.{host}-{dead}.partial", "live": f"b.npz.{host}-{os.getppid()}.partial",
             "elsewhere": f"c.json.{host}x-{dead}.partial"}  # fmt: skip
    for name in names.values():
        (store.folder / name).write_text("half")
    store.prepare()
    assert files(store) == sorted([names["live"], names["elsewhere"]])


def test_objects_are_not_pickled(store):
    with pytest.raises(TypeError, match="array x holds Python objects"):
        store.put(a_result(), {"x": np.array([{}], dtype=object)})
