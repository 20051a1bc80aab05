import errno
import json
import os

import pandas as pd
import pytest

from gpbench.data.formats import read_table
from gpbench.data.formats.frames import frame
from gpbench.data.preparation import Recipe, open_prepared, prepare
from gpbench.data.prepared import MatrixWriter, partial_folder
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
