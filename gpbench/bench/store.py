"""The store: one JSON file a cell, and KEY.npz with the posterior and the test rows' predictions beside it.

A file is written under a temporary name and renamed, the npz before the JSON: whatever process is killed, what bears a
final name is whole, and a JSON of a finished cell implies its npz. Each JSON holds a digest of itself and one of its
npz, so that a damaged file is known as such. The files of a cell are not synced, which would take longer than many a
cell: a power cut can cost the cells of the last seconds, whose digests tell, and which then run again. Whatever stands
at a cell's place and is no whole result (a pipe or a folder, too) is set aside under ``*.damaged`` where the cell is to
run, and passed over where it is read; both are reported.

Several processes may use one store. A pair of files is written and judged under a lease, so that a JSON of one never
stands beside an npz of another, and who runs a cell claims it (:meth:`Store.claim`).
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import replace
from io import BytesIO
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpbench.bench.cell import FORMAT
from gpbench.bench.result import LARGEST, FormatError, Result
from gpbench.errors import StoreError, reason
from gpbench.leases import Lease, alone, holder_of, remove_unfinished, replacing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["Store", "check_arrays"]

_NO_NAMES = ("file", "allow_pickle")
"""What :func:`numpy.savez` calls its own parameters."""


class Store:
    """Results in a folder, by key.

    Parameters
    ----------
    folder : Path
        Made when the first result is put.

    Attributes
    ----------
    problems : list of str
        What was found damaged, one sentence each, and how many results there are of other formats; each is said once.
    others : Counter
        Format -> how many results there are of it, of those that are not :data:`~gpbench.bench.cell.FORMAT`, as of the
        latest :meth:`results`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[str] = []
        self.others: Counter[str] = Counter()

    def get(self, key: str) -> Result | None:
        """The stored result of a cell whose files are whole; None where there is none.

        Damaged files are set aside and reported in :attr:`problems`.

        Raises
        ------
        StoreError
            The folder cannot be read, or a damaged file cannot be set aside.
        """
        path = self.folder / f"{key}.json"
        try:
            return _whole(path)
        except (OSError, _DamagedError, FormatError) as failure:
            if isinstance(failure, OSError) and not _readable(self.folder):
                raise self._error("read", failure) from failure
        # It is damaged, or another process is writing it.
        with self.alone(path.name):
            try:
                return _whole(path)
            except OSError as error:
                self._set_aside(path, f"it cannot be read: {error.strerror or error}")
            except (_DamagedError, FormatError) as damage:  # of another format its key would be another one
                self._set_aside(path, str(damage))
        return None

    def claim(self, key: str) -> Lease | None:
        """The right to run a cell, which one process has at a time; None where another one has it.

        Raises
        ------
        StoreError
            The folder cannot be read or written.
        """
        try:
            return Lease.take(self.folder / f"{key}.cell")
        except OSError as error:
            raise self._error("write", error) from error

    def claimed_by(self, key: str) -> str:
        """Who has the right to run a cell, in words."""
        try:
            holder = holder_of(self.folder / f"{key}.cell")
        except OSError:
            holder = None
        return "another process" if holder is None else str(holder)

    @contextmanager
    def alone(self, name: str) -> Iterator[Lease]:
        """Hold a name in the store against other processes; wait for those that came first.

        Raises
        ------
        StoreError
            The folder cannot be made, read or written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with alone(self.folder / name) as lease:
                yield lease
        except OSError as error:
            raise self._error("write", error) from error

    def put(self, result: Result, arrays: Mapping[str, npt.NDArray[Any]] | None = None) -> Result:
        """Store a result in place of an earlier one of the same key; an interrupted one replaces none that is finished.

        Parameters
        ----------
        result : Result
        arrays : mapping
            For KEY.npz; None for a cell that has not ended well.

        Returns
        -------
        Result
            What the store holds now: this one, with the digest of its arrays, or the finished one that stays.

        Raises
        ------
        StoreError
            The folder cannot be written, or the disk is full.
        """
        path = self.folder / f"{result.key}.json"
        content = None if arrays is None else _npz(arrays)
        whole = replace(result, arrays_sha256=None if content is None else hashlib.sha256(content).hexdigest())
        text = json.dumps(whole.to_json(), indent=1, ensure_ascii=True, allow_nan=False) + "\n"
        while True:
            with self.alone(path.name) as lease:
                if result.status == "interrupted" and (earlier := _finished(path)) is not None:
                    return earlier
                self._put_pair(path, text.encode("ascii"), content)
                if lease.held:  # else this machine slept, and another may have written meanwhile
                    return whole

    def _put_pair(self, path: Path, text: bytes, content: bytes | None) -> None:
        for each in (path, path.with_suffix(".npz")):
            if each.is_dir() and not each.is_symlink():
                _move_aside(each)
        with self._written(path, text):
            if content is not None:
                with self._written(path.with_suffix(".npz"), content):
                    path.unlink(missing_ok=True)  # an older JSON must not stand beside a newer npz
        if content is None:
            path.with_suffix(".npz").unlink(missing_ok=True)

    def put_arrays(self, name: str, arrays: Mapping[str, npt.NDArray[Any]], *, compressed: bool = False) -> None:
        """Store arrays that are made of cells as NAME.npz, which :meth:`arrays` reads.

        Raises
        ------
        StoreError
            The folder cannot be written, or the disk is full.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write(self.folder / f"{name}.npz", _npz(arrays, compressed=compressed), sync=True)
        except OSError as error:
            raise self._error("write", error) from error

    def cells(self) -> list[dict[str, Any]]:
        """:meth:`results` as JSON."""
        return [result.to_json() for result in self.results()]

    def results(self) -> list[Result]:
        """All results, in the order of their keys.

        Damaged ones are passed over and reported in :attr:`problems`; those of another format too, in one sentence,
        and they stay where they are.

        Raises
        ------
        StoreError
            The folder is there and cannot be read.
        """
        results = []
        self.others.clear()
        try:
            paths = sorted(path for path in self.folder.iterdir() if path.suffix == ".json")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._error("read", error) from error
        others = []
        for path in paths:
            try:
                results.append(_read(path))
            except FileNotFoundError:  # another process is writing it anew
                continue
            except FormatError as other:
                others.append(path.name)
                self.others[other.found] += 1
            except OSError as error:
                self._say(f"{path} is passed over: it cannot be read: {error.strerror or error}")
            except _DamagedError as damage:
                self._say(f"{path} is passed over: {damage}")
        if others:
            formats = ", ".join(f"{number} of format {name}" for name, number in sorted(self.others.items()))
            names = f"{others[0]}{' and others' if len(others) > 1 else ''}"
            self._say(
                f"results of another gpbench are passed over in {self.folder}: {formats} ({names}); "
                f"this one's have format {FORMAT}"
            )
        return results

    def arrays(
        self, key: str, *, names: Sequence[str] | None = None, digest: str | None = None
    ) -> dict[str, npt.NDArray[Any]]:
        """The content of KEY.npz.

        Parameters
        ----------
        key : str
        names : sequence of str, optional
            Only these of its arrays, those of them that there are.
        digest : str, optional
            The sha256 that it must have.

        Raises
        ------
        StoreError
            There is none, or it is damaged.
        """
        path = self.folder / f"{key}.npz"
        try:
            with np.load(BytesIO(_content(path, digest=digest)), allow_pickle=False) as file:
                return {name: file[name] for name in file.files if names is None or name in names}
        except Exception as error:  # a damaged archive raises errors of many kinds
            raise StoreError(f"{path} cannot be read: {error}") from error

    def prepare(self) -> None:
        """Make the folder, see that it can be written, remove what dead processes left: temporary files, claims.

        Raises
        ------
        StoreError
            The folder cannot be made, read or written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write(self.folder / "probe", b"")
            (self.folder / "probe").unlink(missing_ok=True)
            remove_unfinished(self.folder)
            for path in self.folder.glob("*.lease"):
                if (lease := Lease.take(path.with_suffix(""))) is not None:  # its holder is gone
                    lease.release()
        except OSError as error:
            raise self._error("write", error) from error

    def _write(self, path: Path, content: bytes, *, sync: bool = False) -> None:
        with self._written(path, content, sync=sync):
            pass

    @contextmanager
    def _written(self, path: Path, content: bytes, *, sync: bool = False) -> Iterator[None]:
        """Write a file beside, which takes its place at the end of the block."""
        with replacing(path) as partial:
            with partial.open("wb") as file:
                file.write(content)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            yield

    def _set_aside(self, path: Path, why: str) -> None:
        moved = [_move_aside(file) for file in (path, path.with_suffix(".npz")) if os.path.lexists(file)]
        self._say(f"{path} is damaged and was set aside as {moved[0].name}: {why}")

    def _say(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def _error(self, doing: str, error: OSError) -> StoreError:
        return StoreError(f"cannot {doing} the store {self.folder}: {reason(error)}")


def check_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """See that arrays can be stored.

    Raises
    ------
    TypeError
        One holds Python objects, which would have to be pickled, or has a name that an npz does not take.
    """
    for name, array in arrays.items():
        if not isinstance(name, str) or name in _NO_NAMES:
            raise TypeError(f"an array's name must be a text, and none of {', '.join(_NO_NAMES)}; got {name!r}")
        if np.asarray(array).dtype.hasobject:
            raise TypeError(f"array {name} holds Python objects; numbers and texts can be stored, pickles are not")


class _DamagedError(Exception):
    """A stored file that cannot be trusted; the message says why."""


def _content(path: Path, *, digest: str | None = None) -> bytes:
    """What stands in a file, of this sha256; of a pipe or a device, which might never end, nothing is read."""
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    about = os.fstat(number)
    if not stat.S_ISREG(about.st_mode):
        os.close(number)
        raise _DamagedError(f"it is {_kind(about.st_mode)}, no file")
    with os.fdopen(number, "rb") as file:
        if path.suffix == ".json" and about.st_size > LARGEST:
            raise _DamagedError(f"it has {about.st_size} bytes, more than any result")
        content = file.read()
    if digest is not None and hashlib.sha256(content).hexdigest() != digest:
        raise _DamagedError("it does not match its digest")
    return content


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _move_aside(path: Path) -> Path:
    """Give what stands at a place another name, and say which; an earlier file of that name is lost, a folder not."""
    for number in count(1):
        to = path.with_name(f"{path.name}.damaged{'' if number == 1 else f'-{number}'}")
        if not os.path.lexists(to) or not (to.is_dir() or path.is_dir()):
            break
    return path.replace(to)


def _whole(path: Path) -> Result | None:
    """A result with its arrays, before its cell is passed over as done; None where there is none."""
    try:
        result = _read(path)
    except FileNotFoundError:
        return None
    if result.finished:
        file = path.with_suffix(".npz")
        try:
            _content(file, digest=result.arrays_sha256 or "none")
        except FileNotFoundError:
            raise _DamagedError(f"{file.name} is missing") from None
        except _DamagedError as damage:
            raise _DamagedError(f"{file.name}: {damage}") from None
    return result


def _finished(path: Path) -> Result | None:
    """A result that is whole and ended well; None where none such stands there."""
    with suppress(OSError, _DamagedError, FormatError):
        found = _whole(path)
        return found if found is not None and found.finished else None
    return None


def _read(path: Path) -> Result:
    """A result whose form, name and digest are right."""
    try:
        content = json.loads(_content(path).decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise _DamagedError("it is no JSON") from error
    try:
        result = Result.from_json(content)
    except FormatError:
        raise
    except StoreError as error:
        raise _DamagedError(str(error)) from error
    if "digest" not in content:
        raise _DamagedError("it lacks digest")
    if result.key != path.stem:
        raise _DamagedError(f"its key is {result.key!r}")
    return result


def _npz(arrays: Mapping[str, npt.NDArray[Any]], *, compressed: bool = False) -> bytes:
    """An npz; the same arrays give the same bytes (numpy stamps its members with a fixed date)."""
    check_arrays(arrays)
    file = BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(file, **arrays)  # type: ignore[arg-type]  # numpy's stub takes allow_pickle for one of the arrays
    return file.getvalue()


def _readable(folder: Path) -> bool:
    try:
        next(folder.iterdir(), None)
    except OSError:
        return False
    return True
