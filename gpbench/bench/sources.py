"""How a cell finds its data set, on this machine or on another: by the catalogue's id or by a file's path."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gpbench.data import generators, splits
from gpbench.data.catalogue import entries
from gpbench.data.options import FileOptions
from gpbench.errors import DataUnavailable, PluginError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.config import Config
    from gpbench.data.dataset import Dataset
    from gpbench.data.download import Progress

__all__ = [
    "CatalogueSource",
    "FileSource",
    "Source",
    "dataset_id",
    "decisions",
    "drawn",
    "means_file",
    "opened",
    "place_of",
    "sources",
]

#: Classes that are all named; of more, some.
_NAMED = 12
#: Endings that mean a file of the user's own, even where it does not exist.
_FILE_ENDINGS = (
    ".csv",
    ".tsv",
    ".parquet",
    ".arff",
    ".libsvm",
    ".svm",
    ".npz",
    ".txt",
    ".data",
    ".gz",
    ".bz2",
    ".xz",
    ".zst",
    ".zip",
    ".pq",
    ".dat",
    ".svmlight",
    ".z",
)


class Source(Protocol):
    """A place that a data set is loaded from. Hashable and picklable: it travels to the workers."""

    def __hash__(self) -> int: ...

    def load(self, progress: Progress | None = None) -> Dataset:
        """Open the data set.

        Raises
        ------
        DataError
            It cannot be had or read.
        """


@dataclass(frozen=True)
class CatalogueSource:
    """A data set of the catalogue, or ``openml:ID``.

    Attributes
    ----------
    name : str
    folder : Path
        The data folder.
    mirror : str or None
    draws : int
        Of a generated data set: so many of it, one after another.
    """

    name: str
    folder: Path
    mirror: str | None
    draws: int = 1

    def load(self, progress: Progress | None = None) -> Dataset:
        """Open the data set, downloading and preparing it where that has not been done."""
        from gpbench.data.load import load  # noqa: PLC0415  # pandas is heavy

        return load(self.name, folder=self.folder, mirror=self.mirror, progress=progress, draws=self.draws)


@dataclass(frozen=True)
class FileSource:
    """A file of the user's own.

    Attributes
    ----------
    path : Path
        Absolute.
    options : FileOptions
        How it is read.
    cache : Path
        Where the prepared form is kept.
    """

    path: Path
    options: FileOptions
    cache: Path

    def load(self, progress: Progress | None = None) -> Dataset:
        """Read the file, or its prepared form."""
        from gpbench.data.userfile import load_file  # noqa: PLC0415  # pandas is heavy

        return load_file(self.path, options=self.options, cache=self.cache, progress=progress)


def sources(
    names: Sequence[str],
    config: Config,
    *,
    options: FileOptions | None = None,
    argument: str = "--dataset",
) -> list[Source]:
    """The sources that names on the command line mean.

    A name that is a data set of the catalogue and does not look like a path means that data set, even where a file of
    that name lies in the current folder (``./wine`` means the file). Other names mean files where there are any.

    Parameters
    ----------
    names : sequence of str
    config : Config
    options : FileOptions, optional
        How to read the files among them.
    argument : str
        What the command calls these names, for messages.

    Raises
    ------
    UsageError
        A name is neither a file's nor known to the catalogue, or there is no file that the options could apply to.
    DataUnavailable
        A name is evidently a file's, and there is none.
    """
    options = options or FileOptions()
    found: list[Source] = []
    for name in names:
        path, member = place_of(name)
        if path.is_file() and (member is not None or not _is_catalogued(name, path)):
            found.append(FileSource(path.resolve(), replace(options, member=member), config.data))
        else:
            found.append(_catalogued(name, path, config, argument=argument))
    if not any(isinstance(each, FileSource) for each in found):
        for flag in options.given():
            raise UsageError(f"{flag} says how to read a file, and no {argument} is a file")
    return found


def drawn(place: Source, split: str) -> Source:
    """The source that a split asks for: of ``draws:R`` all R data sets, of any other the one that is given.

    Raises
    ------
    UsageError
        Draws of a data set that is not generated.
    """
    protocol = splits.Protocol.parse(split)
    if protocol.kind != "draws":
        return place
    if not isinstance(place, CatalogueSource) or generators.parse(place.name)[0] not in generators.GENERATORS:
        known = ", ".join(generators.GENERATORS)
        raise UsageError(f"split {protocol.text} is of generated data sets ({known}); got {_name(place)}")
    return replace(place, draws=protocol.parts)


def _name(place: Source) -> str:
    return place.name if isinstance(place, CatalogueSource) else str(getattr(place, "path", place))


def decisions(places: Sequence[Source]) -> list[str]:
    """What was decided about each data set, in words, for the eyes of whoever reads its numbers.

    Of a file that is its task first, which its targets tell where nobody says it; then what preparation came to.
    """
    found = []
    for place in places:
        dataset = opened(place)
        own = [_task(dataset, asked=place.options.task)] if isinstance(place, FileSource) else []
        found += [f"{dataset.id}: {words}" for words in (*own, *dataset.decisions)]
    return found


def _task(dataset: Dataset, *, asked: str | None) -> str:
    """The task of a file with its classes; and what else numbers can be, where nobody has said it."""
    from gpbench.data.formats.dialect import is_number  # noqa: PLC0415  # its package needs pandas, as files do

    target = "" if dataset.preparation is None else f" of column {', '.join(dataset.preparation.target)}"
    classes = dataset.classes
    if not classes:
        return f"task {dataset.task}{target}, {int(dataset.y.min())} to {int(dataset.y.max())}"
    some = classes if len(classes) <= _NAMED else (*classes[: _NAMED - 1], "...", classes[-1])
    words = f"task {dataset.task}{target}, {len(classes)} classes: {', '.join(some)}"
    if asked is None and dataset.task == "multiclass" and all(map(is_number, classes)):
        others = "count or ordinal" if all(float(each) >= 0 for each in classes) else "ordinal"
        words += f"; numbers that are not mere names of classes need --task {others}"
    return words


def _path(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:  # ~somebody who is unknown here
        return Path(name)


def place_of(name: str) -> tuple[Path, str | None]:
    """The path that a name means, and the member where it is ``ARCHIVE::MEMBER`` and there is that archive."""
    path = _path(name)
    file, colons, member = name.partition("::")
    if colons and member and not path.is_file() and (archive := _path(file)).is_file():
        return archive, member
    return path, None


def means_file(name: str) -> bool:
    """Whether a name can only be meant as a file's, even where there is none."""
    path = _path(name)
    return path.suffix.lower() in _FILE_ENDINGS or path.is_absolute() or name.startswith((".", "~"))


def dataset_id(name: str) -> str:
    """The id that results bear for a data set of this name: the catalogue's, ``openml:ID``, or a file's name."""
    if name.startswith("openml:"):
        return name
    base = name.partition(":")[0]
    if base not in entries():
        file, colons, member = name.partition("::")
        return f"{Path(file).name}{colons}{member}"
    base, rows = generators.parse(name)
    return base if rows is None or rows == entries()[base].n else f"{base}:{rows}"


def _is_catalogued(name: str, path: Path) -> bool:
    if path.suffix or path.name != name:
        return False
    from gpbench.data.load import known  # noqa: PLC0415  # pandas is heavy

    try:
        known(name)
    except (UsageError, PluginError):
        return False
    return True


def _catalogued(name: str, path: Path, config: Config, *, argument: str) -> CatalogueSource:
    if path.exists() and not _is_catalogued(name, path):
        found = "a folder" if path.is_dir() else "no plain file"
        raise DataUnavailable(f"{name} is {found}; {argument} takes a catalogue id or a file")
    if means_file(name):
        raise DataUnavailable(f"there is no file {name}; {argument} takes a catalogue id or a file that exists")
    from gpbench.data.load import known  # noqa: PLC0415  # pandas is heavy

    known(name)
    return CatalogueSource(name, config.data, config.mirror)


def opened(place: Source, progress: Progress | None = None) -> Dataset:
    """The data set of a source (its rows are memory-mapped); of the latest ones, which a process keeps open.

    Raises
    ------
    DataError
        It cannot be had or read.
    """
    dataset = _opened.pop(place, None)
    if dataset is None:
        dataset = place.load(progress)
    _opened[place] = dataset
    while len(_opened) > KEPT:
        del _opened[next(iter(_opened))]  # the one that was asked for longest ago
    return dataset


KEPT = 2
"""Data sets that stay open: cells come data set by data set."""

_opened: dict[Source, Dataset] = {}
