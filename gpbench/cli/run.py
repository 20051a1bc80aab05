"""``gpbench run``: methods on data sets, cell by cell."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from gpbench.cli.files import file_options, options_of
from gpbench.cli.names import dataset_names, method_names, setting_names
from gpbench.terminal import echo, width

__all__ = ["command"]


@click.command(name="run")
@click.option(
    "--method",
    "-m",
    "methods",
    multiple=True,
    required=True,
    metavar="M",
    shell_complete=method_names,
    help="A method; may be repeated.",
)
@click.option(
    "--dataset", "-d", "datasets", multiple=True, required=True, metavar="D", shell_complete=dataset_names,
    help="A catalogue id, openml:ID, or a file of your own (csv, parquet, arff, libsvm, npz); may be repeated.",
)  # fmt: skip
@click.option(
    "--split", metavar="S", help="folds:K, contiguous:K, holdout:F*R, given, active:M/K or draws:R; folds:10."
)
@click.option("--folds", type=int, metavar="K", help="Short for --split folds:K.")
@click.option("--inducing", metavar="100|3%|all", help="Number of inducing points.")
@click.option("--batch-size", metavar="B", help="Rows of a mini-batch.")
@click.option(
    "--kernel", metavar="K",
    help="se, se-ard, matern12, matern12-ard, matern32, matern32-ard, linear-ard, quadratic, or a sum with +.",
)  # fmt: skip
@click.option("--likelihood", metavar="L", help="In place of the method's own.")
@click.option("--max-seconds", type=float, metavar="S", help="Training seconds after which a cell is stopped.")
@click.option("--hard-limit", type=float, metavar="S", help="Wall seconds of training after which a cell is killed.")
@click.option("--max-iterations", type=int, metavar="I", help="Iterations after which a cell is stopped.")
@click.option(
    "--scaling", type=click.Choice(["standard", "common", "none"]), default="standard", show_default=True,
    help="Of inputs by the training rows: each column by its own spread, all by one number, or not at all.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Of splits and schemes.")
@click.option("--jobs", type=int, metavar="J", help="Cells at a time, 1 by default; disturbs clocks.")
@click.option("--scheduler", metavar="ADDRESS", help="Run on the workers of a Dask cluster: tcp://host:8786.")
@click.option("--memory-limit", type=float, metavar="MB", help="Address space of a worker; a cell beyond it fails.")
@click.option("--threads", type=int, default=1, show_default=True, metavar="T", help="BLAS threads of a cell.")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=setting_names,
    help="A setting; see `gpbench list methods`.",
)
@file_options
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw NLL and error over time."
)
@click.option("--force", is_flag=True, help="Run finished cells again.")
@click.option("--json", "as_json", is_flag=True, help="Print cells and summary as JSON.")
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    methods: tuple[str, ...],
    datasets: tuple[str, ...],
    split: str | None,
    folds: int | None,
    inducing: str | None,
    batch_size: str | None,
    kernel: str | None,
    likelihood: str | None,
    max_seconds: float | None,
    max_iterations: int | None,
    scaling: str,
    seed: int,
    hard_limit: float | None,
    jobs: int | None,
    scheduler: str | None,
    memory_limit: float | None,
    threads: int,
    assignments: tuple[str, ...],
    plot: Path | None,
    force: bool,
    as_json: bool,
    **file: Any,
) -> None:
    """Run methods on data sets and print a table.

    Every method sees the same splits. A finished cell is stored at once and never run again unless --force is given;
    an interrupted run goes on where it stopped when the same command is given again.

    \b
    gpbench run --method x-gpc --method linear --dataset breast-cancer-wisconsin
    gpbench run --method x-gpc --dataset mine.csv --target label --set noise=0.1 --json
    """  # noqa: D301  # click's own mark for lines that must not be wrapped
    from gpbench.bench.execution import executor_for  # noqa: PLC0415

    runner, at_once = executor_for(jobs=jobs, scheduler=scheduler)  # the worker starts while the rest is imported
    context.with_resource(closing(runner))
    # Heavy imports wait until the command is called.
    from gpbench.bench.cell import Limits  # noqa: PLC0415
    from gpbench.bench.choices import choose, parse_assignments  # noqa: PLC0415
    from gpbench.bench.expand import Request, expand, protocol_of  # noqa: PLC0415
    from gpbench.bench.methods import method  # noqa: PLC0415
    from gpbench.bench.progress import Progress  # noqa: PLC0415
    from gpbench.bench.runner import Bounds  # noqa: PLC0415
    from gpbench.bench.sources import FileSource, decisions  # noqa: PLC0415
    from gpbench.bench.sources import sources as sources_of  # noqa: PLC0415
    from gpbench.bench.store import Store  # noqa: PLC0415
    from gpbench.bench.sweep import sweep  # noqa: PLC0415
    from gpbench.config import load_config  # noqa: PLC0415
    from gpbench.errors import UsageError  # noqa: PLC0415
    from gpbench.report.scores import with_scores  # noqa: PLC0415
    from gpbench.report.tables.summary import summarise  # noqa: PLC0415
    from gpbench.report.tables.table import table  # noqa: PLC0415
    from gpbench.terminal import Meter  # noqa: PLC0415

    if plot is not None:
        from gpbench.report.figures.curves import save_curves  # noqa: PLC0415  # matplotlib is heavy
        from gpbench.report.files import PICTURES, check_apart  # noqa: PLC0415

        if plot.suffix.lower() not in PICTURES:  # before anything runs
            raise UsageError(f"--plot expects a name that ends in {', '.join(PICTURES)}; got {plot}")
    config = load_config()
    options = options_of(**file)
    flags = {"inducing": inducing, "batch_size": batch_size, "kernel": kernel, "likelihood": likelihood}
    limits = Limits(seconds=max_seconds, iterations=max_iterations)
    chosen = [method(name) for name in methods]
    request = Request(
        choices=choose(chosen, flags, assignments=parse_assignments(assignments), iterations=max_iterations),
        sources=sources_of(datasets, config, options=options),
        split=protocol_of(split, folds),
        limits=limits,
        scaling=scaling,
        seed=seed,
        threads=threads,
        jobs=at_once,
        bounds=Bounds(hard_seconds=hard_limit, memory_mb=memory_limit),
    )
    if plot is not None:
        check_apart(plot, (place.path for place in request.sources if isinstance(place, FileSource)), flag="--plot")
    store = Store(config.store)
    with closing(Meter()) as meter:
        tasks = expand(request, meter)
    for words in decisions(request.sources):
        echo(words, err=True)
    with closing(Progress()) as progress:
        cells = sweep(tasks, store, executor=runner, force=force, watch=progress)
    if as_json:
        scored, _ = with_scores(cells, store)
        summary = summarise(scored)
        found = {"cells": [cell.to_json() for cell in cells], "summary": summary, "store": str(config.store)}
        echo(json.dumps(found, indent=1), content=True)
    else:
        echo(table(summarise(cells), width=width()))
    if plot is not None:
        try:
            save_curves(cells, plot)
        except UsageError as error:  # cells of two processors, or none that ended well: the sweep has its own exit code
            echo(f"gpbench: {plot} is not drawn: {error}", err=True)
    if not all(cell.finished for cell in cells):
        context.exit(4)
