"""Options that say how a file of the user's own is read, for the commands that take one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpbench.data.options import FileOptions

__all__ = ["file_options", "options_of"]

_OPTIONS = (
    click.option(
        "--target", metavar="NAME",
        help="Target column of a file, or one-hot columns with commas between; the last by default.",
    ),
    click.option(
        "--task", metavar="T", help="binary, multiclass, count or ordinal, where a file's targets do not tell."
    ),
    click.option("--impute", metavar="median", help="Fill missing values of a file, by the training rows."),
    click.option(
        "--missing", metavar="WORDS", help="More words for a missing value, with commas; -WORD keeps a known one."
    ),
    click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column of a file out; may be repeated."),
    click.option("--header", type=click.Choice(["yes", "no"]), help="Whether a table's first line names its columns."),
    click.option(
        "--file-format", metavar="F", help="csv, tsv, parquet, arff, libsvm or npz, where a suffix does not tell."
    ),
)  # fmt: skip


def file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options, in their order, on a command that hands them to :func:`options_of`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def options_of(
    *,
    target: str | None,
    task: str | None,
    impute: str | None,
    missing: str | None,
    drop: tuple[str, ...],
    header: str | None,
    file_format: str | None,
) -> FileOptions:
    """What the options come to.

    Raises
    ------
    UsageError
        A value that is none.
    """
    from gpbench.data.options import FileOptions  # noqa: PLC0415  # heavy imports wait

    return FileOptions(
        target=target,
        task=task,
        impute=impute,
        missing=tuple(word.strip() for word in missing.split(",") if word.strip()) if missing else (),
        drop=drop,
        header=None if header is None else header == "yes",
        file_format=file_format,
    )
