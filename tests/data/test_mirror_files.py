"""Every file of the mirror's indexes, read by the loader of its data set; runs where GPBENCH_MIRROR is a folder."""

import csv
import os
import re
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from gpbench.data.archives import read_members
from gpbench.data.catalogue import entries, entry
from gpbench.data.download import sha256_of
from gpbench.data.load import load
from gpbench.data.readers import read_edition

MIRROR = Path(os.environ.get("GPBENCH_MIRROR") or "/nonexistent")
INDEXES = ("INDEX-small.tsv", "INDEX-large.tsv")


@cache
def _index():
    found = {}
    for name in INDEXES:
        if (MIRROR / name).is_file():
            with (MIRROR / name).open(encoding="utf-8") as stream:
                for row in csv.reader(stream, delimiter="\t"):
                    if row[0] != "dataset" and row[4] != "0":  # rows without data are documentation
                        found[row[1]] = row
    return found


pytestmark = [
    pytest.mark.mirror,
    pytest.mark.skipif(not _index(), reason="GPBENCH_MIRROR names no folder with indexes"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


def _parts(path):
    """The first edition that reads a file, with the parts that do."""
    for one in entries().values():
        for edition in one.editions:
            parts = [part for part in edition.parts if path in {part.file.path, part.labels and part.labels.file.path}]
            if parts:
                return edition, tuple(parts)
    raise AssertionError(f"no data set reads {path}")


def _rows(path):
    """Rows of one file as its data set's reader gives them, before the recipe."""
    edition, parts = _parts(path)
    whole = replace(edition, parts=parts)
    paths = {file.path: MIRROR / file.path for file in whole.files}
    return edition, pd.concat(list(read_edition(whole, paths).frames()))


def _numbered(label):
    try:
        return f"{float(label):g}"
    except ValueError:
        return str(label)


def _stated_counts(text):
    """``"-1:24720 +1:7841"``, ``"1:70;2:76"``, ``"train 400 / test 4900; all rows -1:2924;1:2376; distinct ..."``."""
    if "all rows" in text:
        text = text.partition("all rows ")[2].partition("; distinct")[0]
    text = text.partition(" (")[0]
    found = re.findall(r"(?:^|[\s;])([^\s;:]+):(\d+)", text)
    return {_numbered(label): int(count) for label, count in found}


@pytest.mark.parametrize("path", _index())
def test_the_file_has_the_hash_that_the_catalogue_states(path):
    (file,) = {file for one in entries().values() for file in one.files if file.path == path}
    assert sha256_of(MIRROR / path) == _index()[path][3]
    assert _index()[path][3] in file.sha256


@pytest.mark.parametrize("path", [path for path in _index() if not path.startswith("airline/")])
def test_each_file_has_the_rows_columns_and_class_counts_of_the_index(path):
    stated = _index()[path]
    edition, rows = _rows(path)
    target = edition.recipe.target
    labels = rows.iloc[:, target] if isinstance(target, int) else rows[target]
    if "_label" in path or "labels" in path:
        assert len(rows) == int(stated[4])
    elif "BlogFeedback" in path:
        assert Counter(rows["part"]) == {"train": 52397, "test": 7624}
        first = labels[rows["part"] == "train"]
        assert (len(first), first.nunique(), (first == 0).sum(), first.max()) == (52397, 438, 33559, 1424)
    else:
        width = rows.shape[1] - ("part" in rows)
        beside = edition.reader != "tables" or any(
            part.labels or part.format in {"libsvm", "mat"} for part in edition.parts
        )
        assert len(rows) == int(stated[4])
        if path.endswith((".t", "a8a.t")):  # the index counts the columns that the file reaches
            assert width - 1 >= int(stated[5])
        else:
            assert width - (1 if beside else 0) == int(stated[5])
    counts = {_numbered(label): int(count) for label, count in Counter(labels).items()}
    expected = _stated_counts(stated[6])
    if expected:
        assert counts == expected
    elif "bins" in stated[6]:
        bins = re.search(r"bins ([\d/]+)", stated[6])[1].split("/")
        assert len(bins) == edition.recipe.bins
    else:
        assert "target" in stated[6] or "split" in stated[6]


@pytest.mark.parametrize(
    ("name", "rows"),
    [("airline-2008-sample", 8468 + 25888 + 9774 + 9724), ("flights-2013", 273853), ("flights-2011", 192480)],
)
def test_complete_flights_are_as_many_as_the_index_states(name, rows, folder):
    found = load(name, folder=folder, mirror=str(MIRROR), offline=True)
    assert (found.n, found.d) == (rows, 8)
    X = np.asarray(found.X, dtype=np.float64)
    low, high = X.min(0), X.max(0)
    assert (low[:5] >= [1, 1, 1, 0, 0]).all()
    assert (high[:5] <= [12, 31, 7, 1440, 1440]).all()


@pytest.mark.parametrize("name", ["stock", "bank32nh"])
def test_levels_have_the_rows_that_the_index_states(name, folder):
    (stated,) = (row[6] for path, row in _index().items() if Path(path).stem == name)
    bins = re.search(r"bins ([\d/]+)", stated)[1]
    found = load(name, folder=folder, mirror=str(MIRROR), offline=True)
    assert list(np.bincount(found.y)) == [int(count) for count in bins.split("/")]


HERE = [
    name
    for name, one in entries().items()
    if any(edition.parts and all((MIRROR / file.path).is_file() for file in edition.files) for edition in one.editions)
]


@pytest.mark.parametrize("name", HERE)
def test_each_data_set_loads_with_what_the_catalogue_promises(name, folder):
    one = entry(name)
    found = load(name, folder=folder, mirror=str(MIRROR), offline=True)
    assert (found.n, found.d, found.task) == (one.n, one.d, one.task)
    if one.counts:
        assert found.class_counts() == one.counts
    for train, test in found.given:
        assert not np.intersect1d(train, test).size
        assert len(train) + len(test) <= found.n


GIVEN = {  # training and test rows that the publishers state
    "banana": (10, 400, 4900),
    "breast-cancer": (10, 200, 77),
    "german": (10, 700, 300),
    "heart": (10, 170, 100),
    "image": (10, 1300, 1010),
    "ringnorm": (10, 400, 7000),
    "titanic": (10, 150, 2051),
    "waveform": (10, 400, 4600),
    "diabetis": (1, 468, 300),
    "a9a": (1, 32561, 16281),
    "a8a": (1, 22696, 9865),
    "w8a": (1, 49749, 14951),
    "ijcnn1": (1, 49990, 91701),
    "cod-rna-files": (1, 59535, 271617),
    "svmguide1": (1, 3089, 4000),
    "satellite": (1, 4435, 2000),
    "shuttle": (1, 43500, 14500),
    "mnist": (1, 60000, 10000),
    "usps": (1, 7291, 2007),
    "blogfeedback": (1, 52397, 7624),
    "higgs-7k": (1, 7000, 500),
    "susy-8d": (1, 10000, 1000),
}


@pytest.mark.parametrize("name", GIVEN)
def test_published_splits_are_given(name, folder):
    found = load(name, folder=folder, mirror=str(MIRROR), offline=True)
    count, train, test = GIVEN[name]
    assert [(len(first), len(second)) for first, second in found.given] == [(train, test)] * count


@pytest.mark.parametrize("name", ["banana", "titanic", "german"])
def test_realisations_hold_the_rows_of_their_files(name, folder):
    found = load(name, folder=folder, mirror=str(MIRROR), offline=True)
    texts = read_members(MIRROR / found_file(name), suffix=".asc")
    for k, split in enumerate(found.given, start=1):
        for half, rows in zip(("train", "test"), split, strict=True):
            X = np.array([line.split() for line in texts[f"{name}_{half}_data_{k}.asc"].splitlines()], dtype=float)
            y = np.array(texts[f"{name}_{half}_labels_{k}.asc"].split(), dtype=float)
            mine = np.column_stack([found.X[rows], 2 * found.y[rows] - 1])
            theirs = np.column_stack([X, y])
            np.testing.assert_array_equal(_sorted(mine), _sorted(theirs))


def found_file(name):
    return entry(name).editions[0].parts[0].file.path


def _sorted(rows):
    return rows[np.lexsort(rows.T[::-1])]


def test_rows_sorted_by_x_are_in_order(folder):
    for name in ("german", "diabetes"):
        X = load(name, folder=folder, mirror=str(MIRROR), offline=True).X
        assert all(tuple(a) <= tuple(b) for a, b in pairwise(X))


@pytest.mark.parametrize(
    ("name", "error", "spread"),
    [("german", 0.246, 0.122), ("diabetes", 0.219, 0.076), ("electricity", 0.260, 0.065)],
)
def test_contiguous_folds_of_wenzel2019_come_out_as_noted(name, error, spread, folder):
    """Logistic regression's error on ten contiguous folds, as the mirror's notes state it."""
    found = load(name, folder=folder, mirror=str(MIRROR), offline=True)
    errors = []
    for test in np.array_split(np.arange(found.n), 10):
        train = np.setdiff1d(np.arange(found.n), test)
        mean, scale = found.X[train].mean(0), found.X[train].std(0)
        model = LogisticRegression(max_iter=500).fit((found.X[train] - mean) / scale, found.y[train])
        errors.append(np.mean(model.predict((found.X[test] - mean) / scale) != found.y[test]))
    assert np.mean(errors) == pytest.approx(error, abs=0.006)
    assert np.std(errors) == pytest.approx(spread, rel=0.15)
