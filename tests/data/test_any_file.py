"""Any file, under any name and options, becomes a data set or is refused in good order. `make fuzz` draws others."""

import bz2
import gzip
import io
import json
import lzma
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gpbench.data.newrows import new_rows, read_new_rows
from gpbench.data.options import FILE_FORMATS, FileOptions
from gpbench.data.prepared import open_prepared
from gpbench.data.record import Preparation, fitted
from gpbench.data.userfile import load_file
from gpbench.errors import DataError, GpbenchError, UsageError

CSV = b'id,c,"a b",when,t\n1,red,0.5,2024,yes\n2,blue,NA,2025,no\n3,"re\nd",1e3,2023,yes\n'
ARFF = (
    b"@relation r % c\n@attribute 'a b' real\n@attribute c {x,'y z'}\n@attribute t {0,1}\n"
    b"@data\n1,x,0\n{0 2, 2 1}\n?,'y z',1 % c\n"
)
SVM = b"-1 1:0.5 3:2 # c\n+1 2:-1e3\n+1 1:7 2:0\n-1\n"


def npz():
    buffer = io.BytesIO()
    np.savez(buffer, X=np.arange(8.0).reshape(4, 2), y=np.array(["a", "b", "a", "b"]))
    return buffer.getvalue()


def parquet():
    buffer = io.BytesIO()
    table = pd.DataFrame({"i": [3, 1, 2], "a": [0.5, None, 2], "c": ["x", "y", None], "t": [0, 1, 1]})
    table.set_index("i").to_parquet(buffer)
    return buffer.getvalue()


def zipped(content, name="in.csv"):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
        archive.writestr("__MACOSX/._" + name, b"fork")
    return buffer.getvalue()


FILES = {
    "t.csv": CSV,
    "t.tsv": CSV.replace(b",", b"\t"),
    "t.txt": SVM,
    "t.arff": ARFF,
    "t.svm": SVM,
    "t.npz": npz(),
    "t.parquet": parquet(),
    "t.csv.gz": gzip.compress(CSV),
    "t.csv.bz2": bz2.compress(CSV),
    "t.csv.xz": lzma.compress(CSV),
    "t.csv.zst": pa.compress(CSV, codec="zstd", asbytes=True),
    "t.zip": zipped(CSV),
    "t.parquet.zip": zipped(parquet(), "in.parquet"),
}
WORDS = [
    "NA",
    "nan",
    "inf",
    "1:2",
    "@data",
    "@attribute",
    "sep=;",
    "12%",
    "2024-01-02",
    "1,000",
    "\x1e",
    "\ufeff",
    "é",
    "9007199254740993",
    "-999",
    "None",
    "{0.5}",
    "<NA>",
]
PIECES = st.sampled_from([*"0123456789.,;+-eE \t\n\r\"'?%{}@#:<>=$/\\", *WORDS, '"a\nb"', ", {0.5}", "{1 2}"])
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "target": st.sampled_from(["t", "0", "-1", "c", "a b,t", "x9"]),
        "task": st.sampled_from(["binary", "multiclass", "count", "ordinal"]),
        "impute": st.just("median"),
        "missing": st.sampled_from([("None",), ("-NA",), ("-999", "12%"), ("1",)]),
        "drop": st.sampled_from([("id",), ("0",), ("when",), ("c", "t")]),
        "header": st.booleans(),
        "file_format": st.sampled_from(FILE_FORMATS),
        "member": st.sampled_from(["in.csv", "x"]),
    },
)


def load_or_refuse(name, data, options):
    """Load and fit and predict what a file holds; whatever is refused is refused with a message."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        try:
            dataset = load_file(path, options=FileOptions(**options), cache=Path(folder) / "cache")
            record = fitted(dataset, rows=np.arange(dataset.n))
            X = record.scaling.apply(np.asarray(dataset.X))
            assert np.isfinite(X).all()
            assert X.shape == (dataset.n, record.scaling.width)
            again = Preparation.from_json(json.loads(json.dumps(record.to_json())))
            found = read_new_rows(path, again, options=FileOptions(file_format=options.get("file_format")))
            assert found.X.shape[1] == X.shape[1]
        except GpbenchError as error:
            assert len(str(error)) > 10  # noqa: PT017 - the message is all that is asked for
            assert not list(Path(folder).rglob("*.partial"))


def mutated(draw, data):
    """A file of which some bytes were changed, left out, doubled, or replaced by pieces that mean something."""
    data = bytearray(data)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        kind = draw(st.sampled_from(["byte", "piece", "cut", "double"]))
        if kind == "byte" and data:
            data[at] = draw(st.integers(0, 255))
        elif kind == "piece":
            data[at:at] = draw(PIECES).encode()
        elif kind == "cut":
            del data[at : at + draw(st.integers(1, 9))]
        else:
            data[at:at] = data[at : at + draw(st.integers(1, 60))]
    return bytes(data)


@pytest.mark.parametrize("name", FILES)
@given(st.data(), OPTIONS)
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_mutated_files(name, data, options):
    load_or_refuse(name, mutated(data.draw, FILES[name]), options)


@given(
    st.sampled_from(sorted(FILES)), st.lists(PIECES, max_size=60).map(lambda parts: "".join(parts).encode()), OPTIONS
)
@example("t.csv", b"\x1e,1\n\x1e,2\n", {})
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_pieces(name, data, options):
    load_or_refuse(name, data, options)


VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "t.csv").write_text("c,a,t\n" + "u,1,0\nv,2,1\n" * 3)
    return load_file(folder / "t.csv", cache=folder), next(folder.glob("files/*"))


@given(st.data())
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_record_is_read_or_refused(prepared, data):
    dataset, folder = prepared
    content = fitted(dataset, rows=np.arange(6)).to_json()
    for _ in range(data.draw(st.integers(1, 3))):
        part = data.draw(st.sampled_from([content, content.get("scaling"), content.get("features")]))
        if isinstance(part, dict) and part:
            part[data.draw(st.sampled_from(sorted(part)))] = data.draw(VALUES)
        elif isinstance(part, list) and part:
            part[data.draw(st.integers(0, len(part) - 1))] = data.draw(VALUES)
    try:
        record = Preparation.from_json(content)
        new_rows(pd.DataFrame({"c": ["u"], "a": [1.0]}), record)
    except (DataError, UsageError):
        pass
    header = json.loads((folder / "header.json").read_text())
    whole = (folder / "header.json").read_text()
    header[data.draw(st.sampled_from(sorted(header)))] = data.draw(VALUES)
    (folder / "header.json").write_text(json.dumps(header))
    try:
        open_prepared(folder)
    except DataError:
        pass
    finally:
        (folder / "header.json").write_text(whole)
