"""``gpbench reproduce``: a plan's cells, its table or figure, and verdicts."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from gpbench.cli.names import plan_names, several
from gpbench.terminal import echo, width

__all__ = ["command"]


@click.command(name="reproduce")
@click.argument("plan", metavar="PAPER/ITEM|PLAN.toml", shell_complete=plan_names)
@several(
    "--datasets", "--dataset", "-d", "datasets", metavar="LIST",
    help="Only these data sets of the plan; with commas between, or repeated.",
)  # fmt: skip
@several(
    "--methods", "--method", "-m", "methods", metavar="LIST",
    help="Only these methods of the plan, by their labels too; with commas between, or repeated.",
)  # fmt: skip
@click.option("--folds", type=int, metavar="K", help="Only the first K splits of each data set.")
@click.option("--max-seconds", type=float, metavar="S", help="Training seconds after which a cell is stopped.")
@click.option("--hard-limit", type=float, metavar="S", help="Wall seconds of training after which a cell is killed.")
@click.option("--memory-limit", type=float, metavar="MB", help="Address space of a worker; a cell beyond it fails.")
@click.option("--quick", is_flag=True, help="Few splits, rows and iterations: to see that it runs.")
@click.option("--jobs", type=int, metavar="J", help="Cells at a time, in processes; disturbs clocks.")
@click.option("--scheduler", metavar="ADDRESS", help="Run on the workers of a Dask cluster: tcp://host:8786.")
@click.option("--threads", type=int, default=1, show_default=True, metavar="T", help="BLAS threads of a cell.")
@click.option("--dry-run", is_flag=True, help="Say what would run, for how long, and which data are missing.")
@click.option("--force", is_flag=True, help="Run finished cells again.")
@click.option("--fresh", is_flag=True, help="Run cells that are among the reference results, too.")
@click.option("--reference", is_flag=True, help="Add the cells to the reference results of this checkout.")
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Where files go.")
@click.option(
    "--figures",
    type=click.Choice(["pdf", "svg"]),
    multiple=True,
    help="Write pictures so, too, beside png; repeatable.",
)
@click.pass_context
def command(
    context: click.Context,
    *,
    plan: str,
    datasets: tuple[str, ...],
    methods: tuple[str, ...],
    folds: int | None,
    max_seconds: float | None,
    hard_limit: float | None,
    memory_limit: float | None,
    quick: bool,
    jobs: int | None,
    scheduler: str | None,
    threads: int,
    dry_run: bool,
    force: bool,
    fresh: bool,
    reference: bool,
    output: Path | None,
    figures: tuple[str, ...],
) -> None:
    """Run a plan and write its table or figure, with the printed numbers beside ours and a verdict for each.

    Plans of the papers are known as PAPER/ITEM (`gpbench list plans`); one of your own is a TOML file of the same form.
    What is stored is not run again, so that a plan may be interrupted and goes on. Data that cannot be had are
    reported, and the rest goes on.

    \b
    gpbench reproduce wenzel2019/table1 --dry-run
    gpbench reproduce wenzel2019/table1 --datasets german,diabetes
    gpbench reproduce hensman2015/fig1 --quick
    """  # noqa: D301  # click's own mark for lines that must not be wrapped
    # Heavy imports wait until the command is called.
    from gpbench.bench.derived.stored import derive  # noqa: PLC0415
    from gpbench.bench.execution import executor_for  # noqa: PLC0415
    from gpbench.bench.plan.read import find_plan  # noqa: PLC0415
    from gpbench.bench.plan.reduce import asked_for  # noqa: PLC0415
    from gpbench.bench.plan.run import look_ahead, run_plan  # noqa: PLC0415
    from gpbench.bench.progress import Progress  # noqa: PLC0415
    from gpbench.bench.resources import check_threads  # noqa: PLC0415
    from gpbench.bench.runner import Bounds  # noqa: PLC0415
    from gpbench.bench.store import Store  # noqa: PLC0415
    from gpbench.bench.workers import check_jobs  # noqa: PLC0415
    from gpbench.config import load_config  # noqa: PLC0415
    from gpbench.report.plan.output import (  # noqa: PLC0415
        check_place,
        folder_of,
        outlook_lines,
        plan_text,
        scored,
        write_plan,
    )
    from gpbench.report.plan.published import read_published  # noqa: PLC0415
    from gpbench.report.plan.reference import add_to_reference, check_addition  # noqa: PLC0415
    from gpbench.report.plan.renderers import check_figure  # noqa: PLC0415
    from gpbench.terminal import Meter  # noqa: PLC0415

    config = load_config()
    whole = find_plan(plan)
    check_figure(whole)
    if output is not None:
        check_place(whole, output, files=False)
    if reference:
        check_addition(plan, quick=quick)
    read_published(whole)  # said before hours of cells, not after them
    chosen = asked_for(
        whole,
        datasets=",".join(datasets) or None,
        methods=",".join(methods) or None,
        splits=folds,
        seconds=max_seconds,
        quick=quick,
    )
    bounds = Bounds(hard_seconds=hard_limit, memory_mb=memory_limit)
    store = Store(config.store)
    if dry_run:  # what runs cells sees to these itself
        check_threads(threads)
        check_jobs(1 if jobs is None else jobs)
        outlook = look_ahead(chosen, config, None if force else store, fresh=fresh)
        echo("\n".join(outlook_lines(chosen, outlook, jobs=jobs or 1)))
        if outlook.faults:
            context.exit(2)
        return
    runner, at_once = executor_for(jobs=jobs, scheduler=scheduler)
    with closing(runner), closing(Meter()) as meter, closing(Progress()) as progress:
        found = run_plan(
            chosen,
            config,
            store,
            executor=runner,
            jobs=at_once,
            threads=threads,
            bounds=bounds,
            force=force,
            fresh=fresh,
            progress=meter,
            watch=progress,
            say=lambda words: echo(f"gpbench: {words}", err=True),
        )
    derive(found, config, force=force)
    found = scored(found)
    folder = output or folder_of(found.plan, config, whole=chosen == whole)
    written = write_plan(found, folder, pictures=[f".{each}" for each in dict.fromkeys(figures)])
    if found.plan.render == "table":
        echo(plan_text(found, "text", width=width()))
    for path in [*written, *(add_to_reference(found) if reference else ())]:
        echo(str(path), content=True)
    if found.plan.missing and len(found.plan.missing) == len(found.plan.datasets):
        context.exit(3)
    if found.failed:
        context.exit(4)
