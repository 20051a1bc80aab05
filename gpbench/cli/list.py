"""``gpbench list``: methods, data sets and plans."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import click

from gpbench.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpbench.errors import PluginError

__all__ = ["command"]

_KINDS = {"methods": "method", "datasets": "data set", "plans": "plan"}


@click.command(name="list")
@click.argument("kind", required=False, metavar="[methods|datasets|plans]")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True, help="Print everything known as JSON.")
def command(*, kind: str | None, names: tuple[str, ...], as_json: bool) -> None:
    """Show what there is to run.

    Without arguments, one line each for methods, data sets and plans. `gpbench list methods` shows each method's
    settings with their defaults, ranges and meaning; NAMEs show single methods or data sets in full.

    \b
    gpbench list
    gpbench list methods x-gpc
    gpbench list datasets electricity
    """  # noqa: D301  # click's own mark for lines that must not be wrapped
    from gpbench.errors import unknown_name  # noqa: PLC0415  # not needed for --help

    if kind is not None and kind not in _KINDS:
        raise unknown_name("kind of things to list", kind, _KINDS)
    kinds = _KINDS if kind is None else {kind: _KINDS[kind]}
    found: dict[str, list[dict[str, Any]]] = {}
    problems: list[str] = []
    for each in kinds:
        found[each], failed = _FACTS[each](names)
        problems += failed
    if as_json:
        echo(json.dumps({**found, "problems": problems}, indent=1), content=True)
        return
    width = min(shutil.get_terminal_size().columns, 120)
    blocks = ["\n".join(_block(each, facts, width, kind, names)) for each, facts in found.items()]
    if problems:
        from gpbench.report.text import printable  # noqa: PLC0415  # not needed for --help

        blocks.append("\n".join(["problems:", *(f"  {printable(problem)}" for problem in problems)]))
    echo("\n\n".join(blocks))


def _block(kind: str, facts: list[dict[str, Any]], width: int, asked: str | None, names: Sequence[str]) -> list[str]:
    """What is printed of one kind: cards where single ones or the methods are asked for, else a table."""
    from gpbench.report.tables import inventory  # noqa: PLC0415  # not needed for --help

    if kind == "methods" and asked is not None:
        cards = [inventory.method_card(each, width=width) for each in facts]
    elif kind == "datasets" and names:
        cards = [inventory.dataset_card(each, width=width) for each in facts]
    else:
        tables = {
            "methods": inventory.method_table,
            "datasets": inventory.dataset_table,
            "plans": inventory.plan_table,
        }
        return tables[kind](facts) if facts else [f"no {kind}"]
    return [line for number, card in enumerate(cards) for line in ([""] * bool(number) + card)]


def _chosen(
    kind: str, names: Sequence[str], known: Mapping[str, Any], *, problems: Sequence[PluginError] = ()
) -> list[Any]:
    """The known ones of these names, or all; ``problems`` are plug-ins that do not load."""
    from gpbench.plugins import unknown  # noqa: PLC0415  # not needed for --help

    for name in names:
        if name not in known:
            raise unknown(_KINDS[kind], name, known, problems=problems)
    return [known[name] for name in names or known]


def _methods(names: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    from gpbench.bench.methods import methods, plugin_problems  # noqa: PLC0415  # scipy is heavy
    from gpbench.report.tables.inventory import method_facts  # noqa: PLC0415

    broken = plugin_problems()
    facts, problems = method_facts(_chosen("methods", names, methods(), problems=broken))
    return facts, problems + [str(problem) for problem in broken]


def _datasets(names: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    from gpbench.config import load_config  # noqa: PLC0415
    from gpbench.data.catalogue import catalogue  # noqa: PLC0415
    from gpbench.data.generators import parse  # noqa: PLC0415
    from gpbench.data.load import is_here  # noqa: PLC0415  # pandas is heavy
    from gpbench.report.tables.inventory import dataset_facts  # noqa: PLC0415

    folder = load_config().data
    known = catalogue()
    names = [parse(name)[0] for name in names]  # a generator's may have a number of rows
    broken = tuple(known.broken.values())
    facts = dataset_facts(
        _chosen("datasets", names, known.entries, problems=broken), lambda name: is_here(name, folder)
    )
    return facts, [str(problem) for problem in broken]


def _plans(names: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    from gpbench.bench.plan import read as plan_read  # noqa: PLC0415  # scipy is heavy
    from gpbench.report.tables.inventory import plan_facts  # noqa: PLC0415

    facts, problems = plan_facts(plan_read.PAPERS)
    return _chosen("plans", names, {each["id"]: each for each in facts}), problems


_FACTS = {"methods": _methods, "datasets": _datasets, "plans": _plans}
