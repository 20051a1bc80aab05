"""``gpbench compare``: methods against one another on the same splits."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gpbench.cli.names import dataset_names, method_names, several
from gpbench.terminal import echo, width

__all__ = ["command"]


@click.command(name="compare")
@click.argument("methods", nargs=-1, required=True, metavar="METHOD METHOD...", shell_complete=method_names)
@several(
    "--dataset",
    "--datasets",
    "-d",
    "datasets",
    metavar="D",
    shell_complete=dataset_names,
    help="Only this data set; may be repeated.",
)
@click.option("--split", metavar="S", help="Only this split protocol, such as folds:10.")
@click.option("--processor", metavar="CPU", help="Only cells that ran on this processor (a part of its name).")
@click.option(
    "--runs", "runs", multiple=True, type=click.Path(path_type=Path), metavar="PLACE",
    help="A results folder, stored cell, or JSON that `gpbench run --json` printed, in place of the store.",
)  # fmt: skip
@click.option(
    "--metrics",
    metavar="LIST",
    help="Of the tables: nll, error, brier, ece, auc, average_precision; with commas between.",
)
@click.option(
    "--rope", type=float, metavar="X",
    help="Differences up to this are the same in practice, of every metric; 0.01 by default.",
)  # fmt: skip
@click.option(
    "--format", "form", type=click.Choice(["text", "markdown", "latex"]), default="text", show_default=True,
    help="Of the tables.",
)  # fmt: skip
@click.option(
    "--output", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
    help="Write comparison.txt (.md, .tex), comparison.json, ranks.png and profiles.png.",
)  # fmt: skip
@click.option("--fresh", is_flag=True, help="Without the reference results that come with gpbench.")
@click.option("--with-reference", is_flag=True, help="With them, though the store has all of the methods.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(
    *,
    methods: tuple[str, ...],
    datasets: tuple[str, ...],
    split: str | None,
    processor: str | None,
    runs: tuple[Path, ...],
    metrics: str | None,
    rope: float | None,
    form: str,
    output: Path | None,
    fresh: bool,
    with_reference: bool,
    as_json: bool,
) -> None:
    """Compare methods by their stored results, paired over splits; nothing is run.

    Within a data set: mean differences with intervals and the chance that they matter, and the time to 1.02 times the
    best NLL. Over data sets, of which those that share rows count once: Wilcoxon's signed-rank test, average ranks with
    the critical difference, shares of wins, and performance profiles.

    A method stands for all settings that are stored of it; METHOD:name=value,name=value chooses some. Of methods that
    are not in the store, reference results are compared, of the settings nearest to the defaults.

    \b
    gpbench compare x-gpc svgpc
    gpbench compare x-gpc:inducing=50 x-gpc:inducing=100
    gpbench compare x-gpc svgpc linear -d german -d electricity --output comparison
    """  # noqa: D301  # click's own mark for lines that must not be wrapped
    # Heavy imports wait until the command is called.
    from gpbench.bench.reference import reference_files  # noqa: PLC0415
    from gpbench.config import load_config  # noqa: PLC0415
    from gpbench.report.compare.comparison import SHOWN, compare  # noqa: PLC0415
    from gpbench.report.compare.contest import contest  # noqa: PLC0415
    from gpbench.report.compare.display import comparison_text  # noqa: PLC0415
    from gpbench.report.compare.significance import ROPE  # noqa: PLC0415
    from gpbench.report.sources import method_of, no_results, read_cells  # noqa: PLC0415

    columns = SHOWN if metrics is None else tuple(name.strip() for name in metrics.split(","))
    paths = runs or (load_config().store,)
    cells, problems = read_cells([path for path in paths if runs or path.exists()], scored=True)
    reference = not (runs or fresh)
    for problem in problems:
        echo(f"gpbench: {problem}", err=True)
    if not cells and not (reference and reference_files()):
        raise no_results(paths, fresh=True)
    chosen, words = contest(
        cells,
        methods,
        datasets=datasets,
        split=split,
        processor=processor,
        reference=reference,
        beside=with_reference,
    )
    for each in words:
        echo(f"gpbench: {each}", err=True)
    ids = [method_of(name)[0] for name in methods]
    found = compare(chosen, methods=ids, rope=ROPE if rope is None else rope)
    text = comparison_text(found, format=form, metrics=columns, width=width() if output is None else None)
    if output is None:
        echo(json.dumps(found.json(), indent=1) if as_json else text, nl=as_json, content=as_json or form != "text")
        return
    from gpbench.report.compare.pictures import write_comparison  # noqa: PLC0415  # matplotlib is heavy

    written, undrawn = write_comparison(found, output, text=text, format=form)
    for path in written:
        echo(str(path), content=True)
    for problem in undrawn:
        echo(f"gpbench: {problem}", err=True)
