"""Members of archives, by name or by pattern. Nothing is unpacked, so no archive can write anywhere."""

from __future__ import annotations

import fnmatch
import tarfile
import zipfile
from typing import TYPE_CHECKING

from gpbench.data.formats.source import reading
from gpbench.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["matching", "read_members"]

_MOST = 1 << 30


def matching(path: Path, pattern: str) -> list[str]:
    """Members of a zip archive whose names match, sorted.

    Parameters
    ----------
    path : Path
        The archive.
    pattern : str
        With ``*`` and ``?``; a plain name is returned as it is, unread.

    Raises
    ------
    DataError
        Not a zip archive, or nothing matches.
    """
    if not any(sign in pattern for sign in "*?["):
        return [pattern]
    with reading(path.name), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    found = sorted(name for name in names if fnmatch.fnmatchcase(name, pattern))
    if not found:
        raise DataError(f"{path.name}: no member matches {pattern!r}; it holds {', '.join(names[:5])}, ...")
    return found


def read_members(path: Path, *, suffix: str, limit: int = _MOST) -> dict[str, bytes]:
    """Plain files of a tar archive in one pass, by their own names, without folders.

    Parameters
    ----------
    path : Path
        The archive, compressed or not.
    suffix : str
        How the names end that are wanted; other members, links and devices are passed over.
    limit : int
        Bytes in all that are held in memory.

    Raises
    ------
    DataError
        Not a tar archive, damaged, or too large.
    """
    found: dict[str, bytes] = {}
    held = 0
    with reading(path.name), tarfile.open(path, mode="r:*") as archive:
        for info in archive:
            if not (info.isfile() and info.name.endswith(suffix)):
                continue
            held += info.size
            if held > limit:
                raise DataError(f"{path.name}: expected at most {limit:,} bytes in {suffix} members; got more")
            stream = archive.extractfile(info)
            assert stream is not None  # it is a plain file
            found[info.name.rpartition("/")[2]] = stream.read()
    return found
