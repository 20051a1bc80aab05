"""``gpbench results``: every cell, stored and reference, as one tidy table."""

from __future__ import annotations

from pathlib import Path

import click

from gpbench.cli.names import plan_names, several
from gpbench.terminal import echo

__all__ = ["command"]


@click.command(name="results")
@click.argument("plan", required=False, metavar="[PAPER/ITEM|PLAN.toml]", shell_complete=plan_names)
@several(
    "--dataset", "--datasets", "-d", "datasets", metavar="D",
    help="Only this data set; may be repeated.",
)  # fmt: skip
@several(
    "--method", "--methods", "-m", "methods", metavar="M",
    help="Only this method; may be repeated.",
)  # fmt: skip
@click.option("--format", "form", type=click.Choice(["csv", "parquet"]), help="Else what FILE's ending says, or csv.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Else it is printed.")
@click.option("--traces", is_flag=True, help="With the traces: lists in parquet, JSON in csv.")
@click.option("--fresh", is_flag=True, help="Without the reference results that come with gpbench.")
def command(
    *,
    plan: str | None,
    datasets: tuple[str, ...],
    methods: tuple[str, ...],
    form: str | None,
    output: Path | None,
    traces: bool,
    fresh: bool,
) -> None:
    """Give every cell of the store and of the reference results as one row of a table.

    A row says what the cell is, how it ended, its metrics and where it ran; settings, limits and provenance are JSON.
    The column `place` says store or reference. Of a plan only its own cells, with the labels of its table.

    \b
    gpbench results --output results.parquet
    gpbench results -d german --format csv
    gpbench results hensman2015/table1 --methods EP
    """  # noqa: D301  # click's own mark for lines that must not be wrapped
    # Heavy imports wait until the command is called.
    from gpbench.bench.plan.read import plan_file  # noqa: PLC0415
    from gpbench.bench.reference import reference_files  # noqa: PLC0415
    from gpbench.config import load_config  # noqa: PLC0415
    from gpbench.errors import UsageError  # noqa: PLC0415
    from gpbench.report.files import check_apart, write_atomically  # noqa: PLC0415
    from gpbench.report.results import all_results, plan_results, results_csv, results_parquet  # noqa: PLC0415

    form = form or ("parquet" if output is not None and output.suffix.lower() == ".parquet" else "csv")
    if form == "parquet" and output is None:
        raise UsageError("--format parquet expects --output FILE")
    if output is not None:
        check_apart(output, (load_config().store, *reference_files(), *((plan_file(plan),) if plan else ())))
    if plan is None:
        found = all_results(datasets=datasets, methods=methods, fresh=fresh, traces=traces)
    else:
        found = plan_results(plan, datasets=datasets, methods=methods, fresh=fresh, traces=traces)
    for problem in found.problems:
        echo(f"gpbench: {problem}", err=True)
    if output is None:
        echo(results_csv(found), nl=False, content=True)
        return
    write_atomically(output, results_parquet(found) if form == "parquet" else results_csv(found))
    echo(str(output), content=True)
