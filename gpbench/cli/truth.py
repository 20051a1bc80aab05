"""``gpbench truth``: methods beside reference posteriors."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import click

from gpbench.terminal import echo, width

__all__ = ["command"]


@click.command(name="truth")
@click.argument("methods", nargs=-1, metavar="METHOD...")
@click.option("--problem", "names", multiple=True, metavar="P", help="Only this problem; may be repeated.")
@click.option("--link", "links", multiple=True, type=click.Choice(["logit", "probit"]), help="Only this link.")
@click.option(
    "--inducing",
    metavar="LIST",
    help="Numbers of inducing inputs, with commas between; 50,all by default.",
)
@click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="A setting of the methods that have it."
)
@click.option("--max-seconds", type=float, metavar="S", help="Training seconds after which a cell is stopped.")
@click.option("--force", is_flag=True, help="Run finished cells again.")
@click.option(
    "--format", "form", type=click.Choice(["text", "csv", "markdown", "latex"]), default="text", show_default=True,
    help="Of the table.",
)  # fmt: skip
@click.option(
    "--output", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Write tables, picture."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--make", is_flag=True, help="Sample the reference posteriors anew, in a checkout: minutes each.")
@click.option("--gibbs-rows", type=int, metavar="N", help="With --make: rows up to which Gibbs sampling must agree.")
@click.pass_context
def command(
    context: click.Context,
    *,
    methods: tuple[str, ...],
    names: tuple[str, ...],
    links: tuple[str, ...],
    inducing: str | None,
    assignments: tuple[str, ...],
    max_seconds: float | None,
    force: bool,
    form: str,
    output: Path | None,
    as_json: bool,
    make: bool,
    gibbs_rows: int | None,
) -> None:
    """Say how far methods are from exact posteriors, their kernel being fixed at the reference's.

    Without METHOD: the problems that there are. With them, each is trained on each problem (what is stored is not run
    again) and its posterior compared with one that was sampled until its error was negligible: latent means and
    standard deviations, probabilities, and the gap of its bound to the evidence. What an approximation costs, apart
    from its optimiser.

    \b
    gpbench truth
    gpbench truth ep vi-jj
    gpbench truth x-gpc svgpc --problem breast --inducing 25,100,all --json
    """  # noqa: D301  # click's own mark for lines that must not be wrapped
    # Heavy imports wait until the command is called.
    from gpbench.bench.choices import parse_assignments  # noqa: PLC0415
    from gpbench.bench.derived.stored import derive  # noqa: PLC0415
    from gpbench.bench.execution import executor_for  # noqa: PLC0415
    from gpbench.bench.methods import method  # noqa: PLC0415
    from gpbench.bench.plan.run import run_plan  # noqa: PLC0415
    from gpbench.bench.progress import Progress  # noqa: PLC0415
    from gpbench.bench.store import Store  # noqa: PLC0415
    from gpbench.bench.truth.plan import truth_plan  # noqa: PLC0415
    from gpbench.bench.truth.reference import LINKS, PROBLEMS, problem  # noqa: PLC0415
    from gpbench.config import load_config  # noqa: PLC0415
    from gpbench.errors import UsageError  # noqa: PLC0415
    from gpbench.report.plan.output import write_plan  # noqa: PLC0415
    from gpbench.report.tables.truth import rows_of, truth_rows, truth_text  # noqa: PLC0415
    from gpbench.terminal import Meter  # noqa: PLC0415

    config = load_config()
    chosen = [problem(name) for name in names or PROBLEMS]
    if make or not methods:
        if make and methods:
            raise UsageError("--make samples reference posteriors; it takes no METHOD")
        if make:
            _make(chosen, links or LINKS, gibbs_rows=gibbs_rows)
        else:
            _show(chosen, links or LINKS, as_json=as_json)
        return
    plan = truth_plan(
        [method(name) for name in methods],
        chosen,
        links=links or LINKS,
        inducing=None if inducing is None else [each.strip() for each in inducing.split(",") if each.strip()],
        seconds=max_seconds,
        settings=parse_assignments(assignments),
    )
    runner, _ = executor_for(jobs=None, scheduler=None)
    with closing(runner), closing(Meter()) as meter, closing(Progress()) as progress:
        found = run_plan(
            plan,
            config,
            Store(config.store),
            executor=runner,
            force=force,
            progress=meter,
            watch=progress,
            say=lambda words: echo(f"gpbench: {words}", err=True),
        )
    if found.failed < len(found.results):
        derive(found, config, force=force)
        rows = rows_of(found)
        if as_json:
            echo(json.dumps({"rows": truth_rows(rows)}, indent=1), content=True)
        else:
            echo(truth_text(found, rows, form, width=width()), nl=False, content=form != "text")
        for path in write_plan(found, output) if output is not None else []:
            echo(str(path), err=True)
    if found.failed:
        for cell in found.results:
            if not cell.finished:
                words = str(cell.problem or cell.status)
                echo(f"gpbench: {cell.shown.method} on {cell.shown.dataset}: {words}", err=True)
        context.exit(4)


def _show(chosen: list, links: tuple[str, ...], *, as_json: bool) -> None:  # type: ignore[type-arg]  # of problems, whose module is heavy
    """The problems with what is known of their posteriors."""
    from gpbench.bench.truth.reference import read_reference  # noqa: PLC0415
    from gpbench.report.text import columns  # noqa: PLC0415

    found = [dict(read_reference(each.name, link).about) for each in chosen for link in links]
    if as_json:
        echo(json.dumps({"references": found}, indent=1), content=True)
        return
    heads = ["problem", "link", "data set", "n", "length scale", "variance", "draws", "R-hat", "log evidence", "Gibbs"]
    lines = [heads]
    for each in chosen:
        for link in links:
            about = read_reference(each.name, link).about
            gibbs = "–" if about["gibbs"] is None else f"{about['gibbs']['effective']:.0f} draws agree"
            lines.append(
                [
                    *(each.name, link, each.dataset, str(about["rows"]), f"{each.lengthscale:g}", f"{each.variance:g}"),
                    *(f"{about['effective']:.0f}", f"{about['rhat']:.4f}"),
                    *(f"{about['log_evidence']:.2f} ± {about['log_evidence_error']:.2f}", gibbs),
                ]
            )
    echo("\n".join(columns(lines)))


def _make(chosen: list, links: tuple[str, ...], *, gibbs_rows: int | None) -> None:  # type: ignore[type-arg]  # as above
    from gpbench.bench.truth.make import Effort, make_reference  # noqa: PLC0415  # polyagamma is an extra
    from gpbench.config import load_config  # noqa: PLC0415

    effort = Effort() if gibbs_rows is None else Effort(gibbs_rows=gibbs_rows)
    for each in chosen:
        for link in links:
            echo(f"{each.name}, {link}", err=True)
            path = make_reference(
                each, link, load_config(), effort=effort, say=lambda line: echo(f"  {line}", err=True)
            )
            echo(str(path), content=True)
