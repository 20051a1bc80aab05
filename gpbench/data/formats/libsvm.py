"""LIBSVM's sparse text: ``label index:value index:value ...``, indices from 1, rising, zeros left out.

scikit-learn's reader takes each block of lines; where it fails, or where it would let pass what is no number (it reads
``1_0``), a slow reader goes through the block and names the line.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpbench.data.formats.dialect import is_number
from gpbench.data.formats.frames import MAX_COLUMNS, Frames, column_names, frame, too_wide
from gpbench.data.formats.lines import Block, blocks
from gpbench.data.formats.source import open_bytes
from gpbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["TARGET", "libsvm_extent", "looks_like_libsvm", "read_libsvm"]

TARGET = "target"
"""Name of the label's column, the last."""

_DENSE_BYTES = 32 << 20
_TEXT_BYTES = 4 << 20


def read_libsvm(
    path: str | Path, *, features: int | None = None, zero_based: bool = False, member: str | None = None
) -> Frames:
    """Rows of a LIBSVM file: columns x1 ... xd (float64) and ``target``, the last.

    A block's ``attrs["zero_based"]`` says whether indices were taken to count from 0.

    Parameters
    ----------
    path : path
        The file, plain or compressed.
    features : int, optional
        The width d. A file need not use its last features; without this the highest index decides (one more pass).
    zero_based : bool
        Whether indices count from 0; without ``features`` an index 0 says so, too.
    member : str, optional
        Name inside an archive.

    Raises
    ------
    DataError
        Naming file and line: no number, an index out of range or out of order.
    """
    if features is None:
        lowest, highest = libsvm_extent(path, member=member)
        zero_based = zero_based or lowest == 0
        features = max(highest + zero_based, 1)
    if features < 1:
        raise DataError(f"{Path(path).name}: expected at least one feature; got {features}")
    too_wide(features, where=Path(path).name, unit="features")
    names = [*column_names(features), TARGET]
    rows_at_once = max(1, _DENSE_BYTES // (8 * features))
    found = False
    with open_bytes(path, member=member) as source:
        for block in blocks(source, size=_TEXT_BYTES):
            for part in _split(block, rows_at_once):
                table, numbers = _dense(part, features, zero_based=zero_based)
                if len(table):
                    found = True
                    made = frame(
                        table,
                        names=names,
                        numbers=numbers,
                        source=block.name,
                        read=block.read,
                        total=block.total,
                    )
                    made.attrs["zero_based"] = zero_based
                    yield made
        if not found:
            raise DataError(f"{source.name}, line 1: expected rows; the file is empty")


def libsvm_extent(path: str | Path, *, member: str | None = None) -> tuple[int, int]:
    """Lowest and highest feature index of a file; (1, 0) if no row has a feature.

    Raises
    ------
    DataError
        Naming file and line.
    """
    lowest, highest = MAX_COLUMNS + 1, 0
    with open_bytes(path, member=member) as source:
        for block in blocks(source, size=_TEXT_BYTES):
            for number, line in block.lines():
                # Indices rise along a line, so the first and the last tell.
                fields = line.split(b"#", 1)[0].split()
                for field in (fields[1:2] + fields[-1:]) if len(fields) > 1 else []:
                    index = _index(field.partition(b":")[0], f"{block.name}, line {number}")
                    lowest, highest = min(lowest, index), max(highest, index)
    return (1, 0) if lowest > MAX_COLUMNS else (lowest, highest)


def looks_like_libsvm(lines: Sequence[bytes]) -> bool:
    """Whether lines that come under another name are LIBSVM's: a number, then index:value, the indices rising."""
    pairs = False
    for line in lines:
        label, *fields = line.split(b"#", 1)[0].split() or [b""]
        if not label:
            continue
        if not is_number(label.decode(errors="replace")):
            return False
        last = -1
        for field in fields:
            index, colon, value = field.partition(b":")
            if not (colon and index.isdigit() and len(index) <= 18 and is_number(value.decode(errors="replace"))):
                return False
            if int(index) <= last:
                return False
            last = int(index)
            pairs = True
    return pairs


def _split(block: Block, rows: int) -> Iterator[Block]:
    """Parts of a block with so few lines that they fit into memory when dense."""
    lines = block.data.splitlines(keepends=True)
    for start in range(0, len(lines), rows):
        data = b"".join(lines[start : start + rows])
        yield Block(data, block.first + start, block.name, block.read, block.total)


def _dense(block: Block, features: int, *, zero_based: bool) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    numbers = np.fromiter((number for number, line in block.lines() if not _comment(line)), dtype=np.int64)
    table = np.zeros((len(numbers), features + 1))
    if not len(numbers):
        return table, numbers
    loose = b"_" in block.data or b"#" in block.data or b"qid" in block.data
    quick = None if loose else _quick(block, features, zero_based=zero_based)
    if quick is None or len(quick) != len(numbers):
        return _slow(block, table, zero_based=zero_based), numbers
    return quick, numbers


def _quick(block: Block, features: int, *, zero_based: bool) -> npt.NDArray[np.float64] | None:
    """The block through scikit-learn; None if that fails, without a word on where."""
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415 - half a second, and most files are csv

    try:
        X, y = load_svmlight_file(io.BytesIO(block.data), n_features=features, zero_based=zero_based)
    except (ValueError, OverflowError):
        return None
    return np.column_stack([X.toarray(), y])


def _comment(line: bytes) -> bool:
    return line.lstrip().startswith(b"#")


def _slow(block: Block, table: npt.NDArray[np.float64], *, zero_based: bool) -> npt.NDArray[np.float64]:
    features = table.shape[1] - 1
    row = -1
    for number, line in block.lines():
        if _comment(line):
            continue
        row += 1
        where = f"{block.name}, line {number}"
        label, *fields = line.split(b"#", 1)[0].split()
        table[row, features] = _value(label, where, "a number as label")
        last = -1
        for field in fields:
            index_text, colon, value = field.partition(b":")
            if not colon:
                raise DataError(f"{where}: expected index:value; got {_shown(field)}")
            index = _index(index_text, where) - (not zero_based)
            if not 0 <= index < features:
                low = 0 if zero_based else 1
                raise DataError(f"{where}: expected an index in {low}..{features - 1 + low}; got {_shown(index_text)}")
            if index <= last:
                raise DataError(f"{where}: indices must rise; index {_shown(index_text)} does not")
            table[row, index] = _value(value, where, "a number")
            last = index
    return table


def _value(text: bytes, where: str, what: str) -> float:
    shown = text.decode(errors="replace")
    if not is_number(shown) or not shown.isascii():
        raise DataError(f"{where}: expected {what}; got {_shown(text)}")
    return float(shown)


def _index(text: bytes, where: str) -> int:
    if not text.isdigit():
        raise DataError(f"{where}: expected index:value with an integer index; got index {_shown(text)}")
    if len(text) > 18 or int(text) > MAX_COLUMNS:
        raise DataError(
            f"{where}: expected indices up to {MAX_COLUMNS:,}, the limit of features; "
            f"got index {text[:40].decode(errors='replace')}"
        )
    return int(text)


def _shown(text: bytes) -> str:
    return repr(text[:40].decode(errors="replace"))
