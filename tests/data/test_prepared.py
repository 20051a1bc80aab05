import errno
import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpbench.data.formats import read_table
from gpbench.data.formats.frames import frame
from gpbench.data.preparation import Recipe, open_prepared, prepare
from gpbench.data.prepared import MatrixWriter, UnreadableError, partial_folder
from gpbench.errors import DataError

BINARY = Recipe(task="binary")


@pytest.fixture
def make(tmp_path):
    def make(text, recipe=BINARY):
        path = tmp_path / "table.csv"
        path.write_text(text)

        def tables():
            return read_table(path, format="csv", block_bytes=64)

        return prepare(tables, recipe, id="d", title="D", folder=tmp_path / "prepared")

    return make


def nothing_else(tmp_path):
    return sorted(path.name for path in tmp_path.iterdir()) == ["table.csv"]


class FullDisk:
    """A file on a disk that fills up after some bytes."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        self.room -= memoryview(data).nbytes
        if self.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)


@pytest.mark.parametrize("room", [0, 100, 200, 700])
@pytest.mark.parametrize("recipe", [BINARY, Recipe(task="binary", sort=True)])
def test_a_full_disk_leaves_nothing_and_says_so(make, tmp_path, monkeypatch, room, recipe):
    start = MatrixWriter.__init__

    def on_full_disk(self, *args, **kwargs):
        start(self, *args, **kwargs)
        self._file = FullDisk(self._file, room if recipe is BINARY or args[0].name == "X.npy" else 10**9)

    monkeypatch.setattr(MatrixWriter, "__init__", on_full_disk)
    text = "".join(f"{k},{k},{k % 2}\n" for k in range(100))
    with pytest.raises(
        DataError, match=r"prepared: cannot be written: No space left on device; nothing half-made is left"
    ):
        make(text, recipe)
    assert nothing_else(tmp_path)
    monkeypatch.undo()
    assert make(text, recipe).n == 100


def test_a_failed_preparation_keeps_the_one_before(make, tmp_path):
    before = make("1,0\n2,1\n").checksum
    with pytest.raises(DataError):
        make("1,0\n2,inf\n3\n")
    assert open_prepared(tmp_path / "prepared").checksum == before
    after = make("1,0\n2,1\n3,1\n")
    assert open_prepared(tmp_path / "prepared").checksum == after.checksum != before


def test_an_interrupt_leaves_nothing(tmp_path):
    def tables():
        yield frame(pd.DataFrame({"a": [1.0], "t": [0]}), numbers=range(1), source="t")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(tables, BINARY, id="d", title="", folder=tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_what_killed_processes_left_is_removed_and_what_living_ones_write_is_not(tmp_path):
    with partial_folder(tmp_path / "x") as mine:
        name = mine.name
        dead = tmp_path / name.replace(f"-{os.getpid()}.", "-999999999.")
        dead.mkdir()
        (dead / "raw.npy").write_bytes(b"half")
        with partial_folder(tmp_path / "x") as other:
            assert mine.is_dir()
            assert other != mine
            assert not dead.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written: "), partial_folder(tmp_path / "file" / "x"):
        pass


def damage_header(folder, **changes):
    header = json.loads((folder / "header.json").read_text())
    (folder / "header.json").write_text(json.dumps(header | changes))


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "X.npy").write_bytes((folder / "X.npy").read_bytes()[:-8]),
        lambda folder: (folder / "X.npy").write_bytes(b""),
        lambda folder: (folder / "y.npy").write_bytes(b"rubbish"),
        lambda folder: (folder / "header.json").write_text("{"),
        lambda folder: (folder / "header.json").write_text("[]"),
        lambda folder: damage_header(folder, n=7),
        lambda folder: damage_header(folder, format=99),
        lambda folder: damage_header(folder, given=2),
        lambda folder: damage_header(folder, features=["a"]),
    ],
)
def test_a_damaged_prepared_form_is_never_used(make, tmp_path, damage):
    make("1,2,0\n2,3,1\n")
    folder = tmp_path / "prepared"
    damage(folder)
    with pytest.raises(DataError):
        open_prepared(folder)


def refusing(monkeypatch, name, error):
    """Let the system refuse to open a file of this name."""
    openly = Path.open

    def refused(self, *args, **kwargs):
        if self.name == name:
            raise error
        return openly(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refused)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES)), r"no permission \(Permission denied\)"),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "Too many open files"),
        (OSError(errno.EIO, os.strerror(errno.EIO)), "Input/output error"),
        (MemoryError(), "there is not enough memory"),
    ],
)
def test_what_cannot_be_read_is_not_called_damaged(make, tmp_path, monkeypatch, error, words):
    make("1,2,0\n2,3,1\n")
    said = rf"prepared: the prepared data set cannot be read: {words}; it is left"
    for name in ("X.npy", "y.npy", "header.json"):
        with monkeypatch.context() as patch:
            refusing(patch, name, error)
            with pytest.raises(UnreadableError, match=said):
                open_prepared(tmp_path / "prepared")
    assert open_prepared(tmp_path / "prepared").n == 2


def promising(rows):
    """An array file whose header promises more rows than any memory holds."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<i8", "fortran_order": False, "shape": (rows,)})
    return stream.getvalue() + b"\0" * 16


@pytest.mark.parametrize("name", ["X.npy", "y.npy"])
def test_a_header_that_asks_for_more_memory_than_there_is_is_damaged(make, tmp_path, name):
    make("1,2,0\n2,3,1\n")
    (tmp_path / "prepared" / name).write_bytes(promising(10**15))
    with pytest.raises(DataError, match=rf"is damaged \({name} promises 8000000000000128 bytes and has 144\)"):
        open_prepared(tmp_path / "prepared")


def test_an_archive_that_asks_for_more_memory_than_there_is_is_damaged(make, tmp_path):
    make("1,2,0\n2,3,1\n")
    folder = tmp_path / "prepared"
    damage_header(folder, given=1)
    with zipfile.ZipFile(folder / "given.npz", "w") as archive:
        archive.writestr("train0.npy", promising(10**15) + b"\0" * 100_000)  # too long to be read at once
        archive.writestr("test0.npy", promising(2))
    content = (folder / "given.npz").read_bytes()
    with pytest.raises(UnreadableError, match="there is not enough memory"):  # the archive's checksum vouches for it
        open_prepared(folder)
    (folder / "given.npz").write_bytes(content.replace(b"\0" * 90_000, b"\1" * 90_000))
    with pytest.raises(DataError, match=r"is damaged \(given.npz holds no array train0.npy\)"):
        open_prepared(folder)


def test_a_prepared_form_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="expected a prepared data set; there is none"):
        open_prepared(tmp_path / "x")


def test_a_folder_that_another_process_moves_at_the_same_moment(tmp_path):
    folder = tmp_path / "x"
    with partial_folder(folder) as first:
        (first / "mark").write_text("first")
        with partial_folder(folder) as second:
            (second / "mark").write_text("second")
        assert (folder / "mark").read_text() == "second"
    assert (folder / "mark").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
