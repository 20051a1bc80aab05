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
counted beforehand. ``train`` is the number of training rows of the publisher's splits, for estimates of time.
"""

from __future__ import annotations

import tomllib
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from gpbench.data.catalogue import Edition, Entry, File, Part
from gpbench.data.recipe import Recipe
from gpbench.errors import DataError, GpbenchError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["read_file", "read_folder"]

_FORM = {"parts", "recipe", "reader", "options", "n", "counts", "notes"}
_ENTRY = {"title", "task", "d", "classes", "licence", "citation", "papers", "maker", "editions", "train"} | _FORM


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
        Not TOML, or not a catalogue; the message names the file, the data set and the key.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"catalogue {path}: cannot be read as TOML: {error}") from error
    _known(table, {"source", "licence", "citation", "files", "datasets"}, path.name)
    files = {name: _file(body, f"{path.name}: file {name}") for name, body in table.get("files", {}).items()}
    found = []
    for name, body in table.get("datasets", {}).items():
        where = f"{path.name}: data set {name}"
        try:
            found.append(_entry(name, {"source": table["source"], **_inherited(table), **body}, files, where))
        except (KeyError, TypeError, ValueError) as error:
            what = f"the key {error} is missing" if isinstance(error, KeyError) else str(error)
            raise DataError(f"{where}: {what}") from error
        except GpbenchError as error:
            raise error if where in str(error) else DataError(f"{where}: {error}") from error
    return found


def _inherited(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: table[key] for key in ("licence", "citation") if key in table}


def _known(body: Mapping[str, Any], allowed: set[str], where: str) -> None:
    strange = sorted(set(body) - allowed)
    if strange:
        raise DataError(f"{where}: unknown key {', '.join(strange)}; known: {', '.join(sorted(allowed))}")


def _file(body: Mapping[str, Any], where: str) -> File:
    _known(body, {one.name for one in fields(File)}, where)
    hashes = body.get("sha256", [])
    try:
        return File(
            path=body.get("path", ""),
            urls=tuple(body.get("urls", ())),
            sha256=(hashes,) if isinstance(hashes, str) else tuple(hashes),
            size=body.get("size"),
            proven=body.get("proven", True),
            about=body.get("about"),
        )
    except DataError as error:
        raise DataError(f"{where}: {error}") from error


def _entry(name: str, body: Mapping[str, Any], files: Mapping[str, File], where: str) -> Entry:
    _known(body, {"source"} | _ENTRY, where)
    given = body.get("editions", [{}] if "parts" in body else [])
    editions = tuple(_edition(body, one, files, where) for one in given)
    counts = {str(label): int(count) for label, count in body.get("counts", {}).items()}
    return Entry(
        id=name,
        title=body["title"],
        task=body["task"],
        n=body.get("n", sum(counts.values()) or None),
        d=body.get("d"),
        classes=tuple(body.get("classes", counts)),
        source=body["source"],
        licence=body["licence"],
        citation=body.get("citation", ""),
        counts=counts,
        papers=tuple(body.get("papers", ())),
        notes=tuple(body.get("notes", ())),
        editions=editions,
        maker=body.get("maker", "files"),
        train=body.get("train"),
    )


def _edition(body: Mapping[str, Any], form: Mapping[str, Any], files: Mapping[str, File], where: str) -> Edition:
    _known(form, {"name"} | _FORM, where)
    settled = {key: form.get(key, body.get(key)) for key in ("parts", "reader", "options", "recipe", "counts")}
    parts = tuple(_part(one, files, where) for one in settled["parts"])
    counts = {str(label): int(count) for label, count in (settled["counts"] or {}).items()}
    recipe = dict(settled["recipe"] or {})
    if any(part.role for part in parts) and (settled["reader"] or "tables") == "tables":
        recipe.setdefault("part", "part")
    return Edition(
        name=form.get("name", "published"),
        parts=parts,
        reader=settled["reader"] or "tables",
        options=settled["options"] or {},
        recipe=_recipe(body["task"], recipe, where),
        n=form.get("n", sum(counts.values()) or body.get("n")) or None,
        counts=counts,
        notes=tuple(form.get("notes", ())),
    )


def _part(body: Mapping[str, Any], files: Mapping[str, File], where: str) -> Part:
    body = dict(body)
    name = body.pop("file")
    if name not in files:
        raise DataError(f"{where}: file {name!r} is not declared; known: {', '.join(files)}")
    labels = body.pop("labels", None)
    role = body.pop("role", "")
    if role not in ("", "train", "test"):
        raise DataError(f"{where}: role must be train or test; got {role!r}")
    return Part(
        file=files[name],
        format=body.pop("format", ""),
        role=role,
        labels=_part(labels, files, where) if labels else None,
        options=body,
    )


def _recipe(task: str, body: Mapping[str, Any], where: str) -> Recipe:
    _known(body, {one.name for one in fields(Recipe)} - {"task"}, f"{where}: recipe")
    return Recipe(task=task, **{key: _frozen(value) for key, value in body.items()})


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value
