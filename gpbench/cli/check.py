"""``gpbench check``: what every scheme must hold, tried on generated data."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from gpbench.cli.names import method_names
from gpbench.terminal import echo

__all__ = ["command"]

SLOW = 2.0
"""Seconds from which on a check says how long it took."""


@click.command(name="check")
@click.argument("name", metavar="METHOD", shell_complete=method_names)
@click.option("--task", "tasks", multiple=True, metavar="T", help="binary, multiclass, count or ordinal; all it does.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.pass_context
def command(context: click.Context, *, name: str, tasks: tuple[str, ...], as_json: bool) -> None:
    """Try what every scheme must hold, on generated data.

    METHOD is a registered one, a plug-in's too. Each of its settings must be read; the same seed must give the same
    bits; training must end where it is told to; and where an answer is known it must come out. One line for each check
    says ok, failed or exempt, and why. The exit code is 1 if any failed.

    \b
    gpbench check x-gpc
    gpbench check mine --task count --json
    """  # noqa: D301  # click's own mark for lines that must not be wrapped
    from gpbench.bench.check.check import check  # noqa: PLC0415  # scipy is heavy
    from gpbench.bench.methods import method  # noqa: PLC0415
    from gpbench.terminal import printable  # noqa: PLC0415

    found = []
    for each in check(method(name), tasks=tasks):
        found.append(each)
        if not as_json:
            took = f" ({each.seconds:.1f} s)" if each.seconds >= SLOW else ""
            echo(f"{each.outcome:<7} {each.task:<11} {printable(each.check):<24} {printable(each.reason)}{took}")
    failed = sum(each.outcome == "failed" for each in found)
    if as_json:
        echo(json.dumps([asdict(each) for each in found], indent=1), content=True)
    else:
        exempt = sum(each.outcome == "exempt" for each in found)
        echo(f"{name}: {len(found) - failed - exempt} ok, {failed} failed, {exempt} exempt")
    if failed:
        context.exit(1)
