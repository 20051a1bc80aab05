"""Read the catalogue's TOML files, strictly: an unknown key or a file that is not declared is an error.

::

    source = "uci"                      # who publishes it
    licence = "CC BY 4.0"               # of all data sets below, unless they say otherwise

    [files."glass.data"]                # each file once
    path = "uci/glass/glass.data"
    urls = ["https://..."]
    sha256 = "..."                      # or a list; left out where none is known
    size = 11903                        # or about = 12_000, where it is not known exactly

    [datasets.glass]
    title = "Glass identification"
    task = "multiclass"
    d = 9
    counts = {1 = 70, 2 = 76}           # n is their sum; n = ... where there are no classes
    papers = ["villacampa2017"]
    parts = [{file = "glass.data", format = "csv", header = false}]
    recipe = {drop = [0]}

``parts`` name a file, its format and the format's options, ``role = "train"`` or ``"test"`` where the publisher splits
by files, and ``labels = {...}`` for a file of targets beside it. Where a data set is published in several forms,
``[[datasets.NAME.editions]]`` hold ``name``, ``parts`` and what differs. ``n = 0`` in one means that its rows are not
counted beforehand. ``family`` names a data set that shares rows with this one; statistics count a family once.
``train`` is the number of training rows of the publisher's splits, for estimates of time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpbench.data.catalogue import Edition, Entry, File, Part
from gpbench.data.dataset import TASKS
from gpbench.data.recipe import Recipe
from gpbench.errors import DataError
from gpbench.toml import TomlTable, read_toml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["read_file", "read_folder"]

_FORM = ("parts", "recipe", "reader", "options", "n", "counts", "notes")
_ENTRY = (
    "title", "task", "d", "classes", "source", "licence", "citation", "papers", "maker", "editions", "train",
    "family", *_FORM,
)  # fmt: skip
_PART = ("file", "format", "role", "labels")


def read_folder(folder: Path) -> list[Entry]:
    """Entries of all TOML files of a folder.

    Raises
    ------
    DataError
        A file is no catalogue, or two data sets have one id.
    """
    found: dict[str, Entry] = {}
    for path in sorted(folder.glob("*.toml")):
        for one in read_file(path):
            if one.id in found:
                raise DataError(f"{path.name}: data set {one.id} exists already")
            found[one.id] = one
    return list(found.values())


def read_file(path: Path) -> list[Entry]:
    """Entries of one TOML file.

    Raises
    ------
    DataError
        Not TOML, or not a catalogue; the message names the file, the line, the data set and the key.
    """
    top = read_toml(path, what="the catalogue", error=DataError)
    top.only(("source", "licence", "citation", "files", "datasets"))
    files = {name: _file(table) for name, table in top.tables("files").items()}
    return [_entry(name, table, top, files) for name, table in top.tables("datasets").items()]


def _file(table: TomlTable) -> File:
    return table.build(File)


def _entry(name: str, table: TomlTable, top: TomlTable, files: Mapping[str, File]) -> Entry:
    """A table of [datasets]; what it does not say of source, licence and citation, the top of the file does."""
    table.only(_ENTRY)
    task = table.text("task", among=TASKS)
    # One form alone is the data set's own table: what an empty table beside it says.
    forms = table.array("editions") if "editions" in table else [table.table("editions")] if "parts" in table else []
    counts = _counts(table)
    return Entry(
        id=name,
        title=table.text("title"),
        task=task,
        n=table.integer("n", sum(counts.values()) or None, least=0),
        d=table.integer("d", None),
        classes=table.texts("classes", tuple(counts)),
        source=(table if "source" in table else top).text("source"),
        licence=(table if "licence" in table else top).text("licence"),
        citation=(table if "citation" in table else top).text("citation", ""),
        counts=counts,
        papers=table.texts("papers", ()),
        notes=table.texts("notes", ()),
        editions=tuple(_edition(form, table, task, files) for form in forms),
        maker=table.text("maker", "files", among=("files", "embedded", "generated")),
        train=table.integer("train", None),
        family=table.text("family", name),
    )


def _edition(form: TomlTable, table: TomlTable, task: str, files: Mapping[str, File]) -> Edition:
    """A table of [[datasets.NAME.editions]]; what it does not say, the data set's own table does."""
    form.only(("name", *_FORM))

    def settled(key: str) -> TomlTable:
        return form if key in form else table

    parts = tuple(_part(one, files) for one in settled("parts").array("parts"))
    reader = settled("reader").text("reader", "tables")
    recipe = settled("recipe").table("recipe")
    by_files = reader == "tables" and any(part.role for part in parts)
    counts = _counts(settled("counts"))
    alone = table.integer("n", None, least=0)
    return Edition(
        name=form.text("name", "published"),
        parts=parts,
        reader=reader,
        options=dict(settled("options").table("options")),
        recipe=recipe.build(Recipe, task=task, **({"part": "part"} if by_files and "part" not in recipe else {})),
        n=form.integer("n", sum(counts.values()) or alone, least=0) or None,
        counts=counts,
        notes=form.texts("notes", ()),
    )


def _part(table: TomlTable, files: Mapping[str, File]) -> Part:
    """A file's share; keys beside its own are options of its format."""
    name = table.text("file", among=files)
    return Part(
        file=files[name],
        format=table.text("format", ""),
        role=table.text("role", "", among=("train", "test")),
        labels=_part(table.table("labels"), files) if "labels" in table else None,
        options={key: value for key, value in table.items() if key not in _PART},
    )


def _counts(table: TomlTable) -> dict[str, int]:
    counts = table.table("counts")
    return {label: counts.integer(label, least=0) for label in counts}
