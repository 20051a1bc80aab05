"""Files that say one thing and could be taken for another; each is small, made by hand, and has one right answer.

Those in ``tests/cases`` run through the command line; the others are made here.
"""

import gzip
import io
import json
import resource
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from gpbench.bench.sources import FileSource
from gpbench.cli import main
from gpbench.data.formats import read_table
from gpbench.data.options import FileOptions
from gpbench.data.record import fitted
from gpbench.data.userfile import load_file
from gpbench.errors import DataError, UsageError

CASES = Path(__file__).parents[1] / "cases"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """``gpbench run -m linear --folds 2`` on a file."""
    monkeypatch.setenv("GPBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("GPBENCH_RESULTS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)

    def run(path, *options):
        arguments = ["run", "-m", "linear", "-d", str(path), "--json", "--folds", "2", *options]
        return CliRunner().invoke(main, arguments)

    return run


@pytest.fixture
def load(tmp_path):
    """A data set from text or bytes, or from a file of ``tests/cases``."""

    def load(content, name="t.csv", **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return load_file(path, cache=tmp_path / "cache", options=FileOptions(**options))

    return load


def done(result):
    """NLL, error and what was decided, of a run that ended well."""
    assert result.exit_code == 0, result.stderr
    (row,) = json.loads(result.stdout)["summary"]
    task, *said = result.stderr.splitlines()
    assert task.startswith(f"{row['dataset']}: task ")
    assert [f"{row['dataset']}: {words}" for words in row["decisions"]] == said
    return row["nll"]["mean"], row["error"]["mean"], "\n".join(row["decisions"])


def refused(result, *words, code=1):
    assert result.exit_code == code, result.output
    for each in words:
        assert each in result.stderr
    assert result.stdout == ""


def test_one_word_among_numbers_is_an_error_or_missing(run):
    path = CASES / "bmi-one-bad" / "t.csv"
    refused(run(path), "t.csv, line 5: column 'age'", "got 'None' (1 of 800", "--missing None", "--drop age")
    refused(run(path, "--missing", "None"), "line 5: missing values in column age (1)", "--impute median")
    nll, _, said = done(run(path, "--missing", "None", "--impute", "median", "--folds", "5"))
    assert nll == pytest.approx(0.257, abs=0.002)
    assert "age (1 of 800)" in said


def test_dates_are_no_categories(run, tmp_path):
    rng = np.random.default_rng(0)
    day = pd.Timestamp("2024-01-01")
    table = pd.DataFrame(
        {
            "signup": [(day + pd.Timedelta(days=int(k))).date() for k in rng.integers(700, size=400)],
            "age": rng.normal(40, 9, 400).round(),
        }
    )
    table["churn"] = np.where(table["age"] + rng.normal(0, 3, 400) > 40, "yes", "no")
    table.to_csv(tmp_path / "churn.csv", index=False)
    refused(run(tmp_path / "churn.csv"), "column 'signup' holds dates or times", "--drop signup")
    nll, _, said = done(run(tmp_path / "churn.csv", "--drop", "signup"))
    assert nll < 0.4
    assert "columns dropped: signup" in said
    table.to_parquet(tmp_path / "churn.parquet", index=False)
    refused(run(tmp_path / "churn.parquet"), "column 'signup' holds dates or times")


def test_what_was_filled_is_said_and_is_the_training_rows_median(run):
    path = CASES / "impute-note" / "t.csv"
    _, _, said = done(run(path, "--impute", "median"))
    assert "a (40 of 60)" in said
    result = CliRunner().invoke(main, ["run", "-m", "linear", "-d", str(path), "--folds", "2", "--impute", "median"])
    assert "t.csv: missing values filled by the training rows' medians" in result.stdout
    cells = json.loads(run(path, "--impute", "median").stdout)["cells"]
    fillings = [cell["provenance"]["data"]["fillings"]["a"] for cell in cells]
    assert all(cell["provenance"]["data"]["decisions"] for cell in cells)
    table = pd.read_csv(path)
    assert fillings == [
        table["a"].dropna().loc[lambda a, k=k: [row not in cells_test(k) for row in a.index]].median() for k in range(2)
    ]


def cells_test(k):
    """The test rows of fold k of the file above, as the protocol draws them."""
    from gpbench.data.splits import Protocol  # noqa: PLC0415

    dataset = load_file(
        CASES / "impute-note" / "t.csv",
        options=FileOptions(impute="median"),
        cache=Path("data"),
    )
    return set(Protocol.parse("folds:2").split(dataset, k, seed=0).test.tolist())


def test_names_that_are_numbers(run):
    path = CASES / "header-numeric-names" / "t.csv"
    _, _, said = done(run(path))
    assert "line 1 was read as column names" in said
    assert "--header no" in said
    refused(run(path, "--header", "no", "--task", "binary"), "the task binary needs 2 labels; there are 3: 0, 1, 2")


@pytest.mark.parametrize(
    ("case", "options"),
    [("index-leak/t.csv", ()), ("index-leak-pq/t.parquet", ("--target", "y")), ("index-leak-pq/t.parquet", ())],
)
def test_an_index_is_no_input(run, case, options):
    nll, error, said = done(run(CASES / case, *options))
    assert nll == pytest.approx(0.294, abs=0.002)
    assert error == pytest.approx(0.133, abs=0.002)
    assert "an index of the rows" in said


def test_an_index_is_no_target(run):
    nll, _, said = done(run(CASES / "pq-index" / "t.parquet"))
    assert nll == pytest.approx(0.272, abs=0.002)
    assert "__index_level_0__" in said


def test_sparse_text_under_another_name(run, load):
    _, _, said = done(run(CASES / "svm-txt-suffix" / "t.txt"))
    assert "LIBSVM" in said
    text = (CASES / "svm-txt-suffix" / "t.txt").read_text()
    for name in ("a9a", "a9a.t", "letter.scale.t", "x.data", "x.csv"):
        assert load(text, name, file_format="libsvm").features == ("x1", "x2", "x3")
        assert load(text, name).classes == ("-1", "1")
    assert len(load(text, "t.txt", file_format="csv", task="multiclass").classes) > 2
    with pytest.raises(UsageError, match=r"unknown kind of file; .*--file-format csv\|tsv"):
        load("1,2\n3,4\n", "mine.table")
    assert load("a,b\n1,2\n3,4\n", "mine.table", file_format="csv").n == 2


def test_features_beyond_the_limit(run):
    words = "t.svm, line 3: expected indices up to 100,000, the limit of features; got index 199401"
    refused(run(CASES / "svm-too-wide" / "t.svm"), words)


def test_more_inducing_points_than_training_rows_are_refused_before_anything_runs(run):
    result = run(CASES / "n105" / "t.csv", "-m", "x-gpc", "--folds", "10")
    refused(result, "94 training rows, 100 inducing points", "--inducing 90", code=2)


def test_a_word_for_missing_may_be_a_class(run, load):
    path = CASES / "na-as-class" / "t.csv"
    refused(run(path), "missing targets in column y (30, 'NA' read as missing)", "--missing -NA")
    assert done(run(path, "--missing", "-NA"))[2] == "line 1 names the columns"
    assert load("a,t\n" + "1,null\n2,x\n" * 5, missing=("-null",)).classes == ("null", "x")
    labels = io.BytesIO()
    np.savez(labels, X=np.arange(4.0)[:, None], y=np.array(["NA", "null", "NA", "null"]))
    assert load(labels.getvalue(), "t.npz").classes == ("NA", "null")


def test_arrays_of_other_types(run, load):
    assert done(run(CASES / "npz-longdouble" / "t.npz"))[0] == pytest.approx(0.272, abs=0.002)
    words = "'y' holds Python objects, which are never unpickled; save y.astype(str)"
    refused(run(CASES / "npz-object-y" / "t.npz"), words)
    for kind in ("f2", "g"):
        data = io.BytesIO()
        np.savez(data, X=np.arange(6, dtype=kind).reshape(3, 2), y=np.array([0, 1, 1], dtype=kind))
        assert load(data.getvalue(), "t.npz").X.tolist() == [[0, 1], [2, 3], [4, 5]]
    data = io.BytesIO()
    np.savez(data, X=np.array([["1", None]], dtype=object), y=np.arange(1))
    with pytest.raises(DataError, match=r"'X' holds Python objects.*X\.astype\(float\) for numbers"):
        load(data.getvalue(), "t.npz")


@pytest.mark.parametrize("case", ["arff-comment-on-attribute", "arff-trailing-comment-on-row"])
def test_comments_in_arff(run, case):
    assert done(run(CASES / case / "t.arff"))[0] == pytest.approx(0.6993, abs=0.001)


def test_arff_of_the_wild(load):
    head = "@relation r % c\n@attribute 'a%b' numeric % c\n@attribute y {no,'100% yes'} % {x}\n@data % c\n"
    dataset = load(head + "1,no % c\n% all of it\n2,'100% yes'% c\n", "t.arff")
    assert (dataset.features, dataset.classes) == (("a%b",), ("100% yes", "no"))
    for row in ("1,no,{0.5}\n", "{0 1}, {2}\n"):
        with pytest.raises(DataError, match=r"line 5: the row has a weight, \{.*\}; .* remove the weights"):
            load(head + row, "t.arff")


def test_lines_inside_quotes(run, load):
    _, _, said = done(run(CASES / "quoted-newline" / "t.csv"))
    assert "one-hot coded (sorted categories): c" in said
    text = 'c,t\n"x\r\ny",0\n"u ""v""\n\nw",1\n' * 1 + '"x\r\ny",1\n'
    dataset = load(text)
    assert dataset.features == ('c=u "v"\n\nw', "c=x\ny")
    blocks = list(read_table(CASES / "quoted-newline" / "t.csv", format="csv", block_bytes=40))
    assert len(blocks) > 5
    assert [number for block in blocks for number in block.index] == list(range(2, 122, 2))
    with pytest.raises(DataError, match="line 5: column 'a' holds numbers; got 'x'"):
        load('a,b,t\n1,"u\nv",0\n2,w,1\nx,w,0\n3,w,1\n')
    with pytest.raises(DataError, match="line 3: a quoted value is not closed"):
        load('a,t\nu,1\n"v,0\nw,1\n')


def test_archives(run, load):
    assert done(run(CASES / "zip-macosx" / "t.csv.zip"))[0] == pytest.approx(0.272, abs=0.002)
    text = "a,t\n" + "1,0\n2,1\n" * 9
    packed = pa.compress(text.encode(), codec="zstd", asbytes=True)
    assert load(packed, "t.csv.zst").n == load(gzip.compress(text.encode()), "t.csv.gz").n == 18
    with pytest.raises(DataError, match=r"t\.csv\.zst"):
        load(packed[:20], "t.csv.zst")


def test_a_byte_order_mark_before_a_plan(monkeypatch, tmp_path):
    monkeypatch.setenv("GPBENCH_RESULTS", str(tmp_path))
    result = CliRunner().invoke(main, ["reproduce", str(CASES / "plan-bom" / "p.toml"), "--dry-run"])
    assert result.exit_code == 0, result.stderr


def test_numbers_are_read_in_linear_time(load, tmp_path):
    text = "+1 1:0.5 # c\n" * 50 + "-1 1:-" + "0" * 100_000 + "x\n"
    start = time.process_time()
    with pytest.raises(DataError, match="line 51: expected a number; got '-0000"):
        load(text, "slow.libsvm")
    with pytest.raises(DataError, match="line 1: expected names of at most 10,000 characters; got 25,001"):
        load("1" * 25_000 + "x,b\n" + "1,0\n2,1\n" * 9)
    assert time.process_time() - start < 60  # a quadratic pattern takes minutes


def test_nothing_is_made_for_what_a_header_promises():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match=r"memory\.idx, row 0: expected at most 100,000 columns; got 12,582,921"):
        list(read_table(CASES / "memory.idx", format="idx"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_a_table_of_commas_is_refused_by_its_first_line(load):
    with pytest.raises(DataError, match=r"t\.csv, line 1: expected at most 100,000 columns; got 300,001"):
        load("," * 300_000 + "\n1")


STRANGE = ["None", "unknown", "#REF!", "$5", "5 kg", "12%", "<5", "1,5x", "1.2.3", "0x1F", "--", "2024-01-02", "1_0"]


@pytest.mark.parametrize("word", STRANGE)
def test_a_strange_value_among_numbers_wherever_it_stands(load, word):
    rows = [f"{k}.5,{k % 2}" for k in range(60)]
    for line in (2, 40, 61):
        text = "\n".join(["a,t", *rows[: line - 2], f'"{word}",1', *rows[line - 1 :]]) + "\n"
        with pytest.raises(DataError) as caught:
            load(text)
        message = str(caught.value)
        assert f"t.csv, line {line}: column 'a' holds numbers; got '{word}' (1 of 60 values is no number)" in message
        assert "--drop a" in message
        assert load(text, missing=(word,), impute="median").decisions[1].endswith("a (1 of 60)")


def test_numbers_that_stand_for_a_missing_value(load):
    text = "a,b,t\n" + "1,1.5,0\n2,2.5,1\n" * 4 + "-999,-999.0,1\n"
    for options in ({"missing": ("-999",)}, {"missing": ("-999.0", "-")}):
        dataset = load(text, impute="median", **options)
        assert dataset.decisions[1].endswith("a (1 of 9), b (1 of 9)")
    data = io.BytesIO()
    np.savez(data, X=np.array([[1.0], [2.0], [-999.0]]), y=np.array([0, 1, 1]))
    assert load(data.getvalue(), "t.npz", missing=("-999",), impute="median").decisions[0].endswith("x1 (1 of 3)")


@pytest.mark.parametrize(("value", "words"), [("1,000", "without separators of thousands"), ("1,5", "a decimal point")])
def test_one_number_with_a_comma_among_numbers(load, value, words):
    with pytest.raises(DataError, match=rf"line 12: column 'a' holds numbers; got '{value}' \(1 of 11 .*{words}"):
        load("a,t\n" + "1,0\n2,1\n" * 5 + f'"{value}",1\n')


DECIMALS = [f"{k % 7},{k}" for k in range(1, 41)]
SMALL = [f"0,{k + 100}" for k in range(40)]


@pytest.mark.parametrize("separator", [";", "\t", " "])
@pytest.mark.parametrize("header", ["", "h;w;y\n", "h, m;w, kg;y\n"])
@pytest.mark.parametrize("values", [DECIMALS, SMALL, [f"{k},000" for k in range(1, 41)]])
def test_tables_with_decimal_commas(load, separator, header, values):
    """They were split at the comma where no header told, and trained as if they had more columns."""
    if separator == " " and "," in header:
        return  # names of several words
    rows = "".join(f"{value};-0,5;{k % 2}\n" for k, value in enumerate(values))
    if separator != ";" and values[0] == "1,000":
        rows = rows.replace("7,000", "7,5")  # only a semicolon says by itself what 1,000 is
    with pytest.raises(DataError) as caught:
        load((header + rows).replace(", ", ",").replace(";", separator))
    words = str(caught.value)
    name = header[:1] or "x1"
    assert f"line {1 + bool(header)}: column '{name}" in words
    assert "numbers need a decimal point, not a decimal comma" in words


@pytest.mark.parametrize(
    ("text", "features"),
    [
        ("1,a;b,0\n2,c;d,1\n" * 5, ("x1", "x2=a;b", "x2=c;d")),
        ("1,2 kg,0\n2,3 kg,1\n" * 5, ("x1", "x2=2 kg", "x2=3 kg")),
        ("1, 2, 0\n2, 3, 1\n" * 5, ("x1", "x2")),
        ("1,2,0\n2,3,1\n" * 5, ("x1", "x2")),
    ],
)
def test_commas_that_separate(load, text, features):
    assert load(text).features == features


@pytest.mark.parametrize("word", ["", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "\\N"])
def test_known_words_for_missing(load, word):
    text = "a,t\n" + "1,0\n2,1\n" * 5 + f"{word},1\n"
    with pytest.raises(DataError, match=r"line 12: missing values in column a \(1\);.*--impute median.*--drop a"):
        load(text)
    assert load(text, impute="median").n == 11


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            [f"{k} kg" for k in range(30)],
            "got '0 kg' (30 of 30 values are no numbers): numbers are written",
        ),
        ([f"${k}.50" for k in range(30)], "numbers are written without signs and units"),
        ([f'"{k},500"' for k in range(1, 31)], "numbers are written without separators of thousands"),
        ([f'"{k},5"' for k in range(30)], "numbers need a decimal point"),
        ([f"{k}%" if k % 2 else f"{k}" for k in range(30)], "got '1%' (15 of 30"),
        ([f"2024-03-{k + 1:02}" for k in range(30)], "holds dates or times, such as '2024-03-01'"),
        ([f"{k % 12 + 1}/{k % 28 + 1}/24" for k in range(30)], "holds dates or times"),
        ([f"{k + 1} Mar 2024" for k in range(30)], "holds dates or times"),
        ([f"2024-03-{k + 1:02}T10:{k:02}:00Z" for k in range(30)], "holds dates or times"),
        ([f"10:{k:02}" for k in range(30)], "holds dates or times"),
        (["Mar-24", "Apr-24", "May-24"] * 10, "holds dates or times"),
    ],
)
def test_columns_that_are_neither_numbers_nor_categories(load, values, words):
    text = "a,b,t\n" + "".join(f"{value},{k},{k % 2}\n" for k, value in enumerate(values))
    with pytest.raises(DataError) as caught:
        load(text)
    assert words in str(caught.value)
    assert "--drop a" in str(caught.value)
    assert load(text, drop=("a",)).features == ("b",)


@pytest.mark.parametrize(
    "values", [["red", "blue"], ["1", "a", "b", "c", "d"], ["2wd", "4wd"], ["10-20", "20-30"], ["A1", "B2"]]
)
def test_columns_that_are_categories(load, values):
    dataset = load("a,t\n" + "".join(f"{values[k % len(values)]},{k % 2}\n" for k in range(60)))
    assert dataset.features == tuple(f"a={value}" for value in values) or len(dataset.features) == len(values)
    assert "one-hot coded (sorted categories): a" in dataset.decisions


HEADERS = {
    "0,1,2": True,  # pandas' own names
    "1,2,3": True,
    "10,20,label": True,
    "a,2019,label": True,
    "0.5,0.25,0": False,
    "1,2,0": True,  # whole numbers above decimals
    "1.5,2,1": False,
    "7,7,7": False,  # names differ
}


@pytest.mark.parametrize("first", HEADERS)
def test_what_the_first_line_is(load, first):
    rng = np.random.default_rng(0)
    rows = [f"{a:.4f},{b:.4f},{int(a > 0)}" for a, b in rng.normal(size=(40, 2))]
    task = {"task": "multiclass"} if first == "7,7,7" else {}
    dataset = load("\n".join([first, *rows]) + "\n", **task)
    assert dataset.n == (40 if HEADERS[first] else 41)
    assert "line" in dataset.decisions[0]
    for header, n in (("yes", 40), ("no", 41)):
        if (header == "no" and "label" in first) or (first == "7,7,7" and header == "yes"):
            continue
        options = {"header": header == "yes", "task": "multiclass"}
        assert load("\n".join([first, *rows]) + "\n", **options).n == n


def test_columns_without_a_name(load):
    body = [f"{k}.5,{k % 2}" for k in range(20)]
    number = lambda k: (k * 7) % 20  # noqa: E731
    shuffled = "".join(f"{number(k)},{line}\n" for k, line in enumerate(body))
    assert load(",a,t\n" + shuffled).features == ("a",)
    assert load("a,t\n" + shuffled).features == ("a",)  # as R writes it: the names of rows have none
    assert load(",a,t\n" + "".join(f"row{k},{line}\n" for k, line in enumerate(body))).features == ("a",)
    measured = load(",a,t\n" + "".join(f"{k / 3:.3f},{line}\n" for k, line in enumerate(body)))
    assert measured.features == ("Unnamed: 0", "a")
    named = load("id,a,t\n" + shuffled)
    assert named.features == ("id", "a")


def test_an_index_in_parquet_has_any_name_and_place(load):
    frame = pd.DataFrame({"a": np.arange(6.0), "t": [0, 1] * 3, "key": [5, 3, 1, 0, 2, 4]}).set_index("key")
    data = io.BytesIO()
    frame.to_parquet(data)
    assert load(data.getvalue(), "t.parquet").features == ("a",)
    assert load(data.getvalue(), "t.parquet", target="t").features == ("a",)
    kept = load(data.getvalue(), "t.parquet", target="key", task="multiclass")
    assert kept.features == ("a", "t")
    table = pa.table({"a": [1.0, 2, 3, 4], "t": [0, 1, 0, 1], "__index_level_0__": [3, 1, 2, 0]})
    data = io.BytesIO()
    pq.write_table(table, data)
    assert load(data.getvalue(), "t.parquet").features == ("a",)
    broken = table.replace_schema_metadata({"pandas": '{"index_columns": [{"kind": 1}, 7, "a"]'})
    data = io.BytesIO()
    pq.write_table(broken, data)
    assert load(data.getvalue(), "t.parquet").features == ("a",)


def test_identifiers_beyond_floating_point(load):
    big = 2**53
    for values in ([big + k for k in range(6)], [-big - k - 1 for k in range(6)], [2**70 + k for k in range(6)]):
        text = "i,a,t\n" + "".join(f"{value},{k},{k % 2}\n" for k, value in enumerate(values))
        with pytest.raises(DataError, match=r"line \d: column 'i' holds whole numbers beyond 2\^53.*--drop i"):
            load(text)
        assert load(text, drop=("i",)).features == ("a",)
    holed = f"i,a,t\n{big + 1},1,0\n,2,1\n{big + 3},3,0\n"
    with pytest.raises(DataError, match=r"column 'i' holds whole numbers beyond 2\^53"):
        load(holed, impute="median")
    data = io.BytesIO()
    pd.DataFrame({"i": pd.array([big + 1, None, 3], dtype="Int64"), "a": [1, 2, 3], "t": [0, 1, 0]}).to_parquet(data)
    with pytest.raises(DataError, match=r"column 'i' holds whole numbers beyond 2\^53"):
        load(data.getvalue(), "t.parquet", impute="median")
    data = io.BytesIO()
    np.savez(data, X=np.array([[big + 1], [3]]), y=np.arange(2))
    with pytest.raises(DataError, match=r"column 'x1' holds whole numbers beyond 2\^53"):
        load(data.getvalue(), "t.npz")
    assert load(f"a,t\n{big},0\n1e300,1\n").n == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"# made by hand\na,b,t\n1,2,0\n3,4,1\n", "line 1: expected names or values; got a comment, '# made by hand'"),
        (b"<!DOCTYPE html>\n<html><body>404</body></html>\n", "line 1: expected a table; got an HTML page"),
        (b"<?xml version='1.0'?>\n<a/>\n", "line 1: expected a table; got an XML page"),
        (
            b"a,t\n1,0\n\xe9,1\n",
            "line 3: the text is not UTF-8 (invalid continuation byte at byte 1); save it as UTF-8",
        ),
        (
            b"a,t\n1,0\n2,\n3,1\n",
            "line 3: missing targets in column t (1); this is the first such row; leave those rows",
        ),
        (b"a,b,t\n1,,0\n2,,1\n", "missing values in column b (2)"),
    ],
)
def test_messages_name_the_place_and_the_remedy(load, text, words):
    with pytest.raises(DataError) as caught:
        load(text)
    assert f"t.csv, {words}" in str(caught.value) or words in str(caught.value)


def test_a_column_without_any_value_is_refused_even_where_values_are_filled(load):
    with pytest.raises(DataError, match=r"column b: all values are missing; drop it \(--drop b\)"):
        load("a,b,t\n1,,0\n2,,1\n", impute="median")


def test_excels_line_of_the_separator(load):
    for head in ("a;t\n", ""):
        dataset = load(f"sep=;\n{head}" + "1;0\n2;1\n" * 6)
        assert (dataset.n, dataset.d) == (12, 1)


def test_drop_and_target(load):
    text = "a,b,c,t\n" + "1,2,0,x\n3,4,1,y\n" * 4
    assert load(text, drop=("t",)).classes == ("0", "1")
    assert load(text, drop=("a", "2")).features == ("b",)
    with pytest.raises(UsageError, match=r"unknown column 'd'; (did you mean|known: a, b, c, t)"):
        load(text, drop=("d",))
    with pytest.raises(UsageError, match="--target t and --drop t exclude one another"):
        load(text, target="t", drop=("t",))
    with pytest.raises(UsageError, match=r"--header says how to read a text table; t\.svm is read as libsvm"):
        load("1 1:2\n0 1:3\n", "t.svm", header=True)


def test_a_column_that_is_constant_in_the_training_rows_is_left_out_of_everything(load):
    text = "a,b,t\n" + "".join(f"{k},{int(k == 7)},{k % 2}\n" for k in range(8))
    dataset = load(text)
    rows = np.arange(7)
    for scaling in ("standard", "common", "none"):
        record = fitted(dataset, rows=rows, scaling=scaling)
        assert record.scaling.apply(np.asarray(dataset.X)).shape == (8, 1)
        assert np.array_equal(
            record.scaling.apply(np.asarray(dataset.X)),
            fitted(load(text, drop=("b",)), rows=rows, scaling=scaling).scaling.apply(np.asarray(dataset.X)[:, :1]),
        )
    with pytest.raises(DataError, match=r"data set t\.csv: no input varies over the 1 training rows"):
        fitted(dataset, rows=rows[:1])


def test_long_names_of_files(load):
    assert load("a,t\n1,0\n2,1\n", "x" * 236 + ".csv").n == 2


def test_a_data_folder_that_cannot_be_written_names_the_setting(tmp_path):
    (tmp_path / "t.csv").write_text("a,t\n1,0\n2,1\n")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot be written: .*GPBENCH_DATA can name another data folder"):
        FileSource(tmp_path / "t.csv", FileOptions(), tmp_path / "file").load()
