import gzip
import re
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from refusal import read_or_refuse

from gpbench.data.formats import read_table
from gpbench.data.formats.frames import as_written, renamed
from gpbench.errors import DataError, UsageError


def read(data, **options):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return list(read_table(path, format="csv", **options))


def rows_of(data, **options):
    return [list(row) for block in read(data, **options) for row in block.itertuples(index=False)]


QUIRKS = {
    "comma": "1.5,2,a\n-3,4,b\n",
    "semicolon, quoted": '"p";"q";"r"\n1.5;2;"a"\n-3;4;"b"\n',
    "tab, CRLF": "1.5\t2\ta\r\n-3\t4\tb\r\n",
    "old Mac": "1.5,2,a\r-3,4,b\r",
    "blanks, leading and trailing": "  1.5   2 a  \n   -3   4 \t b \n",
    "comma and blank": " 1.5, 2, a\n -3, 4, b\n",
    "comma at the end of lines": "1.5,2,a,\n-3,4,b,\n",
    "comma at the end and header": "p,q,r\n1.5,2,a,\n-3,4,b,\n",
    "comma at the end of one line": "1.5,2,a\n-3,4,b,\n",
    "no newline at the end": "1.5,2,a\n-3,4,b",
    "lines of tabs": "1.5\t2\ta\n\t\t\n-3\t4\tb\n\t\n",
    "blank lines": "\n1.5,2,a\n   \n\n-3,4,b\n\n",
    "byte order mark": "\ufeff1.5,2,a\n-3,4,b\n",
    "header": "p,q,r\n1.5,2,a\n-3,4,b\n",
    "numbers as names": "0,1,label\n1.5,2,a\n-3,4,b\n",
    "scientific": "1.500000000000000000e+00,2,a\n-3.0E0,4,b\n",
    "plus sign": "+1.5,+2,a\n-3,+4,b\n",
}


@pytest.mark.parametrize("name", [name for name in QUIRKS if name != "numbers as names"])
def test_quirks(name):
    assert rows_of(QUIRKS[name]) == [[1.5, 2, "a"], [-3, 4, "b"]]


def test_numbers_as_names_need_a_word():
    blocks = read("0,1,label\n1.5,2,1\n-3,4,0\n")
    assert list(blocks[0].columns) == ["0", "1", "label"]
    assert rows_of(QUIRKS["numbers as names"], header=True) == [[1.5, 2, "a"], [-3, 4, "b"]]


def test_names():
    assert list(read(QUIRKS["comma"])[0].columns) == ["x1", "x2", "x3"]
    assert list(read(QUIRKS["header"])[0].columns) == ["p", "q", "r"]
    assert list(read(QUIRKS["comma"], names=["u", "v", "w"])[0].columns) == ["u", "v", "w"]
    assert list(read("a,b\nc,d\n", header=False)[0].columns) == ["x1", "x2"]
    assert list(read(",b\n0,2.5\n1,3\n")[0].columns) == ["Unnamed: 0", "b"]


def test_a_header_of_words_above_words_is_seen_by_its_words_not_coming_again():
    assert rows_of("colour,size\nred,big\nblue,small\nred,small\n") == [
        ["red", "big"],
        ["blue", "small"],
        ["red", "small"],
    ]
    assert len(rows_of("red,big\nblue,small\nred,small\n")) == 3


def test_lines_are_the_index_and_bytes_are_counted(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n\n3,4\n"))
    (block,) = read_table(path, format="csv")
    assert list(block.index) == [2, 4]
    assert block.attrs["source"] == "table.csv.gz"
    assert block.attrs["read"] == block.attrs["total"] == path.stat().st_size


def test_missing_values():
    text = "1,a\n?,NA\n NA ,\nnan,b\n\\N,?\n"
    column, words = (pd.concat(read(text))[name] for name in ("x1", "x2"))
    assert np.isnan(column.to_numpy()).tolist() == [False, True, True, True, True]
    assert words.isna().tolist() == [False, True, True, False, True]
    assert rows_of("1,None\n2,x\n3,y\n", missing=("None",))[0] == [1, None] or pd.isna(
        rows_of("1,None\n2,x\n3,y\n", missing=("None",))[0][1]
    )


def test_large_identifiers_stay_exact_as_text():
    text = "10710025208886284288,1\n10710025208886284289,0\n"
    assert rows_of(text, text=["x1"]) == [["10710025208886284288", 1], ["10710025208886284289", 0]]
    assert rows_of("9007199254740993,1\n")[0][0] == 9007199254740993


def test_dates_and_times_stay_as_they_are_written():
    assert rows_of("2012-01-01,12:00,1\n2012-01-02,1:00,2\n") == [["2012-01-01", "12:00", 1], ["2012-01-02", "1:00", 2]]


def test_a_column_may_turn_into_text_further_down():
    text = "".join(f"{k},{k}.5\n" for k in range(40)) + "x,1\n" + "7,7\n"
    blocks = read(text, block_bytes=64)
    assert len(blocks) > 3
    values = [value for block in blocks for value in block["x1"]]
    assert values[:30] == list(range(30))
    assert [str(value) for value in values] == [*map(str, range(40)), "x", "7"]
    assert isinstance(values[-1], str)
    assert [value for block in blocks for value in block["x2"]] == [*(k + 0.5 for k in range(40)), 1, 7]


@pytest.mark.parametrize(
    "text",
    [
        "01,1.50\n2,x\n1e0,-0\n",
        "01,1.50,\n2,x,\n1e0,-0,\n",  # a trailing delimiter
        ' 01 ,"1.50"\n  \n"2",x\n1e0,-0 \n',  # read again slowly
        " 01 \t1.50\n2  x\n1e0 -0\n",  # blanks
        '01,1.50\n2,"x\ny"\n1e0,-0\n',  # a value over two lines
        "01,1.50\n2,x\n1e0,-0\n" + f"2,{'y' * (2 << 20)}\n",  # a line longer than a piece
    ],
)
def test_numbers_are_known_as_they_are_written(text):
    (block,) = read(text)
    assert block["x1"].tolist()[:3] == [1, 2, 1]
    assert as_written(block, "x1").tolist()[:3] == ["01", "2", "1e0"]
    assert as_written(block, "x2").tolist() == block["x2"].tolist()
    rows = block[[False, True, True] + [True] * (len(block) - 3)]  # some rows, and other names
    other = renamed(rows, ["a", "b"])
    assert as_written(other, "a").tolist()[:2] == ["2", "1e0"]
    assert as_written(other, "a").index.equals(rows.index)
    made = block.assign(more=1.5)
    made.attrs = block.attrs
    assert as_written(made, "more").tolist()[0] == 1.5


def test_missing_values_are_missing_as_written():
    (block,) = read("01,a\n NA,b\n,c\n-9,d\n", missing=["", "NA", "-9"])
    assert block["x1"].dtype == np.float64
    assert as_written(block, "x1").isna().tolist() == [False, True, True, True]


BROKEN = {
    "too few values": ("1,2,3\n4,5\n", "line 2: expected 3 values; got 2"),
    "too many values": ("1,2\n3,4\n\n5,6,7\n", "line 4: expected 2 values; got 3"),
    "open quote": ('1,"a\n2,b\n', "line 1: a quoted value is not closed"),
    "open quote far down": ("1,a\n" * 500 + '2,"b\n' + "1,a\n" * 500, "line 501: a quoted value is not closed"),
    "names twice": ("a,b,a\n1,2,3\n", "line 1: column names must differ; more than one is named a"),
    "empty": ("", "line 1: expected rows; the file is empty"),
    "blank": ("\n \n", "line 1: expected rows; the file is empty"),
    "header only": ("a,b\n", None),
    "binary": (b"1,2\n3,\x00\n", "line 2: expected text; got binary data"),
    "UTF-16": ("1,2\n".encode("utf-16"), "line 1: the text is UTF-16"),
    "latin-1": (b"1,a\n2,\xe9\n", "line 2: the text is not UTF-8"),
    "latin-1 far down": (b"1,a\n" * 500 + b"2,\xe9\n", "line 501: the text is not UTF-8"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_name_the_line(name):
    data, message = BROKEN[name]
    if message is None:
        with pytest.raises(DataError, match="line 1: expected rows; the file holds a header only"):
            read(data, header=True)
        return
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read(data)
    assert "table.csv" in str(caught.value)


@pytest.mark.parametrize("quoted", [b"", b'"a",'])
def test_a_line_that_is_too_wide_is_refused_before_it_is_parsed(quoted, monkeypatch):
    monkeypatch.setattr("gpbench.data.formats.delimited.Parser", None)
    with pytest.raises(DataError, match="line 1: expected at most 100,000 columns; got 100,00"):
        read(quoted + b"1," * 100_000 + b"2\n", header=False)


def test_short_lines_are_filled_only_if_asked():
    text = "N1\nN2,a,1\nN3\n"
    with pytest.raises(DataError, match="line 1: expected 3 values; got 1"):
        read(text, names=["n", "w", "v"], delimiter=",")
    frame = pd.concat(read(text, names=["n", "w", "v"], delimiter=",", fill_short=True))
    assert frame["n"].tolist() == ["N1", "N2", "N3"]
    assert frame["v"].isna().tolist() == [True, False, True]


def test_a_truncated_gzip_says_how_far_it_was_good(tmp_path):
    path = tmp_path / "table.csv"
    lines = "".join(f"{k},{k * k}\n" for k in range(300_000)).encode()
    path.write_bytes(gzip.compress(lines, 1)[:-4000])
    with pytest.raises(DataError, match=r"table\.csv: the file ends too early .*; line \d+ or after"):
        list(read_table(path, format="csv", block_bytes=1 << 18))


def test_unknown_text_columns_and_formats_are_refused():
    with pytest.raises(UsageError, match="no column z; it has x1, x2"):
        read("1,2\n", text=["z"])
    with pytest.raises(UsageError, match="did you mean arff"):
        read_table("x", format="arf")


def test_a_line_longer_than_a_piece():
    words = [letter * 120_000 for letter in "abcdefghijkl"]
    assert rows_of(",".join(words) + "\n" + ",".join("lkjihgfedcba") + "\n")[0] == words


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0", exclude_categories=("Cs",)), max_size=6)


@given(
    st.lists(st.tuples(NUMBERS, WORDS, st.integers(-(2**53), 2**53)), min_size=1, max_size=12),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.integers(30, 400),
)
@settings(deadline=None, max_examples=150)
def test_tables_come_back(rows, delimiter, newline, header, block_bytes):
    quoted = [(repr(a), '"w' + word.replace('"', '""') + '"', str(b)) for a, word, b in rows]
    lines = ([delimiter.join(("p", "q", "r"))] if header else []) + [delimiter.join(row) for row in quoted]
    data = (newline.join(lines) + newline).encode()
    size = block_bytes + len(lines[0].encode()) * 2 + 2
    found = rows_of(data, delimiter=delimiter, header=header, block_bytes=size)
    expected = [[a, ("w" + word).strip(), b] for a, word, b in rows]
    assert found == expected


@given(st.binary(max_size=200) | st.text("0123456789.,;+-eE \t\n\r\"'ab?", max_size=200).map(str.encode))
@example(b'1,"2\n3",4\n5,6\n')
@example(b'"\r"')
@example(b'a\n""\n')
@example(b"\n,\n")
@example(b'"",\n')
@example(b"1 2\n\t\n3 4")
@settings(deadline=None, max_examples=400)
def test_any_bytes_end_in_rows_or_in_an_error_that_names_file_and_line(data):
    blocks = read_or_refuse(lambda: read(data))
    if blocks is None:
        return
    lines = [number for block in blocks for number in block.index]
    assert lines == sorted(set(lines))
    text = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    filled = [number for number, line in enumerate(text, 1) if line.strip()]
    if b'"' in data:  # a value may run over several lines
        assert set(lines) <= set(filled)
    else:
        assert lines in (filled, filled[1:])  # each line that is not blank is a row, or names the columns


@given(st.text('01.,-e \n"a?', max_size=150))
@settings(deadline=None, max_examples=200)
def test_small_blocks_and_large_blocks_agree(text):
    data = ("1,2,a\n" + text + "\n").encode()
    results = []
    for size in (len(data) + 1, 24):
        try:
            blocks = read(data, block_bytes=size, header=False, delimiter=",")
        except DataError:
            results.append("refused")
        else:
            results.append([line for block in blocks for line in block.index])
    assert results[0] == results[1]
