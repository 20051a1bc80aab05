"""``gpbench report``: tables and pictures of what is stored."""

from __future__ import annotations

from pathlib import Path

import click

from gpbench.report.table import ENDINGS

__all__ = ["command"]


@click.command(name="report")
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="[RUNS]...")
@click.option("--dataset", "-d", "datasets", multiple=True, metavar="D", help="Only this data set; may be repeated.")
@click.option("--method", "-m", "methods", multiple=True, metavar="M", help="Only this method; may be repeated.")
@click.option("--processor", metavar="CPU", help="Only cells that ran on this processor (a part of its name).")
@click.option(
    "--format", "form", type=click.Choice([*ENDINGS, "html"]),
    help="Of the table, or html: a page with everything in it. Else what PLACE's ending says, or text.",
)  # fmt: skip
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="PLACE",
    help="A file: a table, a picture (.png, .pdf, .svg) or a page (.html). A folder: table and pictures.",
)  # fmt: skip
@click.option(
    "--spread", type=click.Choice(["sd", "2sd", "se", "2se"]), default="2se", show_default=True,
    help="Half width of the pictures' bands: standard deviations over splits, or standard errors of the mean.",
)  # fmt: skip
@click.option(
    "--metrics",
    metavar="LIST",
    help="Columns of the table: nll, error, brier, ece, train_seconds; with commas between.",
)
def command(
    *,
    runs: tuple[Path, ...],
    datasets: tuple[str, ...],
    methods: tuple[str, ...],
    processor: str | None,
    form: str | None,
    output: Path | None,
    spread: str,
    metrics: str | None,
) -> None:
    """Make tables and pictures of stored results; nothing is run.

    RUNS are results folders, stored cells, or files of JSON that `gpbench run --json` printed; without any, the store.
    The table is printed unless --output says where it goes. In a folder it is table.txt (.csv, .md, .tex) beside
    nll.png and error.png, the curves over training time.

    \b
    gpbench report --dataset german --format markdown
    gpbench report --metrics nll,brier,ece
    gpbench report --output curves.pdf
    gpbench report --format html --output page.html
    gpbench report old/results new/results --method x-gpc --output comparison
    """  # noqa: D301  # click's own mark for lines that must not be wrapped
    # Heavy imports wait until the command is called.
    from gpbench.config import load_config  # noqa: PLC0415
    from gpbench.errors import StoreError  # noqa: PLC0415
    from gpbench.report.display import SHOWN  # noqa: PLC0415
    from gpbench.report.publish import publish  # noqa: PLC0415
    from gpbench.report.scores import SCORED  # noqa: PLC0415
    from gpbench.report.sources import choose, read_cells  # noqa: PLC0415
    from gpbench.report.summary import summarise  # noqa: PLC0415
    from gpbench.report.table import table  # noqa: PLC0415

    columns = SHOWN if metrics is None else tuple(name.strip() for name in metrics.split(","))
    scored = not SCORED.isdisjoint(columns) or form == "csv" or (output is not None and output.suffix.lower() == ".csv")
    places = runs or (load_config().store,)
    cells, problems = read_cells([place for place in places if runs or place.exists()], scored=scored)
    for problem in problems:
        click.echo(f"gpbench: {problem}", err=True)
    if not cells:
        raise StoreError(f"there are no results in {', '.join(map(str, places))}; `gpbench run` makes some")
    chosen = choose(cells, datasets=datasets, methods=methods, processor=processor)
    if output is None and form == "html":
        from gpbench.report.page import page  # noqa: PLC0415

        click.echo(page(chosen, title="Results", metrics=columns, spread=spread), nl=False)
        return
    if output is None:
        click.echo(table(summarise(chosen), format=form or "text", metrics=columns), nl=False)
        return
    written, problems = publish(chosen, output, format=form, spread=spread, metrics=columns)
    for path in written:
        click.echo(str(path))
    for problem in problems:
        click.echo(f"gpbench: {problem}", err=True)
