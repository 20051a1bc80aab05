"""Read a plan, strictly: what is not known is an error with its file and line, never passed over.

The form of a plan is described in ``docs/reference/plans.md``, the reader of TOML tables in :mod:`gpbench.toml`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpbench.bench.cell import Limits
from gpbench.bench.methods import methods, unknown_method
from gpbench.bench.metrics import metric_problems, metrics
from gpbench.bench.plan import plan as model
from gpbench.bench.plan.plan import Override, Plan, PlanMethod, Quick
from gpbench.bench.sources import dataset_id, means_file
from gpbench.data import generators
from gpbench.data.catalogue import entry
from gpbench.data.options import FileOptions
from gpbench.data.scaling import SCALINGS
from gpbench.data.splits import Protocol
from gpbench.errors import PluginError, UsageError, unknown_name
from gpbench.toml import TomlTable, read_toml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpbench.bench.methods import Method

__all__ = ["PAPERS", "find_plan", "is_plan", "plan_file", "read_plan", "shipped"]

PAPERS = Path(model.__file__).parents[2] / "papers"
"""The plans that come with gpbench."""

_KEYS = (
    "title", "paper", "item", "notes", "datasets", "split", "splits", "seed", "scaling", "limits", "paper_limits",
    "centre", "spread", "render", "metrics", "published", "defaults", "methods", "sweep", "figure", "overrides",
    "quick", "files",
)  # fmt: skip
_METHOD_KEYS = ("method", "label", "printed", "limits", "split", "scaling", "counted")
_FILE_KEYS = ("target", "task", "impute", "missing", "drop", "header", "file_format")
_LIMITS = tuple(each.name for each in fields(Limits))


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
    known, path = shipped(), plan_file(name)
    if name in known:
        return read_plan(path, id=name)
    if path.suffix == ".toml" or path.is_file():
        return read_plan(path)
    raise unknown_name("plan", name, known)


def plan_file(name: str) -> Path:
    """The file that a plan's name means, whether or not there is one."""
    return shipped().get(name) or Path(name).expanduser()


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
    top = read_toml(path, what="the plan")
    top.only(_KEYS)
    title = top.text("title")
    render = top.text("render", "table", among=model.RENDERINGS)
    datasets = _datasets(top, needed=render not in model.SELF_CONTAINED)
    found = tuple(_method(name, table) for name, table in top.tables("methods").items())
    if not found and render not in model.DESCRIPTIVE:
        raise top.error("a plan needs at least one table [methods.ID]")
    _once([each.label for each in found], top, "methods")
    tables = {each.name: each.method for each in found}
    split = top.text("split", "folds:10")
    splits = [split, *(each.split for each in found if each.split is not None)]
    names = _Names(datasets, tables, {})
    names = _Names(datasets, tables, _sweep(top.table("sweep"), names, splits))
    for one in splits:
        _check_split(one, names, top)
    defaults = top.table("defaults")
    _check_settings(defaults, defaults, names.settings)
    plan = Plan(
        id=id or path.stem,
        path=path,
        title=title,
        paper=top.text("paper", ""),
        item=top.text("item", path.stem),
        datasets=datasets,
        methods=found,
        split=split,
        splits=top.integer("splits", None),
        seed=top.integer("seed", 0, least=0),
        scaling=top.text("scaling", "standard", among=SCALINGS),
        limits=_limits(top),
        paper_limits=_limits(top, "paper_limits"),
        centre=top.text("centre", "mean", among=model.CENTRES),
        spread=top.text("spread", "sd", among=model.SPREADS),
        render=render,
        metrics=_metrics(top),
        published=_published(top),
        notes=top.texts("notes", ()),
        defaults=dict(defaults),
        sweep=names.sweep,
        figure=dict(top.table("figure")),
        overrides=_overrides(top.table("overrides"), names),
        quick=_quick(top.table("quick"), names),
        files=_files(top, datasets),
    )
    _once([plan.dataset_label(each) for each in datasets], top, "overrides")
    return plan


@dataclass(frozen=True)
class _Names:
    """What the names in a plan can mean.

    Attributes
    ----------
    datasets : tuple of str
    tables : mapping
        Table of [methods] -> its method.
    sweep : mapping
        Swept name -> values.
    """

    datasets: tuple[str, ...]
    tables: Mapping[str, Method]
    sweep: Mapping[str, tuple[Any, ...]]

    @property
    def settings(self) -> dict[str, list[Method]]:
        """Setting -> the methods that have it."""
        found: dict[str, list[Method]] = {}
        for method in self.tables.values():
            for name in method.settings():
                found.setdefault(name, []).append(method)
        return found


def _datasets(top: TomlTable, *, needed: bool) -> tuple[str, ...]:
    """The data sets: of the catalogue, or files beside the plan or in the current folder; none has another's id."""
    names = top.texts("datasets") if needed else top.texts("datasets", ())
    if needed and not names:
        raise top.error("a plan needs at least one data set", key="datasets")
    for name in names:
        file = name.partition("::")[0]  # without a member of an archive
        if name.startswith("openml:") or Path(file).is_file() or (top.path.parent / file).is_file():
            continue
        if means_file(file):
            words = f"there is no file {file}, beside the plan or in the current folder"
            raise top.error(words, key="datasets")
        try:
            entry(generators.parse(name)[0])
        except (UsageError, PluginError) as error:
            raise top.error(error, key="datasets") from None
    _once(names, top, "datasets")
    ids: dict[str, str] = {}
    for name in names:
        other = ids.setdefault(dataset_id(name), name)
        if other != name:
            raise top.error(f"{other} and {name} are both called {dataset_id(name)} in results", key="datasets")
    return names


def _files(top: TomlTable, datasets: tuple[str, ...]) -> dict[str, FileOptions]:
    """How files among the data sets are read; the keys are those of ``gpbench run``'s options."""
    found = {}
    for name, table in top.tables("files").items():
        if name not in datasets:
            raise top.error(unknown_name("file (of datasets)", name, datasets), key="files")
        table.only(_FILE_KEYS)
        given: dict[str, Any] = {key: table.text(key, None) for key in ("target", "task", "impute", "file_format")}
        given |= {key: table.texts(key, ()) for key in ("missing", "drop")}
        given["header"] = table.flag("header", False) if "header" in table else None
        try:
            found[name] = FileOptions(**given)
        except UsageError as error:
            raise table.error(error) from None
    return found


def _metrics(top: TomlTable) -> tuple[str, ...]:
    """The columns of its tables: gpbench's own metrics, and those of plug-ins."""
    for problem in metric_problems():
        if problem.plugin in top.texts("metrics", ()):
            raise top.error(problem, key="metrics")
    if not top.texts("metrics", ("nll",)):
        raise top.error("a table needs at least one metric", key="metrics")
    return top.texts("metrics", ("nll", "error", "train_seconds"), among=(*model.METRICS, *metrics()), kind="metric")


def _published(top: TomlTable) -> tuple[str, ...]:
    """Files of printed numbers, which stand in the plan's folder or among the papers' own."""
    names = top.texts("published", ())
    for name in names:
        if Path(name).is_absolute() or ".." in Path(name.replace("\\", "/")).parts:
            raise top.error(
                f"{name!r} must be a file in the plan's folder, or one of results/published", key="published"
            )
    return names


def _method(name: str, table: TomlTable) -> PlanMethod:
    """A table of [methods]."""
    wanted = table.text("method", name)
    if wanted not in methods():
        raise table.error(unknown_method(wanted), key="method")
    found = methods()[wanted]
    known = found.settings()
    table.only((*known, *_METHOD_KEYS), kind=f"setting of {wanted}")
    settings = {key: value for key, value in table.items() if key not in _METHOD_KEYS}
    _check_settings(settings, table, {key: [found] for key in known})
    label = table.text("label", name)
    _limits(table)
    return PlanMethod(
        name=name,
        method=found,
        label=label,
        printed=table.text("printed", label),
        settings=settings,
        limits=dict(table.table("limits")),
        split=table.text("split", None),
        scaling=table.text("scaling", None, among=SCALINGS),
        counted=table.flag("counted", True),
    )


def _overrides(around: TomlTable, names: _Names) -> dict[str, Override]:
    """The tables of [overrides]."""
    for name in around:
        if name not in names.datasets:
            table = around.table(name)
            raise table.error(unknown_name("data set of this plan", name, names.datasets))
    return {name: _override(around.table(name), names) for name in around}


def _override(table: TomlTable, names: _Names) -> Override:
    table.only(each.name for each in fields(Override))
    split = table.text("split", None)
    if split is not None:
        _check_split(split, names, table)
    _limits(table)
    settings = table.table("settings")
    _check_settings({key: one for key, one in settings.items() if not isinstance(one, dict)}, settings, names.settings)
    for key, value in settings.items():
        if isinstance(value, dict):
            if key not in names.tables:
                raise settings.error(unknown_name("method of this plan", key, names.tables), key=key)
            method = names.tables[key]
            _check_settings(value, settings.table(key), {each: [method] for each in method.settings()})
    return Override(
        label=table.text("label", None),
        printed=table.text("printed", None),
        incomparable=table.text("incomparable", None),
        methods=table.texts("methods", None, among=names.tables, kind="method of this plan"),
        split=split,
        splits=table.integer("splits", None),
        limits=dict(table.table("limits")),
        settings=dict(settings),
    )


def _quick(table: TomlTable, names: _Names) -> Quick:
    """The table [quick]."""
    table.only(each.name for each in fields(Quick))
    sweep, settings, default = table.table("sweep"), table.table("settings"), Quick()
    sweep.only(names.sweep, kind="swept name of this plan")
    _check_settings(settings, settings, names.settings)
    return Quick(
        splits=table.integer("splits", default.splits),
        train_rows=table.integer("train_rows", default.train_rows),
        test_rows=table.integer("test_rows", default.test_rows),
        iterations=table.integer("iterations", default.iterations),
        seconds=table.positive("seconds", default.seconds),
        datasets=table.texts("datasets", None, among=names.datasets, kind="data set of this plan"),
        sweep={key: sweep.scalars(key) for key in sweep},
        settings=dict(settings),
    )


def _sweep(table: TomlTable, names: _Names, splits: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """The table [sweep]: values of settings, of limits, and of words that stand in braces in the plan's splits."""
    words = {word for split in splits for word in re.findall(r"\{(\w+)\}", split)}
    known = names.settings
    table.only((*known, *_LIMITS, *words), kind="setting, limit or word of the split")
    found = {}
    for name in table:
        found[name] = table.scalars(name)
        for value in found[name]:
            if name in _LIMITS:
                _check_limits({name: value}, table, name)
            elif name in known:
                _check_settings({name: value}, table, known)
    return found


def _check_settings(body: Mapping[str, Any], table: TomlTable, known: Mapping[str, list[Method]]) -> None:
    """See that at least one method has each setting, and that those that have it take its value."""
    for name, value in body.items():
        if name not in known:
            raise table.error(unknown_name("setting (of this plan's methods)", name, known), key=name)
        for method in known[name]:
            try:
                method.resolve({name: value})
            except UsageError as error:
                raise table.error(error, key=name) from None


def _limits(around: TomlTable, key: str = "limits") -> Limits:
    """The limits that a table gives under ``limits``."""
    table = around.table(key)
    table.only(_LIMITS)
    return _check_limits(table, around, key)


def _check_limits(body: Mapping[str, Any], table: TomlTable, key: str) -> Limits:
    try:
        return Limits(**body)
    except UsageError as error:
        raise table.error(error, key=key) from None


def _check_split(split: str, names: _Names, table: TomlTable) -> None:
    """See that a split is one, whose words in braces are swept."""
    try:
        Protocol.parse(split.format(**{word: values[0] for word, values in names.sweep.items()}))
    except (KeyError, IndexError, ValueError) as error:
        raise table.error(f"split {split!r}: [sweep] gives no values for {error}", key="split") from None
    except UsageError as error:
        raise table.error(error, key="split") from None


def _once(names: Iterable[str], table: TomlTable, key: str) -> None:
    """Two rows of one name could not be told apart."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise table.error(f"{name!r} stands twice under {key}", key=key)
        seen.add(name)
