"""Every error that gpbench raises on purpose; those that one module alone raises are declared there, as the tree says.

::

    GpbenchError                exit code 1
    |-- UsageError              2   an unknown name, a setting out of range, a task that a method cannot do
    |   |-- MissingExtra        2   an optional dependency that is not installed
    |   `-- Refused             2   estimators: what an estimator cannot do; a ValueError, as scikit-learn wants it
    |-- DataError               1   a file or a table that cannot be used as it is
    |   |-- DataUnavailable     3   a data set that cannot be had from any place
    |   |-- DownloadError       1   data.web: a file that could not be downloaded from one address
    |   |-- NoNumberError       1   data.columns: text in a column of numbers
    |   `-- UnreadableError     1   data.prepared: a prepared data set that cannot be read now, and may well be whole
    |-- NumericalError          1   a factorisation or a bound that broke down; the cell fails alone
    |-- StoreError              1   a results folder or file that cannot be read or written
    |   |-- FormatError         1   bench.result: a result of another format, which an earlier or a later gpbench wrote
    |   `-- NotComputed         1   arrays of a picture that a step of `gpbench reproduce` has not stored yet
    |-- PluginError             1   a third-party method or data set that does not load
    |-- ClusterLost             1   a Dask cluster whose scheduler is gone, or whose last worker is
    `-- PeerError               1   the process of a rival that crashed, hangs, or says what is no message

    GpbenchWarning              what went on nevertheless; the command line shows it on one line

Messages say what was expected and what was got. The exit codes are those of the command line.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ClusterLost",
    "DataError",
    "DataUnavailable",
    "GpbenchError",
    "GpbenchWarning",
    "MissingExtra",
    "NotComputed",
    "NumericalError",
    "PeerError",
    "PluginError",
    "StoreError",
    "UsageError",
    "reason",
    "unknown_name",
]


_FEW = 12  # names that are all listed where none is near


class GpbenchError(Exception):
    """Base of all errors that gpbench raises on purpose."""

    exit_code = 1


class UsageError(GpbenchError):
    """What was asked for does not exist, does not fit, or is out of range."""

    exit_code = 2


class MissingExtra(UsageError):
    """A method needs packages that are not installed.

    Parameters
    ----------
    message : str
    extra : str
        The group of optional dependencies that has them.
    """

    def __init__(self, message: str, *, extra: str) -> None:
        super().__init__(message)
        self.extra = extra


class DataError(GpbenchError):
    """A file or a table cannot be used as it is; the message names the file and, where there is one, the line."""


class DataUnavailable(DataError):
    """A data set cannot be had; the message names it, each place tried, and the remedy."""

    exit_code = 3


class NumericalError(GpbenchError):
    """A computation broke down past every remedy; the message names where and how badly conditioned it was."""


class StoreError(GpbenchError):
    """A results folder or file cannot be read or written."""


class NotComputed(StoreError):
    """What a picture needs beyond its cells is not stored, or was made of other results; the message names it."""


class PluginError(GpbenchError):
    """A method or data set of a third-party package does not load.

    Parameters
    ----------
    message : str
    plugin : str, optional
        The name of its entry point, where it is known.
    """

    def __init__(self, message: str, *, plugin: str = "") -> None:
        super().__init__(message)
        self.plugin = plugin


class ClusterLost(GpbenchError):
    """A Dask cluster ran cells and is gone; the message names it, what is stored, and how to go on."""


class PeerError(GpbenchError):
    """The process of a rival crashed, hangs, or says what is no message; the text holds its last words."""


class GpbenchWarning(UserWarning):
    """Something is wrong or missing, and gpbench goes on nevertheless; the message says how."""


def reason(error: OSError) -> str:
    """Why the system refused a file, in words; its own "File exists" hides that a file bars the way to a folder."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "a file stands where a folder is needed"
    return error.strerror or str(error)


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """Error for an unknown name that suggests the nearest known ones.

    Parameters
    ----------
    kind : str
        What was looked up, in the singular: ``"method"``, ``"data set"``.
    name : str
        What was asked for.
    known : iterable of str
        The names that exist.
    """
    names = sorted(known)
    near = get_close_matches(name.lower(), names, n=3, cutoff=0.5)
    if near:
        hint = f"did you mean {' or '.join(near)}?"
    elif len(names) <= _FEW:
        hint = f"known: {', '.join(names)}"
    else:
        nearest = get_close_matches(name.lower(), names, n=5, cutoff=0.0)
        hint = f"the nearest of the {len(names)} that are known: {', '.join(nearest)}"
    return UsageError(f"unknown {kind} {name!r}; {hint}")
