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
from gpbench.data.formats.arff_tokens import split_values
from gpbench.errors import DataError

HEAD = "% made by hand\n\n@RELATION r\n@attribute a real\n@attribute 'b c' {red, 'dark blue'}\n@attribute t {0,1}\n"


def read(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.arff"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return list(read_table(path, format="arff"))


def rows_of(data):
    return [list(row) for block in read(data) for row in block.itertuples(index=False)]


def test_dense_rows_with_quotes():
    text = HEAD + "@DATA\n1.5, red, 0\n-2,'dark blue',1\n"
    assert rows_of(text) == [[1.5, "red", "0"], [-2, "dark blue", "1"]]
    assert list(read(text)[0].columns) == ["a", "b c", "t"]


def test_dense_rows_without_quotes_take_the_same_types():
    (block,) = read(HEAD + "@data\n1,red,0\n2,red,1\n")
    assert block["a"].dtype == np.float64 or block["a"].tolist() == [1, 2]
    assert block["t"].tolist() == ["0", "1"]
    assert list(block.index) == [8, 9]


def test_the_quirks_of_bank32nh():
    text = "@relation b\r\n\r\n@attribute x  numeric\r\n@attribute y numeric\r\n\r\n@data\r\n\r\n0.5,1.25,\r\n-1,2,\r\n"
    assert rows_of(text) == [[0.5, 1.25], [-1, 2]]
    assert list(read(text)[0].index) == [8, 9]


def test_comments_blank_lines_and_blanks_for_commas_among_the_rows():
    text = HEAD + "@data\n% one\n1,red,0\n\n2 red\t1\n   % two\n"
    assert rows_of(text) == [[1, "red", "0"], [2, "red", "1"]]


def test_missing_values_are_question_marks_without_quotes():
    text = "@attribute a real\n@attribute s string\n@data\n?,?\n1,'?'\n2,NA\n"
    frame = pd.concat(read(text))
    assert np.isnan(frame["a"].iloc[0])
    assert frame["s"].isna().tolist() == [True, False, False]
    assert frame["s"].tolist()[1:] == ["?", "NA"]


def test_sparse_rows_leave_out_zeros_and_first_categories():
    text = HEAD + "@data\n{0 1.5, 2 1}\n{1 'dark blue'}\n{}\n{0 -2,}\n"
    assert rows_of(text) == [[1.5, "red", "1"], [0, "dark blue", "0"], [0, "red", "0"], [-2, "red", "0"]]


def test_escapes_and_names():
    text = "@attribute \"it's\" {'a\\'b',\"c,d\",'{x}'}\n@attribute n{1,2}\n@data\n'a\\'b',1\n\"c,d\",2\n'{x}',2\n"
    assert rows_of(text) == [["a'b", "1"], ["c,d", "2"], ["{x}", "2"]]
    assert list(read(text)[0].columns) == ["it's", "n"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "@data\n1,red,0\n2,green,1\n", "line 9: column 'b c' allows red, dark blue; got 'green'"),
        (HEAD + "@data\n1,red,0\nx,red,1\n", "line 9: column 'a' holds numbers; got 'x'"),
        (HEAD + "@data\n1,red,0\n1_0,red,1\n", "line 9: column 'a' holds numbers; got '1_0'"),
        (HEAD + "@data\n1,red,0\n\n2,red\n", "line 10: expected 3 values; got 2"),
        (HEAD + "@data\n1,red,0,5\n", "line 8: expected 3 values; got 4"),
        (HEAD + "@data\n1,'red,0\n", "line 8: a quote is not closed"),
        (HEAD + "@data\n1,'red' x,0\n", "line 8: expected a comma after a quoted value; got 'x,0'"),
        (HEAD + "@data\n{0 1, 5 2}\n", "line 8: expected rising indices below 3; got 5 after 0"),
        (HEAD + "@data\n{0 1, 0 2}\n", "line 8: expected rising indices below 3; got 0 after 0"),
        (HEAD + "@data\n{0 1\n", "line 8: expected a sparse row to end in '}'"),
        (HEAD + "@data\n{a 1}\n", "line 8: expected 'index value' in a sparse row; got 'a 1'"),
        (HEAD + "@data\n{1 blue}\n", "line 8: column 'b c' allows"),
        (HEAD + "@data\n", "expected rows after @data; there are none"),
        (HEAD, "expected @data; the file ends before it"),
        ("", "line 1 or after: expected @data"),
        ("@data\n1\n", "line 1: expected @attribute before @data"),
        ("@attribute a\n@data\n1\n", "line 1: attribute 'a' must be numeric, nominal, string or date; got ''"),
        ("@attribute a relational\n", "attribute 'a' must be numeric, nominal, string or date; got 'relational'"),
        ("@attribute a {x\n", "line 1: expected the categories of 'a' to end in '}'"),
        ("@attribute a real\n@attribute a real\n@data\n1,2\n", "more than one is named a"),
        ("hello\n", "line 1: expected @relation, @attribute or @data; got 'hello'"),
        (b"@attribute a string\n@data\nx\n\xff\n", "line 4"),
    ],
)
def test_broken_lines_are_named(text, message):
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read(text)
    assert "table.arff" in str(caught.value)


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0", exclude_categories=("Cs",)), max_size=8)


@given(
    st.lists(
        st.tuples(st.floats(allow_nan=False), WORDS, st.sampled_from(["p q", "it's", "1"])), min_size=1, max_size=9
    )
)
@settings(deadline=None, max_examples=150)
def test_tables_come_back(rows):
    def quote(word):
        return "'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'"

    head = "@relation r\n@attribute a real\n@attribute s string\n@attribute c {'p q','it\\'s',1}\n@data\n"
    data = head + "".join(f"{number!r},{quote(word)},{quote(kind)}\n" for number, word, kind in rows)
    assert rows_of(data) == [list(row) for row in rows]


PIECES = [
    "@data\n",
    "@attribute a real\n",
    "@attribute b {x,y}\n",
    "1",
    ",",
    "x",
    "{",
    "}",
    "0 1",
    "'",
    '"',
    "\\",
    "?",
    " ",
    "\n",
]


@given(st.binary(max_size=200) | st.lists(st.sampled_from(PIECES)).map(lambda parts: "".join(parts).encode()))
@example(b"@attribute a real\n@data\n\x0c\n")
@example(b"@attribute a {x}\n@data\n\xc2\x85\n")
@settings(deadline=None, max_examples=400)
def test_any_bytes_end_in_rows_or_in_an_error_that_names_file_and_line(data):
    for block in read_or_refuse(lambda: read(data)) or []:
        assert len(block)


@given(st.lists(st.sampled_from(PIECES[3:])).map("".join))
@settings(deadline=None, max_examples=300)
def test_rows_that_follow_a_good_header_too(text):
    data = "@attribute a real\n@attribute b {x,y}\n@data\n1,x\n" + text
    for block in read_or_refuse(lambda: read(data)) or []:
        assert set(block["b"].dropna()) <= {"x", "y"}
        assert block["a"].dtype.kind in "if"


@pytest.mark.parametrize("line", ["a" * 200_000, "'" + "\\'" * 100_000 + "'", "," * 200_000, "' '" * 60_000])
def test_long_lines_take_linear_time(line):
    try:
        values = split_values(line, where="here")
    except DataError as error:
        values = [str(error)]
    assert values
