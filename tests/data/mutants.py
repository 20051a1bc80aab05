"""Small files of every kind, and what becomes of them at random: for the tests, and for hours of ``fuzz.py``."""

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

from gpbench.data.newrows import read_new_rows
from gpbench.data.options import FILE_FORMATS, FileOptions
from gpbench.data.record import Preparation, fitted
from gpbench.data.userfile import load_file
from gpbench.errors import GpbenchError

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
PIECES = [*"0123456789.,;+-eE \t\n\r\"'?%{}@#:<>=$/\\", *WORDS, '"a\nb"', ", {0.5}", "{1 2}"]
OPTIONS = {
    "target": ["t", "0", "-1", "c", "a b,t", "x9"],
    "task": ["binary", "multiclass", "count", "ordinal"],
    "impute": ["median"],
    "missing": [("None",), ("-NA",), ("-999", "12%"), ("1",)],
    "drop": [("id",), ("0",), ("when",), ("c", "t")],
    "header": [True, False],
    "file_format": sorted(FILE_FORMATS),
    "member": ["in.csv", "x"],
}


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


def mutated(chance, data, *, longest=60):
    """A file of which some bytes were changed, left out, doubled, or replaced by pieces that mean something.

    With ``longest`` a piece, or a part of the file, may come that often in a row.
    """
    data = bytearray(data)
    for _ in range(chance.randint(0, 4)):
        at = chance.randint(0, max(len(data) - 1, 0))
        kind = chance.choice(["byte", "piece", "cut", "double", "repeat"])
        if kind == "byte" and data:
            data[at] = chance.randint(0, 255)
        elif kind == "piece":
            data[at:at] = chance.choice(PIECES).encode()
        elif kind == "cut":
            del data[at : at + chance.randint(1, 9)]
        elif kind == "double":
            data[at:at] = data[at : at + chance.randint(1, 60)]
        else:
            part = chance.choice([chance.choice(PIECES).encode(), bytes(data[at : at + chance.randint(1, 60)])])
            data[at:at] = part * chance.choice([2, chance.randint(1, longest)])
    return bytes(data)


def some_options(chance):
    """Few or none of the options of a file, each with a value that may be out of place."""
    return {name: chance.choice(values) for name, values in OPTIONS.items() if chance.random() < 0.2}
