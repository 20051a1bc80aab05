"""The prepared form of a data set on disk: X.npy (memory-mapped), y.npy, given.npz where there are splits, header.json.

A folder appears whole or not at all: everything is written beside it and renamed. One process makes it, and the others
wait.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import shutil
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
import numpy.typing as npt

from gpbench.data.dataset import Dataset, GivenSplits, Ints
from gpbench.data.download import unwritable, why
from gpbench.data.record import Preparation
from gpbench.errors import DataError, GpbenchWarning
from gpbench.leases import alone, remove_unfinished, unfinished
from gpbench.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from gpbench.data.download import Progress
    from gpbench.leases import Holder

__all__ = [
    "PREPARED_FORMAT",
    "MatrixWriter",
    "UnreadableError",
    "open_prepared",
    "opened_or_made",
    "outdated",
    "partial_folder",
    "save_rest",
]

PREPARED_FORMAT = 2
_HEADER_BYTES = 128
_ATTEMPTS = 5
_MAGIC = b"\x93NUMPY\x01\x00"
_DAMAGED = frozenset({None, errno.EINVAL, errno.EISDIR, errno.ENOTDIR})
"""What the system says of what is no file, or of an archive that leads to no place in it."""


class UnreadableError(DataError):
    """A prepared data set is there and may well be whole: the system does not let it be read now, or has no memory."""


class MatrixWriter:
    """Writes an (n, d) ``.npy`` file row block by row block, n unknown until the end, and hashes it on the way.

    Plain writes and not a memory map: on a full disk a write fails with an error, where a memory map ends the process.
    """

    def __init__(self, path: Path, *, d: int, dtype: str) -> None:
        self.n = 0
        self._d = d
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._hash = hashlib.sha256()
        self._file = path.open("wb")
        self._file.write(b"\0" * _HEADER_BYTES)

    def write(self, rows: npt.NDArray[Any]) -> None:
        """Append rows (b, d)."""
        data = np.ascontiguousarray(rows, dtype=self._dtype)
        self._hash.update(data.data)
        self._file.write(data.data)
        self.n += len(data)

    def digest(self) -> bytes:
        """sha256 of the rows' bytes."""
        return self._hash.digest()

    def close(self) -> None:
        """Write the header, now that n is known."""
        if self._file.closed:
            return
        try:
            text = f"{{'descr': '{self._dtype.str}', 'fortran_order': False, 'shape': ({self.n}, {self._d}), }}"
            head = _MAGIC + (_HEADER_BYTES - 10).to_bytes(2, "little")
            self._file.seek(0)
            self._file.write(head + text.encode().ljust(_HEADER_BYTES - 11) + b"\n")
        finally:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self._file.close()


@contextmanager
def partial_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder beside ``folder``, renamed to it when the block ends well and removed when it does not.

    Raises
    ------
    DataError
        It cannot be written (a full disk, no permission).
    """
    partial, old = unfinished(folder), unfinished(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_unfinished(folder.parent)
        partial.mkdir()
        yield partial
        _move(partial, folder, old=old)
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(
            f"{folder}: cannot be written: {reason}; nothing half-made is left "
            "(GPBENCH_DATA can name another data folder)"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _move(partial: Path, folder: Path, *, old: Path) -> None:
    """Put the new folder in the old one's place; another process may be doing the same at this moment."""
    for attempt in range(_ATTEMPTS):
        try:
            if folder.exists():
                folder.replace(old)
            partial.replace(folder)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY) or attempt == _ATTEMPTS - 1:
                raise
            shutil.rmtree(old, ignore_errors=True)
        else:
            return


def save_rest(partial: Path, header: dict[str, Any], *, y: Ints, given: GivenSplits) -> None:
    """Write what stands beside X.npy; the header is written last."""
    np.save(partial / "y.npy", y, allow_pickle=False)
    if given:
        arrays = {f"{part}{i}": rows for i, split in enumerate(given) for part, rows in zip(_PARTS, split, strict=True)}
        np.savez_compressed(partial / "given.npz", **cast("dict[str, Any]", arrays))
    text = json.dumps({"format": PREPARED_FORMAT, **header, "given": len(given)}, indent=1)
    (partial / "header.json").write_text(text, encoding="utf-8")


_PARTS = ("train", "test")


def _array(path: Path, *, mmap_mode: Literal["r"] | None = None) -> npt.NDArray[Any]:
    """An array, of which NumPy would say that it may hold pickles, where it holds nonsense.

    Its header is held against the file first: NumPy asks for memory of the size that a damaged one promises.
    """
    with path.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise ValueError(f"{path.name} holds no array")
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        promised, there = stream.tell() + math.prod(shape) * dtype.itemsize, path.stat().st_size
        if promised > there:
            raise ValueError(f"{path.name} promises {promised} bytes and has {there}")
    array: npt.NDArray[Any] = np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    return array


def _given(path: Path, count: int) -> GivenSplits:
    """The publisher's splits. Where memory runs out, the archive's checksums say whether it was asked for nonsense."""
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
        try:
            return tuple((stored[f"train{i}"], stored[f"test{i}"]) for i in range(count))
        except MemoryError:
            if (name := stored.zip.testzip()) is not None:
                raise ValueError(f"{path.name} holds no array {name}") from None
            raise


def _check_targets(y: npt.NDArray[Any], *, classes: int) -> None:
    if y.dtype != np.int64 or (len(y) and (y.min() < 0 or (classes and y.max() >= classes))):
        raise ValueError(f"y.npy: expected numbers of {classes} classes, or counts")


def _check_format(folder: Path, found: object) -> None:
    if found != PREPARED_FORMAT:
        raise DataError(
            f"{folder}: expected a data set that was prepared in format {PREPARED_FORMAT}; got {found!r}, another "
            "version's; remove the folder"
        )


def outdated(folder: Path) -> bool:
    """Whether a prepared form that cannot be opened is of another version of gpbench, and not damaged."""
    try:
        header = json.loads((folder / "header.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    version = header.get("format") if isinstance(header, dict) else None
    return isinstance(version, int) and version != PREPARED_FORMAT


def open_prepared(folder: str | Path) -> Dataset:
    """Open a prepared data set; X is memory-mapped, read only.

    Raises
    ------
    DataError
        Not there, of another format, or damaged; the message says to remove the folder.
    UnreadableError
        The system does not let it be read (no permission, too many open files, a disk that fails), or there is not
        enough memory: nothing is said of what it holds.
    """
    folder = Path(folder)
    try:
        header = json.loads((folder / "header.json").read_text(encoding="utf-8"))
        X = _array(folder / "X.npy", mmap_mode="r")
        y = _array(folder / "y.npy")
        _check_format(folder, header["format"])
        promised = (header["format"], (header["n"], header["d"]), (header["n"],))
        given = _given(folder / "given.npz", header["given"]) if header["given"] else ()
        _check_targets(y, classes=len(header["classes"]))
        opened = Dataset(
            id=header["id"],
            title=header["title"],
            task=header["task"],
            X=X,
            y=y,
            classes=tuple(header["classes"]),
            features=tuple(header["features"]),
            checksum=header["checksum"],
            given=given,
            notes=tuple(header["notes"]),
            decisions=tuple(header["decisions"]),
            preparation=Preparation.from_json(header["preparation"]),
        )
    except FileNotFoundError:
        raise DataError(f"{folder}: expected a prepared data set; there is none") from None
    except DataError:
        raise
    except Exception as error:  # a damaged array or archive raises errors of many kinds
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno not in _DAMAGED):
            raise _unreadable(folder, error) from error
        words = str(error) or type(error).__name__
        raise DataError(f"{folder}: the prepared data set is damaged ({words}); remove the folder") from error
    found = (PREPARED_FORMAT, X.shape, y.shape)
    if promised != found:
        raise DataError(f"{folder}: expected format and shapes {promised}; got {found}; remove the folder")
    return opened


def _unreadable(folder: Path, error: OSError | MemoryError) -> UnreadableError:
    words = why(error) if isinstance(error, OSError) else "there is not enough memory"
    return UnreadableError(f"{folder}: the prepared data set cannot be read: {words}; it is left as it is")


def opened_or_made(
    folder: Path,
    make: Callable[[str | None], Dataset],
    *,
    name: str,
    lease: Path,
    progress: Progress | None = None,
) -> Dataset:
    """Open a prepared data set; make it, or wait for the process that is making it at the same place.

    Parameters
    ----------
    folder : Path
        Where it stands, or will.
    make : callable
        Makes it there. Told what is wrong with one that stands there and is damaged; None where there is none, or only
        one of another version.
    name : str
        Of the data set, for those who wait.
    lease : Path
        What is leased meanwhile.
    progress : callable, optional
        Told whom this one waits for.

    Raises
    ------
    DataError
        The data folder cannot be written; and whatever ``make`` raises.
    UnreadableError
        One stands there and cannot be read now. It is not made anew, which can take hours and would replace it.

    Warns
    -----
    GpbenchWarning
        The prepared form was damaged and has been made anew.
    """

    def waiting(holder: Holder | None) -> None:
        if progress is not None:
            progress(f"waiting for {holder or 'another process'}, which prepares {name}", 0, None)

    found, _ = _standing(folder)
    if found is not None:
        return found
    try:
        lease.parent.mkdir(parents=True, exist_ok=True)
        remove_unfinished(lease.parent)
        with alone(lease, waiting=waiting):
            found, damage = _standing(folder)
            if found is not None:
                return found
            made = make(damage)
    except OSError as error:
        raise DataError(unwritable(lease.parent, error)) from error
    if damage is not None:
        words = printable(damage).removesuffix("; remove the folder")
        warnings.warn(f"{words}; it has been made anew", GpbenchWarning, stacklevel=3)
    return made


def _standing(folder: Path) -> tuple[Dataset | None, str | None]:
    """The prepared data set, if it stands there whole; and what is wrong with one that is damaged."""
    try:
        (folder / "header.json").stat()
        return open_prepared(folder), None
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except OSError as error:
        raise _unreadable(folder, error) from error
    except UnreadableError:
        raise
    except DataError as error:
        return None, None if outdated(folder) else str(error)
