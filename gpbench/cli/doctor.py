"""``gpbench doctor``: what a bug report needs."""

from __future__ import annotations

import json

import click

from gpbench.terminal import echo

__all__ = ["command"]


@click.command(name="doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, as_json: bool) -> None:
    """Show versions, BLAS, threads, processor, data folder, mirror and store, with a warning for what is wrong."""
    from gpbench.bench.health import health, lines  # noqa: PLC0415  # heavy imports wait until the command is called
    from gpbench.config import load_config  # noqa: PLC0415

    found = health(load_config())
    echo(json.dumps(found, indent=1) if as_json else "\n".join(lines(found)), content=as_json)
