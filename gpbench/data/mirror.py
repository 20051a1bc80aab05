"""Write a mirror for machines without internet, and verify what is here."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpbench.data import generators
from gpbench.data.catalogue import File, entries, entry
from gpbench.data.dataset import content_checksum
from gpbench.data.download import why
from gpbench.data.fetch import (
    Attempts,
    Copy,
    Places,
    accept,
    cannot_be_had,
    judge,
    on_trial,
    record,
)
from gpbench.data.load import Candidate, candidate_of, candidates, files_of
from gpbench.data.prepared import open_prepared, outdated
from gpbench.errors import DataError
from gpbench.leases import remove_unfinished, replacing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Finding", "verify", "write_mirror"]

_AUXILIARY = (".sha256", ".part", ".partial", ".json", ".lease")


@dataclass(frozen=True)
class Finding:
    """What verification says of one file or prepared data set.

    Attributes
    ----------
    place : Path
        Where it stands.
    problem : str or None
        None: all is well, or nothing can be said.
    unread : bool
        No hash is known and the file was not read: others of its data set are not here, or there is no room for it.
    """

    place: Path
    problem: str | None
    unread: bool = False


def write_mirror(name: str, to: Path, *, folder: Path, places: Places) -> list[Path]:
    """Put the files of a data set into a mirror; those whose hash is not known are read before they count.

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
    if not name.startswith("openml:") and entry(generators.parse(name)[0]).maker != "files":
        return []
    attempts = Attempts()
    for where in (Places(to, str(Path(folder) / "files"), offline=True), replace(places, files=to)):
        with closing(candidates(name, where, attempts)) as found:
            for candidate in found:
                try:
                    _read(candidate, near=to)
                except OSError as error:
                    raise DataError(f"the mirror {to} cannot be written: {why(error)}") from error
                except DataError as error:
                    if not attempts.refuse(candidate.copies, error):
                        raise
                else:
                    accept(candidate.copies, where)
                    return [_put(copy, where) for copy in candidate.copies]
    raise cannot_be_had(name, attempts, places=places, files=files_of(name))


def _read(candidate: Candidate, *, near: Path) -> None:
    """See that files are the data set, by preparing it in a folder that is thrown away; not where their hashes tell.

    Raises
    ------
    DataError
        They are not.
    OSError
        There is no room, or no permission.
    """
    if all(copy.counts for copy in candidate.copies):
        return
    near.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".reading-", dir=near) as scratch:
        candidate.prepare(Path(scratch) / "prepared")


def _put(copy: Copy, places: Places) -> Path:
    """Bring a file that counts to its place in the mirror, and say there that it has been read."""
    target = places.local(copy.file)
    try:
        if not target.is_file() or (copy.path != target and copy.path.is_file()):
            target.parent.mkdir(parents=True, exist_ok=True)
            remove_unfinished(target.parent)
            with replacing(target) as partial:
                shutil.copyfile(copy.path, partial)
        if not copy.file.certain:
            record(target)
    except OSError as error:
        raise DataError(f"the mirror {places.files} cannot be written: {why(error)}") from error
    return target


def verify(folder: Path, names: Iterable[str] = ()) -> Iterator[Finding]:
    """Check each download and each prepared data set in a data folder.

    A file whose hash is not known, and which no data set has been made of yet, is read.

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
    shown = {file.path for name in wanted for file in files_of(name)}
    places = Places(folder / "files", offline=True)
    for path in sorted(places.files.rglob("*")):
        place = path.relative_to(places.files).as_posix()
        if not path.is_file() or path.suffix in _AUXILIARY or on_trial(path) or (wanted and place not in shown):
            continue
        if place.count("/") == 2:  # else it is none of ours
            yield _file_finding(known.get(place, File(place)), path, places)
    heads = {name.replace(":", "-") if name.startswith("openml:") else generators.parse(name)[0] for name in wanted}
    prepared = folder / "prepared"
    for header in sorted(prepared.rglob("header.json")):
        if not wanted or header.relative_to(prepared).parts[0] in heads:
            yield Finding(header.parent, _prepared_problem(header.parent))


def _file_finding(file: File, path: Path, places: Places) -> Finding:
    try:
        judged = judge(file, path)
    except OSError as error:
        return Finding(path, why(error))
    if judged.problem is not None or judged.counts:
        return Finding(path, judged.problem)
    problem = None
    try:
        for candidate in _sets_of(file, places):
            try:
                _read(candidate, near=places.files)
            except DataError as error:
                problem = str(error)
            else:
                with suppress(DataError):  # a folder that is shared, and not ours to write in
                    accept(candidate.copies, places)
                return Finding(path, None)
    except (OSError, DataError):  # no room, or a folder that is not ours to write in
        return Finding(path, None, unread=True)
    return Finding(path, problem, unread=problem is None)


def _sets_of(file: File, places: Places) -> Iterator[Candidate]:
    """The data sets that a file belongs to and whose other files are in the data folder, too."""
    attempts = Attempts()
    for one in entries().values():
        for edition in one.editions:
            if file in edition.files:
                found = [attempts.here(each, places.local(each), places) for each in edition.files]
                here = {copy.file.path: copy for copy in found if copy is not None}
                if len(here) == len(found):
                    yield candidate_of(one, edition, here)
    source, number, _ = file.path.split("/")
    if source == "openml" and number.isdigit():
        yield from candidates(f"openml:{number}", places, attempts)


def _prepared_problem(folder: Path) -> str | None:
    """What is wrong with a prepared data set, whose rows are hashed again; another version's is made anew anyway."""
    if outdated(folder):
        return None
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
