"""Read a plan, strictly: what is not known is an error with its file and line, never passed over."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpbench.bench.plan import plan as model
from gpbench.bench.plan.lines import Place
from gpbench.bench.plan.plan import Plan
from gpbench.bench.plan.tables import (
    Names,
    check_settings,
    check_split,
    read_method,
    read_override,
    read_quick,
    read_sweep,
)
from gpbench.bench.plan.values import integer, known_keys, limits, one_of, table, text, texts
from gpbench.data import generators
from gpbench.data.catalogue import entry
from gpbench.data.scaling import SCALINGS
from gpbench.errors import UsageError, reason, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["PAPERS", "find_plan", "is_plan", "read_plan", "shipped"]

PAPERS = Path(model.__file__).parents[2] / "papers"
"""The plans that come with gpbench."""

_KEYS = (
    "title", "paper", "item", "notes", "datasets", "split", "splits", "seed", "scaling", "limits", "centre", "spread",
    "render", "metrics", "published", "defaults", "methods", "sweep", "figure", "overrides", "quick",
)  # fmt: skip


def shipped() -> dict[str, Path]:
    """The plans that come with gpbench: ``PAPER/ITEM`` -> file."""
    return {f"{path.parent.name}/{path.stem}": path for path in sorted(PAPERS.glob("*/*.toml"))}


def find_plan(name: str) -> Plan:
    """A plan by ``PAPER/ITEM`` or by the path of a file.

    Raises
    ------
    UsageError
        There is none, or it is not right.
    """
    known = shipped()
    if name in known:
        return read_plan(known[name], id=name)
    path = Path(name).expanduser()
    if path.suffix == ".toml" or path.is_file():
        return read_plan(path)
    raise unknown_name("plan", name, known)


def is_plan(name: str) -> bool:
    """Whether a name means a plan: ``PAPER/ITEM`` of one that ships, a paper's folder and a slip, or a TOML file."""
    paper, slash, _ = name.partition("/")
    return name.endswith(".toml") or name in shipped() or (bool(slash) and (PAPERS / paper).is_dir() and bool(paper))


def read_plan(path: Path, *, id: str | None = None) -> Plan:  # noqa: A002  # the plan's id
    """Read and check a plan.

    Parameters
    ----------
    path : Path
    id : str, optional
        The file's name without its ending by default.

    Raises
    ------
    UsageError
        The file cannot be read or is no plan; the message gives the line.
    """
    try:
        content = path.read_text(encoding="utf-8")
        body = tomllib.loads(content)
    except OSError as error:
        raise UsageError(f"the plan {path} cannot be read: {reason(error)}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"the plan {path} is no TOML: {error}") from error
    return _plan(body, Place(path, content), id or path.stem)


def _plan(body: Mapping[str, Any], top: Place, name: str) -> Plan:
    known_keys(body, _KEYS, top)
    title, render = text(top, body, "title"), one_of(top, body, "render", model.RENDERINGS, "table")
    datasets = texts(top, body, "datasets", () if render in {"contraction", "factors"} else None)
    if not datasets and render not in {"contraction", "factors"}:
        raise top.error("a plan needs at least one data set", key="datasets")
    for each in datasets:
        _dataset(each, top)
    found = tuple(read_method(each, one, top.inside("methods")) for each, one in table(body, top, "methods").items())
    if not found and render not in model.DESCRIPTIVE:
        raise top.error("a plan needs at least one table [methods.ID]")
    tables = {each.name: each.method for each in found}
    split = text(top, body, "split", "folds:10")
    splits = [split, *(each.split for each in found if each.split is not None)]
    unswept = Names(datasets, tables, {})
    sweep = read_sweep(table(body, top, "sweep"), top.inside("sweep"), names=unswept, splits=splits)
    names = Names(datasets, tables, sweep)
    for one in splits:
        check_split(one, sweep, top)
    defaults = table(body, top, "defaults")
    check_settings(defaults, top.inside("defaults"), names.settings)
    overrides = table(body, top, "overrides")
    plan = Plan(
        id=name,
        path=top.path,
        title=title,
        paper=text(top, body, "paper", ""),
        item=text(top, body, "item", top.path.stem),
        datasets=datasets,
        methods=found,
        split=split,
        splits=integer(top, body, "splits"),
        seed=integer(top, body, "seed", least=0) or 0,
        scaling=one_of(top, body, "scaling", SCALINGS, "standard"),
        limits=limits(body, top),
        centre=one_of(top, body, "centre", model.CENTRES, "mean"),
        spread=one_of(top, body, "spread", model.SPREADS, "sd"),
        render=render,
        metrics=_metrics(body, top),
        published=texts(top, body, "published", ()),
        notes=texts(top, body, "notes", ()),
        defaults=defaults,
        sweep=sweep,
        figure=table(body, top, "figure"),
        overrides={
            each: read_override(each, one, top.inside("overrides"), names=names) for each, one in overrides.items()
        },
        quick=read_quick(table(body, top, "quick"), top.inside("quick"), names=names),
    )
    _once(datasets, top, "datasets")
    _once([each.label for each in found], top, "methods")
    _once([plan.dataset_label(each) for each in datasets], top, "overrides")
    return plan


def _metrics(body: Mapping[str, Any], top: Place) -> tuple[str, ...]:
    chosen = texts(top, body, "metrics", ("nll", "error", "train_seconds"))
    for each in chosen:
        if each not in model.METRICS:
            raise top.error(unknown_name("metric", each, model.METRICS), key="metrics")
    return chosen


def _dataset(name: str, top: Place) -> None:
    """See that a data set is one of the catalogue, or a file beside the plan or in the current folder."""
    if name.startswith("openml:") or Path(name).is_file() or (top.path.parent / name).is_file():
        return
    try:
        entry(generators.parse(name)[0])
    except UsageError as error:
        raise top.error(error, key="datasets") from None


def _once(names: Iterable[str], place: Place, key: str) -> None:
    """Two rows of one name could not be told apart."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise place.error(f"{name!r} stands twice under {key}", key=key)
        seen.add(name)
