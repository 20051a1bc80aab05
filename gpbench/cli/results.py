"""``gpbench results``: every cell, stored and reference, as one tidy table."""

from __future__ import annotations

from pathlib import Path

import click

from gpbench.terminal import echo

__all__ = ["command"]


@click.command(name="results")
@click.option("--dataset", "-d", "datasets", multiple=True, metavar="D", help="Only this data set; may be repeated.")
@click.option("--method", "-m", "methods", multiple=True, metavar="M", help="Only this method; may be repeated.")
@click.option("--format", "form", type=click.Choice(["csv", "parquet"]), help="Else what FILE's ending says, or csv.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Else it is printed.")
@click.option("--traces", is_flag=True, help="With the traces: lists in parquet, JSON in csv.")
@click.option("--fresh", is_flag=True, help="Without the reference results that come with gpbench.")
def command(
    *,
    datasets: tuple[str, ...],
    methods: tuple[str, ...],
    form: str | None,
    output: Path | None,
    traces: bool,
    fresh: bool,
) -> None:
    """Give every cell of the store and of the reference results as one row of a table.

    A row says what the cell is, how it ended, its metrics and where it ran; settings, limits and provenance are JSON.
    The column `place` says store or reference.

    \b
    gpbench results --output results.parquet
    gpbench results -d german --format csv
    """  # noqa: D301  # click's own mark for lines that must not be wrapped
    from gpbench.errors import UsageError  # noqa: PLC0415  # heavy imports wait until the command is called
    from gpbench.report.files import write_atomically  # noqa: PLC0415
    from gpbench.report.results import all_results, results_csv, results_parquet  # noqa: PLC0415

    form = form or ("parquet" if output is not None and output.suffix.lower() == ".parquet" else "csv")
    if form == "parquet" and output is None:
        raise UsageError("--format parquet expects --output FILE")
    found = all_results(datasets=datasets, methods=methods, fresh=fresh, traces=traces)
    for problem in found.problems:
        echo(f"gpbench: {problem}", err=True)
    if output is None:
        echo(results_csv(found), nl=False, content=True)
        return
    write_atomically(output, results_parquet(found) if form == "parquet" else results_csv(found))
    echo(str(output), content=True)
