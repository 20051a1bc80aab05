"""The user's own files as data sets: csv, tsv, parquet, ARFF, LIBSVM, npz, also compressed."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gpbench.data.formats import Frames, open_bytes, read_table
from gpbench.data.formats.dialect import MISSING, is_number
from gpbench.data.formats.frames import Reread, bare
from gpbench.data.formats.libsvm import looks_like_libsvm
from gpbench.data.formats.source import zip_members
from gpbench.data.options import FILE_FORMATS, FileOptions
from gpbench.data.preparation import prepare
from gpbench.data.prepared import PREPARED_FORMAT, opened_or_made
from gpbench.data.recipe import Column, Recipe
from gpbench.errors import DataError, DataUnavailable, UsageError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gpbench.data.dataset import Dataset
    from gpbench.data.download import Progress

__all__ = ["SUFFIXES", "TableFile", "file_format", "load_file", "table_file"]

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "csv",
    ".data": "csv",
    ".dat": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arff": "arff",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
    ".npz": "npz",
}
"""Suffix to format; a second suffix .gz, .bz2, .xz, .zst, .Z or .zip says that the file is compressed."""

_PACKED = (".gz", ".bz2", ".xz", ".zst", ".z", ".zip")
_TRUTH = {"True": True, "False": False}
_POSITION = re.compile(r"[0-9]{1,9}")  # str.isdigit also takes digits that int refuses, and numbers of any length
_HASH_BLOCK = 1 << 20
_PEEK_BYTES = 1 << 16
_PEEK_LINES = 20
_READING = 3  # raised when the same file comes to be read otherwise: what was prepared before is made anew
_NAMED = 8
_NAME_BYTES = 60  # of a file's name in that of its prepared form: a name can be as long as a disk allows


def file_format(path: str | Path) -> str | None:
    """Format of a file by its suffix; None if it is none of :data:`SUFFIXES`.

    >>> file_format("iris.csv.gz"), file_format("iris")
    ('csv', None)
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    while suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


@dataclass(frozen=True)
class TableFile:
    """A file of which it is settled how it is read.

    Attributes
    ----------
    path : Path
    kind : str
        One of :data:`gpbench.data.options.FILE_FORMATS`.
    member : str or None
        Name inside an archive.
    missing : tuple of str
        Words that stand for a missing value where they are text, in every format.
    extra : tuple of str
        Those of them that were asked for, which count as numbers and as declared categories, too.
    header : bool or None
        As in :class:`gpbench.data.options.FileOptions`.
    notes : tuple of str
        What was decided on the way.
    features : int or None
        libsvm: the number of features, where it is known.
    zero_based : bool
        libsvm: whether indices are known to count from 0.
    labelled : bool
        npz: whether targets are read, which new rows need not have.
    needed : tuple of str or None
        csv, tsv, parquet and arff: names of columns that must differ; None for all.
    """

    path: Path
    kind: str
    member: str | None
    missing: tuple[str, ...]
    extra: tuple[str, ...] = ()
    header: bool | None = None
    notes: tuple[str, ...] = ()
    features: int | None = None
    zero_based: bool = False
    labelled: bool = True
    needed: tuple[str, ...] | None = None

    @property
    def id(self) -> str:
        """The name that results bear."""
        return self.path.name if self.member is None else f"{self.path.name}::{self.member}"

    def tables(self) -> Frames:
        """Its rows, in blocks, from the beginning."""
        options: dict[str, Any] = {} if self.member is None else {"member": self.member}
        if self.kind in ("csv", "tsv"):
            options |= {"missing": self.missing, "header": self.header}
        if self.kind == "tsv":
            options["delimiter"] = "\t"
        if self.kind == "libsvm" and self.features is not None:
            options |= {"features": self.features, "zero_based": self.zero_based}
        if self.kind in ("csv", "tsv", "parquet", "arff"):
            options["needed"] = self.needed
        if self.kind == "npz":
            options["labelled"] = self.labelled
        booleans = _Booleans()
        for block in read_table(self.path, format="csv" if self.kind == "tsv" else self.kind, **options):
            made = self._without_words(block) if self.extra or self.kind not in ("csv", "tsv") else block
            yield booleans.read(made) if self.kind not in ("libsvm", "npz") else made

    def _without_words(self, block: pd.DataFrame) -> pd.DataFrame:
        """The block with the words for a missing value made missing; numbers that were asked for in any of their forms.

        The reader of text tables has seen to the words. A category that ARFF declares is one, whatever it is called; so
        is a label in an array, unless it is empty.
        """
        attrs = dict(block.attrs)
        declared = block.attrs.get("declared", ()) if self.kind == "arff" else ()
        known = ("", *self.extra) if self.kind == "npz" else self.missing
        numbers = [float(word) for word in self.extra if is_number(word)]
        view = bare(block)
        for name, kind in block.dtypes.items():
            column = view[name]
            if kind.kind in "iuf" and numbers and isinstance(kind, np.dtype):
                gone = column.isin(numbers)
                made = column.astype("float64").mask(gone) if gone.any() else None
            elif kind.kind not in "iufb" and self.kind not in ("csv", "tsv"):
                codes, values = pd.factorize(column)
                words = self.extra if name in declared else known
                wanted = [isinstance(value, str) and value.strip() in words for value in values]
                gone = pd.Series(np.array([*wanted, False])[codes], index=column.index)
                made = column.astype("object").mask(gone) if gone.any() else None
            else:
                continue
            if made is not None:
                found = sorted({str(word).strip() for word in column[gone].unique()} - {""})
                attrs["words"] = {**attrs.get("words", {}), str(name): found}
                view = view.assign(**{str(name): made})
        view.attrs = attrs
        return view


class _Booleans:
    """Columns of ``True`` and ``False``, as pandas writes them in text, become what parquet has: truth values.

    A column that holds other texts is text in its first blocks too, whose truth values are the same labels.
    """

    def __init__(self) -> None:
        self._text: set[str] = set()
        self._numbers: set[str] = set()
        self._found: set[str] = set()

    def read(self, block: pd.DataFrame) -> pd.DataFrame:
        """A block; its ``attrs["booleans"]`` names such columns, ``attrs["mixed"]`` those that hold numbers here."""
        attrs, view, made, mixed = dict(block.attrs), bare(block), {}, set()
        for name, kind in block.dtypes.items():
            if kind.kind in "iuf":
                if name not in self._numbers and view[name].notna().any():
                    self._numbers.add(str(name))
                if name in self._found and name in self._numbers:
                    mixed.add(str(name))
            elif kind.kind == "b":
                self._found.add(str(name))
            elif name not in self._text and name not in self._numbers:
                read = _truth(view[name])
                if read is None:
                    self._text.add(str(name))
                elif read.notna().any():
                    self._found.add(str(name))
                    made[str(name)] = read
        if made:
            block = view.assign(**made)
        found = tuple(name for name in map(str, block.columns) if name in self._found)
        block.attrs = {**attrs, "booleans": found, "mixed": mixed}
        return block


def _truth(column: pd.Series) -> pd.Series | None:
    """A column of texts True and False, or of truth values with missing ones among them; None for others."""
    values = column.dropna()
    if len(values) and str(values.iloc[0]).strip() not in _TRUTH:
        return None
    codes, found = pd.factorize(column)
    if not all(str(value).strip() in _TRUTH for value in found):
        return None
    truth = np.array([*(_TRUTH[str(value).strip()] for value in found), None], dtype=object)[codes]
    return pd.Series(truth if (codes < 0).any() else truth.astype(bool), index=column.index)


def table_file(path: str | Path, options: FileOptions) -> TableFile:
    """How a file is read, by its suffix, its first lines and the options.

    Raises
    ------
    DataUnavailable
        No such file.
    DataError
        It cannot be read.
    UsageError
        Unknown kind of file, or options that do not apply to it.
    """
    path = Path(path)
    if options.file_format is None and options.member is None and not path.exists() and file_format(path) is None:
        raise _unknown_kind(path.name)
    if not path.is_file():
        found = (
            "it is a folder" if path.is_dir() else "it is no plain file" if path.exists() else "there is no such file"
        )
        raise DataUnavailable(f"data set {path}: {found}; give the path of an existing file")
    named, member = path.name, options.member
    if member is None and file_format(path) is None and (held := zip_members(path)):
        if len(held) > 1:
            several = ", ".join(f"{path.name}::{each}" for each in held[:5])
            raise UsageError(f"{path.name}: holds {len(held)} files; say which: {several}")
        member, named = held[0], held[0]
    elif member is not None:
        named = member
    kind, notes = options.file_format or file_format(named), []
    if options.file_format is None and options.header is None and kind in (None, "csv"):
        with open_bytes(path, member=member) as source:
            if looks_like_libsvm(_first_lines(source.read(_PEEK_BYTES))):
                kind = "libsvm"
                notes.append("read as LIBSVM's sparse text; --file-format csv reads it as a table")
    if kind is None:
        raise _unknown_kind(named)
    if options.header is not None and kind not in ("csv", "tsv"):
        raise UsageError(f"--header says how to read a text table; {named} is read as {kind}")
    taken = {word[1:] for word in options.missing if word.startswith("-") and word[1:] in MISSING and word != "-"}
    extra = tuple(word for word in options.missing if not (word.startswith("-") and word[1:] in taken))
    words = tuple(dict.fromkeys([*(word for word in MISSING if word not in taken), *extra]))
    return TableFile(path, kind, member, words, extra, options.header, tuple(notes))


def _unknown_kind(name: str) -> UsageError:
    return UsageError(
        f"{name}: unknown kind of file; expected {', '.join(SUFFIXES)}, plain or compressed, "
        f"or --file-format {'|'.join(FILE_FORMATS)}"
    )


def _first_lines(head: bytes) -> list[bytes]:
    """Whole lines of a file's beginning, those that hold anything."""
    lines = head.replace(b"\r", b"\n").split(b"\n")
    whole = lines if len(head) < _PEEK_BYTES else lines[:-1]
    return [line for line in whole if line.strip()][:_PEEK_LINES]


def load_file(
    path: str | Path,
    *,
    options: FileOptions | None = None,
    cache: Path,
    progress: Progress | None = None,
) -> Dataset:
    """Data set from a file; prepared once for each content and set of options, by one of those who ask for it.

    Parameters
    ----------
    path : path
        The file; its suffix says the format.
    options : FileOptions, optional
        What it does not say of itself.
    cache : path
        The data folder; prepared files go to its folder ``files``.
    progress : callable, optional
        Called with a label, what is read and what there is to read (in bytes).

    Raises
    ------
    DataUnavailable
        No such file.
    DataError
        The file cannot be used as it is; the message names columns and lines.
    UsageError
        Unknown suffix, column or task, or a task that must be said.

    Warns
    -----
    GpbenchWarning
        The prepared form was damaged and has been made anew.
    """
    options = options or FileOptions()
    file = table_file(path, options)
    tables = Reread(file.tables)
    with closing(tables):
        return _load(file, options, tables, cache=Path(cache), progress=progress)


def _load(file: TableFile, options: FileOptions, tables: Reread, *, cache: Path, progress: Progress | None) -> Dataset:
    path, first = file.path, tables.first()
    if first is None:
        raise DataError(f"{path.name}: expected rows; the file holds none")
    names = [str(name) for name in first.columns]
    drop = _dropped(options.drop, names)
    target = _target(first, options.target, away=drop)
    index = _index(first, names, target=target, drop=drop)
    target = _default(names, {*index, *drop}) if target is None else target
    if options.target is None:
        _refuse_one_hot(first, [name for name in names if name not in {*index, *drop}])
    recipe = Recipe(
        task=options.task or "auto",
        target=target,
        drop=drop,
        categorical="auto",
        impute=options.impute,
    )
    key = _key(file, recipe)
    folder = cache / "files" / f"{path.name.encode()[:_NAME_BYTES].decode(errors='ignore')}-{key[:16]}"

    def make(_: str | None) -> Dataset:
        return prepare(
            tables,
            recipe,
            id=file.id,
            title=file.id,
            folder=folder,
            notes=[*file.notes, *_said(first, index, kind=file.kind, away={*drop, *_names(target, names)})],
            index=index,
            named=_is_named(first, file.kind),
            missing=file.missing,
            zero_based=first.attrs.get("zero_based"),
            progress=None if progress is None else lambda done, total: progress(f"reading {path.name}", done, total),
        )

    try:
        return opened_or_made(folder, make, name=path.name, lease=folder, progress=progress)
    except DataError as error:
        if path.name in str(error):
            raise
        raise DataError(f"{path.name}: {error}") from error  # what concerns the file as a whole names no line


def _is_named(first: pd.DataFrame, kind: str) -> bool:
    return bool(first.attrs.get("header")) if kind in ("csv", "tsv") else kind in ("arff", "parquet")


def _names(target: Column | tuple[Column, ...], names: Sequence[str]) -> list[str]:
    """The target's columns by their names; a position that there is not is refused later."""
    asked = target if isinstance(target, tuple) else (target,)
    return [names[each] if isinstance(each, int) and -len(names) <= each < len(names) else str(each) for each in asked]


def _said(first: pd.DataFrame, index: Sequence[str], *, kind: str, away: Collection[str]) -> list[str]:
    """What was decided on the whole table: its names, its index, and truth values among its inputs."""
    said = []
    if kind in ("csv", "tsv"):
        header, names = first.attrs["header"], [str(name) for name in first.columns]
        if first.attrs["doubt"]:
            said.append(first.attrs["doubt"])
        else:
            said.append(
                f"line {header} names the columns" if header else f"no line of names: {names[0]} ... {names[-1]}"
            )
    for name in index:
        what = "the nameless first column" if name.startswith("Unnamed: ") else f"column {name}"
        said.append(f"left out: {what}, an index of the rows")
    truth = [name for name in first.attrs.get("booleans", ()) if name not in away and name not in index]
    if truth:
        more = f" and {len(truth) - _NAMED} more" if len(truth) > _NAMED else ""
        said.append(f"True and False are 1 and 0: {', '.join(truth[:_NAMED])}{more}")
    return said


def _dropped(asked: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The columns that ``--drop`` names, or whose positions it gives."""
    found = []
    for name in asked:
        if name not in names and _POSITION.fullmatch(name) and int(name) < len(names):
            found.append(names[int(name)])
        elif name in names:
            found.append(name)
        else:
            raise unknown_name("column", name, names)
    return tuple(dict.fromkeys(found))


def _index(first: pd.DataFrame, names: Sequence[str], *, target: Any, drop: Sequence[str]) -> tuple[str, ...]:
    """Columns that the reader says are an index of the rows; a nameless one that holds decimals measures something."""
    kept = {target, *drop} if not isinstance(target, tuple) else {*target, *drop}
    found = []
    for name in first.attrs.get("index", ()):
        position = names.index(name)
        column = first.iloc[:, position]
        measured = column.dtype.kind == "f" and (column.dropna() % 1 != 0).any()
        if name not in kept and position not in kept and not (measured and name.startswith("Unnamed: ")):
            found.append(name)
    return tuple(found) if len(found) + 2 <= len(names) else ()


def _default(names: Sequence[str], away: set[str]) -> str:
    """The last column that is left."""
    left = [name for name in names if name not in away]
    if not left:
        raise UsageError(f"expected a target and at least one input; none of {len(names)} columns is left")
    return left[-1]


def _target(first: pd.DataFrame, target: str | None, *, away: Sequence[str]) -> Column | tuple[Column, ...] | None:
    """The target as the user gave it: a name, else several names with commas between (one-hot), else a position."""
    names = [str(name) for name in first.columns]
    if target is None:
        return None
    if target in away:
        raise UsageError(f"--target {target} and --drop {target} exclude one another")
    if target in names:
        return target
    several = tuple(name.strip() for name in target.split(","))
    if len(several) > 1 and set(several) <= set(names):
        return several
    return int(target) if _POSITION.fullmatch(target.removeprefix("-")) else target


def _refuse_one_hot(first: pd.DataFrame, names: list[str]) -> None:
    """Last columns of which each row sets exactly one are one target: the others would give it away as inputs."""
    total = np.zeros(len(first))
    for k in range(1, len(names)):
        column = first[names[-k]]
        if column.dtype.kind not in "biuf" or not column.isin([0, 1]).all():
            return
        total += column.to_numpy(dtype=np.float64)
        if k > 1 and (total == 1.0).all():
            last = ",".join(names[-k:])
            raise UsageError(
                f"the last {k} columns look like one-hot targets (each row sets exactly one): "
                f"expected --target {last}, or --target {names[-1]} if the others are inputs; got no --target"
            )


def _key(file: TableFile, recipe: Recipe) -> str:
    """Hash of the content and of everything that decides what preparation makes of it."""
    whole = hashlib.sha256()
    try:
        with file.path.open("rb") as stream:
            while block := stream.read(_HASH_BLOCK):
                whole.update(block)
    except OSError as error:
        raise DataError(f"{file.path}: cannot be read ({error.strerror or error})") from error
    read = [file.kind, file.member, file.missing, file.extra, file.header]
    options = json.dumps([PREPARED_FORMAT, _READING, file.path.name, read, asdict(recipe)], sort_keys=True)
    return hashlib.sha256(whole.digest() + options.encode()).hexdigest()
