"""IDX, the format of MNIST: magic, dimensions, then bytes or numbers, big-endian."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from gpbench.data.formats.frames import Frames, beside, column_names, frame, too_wide
from gpbench.data.formats.source import open_bytes
from gpbench.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_idx"]

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_BLOCK_BYTES = 16 << 20


def read_idx(path: str | Path, *, labels: str | Path | None = None, member: str | None = None) -> Frames:
    """Rows of an IDX file: one column named ``target`` for a vector, else x1, x2, ... (all but the first axis, flat).

    Parameters
    ----------
    path : path
        The file, plain or compressed.
    labels : path, optional
        A second IDX file whose vector becomes the last column.
    member : str, optional
        Name inside an archive.

    Raises
    ------
    DataError
        Naming the file and the row: wrong magic, too short, too long, labels that do not match.
    """
    if labels is not None:
        return beside(_read(path, member), _read(labels, None))
    return _read(path, member)


def _read(path: str | Path, member: str | None) -> Frames:
    with open_bytes(path, member=member) as source:
        head = source.read(4)
        if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _TYPES or not 1 <= head[3] <= 8:
            raise DataError(f"{source.name}, row 0: expected the magic number of an IDX file; got {head!r}")
        sizes = source.read(4 * head[3])
        if len(sizes) < 4 * head[3]:
            raise DataError(f"{source.name}, row 0: the file ends within its header")
        shape = struct.unpack(f">{head[3]}I", sizes)
        kind = np.dtype(_TYPES[head[2]])
        width = 1
        for size in shape[1:]:
            width *= size
        if not shape[0] or not width or width * kind.itemsize > _BLOCK_BYTES:
            raise DataError(f"{source.name}, row 0: expected rows of 1 to {_BLOCK_BYTES} bytes; got shape {shape}")
        too_wide(width, where=f"{source.name}, row 0")
        names: list[str] | None = None
        step = max(1, _BLOCK_BYTES // (width * 8))
        done = 0
        while done < shape[0]:
            count = min(step, shape[0] - done)
            data = source.read(count * width * kind.itemsize)
            if len(data) < count * width * kind.itemsize:
                rows = done + len(data) // (width * kind.itemsize)
                raise DataError(f"{source.name}, row {rows + 1}: the file ends; its header promises {shape[0]} rows")
            if names is None:  # once there is a row: a header can promise anything
                names = column_names(width) if len(shape) > 1 else ["target"]
            values = np.frombuffer(data, dtype=kind).reshape(count, width)
            yield frame(
                values.astype(kind.newbyteorder("=")),
                names=names,
                numbers=range(done + 1, done + count + 1),
                source=source.name,
                unit="row",
                read=source.position,
                total=source.total,
            )
            done += count
        if source.read(1):
            raise DataError(f"{source.name}, row {shape[0]}: data go on after the last row that the header promises")
