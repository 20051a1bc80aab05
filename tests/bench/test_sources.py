import os
import pickle
import zipfile
from dataclasses import replace

import pytest

from gpbench.bench.sources import CatalogueSource, FileSource, dataset_id, decisions, opened, sources
from gpbench.config import load_config
from gpbench.data.options import FileOptions
from gpbench.errors import DataError, DataUnavailable, UsageError


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return load_config(environ={"GPBENCH_DATA": str(tmp_path / "data"), "GPBENCH_MIRROR": "http://mirror"})


def test_a_name_means_the_catalogue(config, tmp_path):
    assert sources(["wine"], config) == [CatalogueSource("wine", tmp_path / "data", "http://mirror")]


def test_a_file_that_exists_is_a_file(config, tmp_path):
    (tmp_path / "mine").write_text("")
    options = FileOptions(target="y", task="count", impute="median")
    found = sources(["mine", "wine"], config, options=options)
    assert found == [
        FileSource(tmp_path / "mine", options, tmp_path / "data"),
        CatalogueSource("wine", tmp_path / "data", "http://mirror"),
    ]


def test_a_catalogue_name_beats_a_file_of_that_name(config, tmp_path):
    (tmp_path / "wine").write_text("")
    (tmp_path / "wine.csv").write_text("")
    found = sources(["wine", "./wine", "wine.csv", str(tmp_path / "wine")], config)
    wine = FileSource(tmp_path / "wine", FileOptions(), tmp_path / "data")
    expected = [
        CatalogueSource("wine", tmp_path / "data", "http://mirror"),
        wine,
        replace(wine, path=tmp_path / "wine.csv"),
    ]
    assert found == [*expected, wine]


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ({"target": "x"}, "--target x"),
        ({"task": "count"}, "--task count"),
        ({"impute": "median"}, "--impute median"),
        ({"missing": ("a", "b")}, "--missing a,b"),
        ({"drop": ("a", "b")}, "--drop a --drop b"),
        ({"header": False}, "--header no"),
        ({"file_format": "csv"}, "--file-format csv"),
    ],
)
def test_options_for_files_need_a_file(config, options, flag):
    with pytest.raises(UsageError, match=f"{flag} says how to read a file, and no --dataset is a file"):
        sources(["wine"], config, options=FileOptions(**options))


def test_options_that_are_none():
    with pytest.raises(UsageError, match="unknown file format 'cvs'; did you mean csv"):
        FileOptions(file_format="cvs")
    with pytest.raises(UsageError, match="task must be one of binary, multiclass, count, ordinal; got 'x'"):
        FileOptions(task="x")


def test_what_is_there_but_no_file_is_called_so(config, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataUnavailable, match=r"folder\.csv is a folder; --dataset takes a catalogue id or a file"):
        sources(["folder.csv"], config)
    with pytest.raises(DataUnavailable, match=r"pipe\.csv is no plain file"):
        sources(["pipe.csv"], config)
    with pytest.raises(DataUnavailable, match="there is no file ~nosuchuser/x"):
        sources(["~nosuchuser/x"], config)


def test_a_member_of_an_archive(config, tmp_path):
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.csv", "1,0\n2,1\n")
        archive.writestr("b/c.csv", "1,0\n2,1\n3,1\n")
    (place,) = sources(["two.zip::b/c.csv"], config)
    assert place == FileSource(tmp_path / "two.zip", FileOptions(member="b/c.csv"), tmp_path / "data")
    dataset = place.load()
    assert (dataset.id, dataset.n) == (dataset_id("two.zip::b/c.csv"), 3)
    with pytest.raises(DataError, match=r"no member 'd\.csv'; it holds a\.csv, b/c\.csv"):
        sources(["two.zip::d.csv"], config)[0].load()
    with pytest.raises(UsageError, match=r"holds 2 files; say which: two\.zip::a\.csv, two\.zip::b/c\.csv"):
        sources(["two.zip"], config)[0].load()


def test_what_was_decided_about_files_is_said(config, tmp_path):
    (tmp_path / "mine.csv").write_text("c,t\n" + "u,0\nv,1\n" * 5)
    assert decisions(sources(["mine.csv", "wine"], config)) == [
        "mine.csv: task binary of column t, 2 classes: 0, 1",
        "mine.csv: line 1 names the columns",
        "mine.csv: one-hot coded (sorted categories): c",
    ]


ELSE = "; numbers that are not mere names of classes need --task"


@pytest.mark.parametrize(
    ("targets", "task", "words"),
    [
        ("01234567", None, f"multiclass of column t, 8 classes: 0, 1, 2, 3, 4, 5, 6, 7{ELSE} count or ordinal"),
        (["-1", "0", "1"], None, f"multiclass of column t, 3 classes: -1, 0, 1{ELSE} ordinal"),
        ("01234567", "multiclass", "multiclass of column t, 8 classes: 0, 1, 2, 3, 4, 5, 6, 7"),
        ("01234567", "count", "count of column t, 0 to 7"),
        ("abcdefghijklmno", None, "multiclass of column t, 15 classes: a, b, c, d, e, f, g, h, i, j, k, ..., o"),
    ],
)
def test_the_task_of_a_file_is_said_and_what_else_its_targets_may_be(config, tmp_path, targets, task, words):
    rows = [f"{i},{each}\n" for i, each in enumerate(list(targets) * 3)]
    (tmp_path / "mine.csv").write_text("x,t\n" + "".join(rows))
    assert decisions(sources(["mine.csv"], config, options=FileOptions(task=task)))[0] == f"mine.csv: task {words}"


def test_messages_name_the_argument_of_the_command(config):
    with pytest.raises(DataUnavailable, match=r"there is no file nofile\.csv; FILE takes a catalogue id"):
        sources(["nofile.csv"], config, argument="FILE")


def test_a_name_that_nobody_knows(config):
    with pytest.raises(UsageError, match="unknown data set 'wihne'; did you mean wine"):
        sources(["wihne"], config)


def test_a_folder_of_a_catalogue_name_is_passed_over(config, tmp_path):
    (tmp_path / "wine").mkdir()
    assert isinstance(sources(["wine"], config)[0], CatalogueSource)


@pytest.mark.parametrize("name", ["mine.csv", "./mine", "/nowhere/mine", "~/nothing-of-this-name", "a.CSV", "b.npz"])
def test_a_file_that_is_not_there(config, name):
    with pytest.raises(DataUnavailable, match=f"there is no file {name}"):
        sources([name], config)


def test_sources_travel():
    one = CatalogueSource("wine", None, None)
    assert pickle.loads(pickle.dumps(one)) == one


def test_a_data_set_is_opened_once():
    class Counting(CatalogueSource):
        loads = 0

        def load(self, progress=None):  # noqa: ARG002
            Counting.loads += 1
            return object()

    assert opened(Counting("a", None, None)) is opened(Counting("a", None, None))
    assert Counting.loads == 1
