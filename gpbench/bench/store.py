"""The store: one JSON file a cell, and KEY.npz with the posterior and the test rows' predictions beside it.

A file is written under a temporary name, synced and renamed, the npz before the JSON: what bears a final name is whole,
and a JSON of a finished cell implies its npz. Each JSON holds a digest of itself and one of its npz, so that a
damaged file is known as such; it is set aside under ``*.damaged``, reported, and its cell runs again.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import psutil

from gpbench.bench.cell import FORMAT
from gpbench.bench.result import FormatError, Result
from gpbench.errors import StoreError, reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["Store", "check_arrays"]


class Store:
    """Results in a folder, by key.

    Parameters
    ----------
    folder : Path
        Made when the first result is put.

    Attributes
    ----------
    problems : list of str
        What was found damaged, one sentence each, and how many results there are of other formats.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[str] = []

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
            if not path.exists():
                return None
            result = _read(path)
            _check_arrays_of(result, path)
        except OSError as error:
            if not _readable(self.folder):
                raise self._error("read", error) from error
            self._set_aside(key, f"it cannot be read: {error.strerror or error}")
            return None
        except (_DamagedError, FormatError) as damage:  # of another format its key would be another one
            self._set_aside(key, str(damage))
            return None
        return result

    def put(self, result: Result, arrays: Mapping[str, npt.NDArray[Any]] | None = None) -> Result:
        """Store a result, in place of an earlier one of the same key.

        Parameters
        ----------
        result : Result
        arrays : mapping
            For KEY.npz; None for a cell that has not ended well.

        Returns
        -------
        Result
            With the digest of its arrays, as it was written.

        Raises
        ------
        StoreError
            The folder cannot be written, or the disk is full.
        """
        path = self.folder / f"{result.key}.json"
        content = None if arrays is None else _npz(arrays)
        whole = replace(result, arrays_sha256=None if content is None else hashlib.sha256(content).hexdigest())
        text = json.dumps(whole.to_json(), indent=1, ensure_ascii=True, allow_nan=False) + "\n"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if content is not None:
                path.unlink(missing_ok=True)  # an older JSON must not stand beside a newer npz
                self._write(path.with_suffix(".npz"), content)
            self._write(path, text.encode("ascii"))
            if content is None:
                path.with_suffix(".npz").unlink(missing_ok=True)
            _sync_folder(self.folder)
        except OSError as error:
            raise self._error("write", error) from error
        return whole

    def put_arrays(self, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Store arrays that are made of cells as NAME.npz, which :meth:`arrays` reads.

        Raises
        ------
        StoreError
            The folder cannot be written, or the disk is full.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write(self.folder / f"{name}.npz", _npz(arrays))
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
            except FormatError:
                others.append(path.stem)
            except OSError as error:
                self.problems.append(f"{path} is passed over: it cannot be read: {error.strerror or error}")
            except _DamagedError as damage:
                self.problems.append(f"{path} is passed over: {damage}")
        if others:
            names = f"{others[0]}.json{' and others' if len(others) > 1 else ''}"
            self.problems.append(
                f"{len(others)} of format other than {FORMAT} are passed over in {self.folder}: {names}"
            )
        return results

    def arrays(self, key: str, *, names: Sequence[str] | None = None) -> dict[str, npt.NDArray[Any]]:
        """The content of KEY.npz.

        Parameters
        ----------
        key : str
        names : sequence of str, optional
            Only these of its arrays, those of them that there are.

        Raises
        ------
        StoreError
            There is none, or it is damaged.
        """
        path = self.folder / f"{key}.npz"
        try:
            with np.load(path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files if names is None or name in names}
        except Exception as error:  # a damaged archive raises errors of many kinds
            raise StoreError(f"{path} cannot be read: {error}") from error

    def prepare(self) -> None:
        """Make the folder, see that it can be written, remove temporary files of this machine's dead processes.

        Raises
        ------
        StoreError
            The folder cannot be made, read or written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write(self.folder / "probe", b"")
            (self.folder / "probe").unlink(missing_ok=True)
            for path in self.folder.glob("*.partial"):
                host, _, process = path.name.removesuffix(".partial").rpartition(".")[-1].rpartition("-")
                if host == _host() and process.isdigit() and not psutil.pid_exists(int(process)):
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise self._error("write", error) from error

    def _write(self, path: Path, content: bytes) -> None:
        partial = path.with_name(f"{path.name}.{_host()}-{os.getpid()}.partial")
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            raise

    def _set_aside(self, key: str, why: str) -> None:
        path = self.folder / f"{key}.json"
        try:
            for file in (path, path.with_suffix(".npz")):
                if file.exists():
                    file.replace(file.with_name(file.name + ".damaged"))
        except OSError as error:
            raise self._error("set a damaged file aside in", error) from error
        self.problems.append(f"{path} is damaged and was set aside as {path.name}.damaged: {why}")

    def _error(self, doing: str, error: OSError) -> StoreError:
        return StoreError(f"cannot {doing} the store {self.folder}: {reason(error)}")


def check_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """See that arrays can be stored.

    Raises
    ------
    TypeError
        One holds Python objects, which would have to be pickled.
    """
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise TypeError(f"array {name} holds Python objects; numbers and texts can be stored, pickles are not")


class _DamagedError(Exception):
    """A stored file that cannot be trusted; the message says why."""


def _read(path: Path) -> Result:
    """A result whose form, name and digest are right."""
    try:
        content = json.loads(path.read_bytes().decode("ascii"))
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


def _check_arrays_of(result: Result, path: Path) -> None:
    """See that a result has its arrays, before the cell is passed over as done."""
    if not result.finished:
        return
    file = path.with_suffix(".npz")
    if not file.exists():
        raise _DamagedError(f"{file.name} is missing")
    if hashlib.sha256(file.read_bytes()).hexdigest() != result.arrays_sha256:
        raise _DamagedError(f"{file.name} does not match its digest")


def _npz(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """An npz; the same arrays give the same bytes (numpy stamps its members with a fixed date)."""
    check_arrays(arrays)
    file = BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]  # numpy's stub takes allow_pickle for one of the arrays
    return file.getvalue()


def _readable(folder: Path) -> bool:
    try:
        next(folder.iterdir(), None)
    except OSError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Make the renames last through a power cut, where the system can."""
    if os.name != "posix":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _host() -> str:
    return socket.gethostname().replace(".", "_").replace("-", "_")
