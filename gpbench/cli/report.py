"""``gpbench report``: tables and pictures of what is stored."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpbench.cli.names import dataset_names, method_names, plan_names, several
from gpbench.report.tables.table import ENDINGS
from gpbench.terminal import echo, width

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["command"]


@click.command(name="report")
@click.argument(
    "runs",
    nargs=-1,
    type=click.Path(path_type=Path),
    metavar="[PAPER/ITEM|PLAN.toml|RUNS]...",
    shell_complete=plan_names,
)
@click.option("--quick", is_flag=True, help="Of a plan: its quick form.")
@click.option("--folds", type=int, metavar="K", help="Of a plan: only the first K splits of each data set.")
@click.option("--max-seconds", type=float, metavar="S", help="Of a plan: as it ran with this limit of a cell.")
@click.option("--claims", is_flag=True, help="What the stored cells say of each claim of the papers.")
@several(
    "--dataset",
    "--datasets",
    "-d",
    "datasets",
    metavar="D",
    shell_complete=dataset_names,
    help="Only this data set; may be repeated.",
)
@several(
    "--method",
    "--methods",
    "-m",
    "methods",
    metavar="M",
    shell_complete=method_names,
    help="Only this method, with these settings where M:name=value says so; may be repeated.",
)
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
    "--spread", type=click.Choice(["sd", "2sd", "se", "2se"]),
    help="Half width of the pictures' bands: standard deviations over splits, or standard errors of the mean (2se).",
)  # fmt: skip
@click.option("--fresh", is_flag=True, help="Without the reference results that come with gpbench.")
@click.option("--with-reference", is_flag=True, help="With all of them that are on the same data sets.")
@click.option(
    "--metrics",
    metavar="LIST",
    help="Columns of the table: nll, error, brier, ece, auc, average_precision, train_seconds; with commas between.",
)
def command(
    *,
    runs: tuple[Path, ...],
    quick: bool,
    folds: int | None,
    max_seconds: float | None,
    claims: bool,
    datasets: tuple[str, ...],
    methods: tuple[str, ...],
    processor: str | None,
    form: str | None,
    output: Path | None,
    spread: str | None,
    fresh: bool,
    with_reference: bool,
    metrics: str | None,
) -> None:
    """Make tables and pictures of stored results; nothing is run.

    A plan is rendered as `gpbench reproduce` does it, from the store alone: printed, or written to --output, a folder
    or the file of one table or page; with --format latex its pictures are written as pdf, too.

    RUNS are results folders, stored cells, or files of JSON that `gpbench run --json` printed; without any, the store,
    and of a data set or method that is asked for and is not in it the reference results.
    The table is printed unless --output says where it goes. In a folder it is table.txt (.csv, .md, .tex) beside
    nll.png and error.png, the curves over training time, and curves.csv, the points that they go through.

    \b
    gpbench report wenzel2019/table1
    gpbench report --claims --output claims.csv
    gpbench report --dataset german --format markdown
    gpbench report --metrics nll,brier,ece
    gpbench report --output curves.pdf
    gpbench report --format html --output page.html
    gpbench report old/results new/results --method x-gpc --output comparison
    """  # noqa: D301  # click's own mark for lines that must not be wrapped
    # Heavy imports wait until the command is called.
    from gpbench.bench.plan.read import is_plan, plan_file  # noqa: PLC0415
    from gpbench.bench.reference import reference_files  # noqa: PLC0415
    from gpbench.config import load_config  # noqa: PLC0415
    from gpbench.errors import UsageError  # noqa: PLC0415
    from gpbench.report.files import check_apart  # noqa: PLC0415

    if output is not None and not output.is_dir():
        plans = (plan_file(str(run)) for run in runs)
        check_apart(output, (*runs, *plans, load_config().store, *reference_files()))
    of_plans: dict[str, object] = {"--quick": quick or None, "--folds": folds, "--max-seconds": max_seconds}
    of_runs: dict[str, object] = {
        "--processor": processor, "--spread": spread, "--metrics": metrics, "--with-reference": with_reference or None,
    }  # fmt: skip
    if claims:
        if runs or datasets or methods:
            raise UsageError("--claims is of all claims and of the store; expected no plan, runs, data sets or methods")
        _refuse(of_plans | of_runs, "--claims is of all claims and of the store; expected it without {name}")
        report_claims(form, output, fresh=fresh)
    elif len(runs) == 1 and is_plan(str(runs[0])):
        _refuse(of_runs, "{name} is of runs; a plan says itself how it is shown")
        cuts = {"splits": folds, "seconds": max_seconds, "quick": quick}
        report_plan(str(runs[0]), datasets, methods, form=form, output=output, cuts=cuts, fresh=fresh)
    else:
        _refuse(of_plans, "{name} is of a plan; expected PAPER/ITEM or PLAN.toml")
        if with_reference and (runs or fresh):
            raise UsageError("--with-reference is of the store; expected it without RUNS and --fresh")
        report_runs(
            runs, datasets, methods, processor=processor, form=form, output=output, spread=spread or "2se",
            fresh=fresh, with_reference=with_reference, metrics=metrics,
        )  # fmt: skip


def _refuse(options: Mapping[str, object], words: str) -> None:
    """Say of an option that is given and would play no part why it is none here."""
    from gpbench.errors import UsageError  # noqa: PLC0415  # as above

    for name, value in options.items():
        if value is not None:
            raise UsageError(words.format(name=name))


def report_runs(
    runs: tuple[Path, ...],
    datasets: tuple[str, ...],
    methods: tuple[str, ...],
    *,
    processor: str | None,
    form: str | None,
    output: Path | None,
    spread: str,
    fresh: bool,
    with_reference: bool,
    metrics: str | None,
) -> None:
    """Print or write tables and pictures of the cells of folders and files, or of the store."""
    from gpbench.bench.metrics import metrics as metric_ids  # noqa: PLC0415  # as above
    from gpbench.config import load_config  # noqa: PLC0415
    from gpbench.report.publish import publish  # noqa: PLC0415
    from gpbench.report.scores import SCORED  # noqa: PLC0415
    from gpbench.report.sources import (  # noqa: PLC0415
        beside,
        calibrations,
        choose,
        needed,
        no_results,
        read_cells,
        without_quick,
    )
    from gpbench.report.tables.summary import summarise  # noqa: PLC0415
    from gpbench.report.tables.table import SHOWN, table  # noqa: PLC0415

    columns = SHOWN if metrics is None else tuple(name.strip() for name in metrics.split(","))
    scored = (
        not (SCORED | metric_ids().keys()).isdisjoint(columns)
        or form == "csv"
        or (output is not None and output.suffix.lower() == ".csv")
    )
    paths = runs or (load_config().store,)
    places = [path for path in paths if runs or path.exists()]
    cells, problems = read_cells(places, scored=scored)
    if not (runs or fresh):
        found = beside(cells, datasets) if with_reference else needed(cells, datasets=datasets, methods=methods)
        cells, problems = [*cells, *found[0]], [*problems, *found[1]]
    for problem in problems:
        echo(f"gpbench: {problem}", err=True)
    if not cells:
        raise no_results(paths, fresh=bool(runs) or fresh)
    chosen, left = without_quick(choose(cells, datasets=datasets, methods=methods, processor=processor))
    for words in left:
        echo(f"gpbench: {words}", err=True)
    if output is None and form == "html":
        from gpbench.report.page import page  # noqa: PLC0415

        bins = calibrations(places, chosen)
        echo(page(chosen, title="Results", metrics=columns, spread=spread, bins=bins), nl=False, content=True)
        return
    if output is None:
        echo(
            table(summarise(chosen), format=form or "text", metrics=columns, width=width()),
            nl=False,
            content=form not in {None, "text"},
        )
        return
    written, problems = publish(chosen, output, format=form, spread=spread, metrics=columns, places=places)
    for path in written:
        echo(str(path), content=True)
    for problem in problems:
        echo(f"gpbench: {problem}", err=True)


def report_claims(form: str | None, output: Path | None, *, fresh: bool) -> None:
    """Print or write what the store's cells say of every claim."""
    from gpbench.bench.store import Store  # noqa: PLC0415  # as above
    from gpbench.config import load_config  # noqa: PLC0415
    from gpbench.errors import UsageError  # noqa: PLC0415
    from gpbench.report.files import write_atomically  # noqa: PLC0415
    from gpbench.report.plan.claims import judge_store  # noqa: PLC0415
    from gpbench.report.plan.claims_shown import claim_words, claims_csv  # noqa: PLC0415

    by_ending = {ending: name for name, ending in ENDINGS.items()}
    form = form or ("text" if output is None else by_ending.get(output.suffix.lower(), ""))
    if form not in ENDINGS:
        raise UsageError(f"claims are written as {', '.join(ENDINGS)}; got {form or output}")
    store = Store(load_config().store)
    judged = judge_store(store, fresh=fresh)
    for problem in store.problems:
        echo(f"gpbench: {problem}", err=True)
    content = claims_csv(judged) if form == "csv" else claim_words(judged, form, width=None if output else width())
    if output is None:
        echo(content, nl=False, content=form != "text")
    else:
        write_atomically(output, content)
        echo(str(output), content=True)


def report_plan(
    name: str,
    datasets: tuple[str, ...],
    methods: tuple[str, ...],
    *,
    form: str | None,
    output: Path | None,
    cuts: dict[str, Any],
    fresh: bool,
) -> None:
    """Render a plan from the store; ``cuts`` as for :func:`gpbench.bench.plan.reduce.asked_for`."""
    from gpbench.bench.plan.cells import look_up  # noqa: PLC0415
    from gpbench.bench.plan.read import find_plan  # noqa: PLC0415  # as above
    from gpbench.bench.plan.reduce import asked_for  # noqa: PLC0415
    from gpbench.bench.store import Store  # noqa: PLC0415
    from gpbench.config import load_config  # noqa: PLC0415
    from gpbench.errors import NotComputed  # noqa: PLC0415
    from gpbench.report.files import write_atomically  # noqa: PLC0415
    from gpbench.report.plan.output import check_place, folder_of, plan_text, scored, write_plan  # noqa: PLC0415
    from gpbench.report.plan.renderers import check_figure  # noqa: PLC0415

    config = load_config()
    whole = find_plan(name)
    check_figure(whole)
    if output is not None:
        check_place(whole, output, files=True)
    chosen = {"datasets": ",".join(datasets) or None, "methods": ",".join(methods) or None, **cuts}
    plan = asked_for(whole, **chosen)
    store = Store(config.store)
    found = look_up(plan, store, config=config, fresh=fresh)
    for problem in (*store.problems, *found.remarks):
        echo(f"gpbench: {problem}", err=True)
    found = scored(found)
    ending = "" if output is None or output.is_dir() else output.suffix.lower()
    form = form or {".html": "html", **{each: name for name, each in ENDINGS.items()}}.get(ending)
    try:
        if form == "html" or (form is not None and ending):
            if form == "html":
                from gpbench.report.page import plan_page  # noqa: PLC0415  # matplotlib is heavy

                content = plan_page(found)
            else:
                content = plan_text(found, form, width=width() if output is None else None)
            if output is None:
                echo(content, nl=False, content=form != "text")
            else:
                write_atomically(output, content)
                echo(str(output), content=True)
        elif output is None and plan.render == "table":
            echo(plan_text(found, form or "text", width=width()), nl=False, content=form not in {None, "text"})
        else:
            pictures = (".pdf",) if form == "latex" else ()
            for path in write_plan(found, output or folder_of(plan, config, whole=plan == whole), pictures=pictures):
                echo(str(path), content=True)
    except NotComputed as error:
        raise NotComputed(f"{error}; `{_computing(name, chosen)}` computes them") from error


def _computing(name: str, chosen: dict[str, Any]) -> str:
    """The command that computes what a report of a plan lacks."""
    flags = {"datasets": "--datasets", "methods": "--methods", "splits": "--folds", "seconds": "--max-seconds"}
    words = [word for key, flag in flags.items() if chosen[key] is not None for word in (flag, f"{chosen[key]}")]
    return shlex.join(["gpbench", "reproduce", name, *words, *(["--quick"] if chosen["quick"] else [])])
