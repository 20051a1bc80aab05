import io
import re
import struct
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from refusal import read_or_refuse

from gpbench.data.formats import read_table
from gpbench.data.formats.mat import read_mat_arrays
from gpbench.errors import DataError

FINITE = st.floats(-1e30, 1e30)
MATRICES = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=FINITE)


def read(data, kind, **options):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"table.{kind}"
        path.write_bytes(data)
        return list(read_table(path, format=kind, **options))


def idx_of(array, code=0x0D, kind=">f4"):
    head = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(kind).tobytes()


def mat_of(**arrays):
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, arrays)
    return buffer.getvalue()


def packed_mat_of(**arrays):
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, arrays, do_compression=True)
    return buffer.getvalue()


def npz_of(**arrays):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def parquet_of(frame):
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    return buffer.getvalue()


def npz_member(name, data):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, data)
    return buffer.getvalue()


@given(
    hnp.arrays(
        np.float32, hnp.array_shapes(min_dims=2, max_dims=4, max_side=4), elements=st.floats(-(2**60), 2**60, width=32)
    )
)
@settings(deadline=None, max_examples=50)
def test_idx_comes_back_flat(array):
    found = np.concatenate([block.to_numpy() for block in read(idx_of(array), "idx")])
    np.testing.assert_array_equal(found, array.reshape(len(array), -1))


def test_idx_images_with_their_labels(tmp_path):
    images = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    (tmp_path / "images").write_bytes(idx_of(images, 0x08, ">u1"))
    (tmp_path / "labels").write_bytes(idx_of(np.array([7, 1]), 0x08, ">u1"))
    (block,) = read_table(tmp_path / "images", format="idx", labels=tmp_path / "labels")
    assert list(block.columns) == [*(f"x{j}" for j in range(1, 10)), "target"]
    assert block["target"].tolist() == [7, 1]
    assert block["x9"].tolist() == [8, 17]
    (tmp_path / "labels").write_bytes(idx_of(np.array([7]), 0x08, ">u1"))
    with pytest.raises(DataError, match="images, row 2: no row is left in the file beside it"):
        list(read_table(tmp_path / "images", format="idx", labels=tmp_path / "labels"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "row 0: expected the magic number"),
        (b"\0\0\x08\x01\0\0", "row 0: the file ends within its header"),
        (b"\0\0\x08\x01\0\0\0\3ab", "row 3: the file ends; its header promises 3 rows"),
        (b"\0\0\x08\x01\0\0\0\1ab", "row 1: data go on after the last row"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "row 0: expected rows of 1 to"),
        (b"\0\0\x08\x01\0\0\0\0", "row 0: expected rows of 1 to"),
    ],
)
def test_broken_idx(data, message):
    with pytest.raises(DataError, match=re.escape(message)):
        read(data, "idx")


@given(MATRICES, st.booleans())
@settings(deadline=None, max_examples=30)
def test_mat_comes_back(array, turned):
    labels = np.arange(len(array))[None]
    data = mat_of(X=array.T if turned else array, Y=labels)
    (block,) = read(data, "mat", x="X", y="Y", columns_are_rows=turned)
    np.testing.assert_array_equal(block.to_numpy()[:, :-1], array)
    assert block["target"].tolist() == labels[0].tolist()


@given(
    hnp.arrays(st.sampled_from(["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]), (3, 2)),
    st.booleans(),
    st.sampled_from(["x", "name", "a_rather_long_name"]),
)
@settings(deadline=None, max_examples=60)
def test_mat_arrays_of_all_types_are_those_of_scipy(array, packed, name):
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, {"other": "text", name: array, "flag": array > 0}, do_compression=packed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.mat"
        path.write_bytes(buffer.getvalue())
        found = read_mat_arrays(path, [name, "flag"])
        expected = scipy.io.loadmat(path)
    np.testing.assert_array_equal(found[name], expected[name])
    np.testing.assert_array_equal(found["flag"], expected["flag"])
    assert found[name].dtype == expected[name].dtype


def test_mat_files_that_are_not_read():
    for data, message in (
        (b"MATLAB 7.3 MAT-file".ljust(128), "HDF5, which is not read; save with -v7"),
        (mat_of(X=np.eye(2) * 1j), "'X' holds complex numbers"),
        (mat_of(X=np.eye(2))[:-20], "row 1: damaged or of another format"),
    ):
        with pytest.raises(DataError, match=message):
            read(data, "mat", x="X")


def test_mat_decodes_numbers_only():
    data = mat_of(X=np.eye(2), cell=np.array([1, "a"], dtype=object), text="abc", s={"a": 1})
    for name, kind in (("cell", "cell"), ("text", "char"), ("s", "struct")):
        with pytest.raises(DataError, match=f"row 1: variable '{name}' must be numeric; it is {kind}"):
            read(data, "mat", x=name)
    with pytest.raises(DataError, match="no variable 'Z'; it holds X, cell, text, s"):
        read(data, "mat", x="Z")
    with pytest.raises(DataError, match="'y' must hold 2 labels"):
        read(mat_of(X=np.eye(2), y=np.ones(3)), "mat", x="X", y="y")


@given(MATRICES, st.sampled_from([("X", "y"), ("data", "target")]))
@settings(deadline=None, max_examples=30)
def test_npz_comes_back(array, keys):
    (block,) = read(npz_of(**{keys[0]: array, keys[1]: np.arange(len(array))}), "npz")
    np.testing.assert_array_equal(block.to_numpy()[:, :-1], array)
    assert list(block.columns[-2:]) == [f"x{array.shape[1]}", "target"]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<f8", ">f4", "<i2", "?"])
def test_npz_is_read_in_blocks(monkeypatch, order, kind):
    monkeypatch.setattr("gpbench.data.formats.npz._BLOCK_BYTES", 48)
    monkeypatch.setattr("gpbench.data.formats.arrays._ROW_BLOCK_BYTES", 48)
    array = np.asarray(np.arange(20).reshape(10, 2) % 7, dtype=kind, order=order)
    blocks = read(npz_of(X=array, y=np.array(list("abcdefghij"))), "npz")
    assert [list(block.index) for block in blocks] == [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10]]
    found = pd.concat(blocks)
    np.testing.assert_array_equal(found[["x1", "x2"]].to_numpy(), array)
    assert "".join(found["target"]) == "abcdefghij"


def test_npz_is_never_unpickled():
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    data = npz_of(X=np.array([[Bomb()]], dtype=object), y=np.zeros(1))
    with pytest.raises(DataError, match=r"table\.npz, row 1: .*(object|pickle)"):
        read(data, "npz")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (npz_of(X=np.eye(2)), "expected an array of targets named y or"),
        (npz_of(a=np.eye(2), y=np.ones(2)), "expected an array of inputs named X or x or data"),
        (npz_of(X=np.eye(2), y=np.ones(3)), "'y' must hold 2 labels"),
        (npz_of(X=np.ones(3), y=np.ones(3)), "'X' must be an (n, d) array of numbers"),
        (npz_of(X=np.ones((0, 2)), y=np.ones(0)), "'X' must be an (n, d) array of numbers"),
        (npz_member("X.npy", b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'shape': (9" + b"9" * 30), "row 1"),
        (b"PK\x03\x04", "row 1"),
        (b"", "row 1"),
    ],
)
def test_broken_npz(data, message):
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read(data, "npz")
    assert "table.npz" in str(caught.value)


def test_an_npz_that_announces_more_than_memory_holds():
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000000), }".ljust(117) + b"\n"
    data = npz_member("X.npy", b"\x93NUMPY\x01\x00\x76\x00" + head)
    with pytest.raises(DataError, match=r"table\.npz, row 1"):
        read(data, "npz")


def test_parquet_comes_back_with_its_types():
    frame = pd.DataFrame(
        {
            "i": [1, 2, 3],
            "f": [0.5, None, 2],
            "b": [True, False, True],
            "s": ["x", None, "z"],
            "c": pd.Categorical(["u", "v", "u"]),
            "m": pd.array([1, None, 3], dtype="Int64"),
            "d": pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"]),
        }
    )
    (block,) = read(parquet_of(frame), "parquet")
    assert block["i"].tolist() == [1, 2, 3]
    np.testing.assert_array_equal(block["f"], [0.5, np.nan, 2])
    assert block["b"].tolist() == [True, False, True]
    assert block["s"].isna().tolist() == [False, True, False]
    assert block["c"].tolist() == ["u", "v", "u"]
    np.testing.assert_array_equal(block["m"], [1, np.nan, 3])
    assert block["d"].iloc[0].startswith("2020-01-01")
    assert list(block.index) == [1, 2, 3]
    assert block.attrs["unit"] == "row"


def test_parquet_batches_count_rows_and_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("gpbench.data.formats.parquet._BATCH_VALUES", 8)
    path = tmp_path / "table.parquet"
    pd.DataFrame(np.arange(20.0).reshape(10, 2), columns=["a", "b"]).to_parquet(path)
    blocks = list(read_table(path, format="parquet"))
    assert [list(block.index) for block in blocks] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    assert blocks[-1].attrs["read"] == blocks[-1].attrs["total"] == path.stat().st_size


def test_parquet_refuses_lists_and_empty_tables():
    with pytest.raises(DataError, match="row 1: column 'a' must hold numbers, booleans or text; it holds list"):
        read(parquet_of(pd.DataFrame({"a": [[1], [2]]})), "parquet")
    with pytest.raises(DataError, match="row 1: expected rows; got 0 rows"):
        read(parquet_of(pd.DataFrame({"a": []})), "parquet")
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), buffer)
    with pytest.raises(DataError, match="more than one is named a"):
        read(buffer.getvalue(), "parquet")


GOOD = {
    "idx": idx_of(np.arange(12).reshape(3, 4)),
    "mat": mat_of(X=np.arange(12.0).reshape(4, 3), Y=np.arange(4)),
    "packed mat": packed_mat_of(X=np.arange(12.0).reshape(4, 3), Y=np.arange(4)),
    "npz": npz_of(X=np.arange(12.0).reshape(4, 3), y=np.arange(4)),
    "parquet": parquet_of(pd.DataFrame({"a": [1.5, 2, 3], "b": ["x", "y", "z"]})),
}
OPTIONS = {"mat": {"x": "X", "y": "Y"}, "packed mat": {"x": "X", "y": "Y"}}


@pytest.mark.parametrize("kind", GOOD)
@given(st.binary(max_size=150))
@settings(deadline=None, max_examples=60)
def test_any_bytes_end_in_an_error_that_names_file_and_row(kind, data):
    read_or_refuse(lambda: read(data, kind.split()[-1], **OPTIONS.get(kind, {})))


@pytest.mark.parametrize("kind", GOOD)
@given(st.data())
@settings(deadline=None, max_examples=120)
def test_damaged_files_end_in_rows_or_in_an_error_that_names_file_and_row(kind, data):
    damaged = bytearray(GOOD[kind])
    for _ in range(data.draw(st.integers(0, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))] if data.draw(st.booleans()) else damaged
    read_or_refuse(lambda: read(bytes(damaged), kind.split()[-1], **OPTIONS.get(kind, {})))
