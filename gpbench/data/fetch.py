"""Bring the files of a data set here: from the data folder, then a mirror, then the publisher.

A mirror is a folder or an http address with the layout ``<source>/<data set>/<file>``; the data folder keeps
downloads in ``files/`` in the same layout, so it can serve as one. A folder is read where it is, never copied. Beside a
file whose hash the catalogue does not know, ``FILE.sha256`` records the hash of the first download.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from gpbench.data.catalogue import Edition, Entry, File
from gpbench.data.doi import resolve
from gpbench.data.download import DownloadError, Expected, Patience, Progress, download, sha256_of, why
from gpbench.data.reach import unreachable
from gpbench.errors import DataUnavailable

__all__ = ["Attempts", "Places", "cannot_be_had", "files_here", "gather", "known_bytes", "obtain"]


@dataclass(frozen=True)
class Places:
    """Where files are looked for, and where they are put.

    Attributes
    ----------
    files : Path
        The folder of downloads.
    mirror : str or None
        A folder or an http address.
    offline : bool
        Never ask a publisher.
    progress : callable
        Told of each download's bytes.
    patience : Patience
        With servers.
    """

    files: Path
    mirror: str | None = None
    offline: bool = False
    progress: Progress | None = None
    patience: Patience = field(default_factory=Patience)

    @property
    def mirror_folder(self) -> Path | None:
        """The mirror, where it is a folder."""
        return Path(self.mirror) if self.mirror and "://" not in self.mirror else None

    def local(self, file: File) -> Path:
        """Where a file is kept once it is downloaded."""
        return self.files / file.path

    def mirrored(self, file: File) -> str:
        """Address of a file in an http mirror."""
        assert self.mirror is not None
        return f"{self.mirror.rstrip('/')}/{quote(file.path)}"


class Attempts:
    """The places that were tried for one data set, and what each said."""

    def __init__(self) -> None:
        self.lines: dict[str, None] = {}

    def add(self, place: str, said: str) -> None:
        """Note a place; said twice it stands once."""
        self.lines[said if said.startswith(place) else f"{place}: {said}"] = None


def known_bytes(file: File, path: Path) -> str | None:
    """What is wrong with a file that is here; None when its hash (or, unknown, the recorded one) is right.

    Raises
    ------
    OSError
        It cannot be read.
    """
    if file.sha256 and file.proven:
        return Expected(file.sha256, file.size).problem(path)
    recorded = path.with_name(path.name + ".sha256")
    wanted = recorded.read_text(encoding="utf-8").split()[:1] if recorded.exists() else []
    return (
        Expected((*file.sha256, *wanted), file.size).problem(path) if wanted else Expected((), file.size).problem(path)
    )


def files_here(files: Iterable[File], places: Places) -> bool:
    """Whether all files are in the data folder or in a mirror that is a folder; their bytes are not looked at."""
    folder = places.mirror_folder
    return all(places.local(one).is_file() or (folder is not None and (folder / one.path).is_file()) for one in files)


def obtain(entry: Entry, places: Places, attempts: Attempts) -> tuple[Edition, dict[str, Path]] | None:
    """Files of the first edition that can be had, without publishers first and then with them.

    Parameters
    ----------
    entry : Entry
        The data set; editions that are no files (OpenML's) are passed over.
    places : Places
        Where to look.
    attempts : Attempts
        Takes note of each place tried.

    Returns
    -------
    (edition, {path in the catalogue: file here}) or None
    """
    editions = [one for one in entry.editions if one.parts]
    for edition in editions:
        if (found := gather(edition.files, places, attempts, source=False)) is not None:
            return edition, found
    if places.offline:
        return None
    addresses = [_probe(url) for edition in editions for one in edition.files for url in one.urls]
    silent = unreachable(addresses, seconds=places.patience.connect) if addresses else {}
    for edition in editions:
        if (found := gather(edition.files, places, attempts, source=True, silent=silent)) is not None:
            return edition, found
    return None


def gather(
    files: Iterable[File],
    places: Places,
    attempts: Attempts,
    *,
    source: bool,
    silent: dict[str, str] | None = None,
) -> dict[str, Path] | None:
    """All of some files, or None as soon as one cannot be had.

    Parameters
    ----------
    files : iterable of File
    places, attempts
        As for :func:`obtain`.
    source : bool
        Whether publishers are asked.
    silent : dict
        Addresses that are known not to answer, and why.
    """
    found = {}
    for one in files:
        path = _here(one, places, attempts) or _from_mirror(one, places, attempts)
        if path is None and source:
            path = _from_source(one, places, attempts, silent or {})
        if path is None:
            return None
        found[one.path] = path
    return found


def _here(file: File, places: Places, attempts: Attempts) -> Path | None:
    return _good(file, places.local(file), attempts)


def _from_mirror(file: File, places: Places, attempts: Attempts) -> Path | None:
    if places.mirror is None:
        return None
    if places.mirror_folder is not None:
        return _good(file, places.mirror_folder / file.path, attempts)
    url = places.mirrored(file)
    reason = unreachable([url], seconds=places.patience.connect)
    if reason:
        attempts.add(places.mirror, reason[url])
        return None
    return _downloaded(file, url, places, attempts)


def _from_source(file: File, places: Places, attempts: Attempts, silent: dict[str, str]) -> Path | None:
    if not file.urls:
        attempts.add(file.path, "no publisher offers this copy; only a mirror can have it")
    for url in file.urls:
        if _probe(url) in silent:
            attempts.add(url, silent[_probe(url)])
            continue
        if (path := _downloaded(file, url, places, attempts)) is not None:
            return path
    return None


def _probe(url: str) -> str:
    return "https://doi.org" if url.startswith("doi:") else url


def _good(file: File, path: Path, attempts: Attempts) -> Path | None:
    """The path, if a right file is there."""
    try:
        if not path.is_file():
            attempts.add(str(path), "not there")
            return None
        problem = known_bytes(file, path)
    except OSError as error:
        problem = why(error)
    if problem is not None:
        attempts.add(str(path), problem)
        return None
    return path


def _downloaded(file: File, url: str, places: Places, attempts: Attempts) -> Path | None:
    path = places.local(file)
    expected = Expected(file.sha256, file.size) if file.proven else Expected((), file.size)
    try:
        address, md5 = resolve(url, patience=places.patience) if url.startswith("doi:") else (url, None)
        expected = Expected(expected.sha256, expected.size, md5=md5)
        download(address, path, expected=expected, progress=places.progress, patience=places.patience)
        if not expected.sha256:
            path.with_name(path.name + ".sha256").write_text(f"{sha256_of(path)}  {path.name}\n", encoding="utf-8")
    except DownloadError as error:
        attempts.add(url, str(error))
        return None
    except OSError as error:
        attempts.add(str(path), why(error))
        return None
    return path


def cannot_be_had(name: str, attempts: Attempts, *, places: Places, files: Iterable[File]) -> DataUnavailable:
    """Error that names the data set, each place tried, and what to do."""
    tried = "\n".join(f"    {line}" for line in attempts.lines) or "    nothing"
    remedies = []
    if places.offline:
        remedies.append(f"run `gpbench fetch {name}` with a network")
    remedies.append(
        f"on a machine with internet run `gpbench fetch {name} --to DIR`, bring DIR here and set GPBENCH_MIRROR to it"
    )
    first = next(iter(files), None)
    if first is not None:
        remedies.append(f"or put the file yourself at {places.local(first)}")
    return DataUnavailable(
        f"data set {name} cannot be had\n  tried:\n{tried}\n  remedy:\n" + "\n".join(f"    {one}" for one in remedies)
    )
