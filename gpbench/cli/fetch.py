"""``gpbench fetch``: download, check and prepare data sets, or write a mirror of them."""

from __future__ import annotations

from pathlib import Path

import click

from gpbench.cli.names import dataset_names
from gpbench.terminal import echo

__all__ = ["command"]


@click.command(name="fetch", short_help="Download, check and prepare data sets.")
@click.argument("names", nargs=-1, metavar="[DATASET]...", shell_complete=dataset_names)
@click.option("--all", "every", is_flag=True, help="Every data set of the catalogue (HIGGS alone is 2.8 GB).")
@click.option(
    "--mirror", metavar="PLACE", help="A folder or http address to ask before the publishers (GPBENCH_MIRROR)."
)
@click.option(
    "--to", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Write the files to a mirror."
)
@click.option("--check", is_flag=True, help="Verify the checksums of all that is here; download nothing.")
def command(names: tuple[str, ...], mirror: str | None, to: Path | None, *, every: bool, check: bool) -> None:
    """Bring data sets here, ready to run: `gpbench fetch electricity a9a-union`.

    Files are looked for in the data folder, then in the mirror, then at their publishers; broken downloads go on where
    they stopped. With --to they are written to a folder that serves as a mirror on machines without internet:
    `gpbench fetch --all --to DIR` here, `GPBENCH_MIRROR=DIR` there.
    """
    from gpbench.config import load_config  # noqa: PLC0415  # `gpbench --help` imports click alone
    from gpbench.data.fetching import check_here, fetch_sets, mirror_sets, names_of  # noqa: PLC0415
    from gpbench.errors import UsageError  # noqa: PLC0415
    from gpbench.terminal import Meter  # noqa: PLC0415

    if check and (to is not None or every):
        raise UsageError("--check verifies what is here; it goes with data sets' names or alone")
    config = load_config({"mirror": mirror})
    if check:
        check_here(config.data, names, say=echo)
        return
    wanted = names_of(names, every=every)
    meter = Meter()
    try:
        if to is not None:
            mirror_sets(wanted, to, folder=config.data, mirror=config.mirror, progress=meter, say=echo)
        else:
            fetch_sets(wanted, folder=config.data, mirror=config.mirror, progress=meter, say=echo)
    finally:
        meter.close()
