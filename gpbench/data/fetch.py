"""Bring the files of a data set here: from the data folder, then a mirror, then the publisher.

A mirror is a folder or an http address with the layout ``<source>/<data set>/<file>``; the data folder keeps
downloads in ``files/`` in the same layout, so it can serve as one. A folder is read where it is, never copied. Beside a
file whose hash the catalogue does not know, ``FILE.sha256`` records the hash of the first download.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from gpbench.data.doi import resolve
from gpbench.data.download import DownloadError, Expected, Patience, Progress, download, sha256_of, why
from gpbench.data.reach import unreachable
from gpbench.errors import DataUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpbench.data.catalogue import Edition, Entry, File

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
    """The places that were tried for one data set, and what each said; none is asked twice."""

    def __init__(self) -> None:
        self.lines: dict[str, None] = {}
        self._answers: dict[str, str] = {}
        self._paths: dict[Path, bool] = {}
        self._failed: set[str] = set()

    def add(self, place: str, said: str) -> None:
        """Note a place; said twice it stands once."""
        self.lines[said if said.startswith(place) else f"{place}: {said}"] = None

    def probe(self, addresses: Iterable[str], *, seconds: float) -> None:
        """Ask all hosts at once whether they answer."""
        new = [one for one in dict.fromkeys(addresses) if one not in self._answers]
        silent = unreachable(new, seconds=seconds) if new else {}
        self._answers.update({one: silent.get(one, "") for one in new})

    def answers(self, address: str, *, seconds: float) -> bool:
        """Whether a host answers; a silent one is noted."""
        self.probe([address], seconds=seconds)
        if self._answers[address]:
            self.add(address, self._answers[address])
        return not self._answers[address]

    def good(self, file: File, path: Path) -> bool:
        """Whether a right file is at a path; the reason why not is noted."""
        if path not in self._paths:
            try:
                problem = known_bytes(file, path) if path.is_file() else "not there"
            except OSError as error:
                problem = why(error)
            if problem is not None:
                self.add(str(path), problem)
            self._paths[path] = problem is None
        return self._paths[path]

    def download(self, file: File, url: str, places: Places) -> Path | None:
        """Download from an address that has not failed before."""
        if url in self._failed:
            return None
        path = places.local(file)
        try:
            _download(file, url, path, places)
        except DownloadError as error:
            self.add(url, str(error))
        except OSError as error:
            self.add(str(path), why(error))
        else:
            self._paths[path] = True
            return path
        self._failed.add(url)
        return None


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


def obtain(
    entry: Entry, places: Places, attempts: Attempts, *, also: Iterable[str] = ()
) -> tuple[Edition, dict[str, Path]] | None:
    """Files of the first edition that can be had, without publishers first and then with them.

    Parameters
    ----------
    entry : Entry
        The data set; editions that are no files (OpenML's) are passed over.
    places : Places
        Where to look.
    attempts : Attempts
        Takes note of each place tried.
    also : iterable of str
        Addresses that will be asked after these; whether their hosts answer is found out in the same time.

    Returns
    -------
    (edition, {path in the catalogue: file here}) or None
    """
    editions = [one for one in entry.editions if one.parts]
    urls = [] if places.offline else [_host(url) for edition in editions for one in edition.files for url in one.urls]
    if places.mirror is not None and places.mirror_folder is None:
        urls.append(places.mirror)
        if not any(files_here(edition.files, places) for edition in editions):
            attempts.probe([*urls, *also], seconds=places.patience.probe)  # the mirror and the publishers in one wait
    for edition in editions:
        if (found := gather(edition.files, places, attempts, source=False)) is not None:
            return edition, found
    if places.offline:
        return None
    attempts.probe([*urls, *also], seconds=places.patience.probe)
    for edition in editions:
        if (found := gather(edition.files, places, attempts, source=True)) is not None:
            return edition, found
    return None


def gather(files: Iterable[File], places: Places, attempts: Attempts, *, source: bool) -> dict[str, Path] | None:
    """All of some files, or None as soon as one cannot be had.

    Parameters
    ----------
    files : iterable of File
    places, attempts
        As for :func:`obtain`.
    source : bool
        Whether publishers are asked.
    """
    found = {}
    for one in files:
        path = places.local(one) if attempts.good(one, places.local(one)) else _from_mirror(one, places, attempts)
        if path is None and source:
            path = _from_source(one, places, attempts)
        if path is None:
            return None
        found[one.path] = path
    return found


def _from_mirror(file: File, places: Places, attempts: Attempts) -> Path | None:
    if places.mirror is None:
        return None
    if places.mirror_folder is not None:
        path = places.mirror_folder / file.path
        return path if attempts.good(file, path) else None
    if not attempts.answers(places.mirror, seconds=places.patience.probe):
        return None
    return attempts.download(file, places.mirrored(file), places)


def _from_source(file: File, places: Places, attempts: Attempts) -> Path | None:
    if not file.urls:
        attempts.add(file.path, "no publisher offers this copy; only a mirror can have it")
    for url in file.urls:
        if attempts.answers(_host(url), seconds=places.patience.probe):
            path = attempts.download(file, url, places)
            if path is not None:
                return path
    return None


def _host(url: str) -> str:
    """An address whose host is asked first."""
    return "https://doi.org" if url.startswith("doi:") else url


def _download(file: File, url: str, path: Path, places: Places) -> None:
    address, md5 = resolve(url, patience=places.patience) if url.startswith("doi:") else (url, None)
    expected = Expected(file.sha256 if file.proven else (), file.size, md5=md5)
    download(address, path, expected=expected, progress=places.progress, patience=places.patience)
    if not expected.sha256:
        path.with_name(path.name + ".sha256").write_text(f"{sha256_of(path)}  {path.name}\n", encoding="utf-8")


def cannot_be_had(name: str, attempts: Attempts, *, places: Places, files: Iterable[File]) -> DataUnavailable:
    """Error that names the data set, each place tried, and what to do."""
    tried = "\n".join(f"    {line}" for line in attempts.lines) or "    nothing"
    remedies = []
    if places.offline:
        remedies.append(f"run `gpbench fetch {name}` with a network")
    remedies.append(
        f"on a machine with internet run `gpbench fetch {name} --to DIR`, bring DIR here and set GPBENCH_MIRROR to it"
    )
    files = list(files)
    published = [one for one in files if one.urls] or files
    if published:
        remedies.append(f"or put the file yourself at {places.local(published[0])}")
    return DataUnavailable(
        f"data set {name} cannot be had\n  tried:\n{tried}\n  remedy:\n" + "\n".join(f"    {one}" for one in remedies)
    )
