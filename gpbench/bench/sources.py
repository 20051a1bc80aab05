"""How a cell finds its data set, on this machine or on another: by the catalogue's id or by a file's path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gpbench.errors import DataUnavailable

if TYPE_CHECKING:
    from gpbench.config import Config
    from gpbench.data.dataset import Dataset
    from gpbench.data.download import Progress

__all__ = ["CatalogueSource", "FileSource", "Source", "opened", "source"]

#: Endings that mean a file of the user's own, even where it does not exist.
_FILE_ENDINGS = (".csv", ".tsv", ".parquet", ".arff", ".libsvm", ".svm", ".npz", ".txt", ".data", ".gz", ".bz2", ".xz")


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
    """

    name: str
    folder: Path
    mirror: str | None

    def load(self, progress: Progress | None = None) -> Dataset:
        """Open the data set, downloading and preparing it where that has not been done."""
        from gpbench.data.load import load  # noqa: PLC0415  # pandas and pooch are heavy

        return load(self.name, folder=self.folder, mirror=self.mirror, progress=progress)


@dataclass(frozen=True)
class FileSource:
    """A file of the user's own.

    Attributes
    ----------
    path : Path
        Absolute.
    target, task, impute : str or None
        As for :func:`gpbench.data.userfile.load_file`.
    cache : Path
        Where the prepared form is kept.
    """

    path: Path
    target: str | None
    task: str | None
    impute: str | None
    cache: Path

    def load(self, progress: Progress | None = None) -> Dataset:
        """Read the file, or its prepared form."""
        from gpbench.data.userfile import load_file  # noqa: PLC0415  # pandas is heavy

        label = f"reading {self.path.name}"
        return load_file(
            self.path,
            target=self.target,
            task=self.task,
            impute=self.impute,
            cache=self.cache,
            progress=None if progress is None else lambda done, total: progress(label, done, total),
        )


def source(
    name: str, config: Config, *, target: str | None = None, task: str | None = None, impute: str | None = None
) -> Source:
    """The source that a name on the command line means: a file where there is one of that name, else the catalogue.

    Raises
    ------
    UsageError
        Neither a file nor a catalogue id.
    DataUnavailable
        The name is evidently a file's, and there is none.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return FileSource(path.resolve(), target, task, impute, config.data)
    if path.suffix.lower() in _FILE_ENDINGS or path.is_absolute() or name.startswith((".", "~")):
        raise DataUnavailable(f"there is no file {name}; --dataset takes a catalogue id or a file that exists")
    from gpbench.data.load import known  # noqa: PLC0415  # pandas is heavy

    known(name)
    return CatalogueSource(name, config.data, config.mirror)


def opened(place: Source, progress: Progress | None = None) -> Dataset:
    """The data set of a source, opened once in a process (its rows are memory-mapped).

    Raises
    ------
    DataError
        It cannot be had or read.
    """
    if place not in _opened:
        _opened[place] = place.load(progress)
    return _opened[place]


_opened: dict[Source, Dataset] = {}
