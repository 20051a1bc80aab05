"""Let one process at a time make a file or a folder; the others wait and then find it made."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

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
            fcntl.flock(held, fcntl.LOCK_EX)
            if not _is(lock, os.fstat(held.fileno()).st_ino):
                continue  # who held it has removed it, and a third may hold the next one already
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
            return


def _is(lock: Path, inode: int) -> bool:
    try:
        return lock.stat().st_ino == inode
    except FileNotFoundError:
        return False
