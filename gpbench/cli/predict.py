"""``gpbench predict``: probabilities for new raw rows."""

from __future__ import annotations

from pathlib import Path

import click

from gpbench.terminal import echo

__all__ = ["command"]


@click.command(name="predict")
@click.argument("model", metavar="MODEL|KEY")
@click.argument("new", metavar="NEW_FILE")
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="A name that ends in .csv or .parquet; standard output, as csv, by default.",
)  # fmt: skip
@click.option("--latent", is_flag=True, help="Mean and variance of the latent functions beside.")
@click.option(
    "--missing", metavar="WORDS", help="More words for a missing value, with commas; -WORD keeps a known one."
)
@click.option("--header", type=click.Choice(["yes", "no"]), help="Whether the first line names the columns.")
@click.option(
    "--file-format", metavar="F", help="csv, tsv, parquet, arff, libsvm or npz, where a suffix does not tell."
)
def command(
    *,
    model: str,
    new: str,
    output: Path | None,
    latent: bool,
    missing: str | None,
    header: str | None,
    file_format: str | None,
) -> None:
    """Predict the rows of NEW_FILE by a model that `gpbench fit` wrote, or by the stored cell of a KEY.

    NEW_FILE is a file of any kind that `gpbench fit` takes, or ARCHIVE::MEMBER.

    Columns go by their names; others play no part. A category that training did not know is coded as none of the
    known ones; a missing value is filled as in training, and an error where nothing was missing there. A row for each
    row: its line in NEW_FILE, the most probable class, and p_CLASS, the probability of each; or the mean of a count.

    \b
    gpbench predict churn.gpb new.csv --output probabilities.parquet
    """  # noqa: D301  # click's own mark for lines that must not be wrapped
    from gpbench.bench.resources import one_pool_size  # noqa: PLC0415
    from gpbench.bench.sources import place_of  # noqa: PLC0415
    from gpbench.bench.store import Store  # noqa: PLC0415
    from gpbench.bench.trained import trained_in, trained_of  # noqa: PLC0415
    from gpbench.config import load_config  # noqa: PLC0415
    from gpbench.data.newrows import read_new_rows  # noqa: PLC0415
    from gpbench.data.options import FileOptions  # noqa: PLC0415
    from gpbench.errors import UsageError  # noqa: PLC0415
    from gpbench.report.files import check_apart, check_folder  # noqa: PLC0415
    from gpbench.report.predictions import FORMATS, frame_of, write_frame  # noqa: PLC0415

    if output is not None and output.suffix.lower() not in FORMATS:
        raise UsageError(f"--output expects a name that ends in {' or '.join(FORMATS)}; got {output}")
    place, member = place_of(new)
    if output is not None:
        check_folder(output, what="the predictions")
        check_apart(output, (Path(model), place))
    path = Path(model)
    trained = trained_of(path) if path.exists() else trained_in(Store(load_config().store), model)
    options = FileOptions(
        missing=tuple(word.strip() for word in missing.split(",") if word.strip()) if missing else (),
        header=None if header is None else header == "yes",
        file_format=file_format,
        member=member,
    )
    rows = read_new_rows(place, trained.preparation, options=options)
    for words in (*trained.notes, *rows.notes):
        echo(words, err=True)
    with one_pool_size(1):
        found = trained.predict(rows, latent=latent)
    frame = frame_of(
        rows.numbers,
        found.point,
        found.probabilities,
        classes=trained.preparation.classes,
        latent=found.latent,
    )
    if output is None:
        echo(frame.to_csv(index=False), content=True, nl=False)
    else:
        write_frame(output, frame)
