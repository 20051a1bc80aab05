"""``gpbench plan``: plans of one's own."""

from __future__ import annotations

from pathlib import Path

import click

from gpbench.terminal import echo

__all__ = ["TEMPLATE", "command"]

TEMPLATE = """\
# A plan: which methods run on which data sets, and how the results are shown.
#   gpbench reproduce {name} --dry-run    what would run, and for how long
#   gpbench reproduce {name}              runs what is not stored yet
title = "Methods on my data"
datasets = ["breast-cancer-wisconsin", "digits-odd-even"]   # of `gpbench list datasets`, or files beside this one
split = "folds:10"                      # or contiguous:K, holdout:F*R, given, active:M/K
seed = 0
limits = {{ seconds = 60 }}               # also iterations, train_rows, test_rows; of each cell
metrics = ["nll", "error", "train_seconds"]
render = "table"                        # or curves, learning-curves, panels, scatter

# How a file of your own is read; it must stand among `datasets` too.
# [files."customers.csv"]
# target = "churn"                      # default: the last column
# task = "binary"                       # default: what the targets tell
# impute = "median"                     # missing values are an error otherwise
# drop = ["id"]
# header = true

[defaults]                              # settings of every method that has them
inducing = 100

[methods.pep]                           # one table a method; `gpbench list methods` shows their settings

[methods.x-gpc]
label = "X-GPC"                         # as it is shown

[methods.hgb]

[methods.linear]

# One variant of each method for each value, all combinations of several settings.
# [sweep]
# inducing = [20, 100]

# What is different on one data set.
# [overrides.digits-odd-even]
# settings = {{ inducing = 50 }}
"""


@click.group(name="plan")
def command() -> None:
    """Plans of your own: TOML files that `gpbench reproduce` runs, in the form of the papers' plans."""


@command.command(name="new")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default=Path("plan.toml"))
@click.option("--force", is_flag=True, help="In place of a file that is there.")
def new(*, file: Path, force: bool) -> None:
    """Write a commented plan to FILE, plan.toml by default."""
    from gpbench.errors import UsageError  # noqa: PLC0415  # not needed for --help
    from gpbench.report.files import write_atomically  # noqa: PLC0415

    if file.suffix != ".toml":
        raise UsageError(f"a plan's name ends in .toml; got {file}")
    if file.exists() and not force:
        raise UsageError(f"{file} is there already; --force takes its place")
    write_atomically(file, TEMPLATE.format(name=file))
    echo(f"{file}: try it with `gpbench reproduce {file} --dry-run`")
