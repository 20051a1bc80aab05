import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpbench.data.newrows import new_rows, read_new_rows
from gpbench.data.options import FileOptions
from gpbench.data.record import Feature, Preparation, fitted
from gpbench.data.userfile import load_file
from gpbench.errors import DataError

TEXT = "id,c,x,z,k,t\n" + "".join(
    f"{k},{'uvw'[k % 3]},{k}.5,{'' if k == 5 else k * k},7,{['no', 'yes'][k % 2]}\n" for k in range(12)
)


@pytest.fixture
def model(tmp_path):
    """The data set of a file, and its record with the scaling of the first nine rows, through JSON."""

    def model(text=TEXT, name="t.csv", rows=9, **options):
        path = tmp_path / name
        path.write_text(text)
        options = {"drop": ("id",), "impute": "median"} if text is TEXT else options
        dataset = load_file(path, options=FileOptions(**options), cache=tmp_path / "cache")
        record = fitted(dataset, rows=np.arange(rows))
        return dataset, Preparation.from_json(json.loads(json.dumps(record.to_json())))

    return model


def test_new_rows_become_what_the_file_s_own_rows_became(model, tmp_path):
    dataset, record = model()
    expected = record.scaling.apply(np.asarray(dataset.X))
    found = read_new_rows(tmp_path / "t.csv", record)
    assert np.array_equal(found.X, expected)
    assert found.X.shape == (12, 5)  # three categories, x and z; k is constant
    assert found.numbers.tolist() == list(range(2, 14))
    assert found.notes == ["missing values of column z, filled as in training: 1"]
    table = pd.read_csv(tmp_path / "t.csv").sample(frac=1, axis=1, random_state=0)
    assert np.array_equal(new_rows(table, record).X, expected)
    assert np.array_equal(new_rows(table.drop(columns=["t", "id"]), record).X, expected)


def test_the_record_says_what_became_of_each_column(model):
    _, record = model()
    assert record.columns == ("id", "c", "x", "z", "k", "t")
    assert record.target == ("t",)
    assert record.classes == ("no", "yes")
    assert dict(record.dropped) == {"id": "dropped"}
    assert record.features[0] == Feature("c", "one-hot", ("u", "v", "w"))
    assert record.names == ("c=u", "c=v", "c=w", "x", "z", "k")
    assert record.scaling.constant.tolist() == [False] * 5 + [True]
    assert record.impute == "median"
    assert "NA" in record.missing


def test_an_unknown_category_is_none_of_the_known_and_is_counted(model):
    _, record = model()
    found = new_rows(pd.DataFrame({"c": ["u", "q", "q"], "x": [1, 2, 3], "z": [1, 2, 3], "k": [7, 7, 8]}), record)
    assert found.notes == ["unknown categories of column c, coded as none of the known: 2"]
    zeros = (0 - record.scaling.mean[:3]) / record.scaling.scale[:3]
    assert np.array_equal(found.X[1, :3], zeros)


def test_missing_values_are_filled_as_in_training_or_refused(model):
    _, record = model()
    found = new_rows(pd.DataFrame({"c": [None, "u"], "x": [np.nan, 2], "z": [1, np.nan], "k": [7, 7]}), record)
    assert np.isfinite(found.X).all()
    assert sum(found.counts.values()) == 3
    _, strict = model("a,t\n" + "1,0\n2,1\n" * 5)
    with pytest.raises(DataError, match=r"table, row 1: column 'a' has no value; the training rows had none missing"):
        new_rows(pd.DataFrame({"a": [1, np.nan]}), strict)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"b": [1.0]}, "table: expected the columns a; a not among b"),
        ({"a": ["x"]}, "table, row 0: column 'a' must hold numbers; got 'x'"),
        ({"a": [np.inf]}, "table, row 0: column 'a' holds an infinite value"),
    ],
)
def test_what_cannot_be_prepared(model, table, words):
    _, record = model("a,t\n" + "1,0\n2,1\n" * 5)
    with pytest.raises(DataError) as caught:
        new_rows(pd.DataFrame(table), record)
    assert words in str(caught.value)


def test_columns_without_names_go_by_their_places(model, tmp_path):
    dataset, record = model("1.5,2,a\n2.5,4,b\n" * 5)
    assert not record.named
    expected = record.scaling.apply(np.asarray(dataset.X))
    (tmp_path / "new.csv").write_text("1.5,2\n2.5,4\n")
    assert np.array_equal(read_new_rows(tmp_path / "new.csv", record).X, expected[:2])
    assert np.array_equal(read_new_rows(tmp_path / "t.csv", record).X, expected)
    (tmp_path / "wide.csv").write_text("1,2,3,4\n")
    with pytest.raises(DataError, match=r"wide.csv: expected 2 columns without names, or 3 with the target's; got 4"):
        read_new_rows(tmp_path / "wide.csv", record)


def coded(record, found):
    """The categories that rows were found to be of; None for none of the known."""
    scaling = record.scaling
    vary = ~scaling.constant
    names = [name for name, kept in zip(record.names, vary, strict=True) if kept]
    raw = found.X * scaling.scale[vary] + scaling.mean[vary]
    return [next((name for name, value in zip(names, row, strict=True) if value > 0.5), None) for row in raw]


WRITTEN = "".join(f"{c},{t}\n" for c in ("01", "1.0", "2", "u", "x", "y", "z") for t in ("no", "yes"))


@pytest.mark.parametrize("name", ["c", "x1"])
def test_categories_that_look_like_numbers_are_known_as_they_are_written(model, tmp_path, name):
    header = {"c": "c,t\n", "x1": ""}[name]
    _, record = model(header + WRITTEN, rows=14, header=bool(header))
    assert record.named == bool(header)
    for values in (["01", "1.0", "2"], ["01", "1.0", "2", "x"]):
        (tmp_path / "new.csv").write_text(header[:1] + "\n" * record.named + "".join(f"{v}\n" for v in values))
        found = read_new_rows(tmp_path / "new.csv", record)
        assert found.notes == []
        assert coded(record, found) == [f"{name}={value}" for value in values]
    (tmp_path / "new.csv").write_text(header[:1] + "\n" * record.named + "1\n2.0\n")
    found = read_new_rows(tmp_path / "new.csv", record)
    assert found.notes == [f"unknown categories of column {name}, coded as none of the known: 2"]


def test_categories_that_were_numbers_throughout_go_by_their_values(model, tmp_path):
    _, record = model("c,x,t\n" + "1,1,0\n2,2,1\n" * 5, rows=10)
    scaling = replace(record.scaling, mean=np.zeros(2), scale=np.ones(2), constant=np.zeros(2, dtype=bool))
    record = replace(record, features=(Feature("c", "one-hot", ("1", "2")),), scaling=scaling)
    for more in ("", "y\n"):
        (tmp_path / "new.csv").write_text("c\n01\n2.0\n" + more)
        assert coded(record, read_new_rows(tmp_path / "new.csv", record))[:2] == ["c=1", "c=2"]


def test_the_words_for_missing_are_those_of_training(model, tmp_path):
    _, record = model("a,t\n" + "1,0\n2,1\nunknown,1\n" * 5, missing=("unknown",), impute="median")
    (tmp_path / "new.csv").write_text("a\n1\nunknown\n")
    assert read_new_rows(tmp_path / "new.csv", record).notes == ["missing values of column a, filled as in training: 1"]


@pytest.mark.parametrize("name", ["new.csv", "new.parquet"])
def test_a_number_that_stands_for_missing_does_so_in_any_spelling_and_format(model, tmp_path, name):
    table = pd.DataFrame({"a": [1.5, -999.0, 2.5, 3.0] * 3, "c": ["u", "none", "v", "v"] * 3, "t": [0, 1, 1, 0] * 3})
    _, record = model(table.to_csv(index=False), missing=("-999", "none"), impute="median", rows=12)
    new = table.head(4).drop(columns="t")
    new.to_csv(tmp_path / name, index=False) if name.endswith("csv") else new.to_parquet(tmp_path / name)
    found = read_new_rows(tmp_path / name, record)
    assert found.notes == [f"missing values of column {each}, filled as in training: 1" for each in "ac"]
    again = read_new_rows(tmp_path / name, record, options=FileOptions(missing=("v",)))
    assert again.counts["missing values of column c, filled as in training"] == 3


def test_a_word_that_training_kept_is_kept_and_can_be_given_back(model, tmp_path):
    _, record = model("c,x,t\n" + "NA,1,0\nDE,2,1\nFR,3,1\n" * 4, missing=("-NA",), rows=12)
    (tmp_path / "new.csv").write_text("c,x\nNA,1\n")
    assert coded(record, read_new_rows(tmp_path / "new.csv", record)) == ["c=NA"]
    with pytest.raises(DataError, match="column 'c' has no value"):
        read_new_rows(tmp_path / "new.csv", record, options=FileOptions(missing=("NA",)))
    _, filled = model("c,x,t\n" + "NA,1,0\nDE,2,1\nFR,3,1\n" * 4, impute="median", rows=12)
    found = read_new_rows(tmp_path / "new.csv", filled, options=FileOptions(missing=("-NA",)))
    assert found.notes == ["unknown categories of column c, coded as none of the known: 1"]


def test_words_that_a_record_knows_as_categories(model, tmp_path):
    """Earlier versions took an empty text in parquet, and NA, for categories; their models know them still."""
    _, record = model("c,x,t\n" + "NA,1,0\nDE,2,1\nFR,3,1\n" * 4, missing=("-NA",), rows=12)
    (feature, x) = record.features
    record = replace(record, features=(replace(feature, categories=("", "FR", "NA")), x), missing=("", "NA", "?"))
    new = pd.DataFrame({"c": ["NA", "", "FR"], "x": [1.0, 2.0, 3.0]})
    new.to_parquet(tmp_path / "new.parquet")
    assert coded(record, read_new_rows(tmp_path / "new.parquet", record)) == ["c=NA", "c=", "c=FR"]
    new.iloc[[0, 2]].to_csv(tmp_path / "new.csv", index=False)
    assert coded(record, read_new_rows(tmp_path / "new.csv", record)) == ["c=NA", "c=FR"]


def test_sparse_rows_have_the_features_of_training(model, tmp_path):
    dataset, record = model("1 1:1 3:2\n-1 2:3\n1 3:1\n-1 1:2\n", name="t.svm", rows=4)
    (tmp_path / "new.svm").write_text("0 1:1\n")
    assert read_new_rows(tmp_path / "new.svm", record).X.shape == (1, dataset.d)
    (tmp_path / "more.svm").write_text("0 4:1\n")
    with pytest.raises(DataError, match=r"more.svm, line 1: expected an index in 1\.\.3; got '4'"):
        read_new_rows(tmp_path / "more.svm", record)


def test_arrays_need_no_targets_beside_them(model, tmp_path):
    X, y = np.random.default_rng(0).normal(size=(8, 2)), np.arange(8) % 2
    np.savez(tmp_path / "t.npz", X=X, y=y)
    dataset = load_file(tmp_path / "t.npz", cache=tmp_path / "cache")
    record = fitted(dataset, rows=np.arange(8))
    expected = record.scaling.apply(np.asarray(dataset.X))
    bomb = np.array([object()] * 3, dtype=object)
    for more in ({}, {"y": y[:3]}, {"y": bomb}, {"t": y[:1]}):
        for new in (X[:3], np.asfortranarray(X[:3])):
            np.savez(tmp_path / "new.npz", X=new, **more)
            found = read_new_rows(tmp_path / "new.npz", record)
            assert np.array_equal(found.X, expected[:3])
    np.savez(tmp_path / "new.npz", y=y)
    with pytest.raises(DataError, match="expected an array of inputs named X or"):
        read_new_rows(tmp_path / "new.npz", record)
    other = fitted(
        load_file(tmp_path / "t.npz", cache=tmp_path / "cache", options=FileOptions(target="x1", task="ordinal")),
        rows=np.arange(8),
    )
    assert other.names == ("x2", "target")
    assert np.array_equal(read_new_rows(tmp_path / "t.npz", other).X[:, 0], expected[:, 1])


def test_names_that_come_again_among_columns_that_play_no_part(model, tmp_path):
    _, record = model("a,b,t\n" + "1,3,0\n2,1,1\n" * 5)
    expected = new_rows(pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 1.0]}), record).X
    names, rows = ["z", "a", "z", "b", "z (2)", "z"], [["u", 1.0, 5, 3.0, "v", 0], ["w", 2.0, 6, 1.0, "v", 0]]
    text = "\n".join(",".join(map(str, row)) for row in (names, *rows)) + "\n"
    (tmp_path / "new.csv").write_text(text)
    (tmp_path / "new.tsv").write_text(text.replace(",", "\t"))
    (tmp_path / "new.arff").write_text(
        "@relation r\n"
        + "".join(
            f"@attribute '{n}' {'string' if isinstance(v, str) else 'real'}\n"
            for n, v in zip(names, rows[0], strict=True)
        )
        + f"@data\n{text.partition(chr(10))[2]}"
    )
    columns = [pa.array([row[j] for row in rows]) for j in range(len(names))]
    columns[0] = pa.array([[1], [2, 3]])  # lists, which no input can be
    pq.write_table(pa.Table.from_arrays(columns, names=names), tmp_path / "new.parquet")
    for kind in ("csv", "tsv", "arff", "parquet"):
        assert np.array_equal(read_new_rows(tmp_path / f"new.{kind}", record).X, expected)
    (tmp_path / "new.csv").write_text("a,b,a\n1,2,3\n")
    with pytest.raises(DataError, match=r"new.csv, line 1: column names must differ; more than one is named a"):
        read_new_rows(tmp_path / "new.csv", record)
    _, record = model("1.5,2,a\n2.5,4,b\n" * 5, name="nameless.csv")
    (tmp_path / "new.csv").write_text("z,z\n1.5,2\n")
    assert len(read_new_rows(tmp_path / "new.csv", record, options=FileOptions(header=True)).X) == 1


ZERO_BASED = "1 0:1 2:2\n-1 1:3\n1 2:1\n-1 0:2\n"


def test_sparse_rows_count_from_where_training_did(model, tmp_path):
    dataset, record = model(ZERO_BASED, name="t.svm", rows=4)
    assert record.zero_based is True
    expected = record.scaling.apply(np.asarray(dataset.X))
    found = read_new_rows(tmp_path / "t.svm", record)
    assert np.array_equal(found.X, expected)
    assert found.notes == []
    (tmp_path / "new.svm").write_text("0 1:3\n0 2:1\n")  # no index 0 among them
    assert np.array_equal(read_new_rows(tmp_path / "new.svm", record).X, expected[1:3])
    (tmp_path / "new.svm").write_text("0 3:1\n")
    with pytest.raises(DataError, match=r"new.svm, line 1: expected an index in 0\.\.2; got '3'"):
        read_new_rows(tmp_path / "new.svm", record)
    _, record = model("1 1:1 3:2\n-1 2:3\n1 3:1\n-1 1:2\n", name="one.svm", rows=4)
    assert record.zero_based is False
    with pytest.raises(DataError, match=r"t.svm, line 1: expected an index in 1\.\.3; got '0'"):
        read_new_rows(tmp_path / "t.svm", record)


def test_a_record_that_does_not_say_where_indices_begin(model, tmp_path):
    """Those of earlier versions: the rows tell, or what is assumed is said."""
    dataset, record = model(ZERO_BASED, name="t.svm", rows=4)
    content = record.to_json()
    del content["zero_based"]
    record = Preparation.from_json(content)
    expected = record.scaling.apply(np.asarray(dataset.X))
    assert np.array_equal(read_new_rows(tmp_path / "t.svm", record).X, expected)
    (tmp_path / "new.svm").write_text("0 2:3\n")
    found = read_new_rows(tmp_path / "new.svm", record)
    assert np.array_equal(found.X, expected[1:2])
    assert "indices are taken to count from 1, of which the model does not tell" in found.notes[0]


@pytest.mark.parametrize(
    "change",
    [
        {"columns": None},
        {"zero_based": 1},
        {"features": [{"column": "a", "kind": "odd", "categories": [], "first": 0}]},
        {"features": [1]},
        {"scaling": {"mean": [1.0], "scale": [0.0], "constant": [False], "fill": None}},
        {"scaling": {"mean": [1.0, 2.0], "scale": [1.0, 1.0], "constant": [False, True], "fill": None}},
        {"scaling": {"mean": ["x"], "scale": [1.0], "constant": [False], "fill": None}},
        {"dropped": []},
        {"task": 3},
    ],
)
def test_a_record_that_is_none(model, change):
    _, record = model("a,t\n" + "1,0\n2,1\n" * 5)
    with pytest.raises(DataError, match="expected the record of a preparation; "):
        Preparation.from_json({**record.to_json(), **change})
    with pytest.raises(DataError, match="expected the record of a preparation; it lacks 'columns'"):
        Preparation.from_json({})
