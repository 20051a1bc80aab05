import errno
from pathlib import Path

import numpy as np
import pytest

from gpbench.bench import division as module
from gpbench.bench.division import mapped
from gpbench.data.scaling import ScaledRows, standardise


@pytest.fixture(params=[np.float32, np.float64])
def source(request, tmp_path):
    """A prepared data set's inputs, memory-mapped, and the training rows among them."""
    X = (np.random.default_rng(0).normal(size=(5000, 7)) * 3 + 1).astype(request.param)
    (tmp_path / "prepared").mkdir()
    np.save(tmp_path / "prepared" / "X.npy", X)
    rows = np.flatnonzero(np.arange(5000) % 3)
    stored = np.load(tmp_path / "prepared" / "X.npy", mmap_mode="r")
    return stored, ScaledRows(stored, rows, standardise(stored, rows))


def test_rows_are_the_scaled_ones_in_the_precision_of_the_source(source, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_BYTES", 7 * 8 * 1000)  # several blocks, the last of them short
    X, rows = source
    expected = rows.array().astype(X.dtype)
    found = mapped(X, rows)
    assert (found.shape, len(found), found.ndim) == (expected.shape, len(expected), 2)
    mask = np.arange(len(expected)) % 5 == 0
    for index in (slice(None), slice(10, 20), np.array([7, 3, 3, -1]), mask, 4):
        assert found[index].dtype == np.float64
        np.testing.assert_array_equal(found[index], expected[index])
    assert [path.name for path in tmp_path.iterdir()] == ["prepared"]
    np.testing.assert_array_equal(X, np.load(tmp_path / "prepared" / "X.npy"))


def test_the_file_lies_beside_the_data(source, tmp_path, monkeypatch):
    seen = []
    make = module.tempfile.TemporaryFile
    monkeypatch.setattr(module.tempfile, "TemporaryFile", lambda **place: seen.append(place["dir"]) or make(**place))
    mapped(*source)
    mapped(np.array(source[0]), source[1])
    assert seen == [tmp_path, Path(module.tempfile.gettempdir())]


def test_a_disk_that_fills_up_meanwhile(source, tmp_path, monkeypatch):
    X, rows = source

    class Full(ScaledRows):
        def __getitem__(self, index):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(rows, "__class__", Full)
    assert mapped(X, rows) is None
    assert [path.name for path in tmp_path.iterdir()] == ["prepared"]
