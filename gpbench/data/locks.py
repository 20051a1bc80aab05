"""Let one process at a time make a file or a folder; the others wait and then find it made."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import TYPE_CHECKING

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["alone"]


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold a place against other processes and threads that ask for it in the same way.

    The lock is the operating system's, on ``PATH.lock``: it ends with the process that holds it, however that ends.

    Parameters
    ----------
    path : Path
        What is to be made; its folder exists.

    Raises
    ------
    OSError
        The folder cannot be written.
    """
    lock = path.with_name(path.name + ".lock")
    while True:
        with lock.open("w") as held:
            _lock(held.fileno())
            if not _is(lock, os.fstat(held.fileno()).st_ino):
                continue  # who held it has removed it, and a third may hold the next one already
            try:
                yield
            finally:
                if sys.platform != "win32":  # which removes no file that is open; it stays, empty
                    lock.unlink(missing_ok=True)
            return


def _lock(number: int) -> None:
    """Wait until an open file is ours alone, until it is closed."""
    if sys.platform == "win32":
        while True:
            try:
                msvcrt.locking(number, msvcrt.LK_LOCK, 1)
            except OSError as error:
                if error.errno != errno.EDEADLK:  # what it raises after ten attempts, one a second
                    raise
            else:
                return
    else:
        fcntl.flock(number, fcntl.LOCK_EX)


def _is(lock: Path, inode: int) -> bool:
    try:
        return lock.stat().st_ino == inode
    except FileNotFoundError:
        return False
