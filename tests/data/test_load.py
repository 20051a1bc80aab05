import errno
import hashlib
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from webserver import Web

from gpbench import leases
from gpbench.data import fetching, mirror, prepared
from gpbench.data import load as module
from gpbench.data.download import Patience
from gpbench.data.entries import read_file
from gpbench.data.fetching import check_here, fetch_sets, mirror_sets, names_of
from gpbench.data.load import is_here, load, prepared_folder
from gpbench.data.mirror import verify
from gpbench.data.prepared import PREPARED_FORMAT
from gpbench.errors import DataError, DataUnavailable, GpbenchWarning, UsageError

QUICK = Patience(probe=1, connect=1, read=1, attempts=2, pause=0)
TRAIN = b"x,y\n1,a\n2,b\n3,a\n"
TEST = b"x,y\n4,b\n5,b\n"
TOML = """
source = "toys"
licence = "none"
[files.train]
path = "toys/toy/train.csv"
urls = ["URL/train.csv"]
sha256 = "TRAIN"
[files.test]
path = "toys/toy/test.csv"
urls = ["URL/test.csv"]
sha256 = "OTHER"
proven = false
[datasets.toy]
title = "Toy"
task = "binary"
d = 1
counts = {a = 2, b = 3}
notes = ["A toy."]
parts = [{file = "train", format = "csv", role = "train"}, {file = "test", format = "csv", role = "test"}]
"""


@pytest.fixture
def web():
    server = Web()
    server.serve("/train.csv", TRAIN)
    server.serve("/test.csv", TEST)
    yield server
    server.close()


@pytest.fixture
def toys(monkeypatch, tmp_path, web):
    def use(text=TOML):
        path = tmp_path / "toys.toml"
        path.write_text(
            text.replace("URL", web.url).replace("TRAIN", hashlib.sha256(TRAIN).hexdigest()).replace("OTHER", "0" * 64)
        )
        found = {one.id: one for one in read_file(path)}
        for place in (module, mirror):
            monkeypatch.setattr(place, "entry", lambda name: found[name])
        for place in (mirror, fetching):
            monkeypatch.setattr(place, "entries", lambda: found)
        return found

    use()
    return use


def test_a_data_set_is_fetched_prepared_and_then_opened(toys, web, tmp_path):
    seen = []
    found = load("toy", folder=tmp_path / "data", progress=lambda *what: seen.append(what), patience=QUICK)
    np.testing.assert_array_equal(found.X[:, 0], [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(found.y, [0, 1, 0, 1, 1])
    ((train, test),) = found.given
    assert (list(train), list(test)) == ([0, 1, 2], [3, 4])
    assert found.notes[0] == "A toy."
    assert any(note.startswith("test.csv: other bytes than the copy") for note in found.notes)
    assert {what[0] for what in seen} == {"train.csv", "test.csv", "preparing toy"}
    asked = len(web.requests)
    again = load("toy", folder=tmp_path / "data", patience=QUICK)
    assert (again.checksum, len(web.requests)) == (found.checksum, asked)


def test_is_here_means_that_no_network_is_needed(toys, tmp_path):
    data = tmp_path / "data"
    assert not is_here("toy", data)
    load("toy", folder=data, patience=QUICK)
    assert is_here("toy", data)
    assert load("toy", folder=data, offline=True).n == 5


def test_another_catalogue_prepares_anew_from_the_files_that_are_here(toys, web, tmp_path):
    first = load("toy", folder=tmp_path, patience=QUICK)
    asked = len(web.requests)
    toys(TOML + 'recipe = {classes = ["b", "a"]}\n'.replace("counts", ""))
    with pytest.raises(DataError, match="expected the classes a, b; got b, a"):
        load("toy", folder=tmp_path, patience=QUICK)
    found = toys(TOML.replace("{a = 2, b = 3}", "{b = 3, a = 2}") + 'recipe = {classes = ["b", "a"]}\n')
    second = load("toy", folder=tmp_path, patience=QUICK)
    assert second.classes == ("b", "a")
    assert second.checksum != first.checksum
    assert len(web.requests) == asked
    assert prepared_folder(found["toy"], tmp_path).is_dir()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{a = 2, b = 3}", "{a = 3, b = 2}", r"expected the class counts"),
        ("{a = 2, b = 3}", "{a = 2, b = 4}", r"expected 6 rows, got 5"),
        ("d = 1", "d = 2", r"expected 2 features, got 1"),
    ],
)
def test_rows_that_are_not_those_of_the_catalogue_are_refused(toys, tmp_path, old, new, message):
    found = toys(TOML.replace(old, new))
    with pytest.raises(DataError, match="data set toy: " + message):
        load("toy", folder=tmp_path, patience=QUICK)
    assert not prepared_folder(found["toy"], tmp_path).exists()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("X.npy", b"damaged"),
        ("y.npy", b""),
        ("header.json", b"{}"),
        ("header.json", b"[" * 100_000),
        ("header.json", b'"text"'),
        ("given.npz", b"PK\x03\x04"),
    ],
)
def test_a_damaged_prepared_form_is_named_and_made_anew(toys, tmp_path, file, content):
    found = toys()
    checksum = load("toy", folder=tmp_path, patience=QUICK).checksum
    home = prepared_folder(found["toy"], tmp_path)
    (home / file).write_bytes(content)
    with pytest.warns(GpbenchWarning, match=r"toy/\w+: the prepared data set is damaged .*; it has been made anew"):
        again = load("toy", folder=tmp_path, offline=True)
    assert again.checksum == checksum
    np.testing.assert_array_equal(again.X[:, 0], [1, 2, 3, 4, 5])


def test_a_damaged_prepared_form_is_named_where_it_cannot_be_made_anew(toys, tmp_path):
    found = toys()
    load("toy", folder=tmp_path, patience=QUICK)
    home = prepared_folder(found["toy"], tmp_path)
    (home / "y.npy").write_bytes(b"damaged")
    (tmp_path / "files/toys/toy/test.csv").unlink()
    with pytest.raises(DataUnavailable, match=r"(?s)cannot be had.*the prepared data set is damaged \(y.npy holds no"):
        load("toy", folder=tmp_path, offline=True)


@pytest.mark.parametrize(
    "error", [PermissionError(errno.EACCES, "denied"), OSError(errno.EMFILE, "too many"), MemoryError()]
)
def test_a_prepared_form_that_cannot_be_read_now_stays(toys, tmp_path, monkeypatch, error):
    found = toys()
    checksum = load("toy", folder=tmp_path, patience=QUICK).checksum
    home = prepared_folder(found["toy"], tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in (home, *home.iterdir())}

    def refused(*_, **__):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(prepared, "_array", refused)
        with pytest.raises(DataError, match=r"the prepared data set cannot be read: .*; it is left as it is"):
            load("toy", folder=tmp_path, offline=True)
    assert {path.name: path.stat().st_mtime_ns for path in (home, *home.iterdir())} == before
    assert load("toy", folder=tmp_path, offline=True).checksum == checksum


def test_a_folder_that_may_not_be_looked_into_is_told(toys, tmp_path, monkeypatch):
    toys()
    load("toy", folder=tmp_path, patience=QUICK)
    look = Path.stat

    def refused(self, **options):
        if self.name == "header.json":
            raise PermissionError(errno.EACCES, "denied")
        return look(self, **options)

    monkeypatch.setattr(Path, "stat", refused)
    with pytest.raises(DataError, match=r"toy/\w+: the prepared data set cannot be read: no permission"):
        load("toy", folder=tmp_path, offline=True)


def test_a_prepared_form_of_another_version_is_made_anew_without_a_word(toys, tmp_path):
    found = toys()
    load("toy", folder=tmp_path, patience=QUICK)
    header = prepared_folder(found["toy"], tmp_path) / "header.json"
    header.write_text(header.read_text().replace(f'"format": {PREPARED_FORMAT}', '"format": 0'))
    assert load("toy", folder=tmp_path, offline=True).n == 5


def test_what_cannot_be_had_has_exit_code_three(toys, web, tmp_path):
    web.files.clear()
    with pytest.raises(DataUnavailable, match=r"(?s)data set toy cannot be had.*answers 404.*remedy") as failed:
        load("toy", folder=tmp_path, patience=QUICK)
    assert failed.value.exit_code == 3


def test_an_unknown_name_is_wrong_usage(tmp_path):
    with pytest.raises(UsageError, match="did you mean electricity"):
        load("electricty", folder=tmp_path)


def test_two_loads_at_once_agree(toys, tmp_path):
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(load("toy", folder=tmp_path, patience=QUICK).checksum))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 1
    assert len(results) == 3


def _fetched(tmp_path, names=("toy",)):
    said = []
    fetch_sets(names, folder=tmp_path / "data", mirror=None, progress=lambda *_: None, say=said.append)
    return said


def test_fetching_says_what_came(toys, tmp_path):
    (line,) = _fetched(tmp_path)
    assert line.startswith("toy: 5 rows, 1 features, binary; checksum ")


def test_one_that_fails_does_not_keep_the_others(toys, tmp_path, web):
    toys(TOML + TOML[TOML.index("[datasets.toy]") :].replace("datasets.toy", "datasets.bad").replace("d = 1", "d = 7"))
    said = []
    with pytest.raises(DataError, match="data set bad: expected 7 features"):
        fetch_sets(["bad", "toy"], folder=tmp_path, mirror=None, progress=lambda *_: None, say=said.append)
    assert len(said) == 1


def test_a_mirror_that_is_written_serves_a_machine_without_network(toys, web, tmp_path):
    said = []
    mirror_sets(["toy"], tmp_path / "m", folder=tmp_path / "a", mirror=None, progress=lambda *_: None, say=said.append)
    assert said == ["toy: train.csv, test.csv"]
    assert (tmp_path / "m/toys/toy/train.csv").read_bytes() == TRAIN
    assert not (tmp_path / "a").exists()
    web.files.clear()
    found = load("toy", folder=tmp_path / "b", mirror=str(tmp_path / "m"), offline=True)
    assert found.n == 5
    assert not (tmp_path / "b" / "files").exists()  # a folder is read where it is


def test_a_mirror_takes_downloads_that_are_here(toys, web, tmp_path):
    load("toy", folder=tmp_path / "a", patience=QUICK)
    web.files.clear()
    mirror_sets(
        ["toy"], tmp_path / "m", folder=tmp_path / "a", mirror=None, progress=lambda *_: None, say=lambda _: None
    )
    assert (tmp_path / "m/toys/toy/test.csv").read_bytes() == TEST
    recorded = (tmp_path / "m/toys/toy/test.csv.sha256").read_text()
    assert recorded.startswith(hashlib.sha256(TEST).hexdigest())


def test_a_mirror_that_cannot_be_written_is_an_error(toys, tmp_path):
    (tmp_path / "m").write_text("a file")
    load("toy", folder=tmp_path / "a", patience=QUICK)
    with pytest.raises(DataError, match=r"the mirror .* cannot be written"):
        mirror_sets(["toy"], tmp_path / "m", folder=tmp_path / "a", mirror=None, progress=lambda *_: None, say=print)


def test_a_mirror_has_a_file_whole_or_not_at_all(toys, tmp_path, monkeypatch):
    load("toy", folder=tmp_path / "a", patience=QUICK)
    there = tmp_path / "m/toys/toy"
    (there / "train.csv").mkdir(parents=True)  # it cannot be put there
    left = leases.unfinished(there / "test.csv")
    left.with_name(left.name.replace(f"-{os.getpid()}.", "-999999999.")).write_bytes(b"half")

    def written():
        mirror_sets(["toy"], tmp_path / "m", folder=tmp_path / "a", mirror=None, progress=lambda *_: None, say=str)

    with pytest.raises(DataError, match=r"the mirror .* cannot be written"):
        written()
    assert [path.name for path in there.iterdir()] == ["train.csv"]
    (there / "train.csv").rmdir()
    names, own = [], leases.unfinished
    monkeypatch.setattr(leases, "unfinished", lambda path: names.append(own(path)) or names[-1])
    written()
    assert {path.parent for path in names} == {there}  # under names that no other process has, on any machine
    assert len({path.name for path in names}) == 3
    assert sorted(path.name for path in there.iterdir()) == ["test.csv", "test.csv.sha256", "train.csv"]


def test_check_passes_over_what_is_whole_and_names_what_is_damaged(toys, tmp_path):
    found = toys()
    load("toy", folder=tmp_path, patience=QUICK)
    said = []
    check_here(tmp_path, (), say=said.append)
    assert said[-1].startswith("3 files and prepared data sets are whole")
    home = prepared_folder(found["toy"], tmp_path)
    raw = bytearray((home / "X.npy").read_bytes())
    raw[-1] ^= 1
    (home / "X.npy").write_bytes(raw)
    (tmp_path / "files/toys/toy/test.csv").write_bytes(b"x,y\n4,b\n5,a\n")
    with pytest.raises(DataError, match=r"(?s)2 of 3 are damaged.*test.csv: expected sha256.*expected checksum"):
        check_here(tmp_path, (), say=said.append)
    assert [finding.problem for finding in verify(tmp_path, ["toy"]) if "train" in str(finding.place)] == [None]


def test_check_of_nothing_says_so(toys, tmp_path):
    said = []
    check_here(tmp_path, (), say=said.append)
    assert said == [f"nothing is here ({tmp_path})"]


@pytest.mark.parametrize(
    ("names", "every", "message"),
    [
        ((), False, "expected data sets' names, or --all"),
        (("toy",), True, "got both"),
        (("electricty",), False, "unknown"),
    ],
)
def test_names_that_make_no_sense_are_refused(names, every, message):
    with pytest.raises(UsageError, match=message):
        names_of(names, every=every)


def test_all_means_the_whole_catalogue_and_names_come_once():
    assert "higgs" in names_of((), every=True)
    assert names_of(("glass", "wine", "glass"), every=False) == ["glass", "wine"]


def test_an_unwritable_data_folder_is_an_error_that_says_so(toys, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot be written: (Not a directory|File exists)"):
        load("toy", folder=tmp_path / "file" / "data", patience=QUICK)


def test_what_cannot_be_had_leaves_nothing_behind(toys, web, tmp_path):
    web.files.clear()
    with pytest.raises(DataUnavailable):
        load("toy", folder=tmp_path / "data", patience=QUICK)
    assert [path.name for path in (tmp_path / "data").rglob("*") if path.is_file()] == []
