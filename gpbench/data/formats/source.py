"""Opening a file's bytes: plain, compressed (gzip, bzip2, xz, zstd, Unix compress), or the member of an archive.

Members are read by name and never extracted, so an archive cannot write anywhere. What the first bytes say counts, not
the suffix: servers and browsers unpack files without renaming them.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import tempfile
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self, cast

from gpbench.data.formats.unixz import UnixZ
from gpbench.errors import DataError, GpbenchError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BOMB_BYTES", "BOMB_RATIO", "Source", "open_bytes", "open_seekable", "reading", "zip_members"]


BOMB_BYTES = 256 << 20
"""Bytes that any file may unpack to."""

BOMB_RATIO = 250
"""Times its own size that a larger one may unpack to; tables of zeros with a few ones come to some hundred."""


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn whatever a reader trips over into a :class:`DataError` that names the file.

    zlib, bz2, zipfile, scipy and pyarrow raise a dozen unrelated types on damaged files, and the list grows with their
    versions; so this one place catches all of them.
    """
    try:
        yield
    except GpbenchError:
        raise
    except FileNotFoundError:
        raise DataError(f"{name}: no such file") from None
    except EOFError as error:
        raise DataError(f"{name}: the file ends too early ({error})") from error
    except MemoryError as error:
        raise DataError(f"{name}: the file announces more data than memory holds") from error
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror or error})") from error
    except Exception as error:
        raise DataError(f"{name}: damaged or of another format ({type(error).__name__}: {error})") from error


class _Counted(io.RawIOBase):
    """Raw file that remembers how far it was read."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self.position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override] # typeshed's WriteableBuffer is private
        count = self._file.readinto(buffer)
        # The furthest byte: archives are read back and forth, but progress only grows.
        self.position = max(self.position, self._file.tell())
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class Source:
    """An open file: its bytes, its name for messages, and how much of it was read.

    Attributes
    ----------
    name : str
        File name, with the member's after ``!``.
    stream : binary file
        The content, decompressed.
    total : int
        Size of the file on disk, in bytes.
    """

    def __init__(self, name: str, *, stream: IO[bytes], total: int, raw: _Counted, layers: list[IO[bytes]]) -> None:
        self.name = name
        self.stream = stream
        self.total = total
        self._raw = raw
        self._layers = layers
        self._unpacked = 0

    @property
    def position(self) -> int:
        """Bytes of the file on disk that were read."""
        return min(self._raw.position, self.total)

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, less only at the end.

        Raises
        ------
        DataError
            Truncated, corrupted, or unpacking to far more than a table does.
        """
        parts: list[bytes] = []
        missing = size
        with reading(self.name):
            while missing > 0 and (part := self.stream.read(missing)):
                parts.append(part)
                missing -= len(part)
        self._unpacked += size - missing
        if self._unpacked > BOMB_BYTES and self._unpacked > BOMB_RATIO * max(1, self.position):
            raise DataError(f"{self.name}: unpacks to more than {BOMB_RATIO} times its size: an archive bomb?")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for layer in reversed(self._layers):
            layer.close()


def open_bytes(path: str | Path, *, member: str | None = None) -> Source:
    """Open a file, or an archive's member, decompressed; a context manager.

    Parameters
    ----------
    path : path
        Plain, .gz, .bz2, .xz, .zst, .Z; .zip, .tar and compressed .tar.
    member : str, optional
        Name inside the archive. A zip file with one member needs none; what a Mac puts beside it does not count.

    Raises
    ------
    DataError
        No such file or member, unreadable, or not an archive.
    """
    path = Path(path)
    name = path.name
    with reading(name):
        if path.is_dir():
            raise DataError(f"{name}: expected a file; got a folder")
        total = path.stat().st_size
        raw = _Counted(path)
    layers = [cast("IO[bytes]", raw)]
    try:
        with reading(f"{name}, line 1"):
            stream = _decompressed(io.BufferedReader(raw, 1 << 20), layers)
            if member is not None or _begins(stream, b"PK\x03\x04"):
                stream, name = _member(stream, member, name, layers)
    except BaseException:
        for layer in reversed(layers):
            layer.close()
        raise
    return Source(name, stream=stream, total=total, raw=raw, layers=layers)


@contextmanager
def open_seekable(path: str | Path, *, member: str | None = None) -> Iterator[tuple[IO[bytes], str]]:
    """Open for readers that jump about (parquet, npz, mat): decompressed into a temporary file where need be.

    Yields
    ------
    (file, name)
        The binary file, and its name for messages.
    """
    path = Path(path)
    with reading(path.name):
        with path.open("rb") as plain:
            packed = member is not None or path.suffix.lower() == ".zip" or _codec(plain.read(16)) is not None
            if not packed:
                plain.seek(0)
                yield plain, path.name
                return
        with open_bytes(path, member=member) as source, tempfile.TemporaryFile() as unpacked:
            while block := source.read(1 << 20):
                unpacked.write(block)
            unpacked.seek(0)
            yield unpacked, source.name


def _codec(head: bytes) -> str | None:
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if head.startswith(b"BZh") and head[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return "bz2"
    if head.startswith(b"\xfd7zXZ\x00"):
        return "xz"
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return "zstd"
    if head.startswith(b"\x1f\x9d"):
        return "compress"
    return None


def _begins(stream: io.BufferedReader, magic: bytes) -> bool:
    return stream.peek(len(magic))[: len(magic)] == magic


def _decompressed(stream: io.BufferedReader, layers: list[IO[bytes]]) -> io.BufferedReader:
    """The stream under its compression, if there is one (one layer)."""
    codec = _codec(stream.peek(16)[:16])
    inner: io.BufferedIOBase | io.RawIOBase
    if codec == "gzip":
        inner = gzip.GzipFile(fileobj=stream)
    elif codec == "bz2":
        inner = bz2.BZ2File(stream)
    elif codec == "xz":
        inner = lzma.LZMAFile(stream)  # noqa: SIM115 - the layers close it
    elif codec == "zstd":
        from pyarrow import CompressedInputStream, PythonFile  # noqa: PLC0415 - slow to import, and most are gzip

        inner = CompressedInputStream(PythonFile(stream, mode="r"), "zstd")
    elif codec == "compress":
        inner = UnixZ(stream)
    else:
        return stream
    layers.append(cast("IO[bytes]", inner))
    return io.BufferedReader(cast("io.RawIOBase", inner), 1 << 20)


def _member(
    stream: io.BufferedReader, member: str | None, name: str, layers: list[IO[bytes]]
) -> tuple[io.BufferedReader, str]:
    """Open the member of an archive."""
    opened: IO[bytes] | None
    if _begins(stream, b"PK"):
        archive = zipfile.ZipFile(stream)
        held = [info.filename for info in archive.infolist() if not info.is_dir()]
        files = [each for each in held if not _resource_fork(each)]
        if member is None and len(files) != 1:
            example = f"{name}::{files[0]}" if files else "ARCHIVE::MEMBER"
            raise DataError(f"{name}: holds {len(files)} files, say which ({example}): {_some(files)}")
        member = files[0] if member is None else member
        if member not in held:
            raise DataError(f"{name}: no member {member!r}; it holds {_some(files)}")
        opened = archive.open(member)
    else:
        assert member is not None
        opened = _tar_member(stream, member, name)
    layers.append(opened)
    inner: io.BufferedReader = io.BufferedReader(cast("io.RawIOBase", opened), 1 << 20)
    return _decompressed(inner, layers), f"{name}!{member}"


def _resource_fork(member: str) -> bool:
    """Whether a Mac wrote this beside the files that were meant."""
    *folders, last = member.split("/")
    return "__MACOSX" in folders or last.startswith("._") or last == ".DS_Store"


def zip_members(path: str | Path) -> list[str]:
    """Names of a zip file's members, without what a Mac puts beside them; none if it is no zip file.

    Raises
    ------
    DataError
        It cannot be read.
    """
    path = Path(path)
    with reading(path.name):
        with path.open("rb") as file:
            if file.read(4) != b"PK\x03\x04":
                return []
        with zipfile.ZipFile(path) as archive:
            held = [info.filename for info in archive.infolist() if not info.is_dir()]
    return [each for each in held if not _resource_fork(each)]


def _tar_member(stream: io.BufferedReader, member: str, name: str) -> IO[bytes]:
    seen: list[str] = []
    try:
        archive = tarfile.open(fileobj=stream, mode="r|")  # noqa: SIM115 - the caller reads on
        for info in archive:
            seen.append(info.name)
            if info.name == member:
                found = archive.extractfile(info) if info.isfile() else None
                if found is None:
                    raise DataError(f"{name}: member {member!r} is no plain file")
                return found
    except tarfile.ReadError as error:
        raise DataError(f"{name}: expected an archive with a member {member!r}; {error}") from error
    raise DataError(f"{name}: no member {member!r}; it holds {_some(seen)}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "") if names else "nothing"
