"""``gpbench fit``: one model on all rows of a file."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import click

from gpbench.cli.files import file_options, options_of
from gpbench.cli.names import dataset_names, method_names, setting_names
from gpbench.terminal import echo

__all__ = ["command"]


@click.command(name="fit")
@click.argument("file", metavar="FILE", shell_complete=dataset_names)
@click.option(
    "--method",
    "-m",
    "name",
    default="pep",
    show_default=True,
    metavar="M",
    shell_complete=method_names,
    help="A method.",
)
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), metavar="MODEL",
    help="The model's file; FILE's name with .gpb by default.",
)  # fmt: skip
@click.option("--inducing", metavar="100|3%|all", help="Number of inducing points.")
@click.option("--batch-size", metavar="B", help="Rows of a mini-batch.")
@click.option(
    "--kernel", metavar="K",
    help="se, se-ard, matern12, matern12-ard, matern32, matern32-ard, linear-ard, quadratic, or a sum with +.",
)  # fmt: skip
@click.option("--likelihood", metavar="L", help="In place of the method's own.")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=setting_names,
    help="A setting; see `gpbench list methods`.",
)
@click.option("--max-seconds", type=float, metavar="S", help="Training seconds at most.")
@click.option(
    "--scaling", type=click.Choice(["standard", "common", "none"]), default="standard", show_default=True,
    help="Of inputs: each column by its own spread, all by one number, or not at all.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Of the scheme.")
@click.option("--threads", type=int, default=1, show_default=True, metavar="T", help="BLAS threads.")
@file_options
def command(
    *,
    file: str,
    name: str,
    output: Path | None,
    inducing: str | None,
    batch_size: str | None,
    kernel: str | None,
    likelihood: str | None,
    assignments: tuple[str, ...],
    max_seconds: float | None,
    scaling: str,
    seed: int,
    threads: int,
    **reading: Any,
) -> None:
    """Train a method on all rows of FILE, a file of your own or a data set of the catalogue.

    MODEL then holds all that `gpbench predict` needs for new raw rows: how each column is encoded, filled and scaled,
    by its name, the names of the classes, and the posterior. It holds no pickles.

    \b
    gpbench fit customers.csv --target churn --output churn.gpb
    gpbench predict churn.gpb new.csv --output probabilities.csv
    """  # noqa: D301  # click's own mark for lines that must not be wrapped
    from gpbench.bench.cell import Limits  # noqa: PLC0415
    from gpbench.bench.choices import choose, parse_assignments  # noqa: PLC0415
    from gpbench.bench.methods import method  # noqa: PLC0415
    from gpbench.bench.resources import check_threads, one_pool_size  # noqa: PLC0415
    from gpbench.bench.sources import FileSource, decisions, opened, sources  # noqa: PLC0415
    from gpbench.bench.trained import Trained, check_place  # noqa: PLC0415
    from gpbench.config import load_config  # noqa: PLC0415
    from gpbench.data.splits import check_seed  # noqa: PLC0415
    from gpbench.report.files import check_apart, check_folder  # noqa: PLC0415
    from gpbench.terminal import Meter  # noqa: PLC0415

    check_threads(threads)
    check_seed(seed)
    limits = Limits(seconds=max_seconds)
    flags = {"inducing": inducing, "batch_size": batch_size, "kernel": kernel, "likelihood": likelihood}
    (choice,) = choose([method(name)], flags, assignments=parse_assignments(assignments))
    places = sources((file,), load_config(), options=options_of(**reading), argument="FILE")
    path = output or Path(Path(file).name).with_suffix(".gpb")
    check_folder(path, what="the model")
    check_apart(path, (place.path for place in places if isinstance(place, FileSource)))
    check_place(path)
    with closing(Meter()) as meter:
        dataset = opened(places[0], meter)
    for words in decisions(places):
        echo(words, err=True)
    choice.method.load()
    with one_pool_size(threads):
        model = Trained.on(dataset, choice, scaling=scaling, seed=seed, seconds=limits.seconds, threads=threads)
    model.save(path)
    about = model.about
    classes = f", classes {', '.join(dataset.classes)}" if dataset.classes else ""
    echo(
        f"{path}: {model.method} on {about['rows']} rows of {dataset.id}, {model.inputs} inputs{classes}; "
        f"ended by {about['stopped_by']} after {about['iterations']} iterations"
    )
