"""The catalogue: what each data set is, where its files are, and how they become rows.

One TOML file a source under ``datasets/catalogue`` (``gpbench/_data/catalogue`` in a wheel), which
:mod:`gpbench.data.entries` reads. Third-party packages add data sets through the entry point group
``gpbench.datasets``: it names an :class:`Entry`, a list of them, the path of a TOML file, or a function that returns
one of these.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpbench.config import shipped
from gpbench.errors import DataError, GpbenchError, PluginError
from gpbench.plugins import loaded, unknown

if TYPE_CHECKING:
    from gpbench.data.recipe import Recipe

__all__ = [
    "Catalogue",
    "Edition",
    "Entry",
    "File",
    "Part",
    "catalogue",
    "entries",
    "entry",
    "entry_of",
    "family_of",
    "task_of",
]


@dataclass(frozen=True)
class File:
    """One file as a publisher offers it.

    Attributes
    ----------
    path : str
        ``<source>/<data set>/<file>``: its place in a mirror and in the data folder.
    urls : tuple of str
        Where it can be downloaded, http or https; tried in turn. Empty: mirrors only.
    sha256 : tuple of str
        The hashes that are accepted; empty where none is known.
    size : int or None
        Bytes, where all accepted files have the same.
    proven : bool
        Whether ``sha256`` is the publisher's own. If not, other bytes are accepted too when they have been read and
        their rows, columns and class counts are the catalogue's, and the data set's notes say so.
    about : int or None
        Bytes, roughly, where they are not known exactly; four times as many are refused.

    Raises
    ------
    DataError
        The path leaves the data folder, or an address is none of http or https.
    """

    path: str
    urls: tuple[str, ...] = ()
    sha256: tuple[str, ...] = ()
    size: int | None = None
    proven: bool = True
    about: int | None = None

    def __post_init__(self) -> None:
        steps = self.path.split("/")
        if len(steps) != 3 or not all(map(_plain, steps)):
            raise DataError(f"path must be <source>/<data set>/<file>; got {self.path!r}")
        for url in self.urls:
            if not url.startswith(("http://", "https://")):
                raise DataError(f"file {self.path}: expected addresses with http:// or https://; got {url!r}")

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.path.rpartition("/")[2]

    @property
    def certain(self) -> bool:
        """Whether its hash alone tells the file from any other."""
        return self.proven and bool(self.sha256)


@dataclass(frozen=True)
class Part:
    """A file's share in a data set.

    Attributes
    ----------
    file : File
        Where the rows are.
    format : str
        A format of :mod:`gpbench.data.formats`; empty where the reader knows.
    options : mapping
        The format's options.
    role : str
        ``train`` or ``test`` where the publisher splits the data set by files; else empty.
    labels : Part or None
        A file beside it that holds the targets of the same rows.
    """

    file: File
    format: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    role: str = ""
    labels: Part | None = None


@dataclass(frozen=True)
class Edition:
    """One form in which a data set is published: complete in itself.

    Attributes
    ----------
    name : str
        For messages.
    parts : tuple of Part
        Read in turn.
    reader : str
        What turns the parts into rows: ``tables`` or a reader named in :mod:`gpbench.data.readers`.
    options : mapping
        The reader's options.
    recipe : Recipe
        How the rows become a data set.
    n : int or None
        Rows of this edition.
    counts : mapping
        Class -> rows, for this edition; empty where it is not known.
    notes : tuple of str
        What is particular to this edition.
    """

    name: str
    parts: tuple[Part, ...]
    recipe: Recipe
    reader: str = "tables"
    options: Mapping[str, Any] = field(default_factory=dict)
    n: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[File, ...]:
        """All files of this edition, each once."""
        found = [part.file for part in self.parts] + [part.labels.file for part in self.parts if part.labels]
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Entry:
    """One data set of the catalogue.

    Attributes
    ----------
    id, title, task : str
        ``task`` is binary, multiclass, count or ordinal.
    n, d : int or None
        Rows and features after preparation; n of a generated set is its default.
    classes : tuple of str
        Labels in the order of their numbers; empty for counts.
    counts : mapping
        Class -> rows, where that is known.
    source : str
        Who publishes it.
    licence, citation : str
        As the publisher states them.
    papers : tuple of str
        Which of the five papers use it.
    notes : tuple of str
        What a reader must know; where n or d differ from what a paper prints, and why.
    editions : tuple of Edition
        The forms in which it is published, best first; empty for embedded and generated sets.
    maker : str
        ``embedded``, ``generated`` or ``files``.
    train : int or None
        Training rows of the publisher's splits, where that is known; for estimates.
    family : str
        The id of a data set that this one shares rows with, the same for all that do; statistics count them once. Its
        own id by default.

    Raises
    ------
    DataError
        The id cannot be a folder's name.
    """

    id: str
    title: str
    task: str
    n: int | None
    d: int | None
    classes: tuple[str, ...]
    source: str
    licence: str
    citation: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    papers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    editions: tuple[Edition, ...] = ()
    maker: str = "files"
    train: int | None = None
    family: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "family", self.family or self.id)
        if not _plain(self.id):
            raise DataError(f"data set: expected an id that can be a folder's name; got {self.id!r}")

    @property
    def files(self) -> tuple[File, ...]:
        """All files of all editions, each once."""
        return tuple(dict.fromkeys(file for edition in self.editions for file in edition.files))

    @property
    def fingerprint(self) -> str:
        """Hash of all that decides the prepared rows; addresses and words play no part."""
        forms = [
            {
                "parts": [_essence(part) for part in edition.parts],
                "recipe": asdict(edition.recipe),
                "reader": [edition.reader, dict(edition.options)],
            }
            for edition in self.editions
        ]
        return hashlib.sha256(json.dumps([self.id, forms], sort_keys=True).encode()).hexdigest()


def _plain(name: str) -> bool:
    """Whether a name stays in its folder, on every system."""
    return name.isprintable() and name.strip(". ") != "" and not set(name) & set('/\\:*?"<>|')


def _essence(part: Part) -> dict[str, Any]:
    return {
        "file": [part.file.path, *part.file.sha256],
        "format": [part.format, dict(part.options), part.role],
        "labels": _essence(part.labels) if part.labels else None,
    }


@dataclass(frozen=True)
class Catalogue:
    """All data sets, and the plug-ins that do not load.

    Attributes
    ----------
    entries : dict
        id -> Entry, sorted by id.
    broken : dict
        Plug-in -> the error that it ended in; ``gpbench list`` shows them.
    """

    entries: dict[str, Entry]
    broken: dict[str, PluginError]


@cache
def catalogue() -> Catalogue:
    """The catalogue that ships with gpbench and the plug-ins' data sets."""
    from gpbench.data.entries import read_folder  # noqa: PLC0415  # it reads what this module declares

    known = {one.id: one for one in read_folder(shipped("catalogue", parent="datasets"))}
    broken: dict[str, PluginError] = {}
    for point in entry_points(group="gpbench.datasets"):
        try:
            for one in _from_plugin(loaded(point)):
                if one.id in known:
                    raise PluginError(f"data set {one.id} exists already")  # noqa: TRY301  # collected below
                known[one.id] = one
        except Exception as error:  # noqa: BLE001  # whatever a plug-in does must not break the rest
            text = str(error) if isinstance(error, GpbenchError) else f"{type(error).__name__}: {error}"
            broken[point.name] = PluginError(f"plug-in {point.name} ({point.value}): {text}", plugin=point.name)
    return Catalogue(dict(sorted(known.items())), broken)


def entries() -> dict[str, Entry]:
    """Entries of all data sets, by id."""
    return catalogue().entries


def entry_of(dataset: str) -> Entry | None:
    """The entry of a data set by its id, of so many rows too (``prior3:500``); None of what is not in the catalogue."""
    return entries().get(dataset.partition(":")[0])


def task_of(dataset: str) -> str | None:
    """The task of a data set as :func:`entry_of` finds it."""
    found = entry_of(dataset)
    return None if found is None else found.task


def entry(name: str) -> Entry:
    """The entry with an id.

    Raises
    ------
    UsageError
        There is none; the message names the nearest.
    PluginError
        It is the name of a plug-in that does not load; the message says why.
    """
    known = entries()
    if name not in known:
        raise unknown("data set", name, known, problems=catalogue().broken.values())
    return known[name]


def family_of(name: str) -> str:
    """The family of a data set by the id that results bear: ``german`` of ``german-numeric``; else its own id.

    Numbers of rows play no part (``twonorm-gen:1000``), and what the catalogue does not know is a family of its own.
    """
    known = entries()
    base = name.partition(":")[0]
    return known[name].family if name in known else known[base].family if base in known else name


def _from_plugin(value: Any) -> list[Entry]:
    from gpbench.data.entries import read_file  # noqa: PLC0415  # as above

    if callable(value) and not isinstance(value, type):
        value = value()
    if isinstance(value, Entry):
        return [value]
    if isinstance(value, str | Path):
        return read_file(Path(value))
    if isinstance(value, Iterable):
        found = list(value)
        if all(isinstance(one, Entry) for one in found):
            return found
    raise PluginError(f"expected an Entry, a list of them, or the path of a TOML file; got {value!r}")
