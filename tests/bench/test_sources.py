import pickle
from dataclasses import replace

import pytest

from gpbench.bench.sources import CatalogueSource, FileSource, opened, sources
from gpbench.config import load_config
from gpbench.errors import DataUnavailable, UsageError


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return load_config(environ={"GPBENCH_DATA": str(tmp_path / "data"), "GPBENCH_MIRROR": "http://mirror"})


def test_a_name_means_the_catalogue(config, tmp_path):
    assert sources(["wine"], config) == [CatalogueSource("wine", tmp_path / "data", "http://mirror")]


def test_a_file_that_exists_is_a_file(config, tmp_path):
    (tmp_path / "mine").write_text("")
    found = sources(["mine", "wine"], config, target="y", task="count", impute="median")
    assert found == [
        FileSource(tmp_path / "mine", "y", "count", "median", tmp_path / "data"),
        CatalogueSource("wine", tmp_path / "data", "http://mirror"),
    ]


def test_a_catalogue_name_beats_a_file_of_that_name(config, tmp_path):
    (tmp_path / "wine").write_text("")
    (tmp_path / "wine.csv").write_text("")
    found = sources(["wine", "./wine", "wine.csv", str(tmp_path / "wine")], config)
    wine = FileSource(tmp_path / "wine", None, None, None, tmp_path / "data")
    expected = [
        CatalogueSource("wine", tmp_path / "data", "http://mirror"),
        wine,
        replace(wine, path=tmp_path / "wine.csv"),
    ]
    assert found == [*expected, wine]


@pytest.mark.parametrize("option", ["target", "task", "impute"])
def test_options_for_files_need_a_file(config, option):
    with pytest.raises(UsageError, match=f"--{option} x says how to read a file, and no --dataset is a file"):
        sources(["wine"], config, **{option: "x"})


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
