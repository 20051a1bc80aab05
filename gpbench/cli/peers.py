"""``gpbench peers``: environments for rivals from other libraries."""

from __future__ import annotations

import json

import click

from gpbench.terminal import echo

__all__ = ["command"]


@click.group(name="peers")
def command() -> None:
    """Install and show the environments that rivals from other libraries run in.

    \b
    gpbench peers list
    gpbench peers install gpflow
    """  # noqa: D301  # click's own mark for lines that must not be wrapped


@command.command(name="install")
@click.argument("name")
def install(*, name: str) -> None:
    """Make the environment of rival NAME anew with pip, in the folder GPBENCH_PEERS.

    pip's own variables and files say where packages come from: PIP_INDEX_URL for a mirror, PIP_EXTRA_INDEX_URL for
    PyTorch's builds without CUDA, which are much smaller.
    """
    from gpbench.peers import environments  # noqa: PLC0415  # not needed for --help

    home = environments.install(name, say=lambda line: echo(line, err=True))
    echo(str(home), content=True)


@command.command(name="list")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print everything known as JSON.")
def show(*, name: str | None, as_json: bool) -> None:
    """Show the rivals, their methods, and whether their environments are there."""
    from gpbench.errors import unknown_name  # noqa: PLC0415  # not needed for --help
    from gpbench.peers.rivals import peer_facts  # noqa: PLC0415
    from gpbench.report.text import columns  # noqa: PLC0415

    facts = {each["name"]: each for each in peer_facts()}
    if name is not None and name not in facts:
        raise unknown_name("rival", name, facts)
    chosen = [each for each in facts.values() if name in {None, each["name"]}]
    if as_json:
        echo(json.dumps({"peers": chosen}, indent=1), content=True)
        return
    rows = [["rival", "methods", "wanted", "state"]]
    rows += [[each["name"], ", ".join(each["methods"]), each["wanted"], each["problem"] or "ready"] for each in chosen]
    echo("\n".join(columns(rows)))
