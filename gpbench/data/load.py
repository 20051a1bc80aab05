"""One call from an id to a data set: what is prepared is opened, and what is not is fetched and prepared first.

The data folder holds ``files/`` (downloads, laid out like a mirror) and ``prepared/ID/FINGERPRINT/``. The fingerprint
changes when the catalogue says something else of the files or of their preparation, so that no stale form is opened.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpbench.data import generators, openml
from gpbench.data.catalogue import Edition, Entry, entry
from gpbench.data.download import Patience, Progress, sha256_of, why
from gpbench.data.embedded import load_embedded
from gpbench.data.fetch import Attempts, Places, cannot_be_had, files_here, obtain
from gpbench.data.prepared import open_prepared
from gpbench.data.recipe import Recipe
from gpbench.errors import DataError, GpbenchError, UsageError
from gpbench.leases import alone

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpbench.data.dataset import Dataset, GivenSplits
    from gpbench.data.formats import Frames

__all__ = ["is_here", "known", "load", "prepared_folder"]


def load(
    name: str,
    *,
    folder: Path,
    mirror: str | None = None,
    offline: bool = False,
    progress: Progress | None = None,
    patience: Patience | None = None,
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

    Raises
    ------
    UsageError
        No such data set; the message names the nearest.
    DataUnavailable
        It cannot be had; the message names each place tried and the remedy.
    DataError
        What was fetched is not what the catalogue says, or cannot be prepared.
    """
    folder = Path(folder)
    places = Places(folder / "files", mirror, offline, progress, patience or Patience())
    if name.startswith("openml:"):
        return _load_openml(name, folder, places)
    base, rows = generators.parse(name)
    one = entry(base)
    if one.maker == "embedded":
        return load_embedded(one)
    if one.maker == "generated":
        return _load_generated(one, rows or one.n or generators.BLOCK, folder, progress)
    home = prepared_folder(one, folder)
    return _already(home) or _once(home, home.parent, lambda: _prepare_files(one, home, places))


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
        return (folder / "prepared" / f"openml-{number}" / "header.json").exists() or _openml_here(number, places)
    base, _ = generators.parse(name)
    one = entry(base)
    if one.maker != "files" or (prepared_folder(one, folder) / "header.json").exists():
        return True
    return any(
        files_here(edition.files, places) if edition.parts else _openml_here(int(edition.options["id"]), places)
        for edition in one.editions
    )


def prepared_folder(one: Entry, folder: Path) -> Path:
    """Where the prepared form of a catalogue's data set stands in a data folder."""
    return Path(folder) / "prepared" / one.id / one.fingerprint[:16]


def _openml_here(number: int, places: Places) -> bool:
    return any(files_here(pair, places) for pair in openml.files_of(number))


def _already(home: Path) -> Dataset | None:
    """The prepared form, if it stands there whole; a damaged one is made anew."""
    if not (home / "header.json").exists():
        return None
    try:
        return open_prepared(home)
    except DataError:
        return None


def _once(home: Path, place: Path, make: Callable[[], Dataset]) -> Dataset:
    """Make a prepared form, or wait for the process that is making it at the same place and open what it has made."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with alone(place):
            return _already(home) or make()
    except OSError as error:
        raise DataError(f"{place.parent} cannot be written: {why(error)}") from error


def _label(name: str, progress: Progress | None) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    return lambda done, total: progress(f"preparing {name}", done, total)


def _load_generated(one: Entry, rows: int, folder: Path, progress: Progress | None) -> Dataset:
    name = one.id if rows == one.n else f"{one.id}:{rows}"
    home = folder / "prepared" / one.id / f"{rows}-{_GENERATION}"

    def make() -> Dataset:
        from gpbench.data.preparation import prepare  # noqa: PLC0415  # as below

        return prepare(
            lambda: generators.blocks(one.id, rows),
            Recipe(task=one.task, classes=one.classes),
            id=name,
            title=one.title,
            folder=home,
            notes=one.notes,
            progress=_label(name, progress),
        )

    return _already(home) or _once(home, home.parent, make)


_GENERATION = 1  # raised when a generator's rows change


def _prepare_files(one: Entry, home: Path, places: Places) -> Dataset:
    attempts = Attempts()
    had = obtain(one, places, attempts, also=[openml.SERVER] if any(e.reader == "openml" for e in one.editions) else [])
    if had is not None:
        edition, paths = had
        strange = [
            f"{file.name}: other bytes than the copy that the catalogue knows; rows and class counts fit"
            for file in edition.files
            if not file.proven and file.sha256 and sha256_of(paths[file.path]) not in file.sha256
        ]
        from gpbench.data.readers import read_edition  # noqa: PLC0415  # as below

        try:
            reading = read_edition(edition, paths)
        except DataError as error:
            raise DataError(f"data set {one.id}: {error}") from error
        return _prepared(one, edition, reading.frames, given=reading.given, home=home, places=places, strange=strange)
    for edition in one.editions:
        if edition.reader != "openml":
            continue
        found = openml.find(int(edition.options["id"]), places, attempts)
        if found is not None:
            recipe = replace(edition.recipe, drop=edition.recipe.drop or openml.recipe_of(found).drop)
            return _prepared(one, replace(edition, recipe=recipe), found.frames, home=home, places=places)
    raise cannot_be_had(one.id, attempts, places=places, files=one.files)


def _prepared(
    one: Entry,
    edition: Edition,
    frames: Callable[[], Frames],
    *,
    given: GivenSplits = (),
    home: Path,
    places: Places,
    strange: Sequence[str] = (),
) -> Dataset:
    from gpbench.data.preparation import prepare  # noqa: PLC0415  # pandas: a second that failures need not pay

    edition_said = [f"edition: {edition.name}"] if len(one.editions) > 1 else []
    try:
        made = prepare(
            frames,
            edition.recipe,
            id=one.id,
            title=one.title,
            folder=home,
            given=given,
            notes=[*one.notes, *edition_said, *edition.notes, *strange],
            progress=_label(one.id, places.progress),
        )
        _check(one, edition, made)
    except GpbenchError as error:
        shutil.rmtree(home, ignore_errors=True)
        kind = (
            DataError if isinstance(error, UsageError) else type(error)
        )  # a recipe that does not fit: the file's fault
        raise kind(f"data set {one.id}: {error}") from error
    return made


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
    if one.classes and made.classes != one.classes:
        raise DataError(f"expected the classes {', '.join(one.classes)}; got {', '.join(made.classes)}")
    if edition.counts and made.class_counts() != dict(edition.counts):
        raise DataError(f"expected the class counts {dict(edition.counts)}; got {made.class_counts()}")


def _load_openml(name: str, folder: Path, places: Places) -> Dataset:
    home = folder / "prepared" / f"openml-{openml.openml_id(name)}"
    return _already(home) or _once(home, home, lambda: _prepare_openml(name, home, places))


def _prepare_openml(name: str, home: Path, places: Places) -> Dataset:
    from gpbench.data.preparation import prepare  # noqa: PLC0415  # as above

    number = openml.openml_id(name)
    attempts = Attempts()
    found = openml.find(number, places, attempts)
    if found is None:
        raise cannot_be_had(name, attempts, places=places, files=openml.files_of(number)[0])
    title = " ".join(found.said("name")) or name
    try:
        return prepare(
            found.frames,
            openml.recipe_of(found),
            id=name,
            title=title,
            folder=home,
            notes=[f"OpenML {number}, licence: {', '.join(found.said('licence')) or 'not stated'}"],
            progress=_label(name, places.progress),
        )
    except DataError as error:
        raise DataError(f"data set {name}: {error}") from error
