"""Reports written to files: whole, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpbench.errors import StoreError, UsageError, reason
from gpbench.leases import replacing

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["PICTURES", "check_apart", "check_folder", "write_atomically"]

#: Endings of the pictures that can be written.
PICTURES = (".png", ".pdf", ".svg")
#: Of what is read in a folder of results.
_STORED = (".json", ".npz")


def check_folder(path: Path, *, what: str) -> None:
    """See that there is the folder that a file is to be written to, before what it will hold is computed.

    Raises
    ------
    UsageError
        There is none: more often a slip than a wish for a new folder.
    """
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} for {what}")


def check_apart(path: Path, inputs: Iterable[Path], *, flag: str = "--output") -> None:
    """See that a file that is to be written is none of those that are read, before any is.

    Parameters
    ----------
    path : Path
        To be written.
    inputs : iterable of Path
        Files, and folders of results, whose cells are meant.
    flag : str
        Where the name comes from, for the message.

    Raises
    ------
    UsageError
        It is one of them, by this name or another.
    """
    for each in inputs:
        stored = path.suffix.lower() in _STORED and each.is_dir()
        for file in (each / path.name, each / "runs" / path.name) if stored else (each,):
            if _same(path, file):
                raise UsageError(f"{flag} expects another file than those that are read; {path} is {file}")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there
        return False


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name beside it and rename it; folders are made as needed.

    A reader, or an interrupt, never meets half a file, and an older one stands until the new one is whole.

    Parameters
    ----------
    path : Path
    content : str or bytes
        Text is written as UTF-8.

    Raises
    ------
    StoreError
        The path cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial:
            partial.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {reason(error)}") from error
