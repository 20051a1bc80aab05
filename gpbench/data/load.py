"""One call from an id to a data set: what is prepared is opened, and what is not is fetched and prepared first.

The data folder holds ``files/`` (downloads, laid out like a mirror) and ``prepared/ID/FINGERPRINT/``. The fingerprint
changes when the catalogue says something else of the files or of their preparation, so that no stale form is opened.
"""

from __future__ import annotations

import shutil
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpbench.data import generators, openml
from gpbench.data.catalogue import Edition, Entry, File, entry
from gpbench.data.download import Patience, Progress, sha256_of
from gpbench.data.embedded import load_embedded
from gpbench.data.fetch import Attempts, Copy, Found, Places, accept, cannot_be_had, files_here, offers
from gpbench.data.prepared import opened_or_made, outdated
from gpbench.data.recipe import Recipe
from gpbench.errors import DataError, GpbenchError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from gpbench.data.dataset import Dataset, GivenSplits
    from gpbench.data.formats import Frames

__all__ = ["Candidate", "candidate_of", "candidates", "files_of", "is_here", "known", "load", "prepared_folder"]


def load(
    name: str,
    *,
    folder: Path,
    mirror: str | None = None,
    offline: bool = False,
    progress: Progress | None = None,
    patience: Patience | None = None,
    draws: int = 1,
) -> Dataset:
    """Open a data set; fetch and prepare it where that has not been done.

    Parameters
    ----------
    name : str
        An id of the catalogue, ``NAME:ROWS`` for a generated one, or ``openml:ID``.
    folder : Path
        The data folder.
    mirror : str, optional
        A folder or an http address that is asked before the publisher.
    offline : bool
        Never ask a publisher.
    progress : callable, optional
        Called with a label, what is done and what there is to do (in bytes), while downloading and preparing.
    patience : Patience, optional
        With servers.
    draws : int
        Of a generated data set: so many of it, one after another, with the generator's seeds 0, 1, ...

    Raises
    ------
    UsageError
        No such data set; the message names the nearest.
    DataUnavailable
        It cannot be had; the message names each place tried and the remedy.
    DataError
        What was fetched is not what the catalogue says, or cannot be prepared.

    Warns
    -----
    GpbenchWarning
        The prepared form was damaged and has been made anew.
    """
    folder = Path(folder)
    places = Places(folder / "files", mirror, offline, progress, patience or Patience())
    if name.startswith("openml:"):
        home = folder / "prepared" / f"openml-{openml.openml_id(name)}"
        return opened_or_made(home, partial(_fetched, name, home, places), name=name, lease=home, progress=progress)
    base, rows = generators.parse(name)
    one = entry(base)
    if one.maker == "embedded":
        return load_embedded(one)
    if one.maker == "generated":
        return _load_generated(one, rows or one.n or generators.BLOCK, folder, progress, draws=draws)
    home = prepared_folder(one, folder)
    make = partial(_fetched, name, home, places)
    return opened_or_made(home, make, name=name, lease=home.parent, progress=progress)


def known(name: str) -> None:
    """Check that a name is one that :func:`load` takes.

    Raises
    ------
    UsageError
        It is not; the message names the nearest.
    """
    if name.startswith("openml:"):
        openml.openml_id(name)
    else:
        entry(generators.parse(name)[0])


def is_here(name: str, folder: Path, mirror: str | None = None) -> bool:
    """Whether :func:`load` needs neither network nor mirror.

    Parameters
    ----------
    name : str
        As for :func:`load`.
    folder : Path
        The data folder.
    mirror : str, optional
        Where it is a folder, what lies in it counts as here.

    Raises
    ------
    UsageError
        No such data set.
    """
    folder = Path(folder)
    places = Places(folder / "files", mirror)
    if name.startswith("openml:"):
        number = openml.openml_id(name)
        return _stands(folder / "prepared" / f"openml-{number}") or _openml_here(number, places)
    base, _ = generators.parse(name)
    one = entry(base)
    if one.maker != "files" or _stands(prepared_folder(one, folder)):
        return True
    return any(
        files_here(edition.files, places) if edition.parts else _openml_here(int(edition.options["id"]), places)
        for edition in one.editions
    )


def _stands(home: Path) -> bool:
    """Whether a prepared form stands there, and is of this version."""
    return (home / "header.json").exists() and not outdated(home)


def prepared_folder(one: Entry, folder: Path) -> Path:
    """Where the prepared form of a catalogue's data set stands in a data folder."""
    return Path(folder) / "prepared" / one.id / one.fingerprint[:16]


def _openml_here(number: int, places: Places) -> bool:
    return any(files_here(pair, places) for pair in openml.files_of(number))


def _label(name: str, progress: Progress | None) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    return lambda done, total: progress(f"preparing {name}", done, total)


def _load_generated(one: Entry, rows: int, folder: Path, progress: Progress | None, *, draws: int) -> Dataset:
    name = one.id if rows == one.n else f"{one.id}:{rows}"
    home = folder / "prepared" / one.id / (f"{rows}-{_GENERATION}" if draws == 1 else f"{rows}x{draws}-{_GENERATION}")

    def make(_: str | None) -> Dataset:
        from gpbench.data.preparation import prepare  # noqa: PLC0415  # as below

        return prepare(
            lambda: generators.blocks(one.id, rows, draws=draws),
            Recipe(task=one.task, classes=one.classes),
            id=name,
            title=one.title,
            folder=home,
            notes=one.notes,
            progress=_label(name, progress),
        )

    return opened_or_made(home, make, name=name, lease=home.parent, progress=progress)


_GENERATION = 1  # raised when a generator's rows change


def _fetched(name: str, home: Path, places: Places, damage: str | None) -> Dataset:
    """Prepare the first set of files that turns out to be the data set."""
    attempts = Attempts()
    if damage is not None:
        attempts.add(str(home), damage)
    with closing(candidates(name, places, attempts)) as found:
        for candidate in found:
            try:
                made = candidate.prepare(home)
            except DataError as error:
                if not attempts.refuse(candidate.copies, error):
                    raise
            else:
                accept(candidate.copies, places)
                return made
    raise cannot_be_had(name, attempts, places=places, files=files_of(name))


def files_of(name: str) -> tuple[File, ...]:
    """The files of a data set, in all forms that it may have.

    Raises
    ------
    UsageError
        No such data set.
    """
    if name.startswith("openml:"):
        return tuple(dict.fromkeys(file for pair in openml.files_of(openml.openml_id(name)) for file in pair))
    return entry(generators.parse(name)[0]).files


@dataclass(frozen=True)
class Candidate:
    """Files that may be a data set; preparation decides it.

    Attributes
    ----------
    copies : tuple of Copy
        The files.
    prepare : callable
        Makes the prepared form in a folder. It raises a DataError, and leaves nothing, where the files cannot be read
        or hold other rows, columns or classes than the catalogue says.
    """

    copies: tuple[Copy, ...]
    prepare: Callable[[Path], Dataset]


def candidates(name: str, places: Places, attempts: Attempts) -> Generator[Candidate]:
    """What may be a data set, from the nearest place on; see :func:`gpbench.data.fetch.offers`.

    Parameters
    ----------
    name : str
        An id of the catalogue whose data set is made from files, or ``openml:ID``.
    places, attempts
        As there.

    Raises
    ------
    UsageError
        No such data set.
    DataError
        The data folder cannot be written.
    """
    if name.startswith("openml:"):
        for found in openml.offers(openml.openml_id(name), places, attempts):
            yield Candidate(found.copies, partial(_openml, name, found, progress=places.progress))
        return
    one = entry(generators.parse(name)[0])
    server = [openml.SERVER] if any(edition.reader == "openml" for edition in one.editions) else []
    for edition, copies in offers(one, places, attempts, also=server):
        yield candidate_of(one, edition, copies, progress=places.progress)
    for edition in one.editions:
        if edition.reader == "openml":
            for found in openml.offers(int(edition.options["id"]), places, attempts):
                make = partial(_edition_of_openml, one, edition, found, progress=places.progress)
                yield Candidate(found.copies, make)


def candidate_of(one: Entry, edition: Edition, found: Found, *, progress: Progress | None = None) -> Candidate:
    """The files of one edition."""
    return Candidate(tuple(found.values()), partial(_edition, one, edition, found, progress=progress))


def _edition(one: Entry, edition: Edition, found: Found, home: Path, *, progress: Progress | None) -> Dataset:
    from gpbench.data.readers import read_edition  # noqa: PLC0415  # pandas: a second that failures need not pay

    strange = [
        f"{copy.file.name}: other bytes than the copy that the catalogue knows; rows and class counts fit"
        for copy in found.values()
        if not copy.file.proven and copy.file.sha256 and sha256_of(copy.path) not in copy.file.sha256
    ]
    with _named(one.id):
        reading = read_edition(edition, {path: copy.path for path, copy in found.items()})
    return _prepared(one, edition, reading.frames, given=reading.given, home=home, progress=progress, strange=strange)


def _edition_of_openml(
    one: Entry, edition: Edition, found: openml.Downloaded, home: Path, *, progress: Progress | None
) -> Dataset:
    with _named(one.id):
        recipe = replace(edition.recipe, drop=edition.recipe.drop or openml.recipe_of(found).drop)
    return _prepared(one, replace(edition, recipe=recipe), found.frames, home=home, progress=progress)


def _openml(name: str, found: openml.Downloaded, home: Path, *, progress: Progress | None) -> Dataset:
    from gpbench.data.preparation import prepare  # noqa: PLC0415  # as above

    with _named(name):
        return prepare(
            found.frames,
            openml.recipe_of(found),
            id=name,
            title=" ".join(found.said("name")) or name,
            folder=home,
            notes=[f"OpenML {found.id}, licence: {', '.join(found.said('licence')) or 'not stated'}"],
            progress=_label(name, progress),
        )


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Name the data set in errors; a recipe that does not fit is the file's fault."""
    try:
        yield
    except GpbenchError as error:
        kind = DataError if isinstance(error, UsageError) else type(error)
        raise kind(f"data set {name}: {error}") from error


def _prepared(
    one: Entry,
    edition: Edition,
    frames: Callable[[], Frames],
    *,
    given: GivenSplits = (),
    home: Path,
    progress: Progress | None,
    strange: Sequence[str] = (),
) -> Dataset:
    from gpbench.data.preparation import prepare  # noqa: PLC0415  # as above

    edition_said = [f"edition: {edition.name}"] if len(one.editions) > 1 else []
    try:
        with _named(one.id):
            made = prepare(
                lambda: _bounded(frames(), one, edition),
                edition.recipe,
                id=one.id,
                title=one.title,
                folder=home,
                given=given,
                notes=[*one.notes, *edition_said, *edition.notes, *strange],
                progress=_label(one.id, progress),
            )
            _check(one, edition, made)
    except GpbenchError:
        shutil.rmtree(home, ignore_errors=True)
        raise
    return made


_ROWS = 16  # times the rows of the data set that its files may hold: some are left out, or stand there twice


def _bounded(frames: Frames, one: Entry, edition: Edition) -> Frames:
    """The blocks, as long as they are not far more than they should be: a small archive can hold rows without end."""
    most, rows = _ROWS * (edition.n or one.n or 0), 0
    for block in frames:
        rows += len(block)
        if most and rows > most:
            raise DataError(f"expected {most // _ROWS:,} rows; got more than {_ROWS} times as many")
        yield block


def _check(one: Entry, edition: Edition, made: Dataset) -> None:
    """Whether the rows are those that the catalogue promises.

    Raises
    ------
    DataError
        Another number of rows or features, or other classes.
    """
    wanted = {"rows": edition.n, "features": one.d}
    for what, got in (("rows", made.n), ("features", made.d)):
        if wanted[what] is not None and got != wanted[what]:
            raise DataError(f"expected {wanted[what]:,} {what}, got {got:,}")
    if edition.n is None and one.n is not None and not one.n / 2 <= made.n <= 2 * one.n:
        raise DataError(f"expected about {one.n:,} rows, got {made.n:,}")
    if one.classes and made.classes != one.classes:
        raise DataError(f"expected the classes {', '.join(one.classes)}; got {', '.join(made.classes)}")
    if edition.counts and made.class_counts() != dict(edition.counts):
        raise DataError(f"expected the class counts {dict(edition.counts)}; got {made.class_counts()}")
