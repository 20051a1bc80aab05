"""Members of archives, by name or by pattern. Nothing is unpacked, so no archive can write anywhere.

An archive whose members would leave their folder (``..``, absolute paths), or are links or devices, is refused all the
same: no publisher's is of that kind, and whoever made it meant harm or is not who he should be.
"""

from __future__ import annotations

import fnmatch
import stat
import tarfile
import zipfile
from typing import TYPE_CHECKING

from gpbench.data.formats.source import reading
from gpbench.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["matching", "read_members"]

_MOST = 1 << 30  # bytes of all members together
_MEMBERS = 100_000


def matching(path: Path, pattern: str) -> list[str]:
    """Members of a zip archive whose names match, sorted.

    Parameters
    ----------
    path : Path
        The archive.
    pattern : str
        With ``*`` and ``?``; a plain name is returned as it is.

    Raises
    ------
    DataError
        Not a zip archive, one that no publisher makes, or nothing matches.
    """
    plain = not any(sign in pattern for sign in "*?[")
    if plain and not zipfile.is_zipfile(path):
        return [pattern]  # of a tar archive, which would have to be unpacked to be looked at
    with reading(path.name), zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            mode = info.external_attr >> 16
            _check(path, info.filename, special=bool(mode) and stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR))
        names = archive.namelist()
    if plain:
        return [pattern]
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
        How the names end that are wanted; other members are passed over.
    limit : int
        Bytes of all members together.

    Raises
    ------
    DataError
        Not a tar archive, damaged, too large, or one that no publisher makes.
    """
    found: dict[str, bytes] = {}
    size = 0
    with reading(path.name), tarfile.open(path, mode="r:*") as archive:
        for number, info in enumerate(archive):
            _check(path, info.name, special=not (info.isfile() or info.isdir()))
            size += info.size  # of those that are passed over, too: they must be unpacked to be passed over
            if size > limit or number >= _MEMBERS:
                raise DataError(
                    f"{path.name}: expected at most {limit:,} bytes in {_MEMBERS:,} members; got more: an archive bomb?"
                )
            if info.isfile() and info.name.endswith(suffix):
                stream = archive.extractfile(info)
                assert stream is not None  # it is a plain file
                found[info.name.rpartition("/")[2]] = stream.read()
    return found


def _check(path: Path, member: str, *, special: bool) -> None:
    """Refuse an archive for one of its members.

    Raises
    ------
    DataError
        It would leave its folder, or is no file.
    """
    steps = member.replace("\\", "/").split("/")
    if ".." in steps or not steps[0] or ":" in steps[0]:
        raise DataError(f"{path.name}: member {member!r} would leave its folder; the archive is refused")
    if special:
        raise DataError(f"{path.name}: member {member!r} is a link or a device; the archive is refused")
