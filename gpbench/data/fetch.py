"""Bring the files of a data set here: from the data folder, then a mirror, then the publisher.

A mirror is a folder or an http address with the layout ``<source>/<data set>/<file>``; the data folder keeps
downloads in ``files/`` in the same layout, so it can serve as one. A folder is read where it is, never copied.

Where a hash is known to be the publisher's, it alone decides whether a file counts. Where it is not, a copy counts only
once it has been read and its rows, columns and class counts were the catalogue's: any page can come with status 200.
Until then a download stands in ``FILE.trial/``. One that is refused is removed (not what the user put somewhere), and
the next place is asked. The hash of one that counts is kept in ``FILE.sha256`` and holds from then on, so that another
file, which comes later, is named.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from gpbench.data.download import (
    DownloadError,
    Expected,
    Patience,
    Progress,
    download,
    sha256_of,
    unwritable,
    why,
)
from gpbench.data.web import shown, unreachable
from gpbench.errors import DataError, DataUnavailable
from gpbench.leases import alone, replacing
from gpbench.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from gpbench.data.catalogue import Edition, Entry, File

__all__ = [
    "Attempts",
    "Copy",
    "Found",
    "Judgement",
    "Places",
    "accept",
    "cannot_be_had",
    "copies",
    "files_here",
    "held",
    "judge",
    "offers",
    "on_trial",
    "record",
]

_TRIAL = ".trial"
_READ = "# read: rows, columns and class counts are the catalogue's"
_FACTOR = 4  # times the size that a file has about, at which a download is refused


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
        """Where a file is kept once it is downloaded and counts."""
        return self.files / file.path

    def trial(self, file: File) -> Path:
        """Where a download stands until it has been read; it has its name, which readers and messages look at."""
        place = self.local(file)
        return place.with_name(place.name + _TRIAL) / place.name

    def mirrored(self, file: File) -> str:
        """Address of a file in an http mirror."""
        assert self.mirror is not None
        return f"{self.mirror.rstrip('/')}/{quote(file.path)}"


@dataclass(frozen=True)
class Copy:
    """A file that is here.

    Attributes
    ----------
    file : File
        What it is a copy of.
    path : Path
        Where it stands.
    place : str
        Where it came from: an address, or the path.
    counts : bool
        Whether its hash vouches for it. If not, it must be read first.
    """

    file: File
    path: Path
    place: str
    counts: bool


@dataclass(frozen=True)
class Judgement:
    """What can be said of a copy without reading it.

    Attributes
    ----------
    problem : str or None
        What is wrong with it.
    counts : bool
        Whether its hash vouches for it.
    """

    problem: str | None
    counts: bool = False


def judge(file: File, path: Path, *, kept: Path | None = None) -> Judgement:
    """Judge a copy by its size and its hash.

    Parameters
    ----------
    file : File
        What it should be.
    path : Path
        Where it stands; ``FILE.sha256`` beside it speaks for it.
    kept : Path, optional
        Where the file is kept that was read before, if one was: another one is none.

    Raises
    ------
    OSError
        It cannot be read.
    """
    if file.certain:
        problem = Expected(file.sha256, file.size).problem(path)
        return Judgement(problem, counts=problem is None)
    problem = Expected((), file.size).problem(path)
    if problem is not None:
        return Judgement(problem)
    digest = sha256_of(path)
    if digest in file.sha256:
        return Judgement(None, counts=True)
    counts = False
    for place in (path, kept or path):
        recorded, was_read = _recorded(place)
        if recorded is not None and (was_read or place == path):
            if recorded != digest:
                return Judgement(f"expected sha256 {recorded}, got {digest}; {_held_by(place)}")
            counts = counts or was_read
    return Judgement(None, counts)


def _record(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _recorded(path: Path) -> tuple[str | None, bool]:
    """The hash in ``FILE.sha256``, and whether gpbench wrote it when it had read the file."""
    try:
        lines = _record(path).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        return None, False
    words = lines[0].split() if lines else []
    return (words[0] if words else None), bool(words) and _READ in lines


def record(path: Path) -> None:
    """Keep the hash of a file that has been read and is right; it holds from now on.

    Raises
    ------
    OSError
        The folder cannot be written.
    """
    words = f"{sha256_of(path)}  {path.name}\n{_READ}\n"
    with replacing(_record(path)) as partial:
        partial.write_text(words, encoding="utf-8")


def _held_by(path: Path) -> str:
    return f"{_record(path)} holds the first; without it another file is read, and accepted if it is the data set"


def on_trial(path: Path) -> bool:
    """Whether a path of the data folder is that of a download which has not been read yet."""
    return path.parent.name == path.name + _TRIAL


class Attempts:
    """The places that were tried for one data set, and what each said; none is asked twice."""

    def __init__(self) -> None:
        self.lines: dict[str, None] = {}
        self._answers: dict[str, str] = {}
        self._judged: dict[Path, Judgement] = {}
        self._origins: dict[Path, str] = {}
        self._joined: set[str] = set()
        self._twice: set[str] = set()
        self._failed: set[str] = set()
        self._stuck: set[tuple[str, str]] = set()

    def add(self, place: str, said: str) -> None:
        """Note a place; said twice it stands once."""
        place, said = shown(place), printable(said)
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

    def here(self, file: File, path: Path, places: Places) -> Copy | None:
        """The copy at a path, unless it is known to be wrong; the reason is noted."""
        if str(path) in self._failed:
            return None
        if not path.is_file():  # another process may bring it before it is looked for once more
            self.add(str(path), "not there")
            return None
        if path not in self._judged:
            try:
                self._judged[path] = judge(file, path, kept=places.local(file))
            except OSError as error:
                self._judged[path] = Judgement(why(error))
        judged = self._judged[path]
        if judged.problem is not None:
            self.add(str(path), judged.problem)
            return None
        return Copy(file, path, self._origins.get(path, str(path)), judged.counts)

    def left_over(self, file: File, places: Places) -> Copy | None:
        """A download that an earlier call was ended before it had read."""
        trial = places.trial(file)
        return self.here(file, trial, places) if not file.certain and trial.is_file() else None

    def download(self, file: File, url: str, places: Places, *, md5: str | None = None) -> Copy | None:
        """Download from an address that has not failed before."""
        if url in self._failed:
            return None
        if _server(url) in self._stuck:
            self.add(url, "not asked, since its server was silent or too slow before")
            return None
        local, trial = places.local(file), places.trial(file)
        try:
            recorded, was_read = _recorded(local)
            held = file.certain or was_read  # a hash decides; else the file is read
            hashes = (*file.sha256, recorded) if was_read and recorded else file.sha256
            expected = Expected(
                hashes if held else (), file.size, md5, most=None if file.about is None else _FACTOR * file.about
            )
            target = local if held else trial
            self._joined.discard(url)
            if download(url, target, expected=expected, progress=places.progress, patience=places.patience):
                self._joined.add(url)
            counts = held or sha256_of(target) in file.sha256
        except DownloadError as error:
            if error.stuck:
                self._stuck.add(_server(url))
            self.add(url, f"{error}; {_held_by(local)}" if was_read and "expected sha256" in str(error) else str(error))
        except OSError as error:
            self.add(str(local), why(error))
        else:
            self._judged[target], self._origins[target] = Judgement(None, counts), url
            self._failed.discard(str(target))
            return Copy(file, target, url, counts)
        finally:
            _remove_empty(trial.parent)
        self._failed.add(url)
        return None

    def refuse(self, found: Iterable[Copy], error: DataError) -> bool:
        """Note that copies are not the data set; they are not offered again, and downloads are removed.

        Parameters
        ----------
        found : iterable of Copy
            What was read.
        error : DataError
            What the reader said. Where it names files, these are refused, else all whose hash does not vouch for them.

        Returns
        -------
        bool
            Whether there were any. If all count, the catalogue or the reader is wrong, and no place has better ones.
        """
        doubtful = [one for one in found if not one.counts]
        named = [one for one in doubtful if one.file.name in str(error)]
        for one in named or doubtful:
            self.add(one.place, f"not the data set that the catalogue describes: {error}")
            self._failed.add(str(one.path))
            if one.place in self._joined - self._twice:
                self._twice.add(one.place)  # its parts may be of different files: once more, from the start
            else:
                self._failed.add(one.place)
            self.forget(one)
        return bool(doubtful)

    def forget(self, copy: Copy) -> None:
        """Remove a download that has not been accepted."""
        if on_trial(copy.path):
            copy.path.unlink(missing_ok=True)
            _remove_empty(copy.path.parent)


def _server(url: str) -> tuple[str, str]:
    """Which server an address is of; none that can be asked is one of its own."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", url
    return parts.scheme, parts.netloc


def accept(found: Iterable[Copy], places: Places) -> None:
    """Let copies count that have been read: downloads go to their places, and hashes are kept.

    Raises
    ------
    DataError
        The data folder cannot be written.
    """
    for one in found:
        local = places.local(one.file)
        try:
            if one.path == places.trial(one.file):
                one.path.replace(local)
                _remove_empty(one.path.parent)
            if not one.counts and one.path in {local, places.trial(one.file)}:
                record(local)
        except OSError as error:
            raise DataError(unwritable(local.parent, error)) from error


Found = dict[str, Copy]
"""Path in the catalogue -> copy."""


def offers(
    entry: Entry, places: Places, attempts: Attempts, *, also: Iterable[str] = ()
) -> Generator[tuple[Edition, Found]]:
    """Complete sets of files, without publishers first and then with them, until one is right.

    Whoever reads one says what came of it: :func:`accept`, and asks for no more, or :meth:`Attempts.refuse`. Meanwhile
    no other process works with those of them that must be read.

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

    Raises
    ------
    DataError
        The data folder cannot be written.
    """
    editions = [one for one in entry.editions if one.parts]
    urls = [] if places.offline else [url for edition in editions for one in edition.files for url in one.urls]
    if places.mirror is not None and places.mirror_folder is None:
        urls.append(places.mirror)
        if not any(files_here(edition.files, places) for edition in editions):
            attempts.probe([*urls, *also], seconds=places.patience.probe)  # the mirror and the publishers in one wait
    for source in (False,) if places.offline else (False, True):
        if source:
            attempts.probe([*urls, *also], seconds=places.patience.probe)
        for edition in editions:
            for found in copies(edition.files, places, attempts, source=source):
                yield edition, found


def copies(files: Sequence[File], places: Places, attempts: Attempts, *, source: bool) -> Generator[Found]:
    """Copies of all of some files; the next ones, where these are refused; none as soon as one cannot be had.

    Parameters
    ----------
    files : sequence of File
    places, attempts
        As for :func:`offers`.
    source : bool
        Whether publishers are asked.

    Raises
    ------
    DataError
        The data folder cannot be written.
    """
    asking = source or (places.mirror is not None and places.mirror_folder is None)
    with held(files, places, asking=asking):
        while len(found := _gathered(files, places, attempts, source=source)) == len(files):
            yield found


@contextmanager
def held(files: Sequence[File], places: Places, *, asking: bool) -> Iterator[None]:
    """Keep other processes from files that may have to be read before they count.

    In the order of their paths, so that no two processes wait for one another.

    Parameters
    ----------
    files, places
        As for :func:`copies`.
    asking : bool
        Whether files may be downloaded.

    Raises
    ------
    DataError
        The data folder cannot be written.
    """
    doubtful = sorted((one for one in files if not one.certain), key=lambda one: one.path)
    with ExitStack() as stack:
        if asking or any(place.is_file() for one in doubtful for place in (places.local(one), places.trial(one))):
            for place in map(places.local, doubtful):
                try:
                    place.parent.mkdir(parents=True, exist_ok=True)
                    stack.enter_context(alone(place))
                except OSError as error:
                    raise DataError(unwritable(place.parent, error)) from error
        yield


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # something is in it, or it is not there
        folder.rmdir()


def _gathered(files: Iterable[File], places: Places, attempts: Attempts, *, source: bool) -> Found:
    """One copy of each file; fewer as soon as one cannot be had."""
    found: Found = {}
    for one in files:
        copy = attempts.here(one, places.local(one), places) or attempts.left_over(one, places)
        copy = copy or _from_mirror(one, places, attempts)
        if copy is None and source:
            copy = _from_source(one, places, attempts)
        if copy is None:
            break
        found[one.path] = copy
    return found


def _from_mirror(file: File, places: Places, attempts: Attempts) -> Copy | None:
    if places.mirror is None:
        return None
    if places.mirror_folder is not None:
        return attempts.here(file, places.mirror_folder / file.path, places)
    if not attempts.answers(places.mirror, seconds=places.patience.probe):
        return None
    return attempts.download(file, places.mirrored(file), places)


def _from_source(file: File, places: Places, attempts: Attempts) -> Copy | None:
    if not file.urls:
        attempts.add(file.path, "no publisher offers this copy; only a mirror can have it")
    for url in file.urls:
        if attempts.answers(url, seconds=places.patience.probe):
            copy = attempts.download(file, url, places)
            if copy is not None:
                return copy
    return None


def files_here(files: Iterable[File], places: Places) -> bool:
    """Whether all files are in the data folder or in a mirror that is a folder; their bytes are not looked at."""
    folder = places.mirror_folder
    return all(places.local(one).is_file() or (folder is not None and (folder / one.path).is_file()) for one in files)


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
