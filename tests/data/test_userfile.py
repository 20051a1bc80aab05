import gzip
import io
import re
import threading
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpbench.data import prepared, userfile
from gpbench.data.newrows import read_new_rows
from gpbench.data.options import FileOptions
from gpbench.data.record import fitted
from gpbench.data.userfile import file_format, load_file
from gpbench.errors import DataError, DataUnavailable, GpbenchWarning, UsageError

CSV = "colour,size,kind\nred,1,a\nblue,2,b\nred,3,a\n"


@pytest.fixture
def load(tmp_path):
    def load(name, content, **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return load_file(path, cache=tmp_path / "cache", options=FileOptions(**options))

    return load


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def parquet(frame, **options):
    buffer = io.BytesIO()
    frame.to_parquet(buffer, **options)
    return buffer.getvalue()


def zipped(name, content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


FRAME = pd.read_csv(io.StringIO(CSV))
ARFF = (
    "@relation r\n@attribute colour {red,blue}\n@attribute size real\n@attribute kind {a,b}\n"
    "@data\nred,1,a\nblue,2,b\nred,3,a\n"
)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", CSV),
        ("t.csv.gz", gzip.compress(CSV.encode())),
        ("t.csv.zip", zipped("in.csv", CSV)),
        ("t.tsv", CSV.replace(",", "\t")),
        ("t.txt", CSV.replace(",", " ")),
        ("T.CSV", CSV.replace(",", ";")),
        ("t.parquet", parquet(FRAME)),
        ("t.parquet.gz", gzip.compress(parquet(FRAME))),
        ("t.parquet.zip", zipped("in.parquet", parquet(FRAME))),
        ("t.arff", ARFF),
        ("t.v1.arff.gz", gzip.compress(ARFF.encode())),
    ],
)
def test_the_same_table_in_all_forms(load, name, content):
    dataset = load(name, content)
    assert dataset.id == name
    assert dataset.task == "binary"
    assert dataset.classes == ("a", "b")
    assert dataset.features == ("colour=blue", "colour=red", "size")
    assert dataset.X.tolist() == [[0, 1, 1], [1, 0, 2], [0, 1, 3]]


def test_numbers_in_libsvm_and_npz(load):
    expected = [[1, 0, 2], [0, 3, 0]]
    for name, content in (("t.svm", "1 1:1 3:2\n-1 2:3\n"), ("t.npz", npz(X=np.array(expected), y=np.array([1, -1])))):
        dataset = load(name, content)
        assert dataset.X.tolist() == expected
        assert dataset.y.tolist() == [1, 0]
        assert dataset.classes == ("-1", "1")


def test_the_target_by_name_and_by_position(load):
    assert load("t.csv", CSV, target="colour").classes == ("blue", "red")
    assert load("t.csv", CSV, target="0").classes == ("blue", "red")
    assert load("t.csv", CSV, target="-1").classes == ("a", "b")
    with pytest.raises(UsageError, match="unknown column 'kin'; did you mean kind"):
        load("t.csv", CSV, target="kin")
    with pytest.raises(UsageError, match="column 7 does not exist; there are 3"):
        load("t.csv", CSV, target="7")


@pytest.mark.parametrize("text", ["²", "-²", "٣", "9" * 5000])
@pytest.mark.parametrize("option", ["target", "drop"])
def test_what_looks_like_a_position_and_is_none(load, text, option):
    with pytest.raises(UsageError, match=f"unknown column '{text}"):
        load("t.csv", CSV, **{option: text if option == "target" else (text,)})


def test_the_task_is_what_the_targets_tell_or_what_the_user_says(load):
    numbers = "".join(f"{k},{k % 5}\n" for k in range(40))
    assert load("t.csv", numbers).task == "multiclass"
    assert load("t.csv", numbers, task="count").classes == ()
    assert load("t.csv", numbers, task="ordinal").classes == ("0", "1", "2", "3", "4")
    with pytest.raises(DataError, match=r"levels whose order is known.*texts \(high, low, mid\) have none"):
        load("texts.csv", "a,y\n1,low\n2,mid\n3,high\n4,low\n", task="ordinal")
    many = "".join(f"{k},{k * 0.5}\n" for k in range(40))
    with pytest.raises(UsageError, match=r"targets in column 'x2' have 40 different values.*--task"):
        load("t.csv", many)
    thousands = "".join(f"{k},{k * 0.5}\n" for k in range(3000))
    with pytest.raises(DataError, match=r"t\.csv, line \d+: column 'x2' holds more than 1000 different values"):
        load("t.csv", thousands)
    with pytest.raises(UsageError, match="task must be one of binary, multiclass, count, ordinal; got 'regression'"):
        load("t.csv", numbers, task="regression")


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ("0 1 1", ("0", "1")),
        ("-1 1 1", ("-1", "1")),
        ("1 2 2", ("1", "2")),
        ("+1 -1 +1", ("-1", "1")),
        ("true false true", ("false", "true")),
        ("yes no yes", ("no", "yes")),
        ("1.000e+00 0.000e+00 1.000e+00", ("0", "1")),
    ],
)
def test_labels_of_all_kinds(load, labels, classes):
    text = "".join(f"{k},{label}\n" for k, label in enumerate(labels.split()))
    dataset = load("t.csv", text)
    assert dataset.task == "binary"
    assert dataset.classes == classes


def test_missing_values_are_an_error_that_names_the_columns_or_are_imputed(load):
    text = "a,b,t\n1,,x\n2,5,y\n,7,x\n4,6,y\n"
    with pytest.raises(DataError, match=r"t\.csv, line 2: missing values in column a \(1\), b \(1\)"):
        load("t.csv", text)
    dataset = load("t.csv", text, impute="median")
    assert np.array_equal(dataset.X, [[1, np.nan], [2, 5], [np.nan, 7], [4, 6]], equal_nan=True)
    assert fitted(dataset, rows=np.arange(4)).scaling.fill.tolist() == [2, 6]
    assert fitted(dataset, rows=np.array([1, 3])).scaling.fill.tolist() == [3, 5.5]
    with pytest.raises(UsageError, match=r"^--impute must be median; got 'mean'$"):
        load("t.csv", text, impute="mean")


WORDS = pd.DataFrame({"c": ["u", "v", "", " ", "NA", "n/a", "none", "u"], "x": [*range(8)], "t": ["a", "b"] * 4})
DECLARED = "@relation r\n@attribute c {u,v,NA}\n@attribute t {a,b}\n@data\n" + "u,a\nv,b\nNA,a\n?,b\n" * 3


@pytest.mark.parametrize("kept", [(), ("-NA",)])
def test_words_for_missing_are_the_same_in_all_formats(load, kept):
    """The texts that are missing in csv are missing in parquet: an empty one became a category, or a class."""
    options = {"missing": ("none", *kept), "impute": "median"}
    forms = {"t.csv": WORDS.to_csv(index=False).encode(), "t.parquet": parquet(WORDS)}
    forms["dictionary.parquet"] = parquet(WORDS.assign(c=WORDS.c.astype("category")))
    made = {name: load(name, content, **options) for name, content in forms.items()}
    for dataset in made.values():
        assert dataset.features == (*(["c=NA"] if kept else []), "c=u", "c=v", "x")
        assert np.array_equal(dataset.X, made["t.csv"].X, equal_nan=True)
        assert dataset.checksum == made["t.csv"].checksum
    for name, content in forms.items():
        with pytest.raises(
            DataError, match=r"missing values in column c \(\d\).*keep the word as a category: --missing -NA"
        ):
            load(name, content)
    assert load("t.arff", DECLARED, impute="median").features == ("c=NA", "c=u", "c=v")  # the file says that it is one
    assert load("t.arff", DECLARED, impute="median", missing=("NA",)).features == ("c=u", "c=v")


def test_an_empty_target_is_missing_in_all_formats(load):
    frame = WORDS.assign(c=1.0, t=["a", "b", "", "a"] * 2)
    where = {"t.csv": "line 4", "t.parquet": "row 3", "t.npz": "row 3"}
    forms = {"t.csv": frame.to_csv(index=False).encode(), "t.parquet": parquet(frame)}
    forms["t.npz"] = npz(X=frame[["x"]].to_numpy(), y=frame.t.to_numpy(dtype="U"))
    for name, content in forms.items():
        words = rf"{name}, {where[name]}: missing targets in column t\w* \(2\); .*leave those"
        with pytest.raises(DataError, match=words):
            load(name, content)
    kept = load("t.parquet", parquet(frame.assign(t=["a", "NA"] * 4)), missing=("-NA",))
    assert kept.classes == ("NA", "a")


TRUTH = pd.DataFrame(
    {"f": [True, False, True, True] * 3, "g": [False, True] * 6, "x": range(12), "t": ["a", "b", "b"] * 4}
)


@pytest.mark.parametrize("gap", [False, True])
def test_truth_values_are_the_same_in_all_formats(load, tmp_path, gap):
    """In csv they were two columns for one in parquet, and models of the one did not read the other."""
    frame = TRUTH.astype({"f": "object"})
    frame.loc[5, "f"] = None if gap else True
    forms = {"t.csv": frame.to_csv(index=False).encode(), "t.parquet": parquet(frame)}
    forms["text.parquet"] = parquet(frame.assign(g=frame.g.astype(str)))
    forms["t.arff"] = (
        "@relation r\n@attribute f {False,True}\n@attribute g {True,False}\n@attribute x real\n@attribute t {a,b}\n"
        "@data\n" + frame.to_csv(index=False, header=False, na_rep="?")
    )
    made = {name: load(name, content, impute="median") for name, content in forms.items()}
    for dataset in made.values():
        assert dataset.features == ("f", "g", "x")
        assert dataset.checksum == made["t.csv"].checksum
        assert "True and False are 1 and 0: f, g" in dataset.decisions
        record = fitted(dataset, rows=np.arange(12))
        expected = record.scaling.apply(np.asarray(dataset.X))
        for name in forms:
            assert np.array_equal(read_new_rows(tmp_path / name, record).X, expected)


def test_truth_values_beside_others(load):
    """Where a column holds other texts, too, True and False are texts, in whichever block of the file they stand."""
    rows = [("True", "x")[k // 40_000 % 2] if k % 2 else "False" for k in range(80_000)]
    frame = pd.DataFrame({"f": rows, "padding": "1.5", "t": np.arange(80_000) % 2})
    frame["padding"] = 1.123456789e-17 + np.arange(80_000)
    for text in (frame, frame.iloc[::-1]):
        assert load("t.csv", text.to_csv(index=False)).features == ("f=False", "f=True", "f=x", "padding")
    assert load("t.csv", "x,t\n" + "1,True\n2,False\n" * 5).classes == ("False", "True")
    assert load("t.csv", "x,t\n" + "1,true\n2,false\n" * 5).classes == ("false", "true")
    assert load("t.csv", "x,t\n" + "1,True\n2,False\n3,other\n" * 5).classes == ("False", "True", "other")
    dummies = pd.get_dummies(pd.DataFrame({"x": [1, 2, 3] * 4, "t": ["a", "b", "c"] * 4})).to_csv(index=False)
    assert load("t.csv", dummies, target="t_a,t_b,t_c").classes == ("t_a", "t_b", "t_c")
    with pytest.raises(UsageError, match="look like one-hot targets"):
        load("t.csv", dummies)
    mixed = "f,x,t\n" + "True,1.5,0\n" * 100_000 + "False,1.5,1\n" + "7,2.5,1\n" * 200_000
    with pytest.raises(DataError, match="column 'f' holds"):
        load("t.csv", mixed)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_are_refused_as_dates_are(load, tmp_path, unit):
    """Their bare integers were inputs, whatever the unit."""
    seconds = [*range(-2, 9), 90_000]
    table = pa.table(
        {"x": [*range(12)], "d": pa.array(pd.to_timedelta(seconds, "s").as_unit(unit)), "t": ["a", "b"] * 6}
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    assert pq.read_table(io.BytesIO(buffer.getvalue())).schema.field("d").type.unit == unit
    text = table.to_pandas().to_csv(index=False)
    for name, content in (("t.parquet", buffer.getvalue()), ("t.csv", text)):
        with pytest.raises(
            DataError, match=r"column 'd' holds dates or times, such as '-1 days.*--drop d leaves"
        ) as told:
            load(name, content)
        assert "or write them as numbers, such as days since a day, or seconds" in str(told.value)
        assert load(name, content, drop=("d",)).features == ("x",)
    record = fitted(load("t.csv", "x,d,t\n" + "1,2,0\n2,1,1\n" * 5), rows=np.arange(10))
    with pytest.raises(DataError, match="column 'd' must hold numbers; got '-1 days 23:59:58'"):
        read_new_rows(tmp_path / "t.parquet", record)


def test_row_numbers_without_a_name_are_no_input(load):
    buffer = io.StringIO()
    pd.DataFrame({"a": [0.5, 0.25, 4], "t": [0, 1, 0]}).to_csv(buffer)
    dataset = load("t.csv", buffer.getvalue())
    assert dataset.features == ("a",)
    assert dataset.notes[1] == "left out: the nameless first column, an index of the rows"
    assert dataset.decisions == dataset.notes
    assert load("t.csv", "i,a,t\n0,0.5,0\n1,0.25,1\n2,4,0\n").features == ("i", "a")


def test_a_file_is_prepared_once_for_each_content_and_set_of_options(load, tmp_path, monkeypatch):
    first = load("t.csv", CSV)
    with monkeypatch.context() as patch:
        patch.setattr(userfile, "prepare", None)  # any call would fail
        assert load("t.csv", CSV).checksum == first.checksum
    changed = load("t.csv", CSV + "green,4,b\n")
    assert changed.n == 4
    assert load("t.csv", CSV, target="colour").classes == ("blue", "red")
    folders = sorted(path.name for path in (tmp_path / "cache" / "files").iterdir())
    assert len(folders) == 3
    assert all(name.startswith("t.csv-") for name in folders)


def test_a_damaged_cache_is_made_anew(load, tmp_path):
    first = load("t.csv", CSV)
    (header,) = (tmp_path / "cache").rglob("header.json")
    header.write_text("{")
    with pytest.warns(GpbenchWarning, match=r"t\.csv-\w+: the prepared data set is damaged .*; it has been made anew"):
        again = load("t.csv", CSV)
    assert again.checksum == first.checksum
    assert again.notes == first.notes


def test_who_comes_while_a_file_is_prepared_waits_for_it(load, tmp_path, monkeypatch):
    made, opened, told, came, prepare = [], [], [], threading.Event(), userfile.prepare

    def progress(*said):
        told.append(said)
        came.set()

    def ask():
        opened.append(load_file(tmp_path / "t.csv", cache=tmp_path / "cache", progress=progress))

    other = threading.Thread(target=ask)

    def prepared_once(*args, **options):
        made.append(args)
        if len(made) == 1:
            other.start()
            came.wait()
        came.set()
        return prepare(*args, **options)

    monkeypatch.setattr(userfile, "prepare", prepared_once)
    first = load("t.csv", CSV)
    other.join()
    assert len(made) == 1
    assert opened[0].checksum == first.checksum
    ((words, *_),) = told
    assert re.fullmatch(r"waiting for process \d+ on .*, which prepares t\.csv", words)


def test_what_another_process_has_made_anew_of_a_damaged_form_stays(load, tmp_path, monkeypatch):
    load("t.csv", CSV)
    (header,) = (tmp_path / "cache").rglob("header.json")
    header.write_text("{")
    mark, look = header.with_name("made anew"), prepared.open_prepared

    def interleaved(folder):
        try:
            return look(folder)
        except DataError:
            monkeypatch.setattr(prepared, "open_prepared", look)
            with pytest.warns(GpbenchWarning, match="it has been made anew"):
                load("t.csv", CSV)
            mark.touch()
            raise

    monkeypatch.setattr(prepared, "open_prepared", interleaved)
    load("t.csv", CSV)
    assert mark.exists()


def test_columns_of_pandas_own_types(load):
    frame = pd.DataFrame(
        {"i": pd.array([1, None, 3], dtype="Int64"), "b": pd.array([True, False, None], dtype="boolean")}
    )
    frame["t"] = pd.array([1, 0, None], dtype="Int64")
    content = parquet(frame)
    with pytest.raises(
        DataError, match=r"t\.parquet, row 2: missing values in column i \(1\), b \(1\); missing targets"
    ):
        load("t.parquet", content)


def test_files_that_are_not_there_or_of_no_known_kind(tmp_path):
    with pytest.raises(DataUnavailable, match="there is no such file; give the path of an existing file") as caught:
        load_file(tmp_path / "none.csv", cache=tmp_path)
    assert caught.value.exit_code == 3
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(DataUnavailable, match="it is a folder"):
        load_file(tmp_path / "d.csv", cache=tmp_path)
    with pytest.raises(UsageError, match=r"x\.xlsx: unknown kind of file; expected \.csv, "):
        load_file(tmp_path / "x.xlsx", cache=tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "t.csv, line 1: expected rows; the file is empty"),
        (b"\x00\x01\x02" * 99, "t.csv, line 1: expected text; got binary data"),
        (b"a,a,t\n1,2,3\n", "t.csv, line 1: column names must differ"),
        (b"a,b,t\n1,2,0\n1,2\n", "t.csv, line 3: expected 3 values; got 2"),
        (b"a,t\n1,0\ninf,1\n", "t.csv, line 3: infinite values in column a"),
        (b"a,b,t\n", "t.csv, line 1: expected rows; the file holds a header only"),
        (
            b"a;t\n1,5;0\n-2,5;1\n1,5;0\n",
            "t.csv, line 2: column 'a' holds numbers; got '1,5' (3 of 3 values are no num",
        ),
        (
            b"id,t\n" + b"".join(b"u%d,%d\n" % (k, k % 2) for k in range(21)),
            "t.csv: column 'id' is no category: its 21 values differ in every row, such as 'u0'; drop it",
        ),
        (b"c,t\nu,0\nv,1\n,0\n", "t.csv, line 4: missing values in column c (1); this is the first such row"),
        (b"a,t\n1,0\n2,0\n", "t.csv: column 't': all targets are '0'; expected at least two classes"),
        (b"t\n1\n0\n", "t.csv: expected at least one input column beside the target; got t"),
    ],
)
def test_broken_files(load, tmp_path, content, message):
    with pytest.raises(DataError) as caught:
        load("t.csv", content)
    assert message in str(caught.value)
    assert not list((tmp_path / "cache").rglob("*.npy"))


def test_formats_by_suffix():
    assert file_format("a/b.data") == "csv"
    assert file_format("x.libsvm.bz2") == "libsvm"
    assert file_format("x.Z") is None
    assert file_format("higgs") is None
    assert file_format("archive.tar.gz") is None


def test_one_hot_targets_never_become_inputs(load):
    table = "x,y0,y1,y2\n0.5,1,0,0\n1.5,0,1,0\n2.5,0,0,1\n3.5,1,0,0\n"
    with pytest.raises(UsageError, match=r"the last 3 columns look like one-hot .* --target y0,y1,y2, or --target y2"):
        load("t.csv", table)
    dataset = load("t.csv", table, target="y0,y1,y2")
    assert dataset.features == ("x",)
    assert dataset.task == "multiclass"
    assert dataset.y.tolist() == [0, 1, 2, 0]
    assert load("t.csv", table, target="y2").features == ("x", "y0", "y1")


def test_indicator_inputs_are_no_one_hot_targets(load):
    dataset = load("t.csv", "a,b,y\n1,0,1\n0,1,1\n1,1,0\n0,0,0\n")
    assert dataset.features == ("a", "b")
    assert dataset.task == "binary"


def test_a_file_whose_inputs_are_all_left_out(load):
    with pytest.raises(DataError, match="one input column beside the target; got a, b, t, with a, b left out"):
        load("t.csv", b"a,b,t\n1,2,0\n3,1,1\n", target="t", drop=("a", "b"))
