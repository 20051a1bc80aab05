"""Write a mirror for machines without internet, and verify what is here."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpbench.data import generators, openml
from gpbench.data.catalogue import Entry, File, entries, entry
from gpbench.data.dataset import content_checksum
from gpbench.data.download import sha256_of, why
from gpbench.data.fetch import Attempts, Places, cannot_be_had, known_bytes, obtain
from gpbench.data.prepared import open_prepared
from gpbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Finding", "verify", "write_mirror"]

_AUXILIARY = (".sha256", ".part", ".json", ".lock")


@dataclass(frozen=True)
class Finding:
    """What verification says of one file or prepared data set.

    Attributes
    ----------
    place : Path
        Where it stands.
    problem : str or None
        None: all is well.
    """

    place: Path
    problem: str | None


def write_mirror(name: str, to: Path, *, folder: Path, places: Places) -> list[Path]:
    """Put the files of a data set into a mirror.

    Parameters
    ----------
    name : str
        An id of the catalogue, or ``openml:ID``.
    to : Path
        The mirror, a folder; it is made where it is missing.
    folder : Path
        The data folder, whose downloads are used.
    places : Places
        Where else to look; ``places.files`` plays no part.

    Returns
    -------
    list of Path
        The files in the mirror; empty for data sets that need none.

    Raises
    ------
    DataUnavailable
        The files cannot be had.
    DataError
        The mirror cannot be written.
    """
    downloads = Places(to, str(Path(folder) / "files"), offline=True)
    attempts = Attempts()
    for where in (downloads, replace(places, files=to)):
        found = _found(name, where, attempts)
        if found is not None:
            return [_put(file, path, to) for file, path in found]
    files = openml.files_of(openml.openml_id(name))[0] if name.startswith("openml:") else _entry(name).files
    raise cannot_be_had(name, attempts, places=places, files=files)


def _entry(name: str) -> Entry:
    return entry(generators.parse(name)[0])


def _found(name: str, places: Places, attempts: Attempts) -> list[tuple[File, Path]] | None:
    """Files of a data set, wherever they are."""
    if name.startswith("openml:"):
        return _of_openml(openml.openml_id(name), places, attempts)
    one = _entry(name)
    if one.maker != "files":
        return []
    had = obtain(one, places, attempts, also=[openml.SERVER] if any(e.reader == "openml" for e in one.editions) else [])
    if had is not None:
        edition, paths = had
        return [(file, paths[file.path]) for file in edition.files]
    for edition in one.editions:
        if edition.reader == "openml":
            brought = _of_openml(int(edition.options["id"]), places, attempts)
            if brought is not None:
                return brought
    return None


def _of_openml(number: int, places: Places, attempts: Attempts) -> list[tuple[File, Path]] | None:
    found = openml.find(number, places, attempts)
    if found is None:
        return None
    folder = found.path.parent
    return [(File(f"openml/{number}/{name}"), folder / name) for name in ("description.xml", found.path.name)]


def _put(file: File, source: Path, to: Path) -> Path:
    target = to / file.path
    try:
        if source != target:
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f"{target.name}.{os.getpid()}.part")
            shutil.copyfile(source, part)
            part.replace(target)
        if not (file.sha256 and file.proven):
            target.with_name(target.name + ".sha256").write_text(
                f"{sha256_of(target)}  {target.name}\n", encoding="utf-8"
            )
    except OSError as error:
        raise DataError(f"the mirror {to} cannot be written: {why(error)}") from error
    return target


def verify(folder: Path, names: Iterable[str] = ()) -> Iterator[Finding]:
    """Check each download and each prepared data set in a data folder.

    Parameters
    ----------
    folder : Path
        The data folder.
    names : iterable of str
        Only these data sets; empty for all that is here.

    Yields
    ------
    Finding
        In the order of the paths.
    """
    folder = Path(folder)
    wanted = set(names)
    known = {file.path: file for one in entries().values() for file in one.files}
    shown = {file.path for name in wanted if not name.startswith("openml:") for file in _entry(name).files}
    shown |= {file.path for name in wanted if name.startswith("openml:") for file in _openml_files(name)}
    files = folder / "files"
    for path in sorted(files.rglob("*")):
        place = path.relative_to(files).as_posix()
        if path.is_file() and path.suffix not in _AUXILIARY and (not wanted or place in shown):
            yield Finding(path, _file_problem(known.get(place, File(place)), path))
    heads = {name.replace(":", "-") if name.startswith("openml:") else generators.parse(name)[0] for name in wanted}
    prepared = folder / "prepared"
    for header in sorted(prepared.rglob("header.json")):
        if not wanted or header.relative_to(prepared).parts[0] in heads:
            yield Finding(header.parent, _prepared_problem(header.parent))


def _openml_files(name: str) -> list[File]:
    return [file for pair in openml.files_of(openml.openml_id(name)) for file in pair]


def _file_problem(file: File, path: Path) -> str | None:
    try:
        return known_bytes(file, path)
    except OSError as error:
        return why(error)


def _prepared_problem(folder: Path) -> str | None:
    """What is wrong with a prepared data set: its rows are hashed again."""
    try:
        found = open_prepared(folder)
        digest = hashlib.sha256()
        step = max(1, (1 << 24) // max(1, found.X.shape[1] * found.X.itemsize))
        for start in range(0, found.n, step):
            digest.update(found.X[start : start + step].data)
    except (DataError, OSError) as error:
        return str(error)
    checksum = content_checksum(
        digest.digest(),
        found.y,
        task=found.task,
        dtype=str(found.X.dtype),
        classes=found.classes,
        features=found.features,
        given=found.given,
    )
    return (
        None if checksum == found.checksum else f"expected checksum {found.checksum}, got {checksum}; remove the folder"
    )
