import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from refusal import read_or_refuse

from gpbench.data.formats import read_table
from gpbench.data.formats.libsvm import _slow, libsvm_extent, read_libsvm
from gpbench.data.formats.lines import Block
from gpbench.errors import DataError


def read(data, **options):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.svm"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return list(read_table(path, format="libsvm", **options))


def matrix(data, **options):
    return np.concatenate([block.to_numpy() for block in read(data, **options)])


def test_quirks_of_the_published_files():
    text = "+1   1:0.5 3:-2 \n-1 2:1e-3\r\n1.0 \n\n-1.0 1:-766 2:128\n"
    expected = [[0.5, 0, -2, 1], [0, 1e-3, 0, -1], [0, 0, 0, 1], [-766, 128, 0, -1]]
    assert matrix(text, features=3).tolist() == expected
    (block,) = read(text, features=3)
    assert list(block.columns) == ["x1", "x2", "x3", "target"]
    assert list(block.index) == [1, 2, 3, 5]


def test_the_width_is_forced_or_found():
    text = "1 2:5\n0 7:1\n"
    assert matrix(text, features=9).shape == (2, 10)
    assert matrix(text).shape == (2, 8)
    assert matrix("1\n0\n").tolist() == [[0, 1], [0, 0]]


def test_indices_from_zero_are_seen_in_the_users_file():
    assert matrix("1 0:5 2:7\n").tolist() == [[5, 0, 7, 1]]
    assert matrix("1 1:7\n", features=3, zero_based=True).tolist() == [[0, 7, 0, 1]]
    with pytest.raises(DataError, match=r"line 1: expected an index in 1\.\.3; got '0'"):
        read("1 0:5\n", features=3)


def test_comments_are_no_rows():
    assert matrix("# made by hand\n1 1:2 # first\n0 1:3\n", features=1).tolist() == [[2, 1], [3, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:2\n0 4:1\n", "line 2: expected an index in 1..3; got '4'"),
        ("1 2:1 1:1\n", "line 1: indices must rise; index '1' does not"),
        ("1 1:1 1:1\n", "line 1: indices must rise; index '1' does not"),
        ("1 1:2\nx 1:2\n", "line 2: expected a number as label; got 'x'"),
        ("1 1:2\n\n1,2 1:2\n", "line 3: expected a number as label; got '1,2'"),
        ("1 1:2 2\n", "line 1: expected index:value; got '2'"),
        ("1 1:2\n-1\x1e\n", "line 2: expected a number as label; got"),
        ("1 1:1_0\n", "line 1: expected a number; got '1_0'"),
        ("1 1:\n", "line 1: expected a number; got ''"),
        ("1 qid:1 1:2\n", "line 1: expected index:value with an integer index; got index 'qid'"),
        ("1 99999999999999999999:1\n", "line 1: expected indices up to 100,000, the limit of features; got index 9999"),
        ("1 -1:1\n", "line 1: expected index:value with an integer index; got index '-1'"),
        ("", "line 1: expected rows; the file is empty"),
        ("# nothing\n", "line 1: expected rows; the file is empty"),
    ],
)
def test_broken_lines_are_named(text, message):
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read(text, features=3)
    assert "table.svm" in str(caught.value)


def test_a_width_past_all_sense_is_refused_before_memory_is_taken():
    with pytest.raises(DataError, match="line 1: expected indices up to 100,000"):
        read("1 100000000:1\n")
    with pytest.raises(DataError, match="expected at most 100,000 features; got 100,000,000"):
        read("1 1:1\n", features=100_000_000)


VALUES = st.floats(allow_nan=False, allow_infinity=False)
ROWS = st.lists(
    st.tuples(st.sampled_from([-1.0, 0.0, 1.0, 2.0]), st.dictionaries(st.integers(1, 9), VALUES, max_size=9)),
    min_size=1,
    max_size=20,
)


@given(ROWS, st.sampled_from(["\n", "\r\n", " \n"]))
@settings(deadline=None, max_examples=100)
def test_tables_come_back(rows, newline):
    expected = np.zeros((len(rows), 10))
    lines = []
    for number, (label, entries) in enumerate(rows):
        expected[number, 9] = label
        for index, value in entries.items():
            expected[number, index - 1] = value
        lines.append(" ".join([f"{label:g}", *(f"{index}:{entries[index]!r}" for index in sorted(entries))]))
    data = (newline.join(lines) + newline).encode()
    np.testing.assert_array_equal(matrix(data, features=9), expected)
    block = Block(data.replace(b"\r\n", b"\n"), 1, "table.svm", 0, 0)
    np.testing.assert_array_equal(_slow(block, np.zeros_like(expected), zero_based=False), expected)


@given(
    st.binary(max_size=120)
    | st.lists(
        st.sampled_from(["1", "-1", "+1", " ", " ", "1:", "2:", "3:0", "x", "\n", "#", "nan", "inf", "1e5", "_"])
    ).map(lambda parts: "".join(parts).encode()),
    st.sampled_from([None, 3]),
)
@example(b"1 1:2\x0b2:3\n", 3)
@example(b"\xa01 1:2\n", 3)
@example(b"1 1:\xd9\xa1\n", 3)
@settings(deadline=None, max_examples=300)
def test_any_bytes_end_in_rows_or_in_an_error_that_names_file_and_line(data, features):
    blocks = read_or_refuse(lambda: read(data, features=features))
    for block in blocks or []:
        assert block.to_numpy().dtype == np.float64


def test_extent(tmp_path):
    path = tmp_path / "table.svm"
    path.write_text("1 3:1 5:2\n0\n0 2:1\n")
    assert libsvm_extent(path) == (2, 5)
    assert next(read_libsvm(path)).shape == (3, 6)
