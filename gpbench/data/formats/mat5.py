"""The binary form of MATLAB's .mat files, version 5 to 7: numbers, texts and cells of them, every length checked.

scipy's reader follows the lengths in a file without checking them all, and a damaged file can end the process. A file
is a header of 128 bytes and a sequence of elements: a tag (type, number of bytes), then the data, padded to 8 bytes. An
array is an element that holds others: flags, dimensions, name, values; it may be packed by zlib.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpbench.data.formats.source import BOMB_BYTES, BOMB_RATIO

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CLASSES", "Variable", "variables"]

CLASSES = {
    1: "cell",
    2: "struct",
    3: "object",
    4: "char",
    5: "sparse",
    6: "double",
    7: "single",
    8: "int8",
    9: "uint8",
    10: "int16",
    11: "uint16",
    12: "int32",
    13: "uint32",
    14: "int64",
    15: "uint64",
    16: "function",
    17: "opaque",
}
"""Classes of MATLAB's arrays; those from 6 to 15 are numeric."""

_ARRAY_TYPES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_DATA_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_WIDE_TYPES = {4, 17}
_MATRIX, _PACKED = 14, 15
_COMPLEX = 0x0800
_HEAD_BYTES = 4096


@dataclass(frozen=True)
class Variable:
    """One array of a file.

    Attributes
    ----------
    name : str
        Its name.
    kind : str
        A value of :data:`CLASSES`.
    """

    name: str
    kind: str
    _data: bytes
    _packed: bool
    _order: str

    def array(self) -> npt.NDArray[Any]:
        """The numbers, in MATLAB's shape.

        Raises
        ------
        ValueError
            Not numeric, complex, or damaged.
        """
        content = self._content()
        flags, shape, _, position = _head(content, self._order)
        if flags & 0xFF not in _ARRAY_TYPES:
            raise ValueError(f"{self.name!r} is no numeric array but {self.kind}")
        if flags & _COMPLEX:
            raise ValueError(f"{self.name!r} holds complex numbers")
        code, values, _ = _element(content, position, self._order)
        if code not in _DATA_TYPES:
            raise ValueError(f"{self.name!r} holds values of unknown type {code}")
        stored = np.dtype(self._order + _DATA_TYPES[code])
        if len(values) != math.prod(shape) * stored.itemsize:
            raise ValueError(f"{self.name!r} has the shape {shape} but {len(values)} bytes of values")
        flat = np.frombuffer(values, dtype=stored)
        return flat.astype(_ARRAY_TYPES[flags & 0xFF]).reshape(shape, order="F")

    def cells(self) -> list[Variable]:
        """The arrays in a cell array, in MATLAB's order; they have no names.

        Raises
        ------
        ValueError
            No cell array, or damaged.
        """
        content = self._content()
        flags, shape, _, position = _head(content, self._order)
        if CLASSES.get(flags & 0xFF) != "cell":
            raise ValueError(f"{self.name!r} is no cell array but {self.kind}")
        found: list[Variable] = []
        while len(found) < math.prod(shape):  # each takes eight bytes at least, so that the shape cannot lie for long
            code, data, position = _element(content, position, self._order)
            if code != _MATRIX:
                raise ValueError(f"{self.name!r} holds something else than arrays")
            kind = CLASSES.get(_head(data, self._order)[0] & 0xFF, "unknown") if data else "double"
            found.append(Variable("", kind, bytes(data), _packed=False, _order=self._order))
        return found

    def text(self) -> str:
        """The characters of a text; empty where there are none.

        Raises
        ------
        ValueError
            No text, or damaged.
        """
        content = self._content()
        if not content:
            return ""
        flags, _, _, position = _head(content, self._order)
        if CLASSES.get(flags & 0xFF) != "char":
            raise ValueError(f"{self.name!r} is no text but {self.kind}")
        code, values, _ = _element(content, position, self._order)
        wide = "utf-16-le" if self._order == "<" else "utf-16-be"
        return bytes(values).decode(wide if code in _WIDE_TYPES else "utf-8", "replace")

    def _content(self) -> memoryview:
        return memoryview(_unpacked(self._data, self._order) if self._packed else self._data)


def variables(file: IO[bytes]) -> Iterator[Variable]:
    """The arrays of a file; their values are decoded on demand.

    Raises
    ------
    ValueError
        Another format, or damaged.
    """
    header = file.read(128)
    if header[:8] == b"\x89HDF\r\n\x1a\n" or header.startswith(b"MATLAB 7.3"):
        raise ValueError("MATLAB 7.3 files are HDF5, which is not read; save with -v7")
    if len(header) < 128 or header[126:] not in (b"IM", b"MI"):
        raise ValueError("no MATLAB file of version 5 to 7")
    order = "<" if header[126:] == b"IM" else ">"
    while tag := file.read(8):
        if len(tag) < 8:
            raise ValueError("the file ends within a tag")
        code, size = struct.unpack(order + "II", tag)
        data = file.read(size)
        if len(data) < size:
            raise ValueError(f"the file ends within an array of {size} bytes")
        if code == _PACKED:
            start = zlib.decompressobj().decompress(data, _HEAD_BYTES)
            if len(start) < 8 or struct.unpack_from(order + "I", start)[0] != _MATRIX:
                continue
            flags, _, name, _ = _head(memoryview(start)[8:], order)
        elif code == _MATRIX:
            flags, _, name, _ = _head(memoryview(data), order)
        else:
            continue  # no variable
        yield Variable(name, CLASSES.get(flags & 0xFF, "unknown"), data, code == _PACKED, order)


def _unpacked(data: bytes, order: str) -> bytes:
    """Content of the one array in packed data; no more is unpacked than its tag announces."""
    stream = zlib.decompressobj()
    size = int(struct.unpack(order + "II", stream.decompress(data, 8))[1])
    if size > BOMB_BYTES and size > BOMB_RATIO * len(data):
        raise ValueError(f"an array unpacks to more than {BOMB_RATIO} times its size: a bomb?")
    content = stream.decompress(stream.unconsumed_tail, size)
    if len(content) < size:
        raise ValueError("an array is cut short")
    return content


def _head(content: memoryview, order: str) -> tuple[int, tuple[int, ...], str, int]:
    """Flags, shape and name of an array, and the position of its values."""
    code, flags, position = _element(content, 0, order)
    if code != 6 or len(flags) != 8:
        raise ValueError("an array has no flags")
    code, sizes, position = _element(content, position, order)
    if code != 5 or len(sizes) % 4 or not 8 <= len(sizes) <= 128:
        raise ValueError("an array has no dimensions")
    shape = struct.unpack(f"{order}{len(sizes) // 4}i", sizes)
    if min(shape) < 0:
        raise ValueError(f"an array has the shape {shape}")
    code, name, position = _element(content, position, order)
    if code not in (1, 2, 16):
        raise ValueError("an array has no name")
    return struct.unpack_from(order + "I", flags)[0], shape, bytes(name).decode("latin-1"), position


def _element(content: memoryview, position: int, order: str) -> tuple[int, memoryview, int]:
    """Type and data of the element at a position, and the position after it."""
    if position + 8 > len(content):
        raise ValueError("an array ends within a tag")
    code, size = struct.unpack_from(order + "II", content, position)
    start = position + 8
    after = start + size + -size % 8
    if code >> 16:  # a small element: type, size and up to four bytes of data in eight bytes
        code, size = code & 0xFFFF, code >> 16
        start, after = position + 4, position + 8
        if size > 4:
            raise ValueError("a small element is too large")
    if start + size > len(content):
        raise ValueError("an array is cut short")
    return code, content[start : start + size], after
