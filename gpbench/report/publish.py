"""A report written to a file or folder, whose name says what is wanted.

======================  ==================================================================
path                    what is written
======================  ==================================================================
.png .pdf .svg          the picture: NLL and error over training time
.txt .csv .md .tex      the table; of another format, or under another name, if one is given
.html                   one page with everything in it: tables, curves, failed cells, provenance
a folder, or no ending  the table as ``table.txt`` (or its format's ending), nll.png, error.png;
                        of LaTeX also nll.pdf, error.pdf
======================  ==================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpbench.errors import UsageError
from gpbench.report.files import PICTURES, write_atomically
from gpbench.report.sources import calibrations
from gpbench.report.tables.summary import summarise
from gpbench.report.tables.table import ENDINGS, SHOWN, table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpbench.bench.result import Result

__all__ = ["PAGE_ENDING", "publish"]

#: Ending of a page.
PAGE_ENDING = ".html"


def publish(
    cells: Sequence[Result],
    path: Path,
    *,
    format: str | None = None,  # noqa: A002  # named as on the command line
    spread: str = "2se",
    metrics: Sequence[str] = SHOWN,
    title: str = "Results",
    places: Sequence[Path] = (),
) -> tuple[list[Path], list[str]]:
    """Write a report.

    Parameters
    ----------
    cells : sequence of Result
    path : Path
        A file or a folder, as in the table above.
    format : str or None
        Of the table, or ``"html"``; None for what the ending says, and text in a folder.
    spread : str
        Half width of the pictures' bands, see :func:`gpbench.report.figures.curves.figure`.
    metrics : sequence of str
        Of the table, see :func:`gpbench.report.tables.table.table`.
    title : str
        Of a page.
    places : sequence of Path
        Where the cells' probabilities are, for a page's reliability diagrams.

    Returns
    -------
    list of Path
        What was written.
    list of str
        What could not be drawn in a folder, and why.

    Raises
    ------
    UsageError
        An ending that means nothing, a table's format for a picture, or cells that cannot be drawn.
    StoreError
        The path cannot be written.
    """
    ending = path.suffix.lower()
    as_page = format == "html" or (format is None and ending == PAGE_ENDING)
    if as_page and ending not in PICTURES:
        from gpbench.report.page import write_page  # noqa: PLC0415  # matplotlib's colours are heavy

        page = path / f"page{PAGE_ENDING}" if path.is_dir() or not ending else path
        bins = calibrations(places, cells)
        write_page(cells, page, title=title, metrics=metrics, spread=spread, bins=bins)
        return [page], []
    if path.is_dir() or not ending:
        return _folder(cells, path, format or "text", spread, metrics)
    if ending in PICTURES:
        if format is not None:
            raise UsageError(f"--format {format} is of tables and pages; {path} is a picture")
        from gpbench.report.figures.curves import save_curves  # noqa: PLC0415  # matplotlib is heavy

        save_curves(cells, path, spread=spread)
        return [path], []
    by_ending = {each: name for name, each in ENDINGS.items()}
    if format is None and ending not in by_ending:
        raise UsageError(
            f"the ending of {path} says nothing: "
            f"expected {', '.join([*by_ending, PAGE_ENDING, *PICTURES])}, a folder, or --format"
        )
    write_atomically(path, table(summarise(cells), format=format or by_ending[ending], metrics=metrics))
    return [path], []


def _folder(
    cells: Sequence[Result], folder: Path, form: str, spread: str, metrics: Sequence[str]
) -> tuple[list[Path], list[str]]:
    from gpbench.report.figures.curves import curves_csv, save_curves  # noqa: PLC0415  # matplotlib is heavy

    text = folder / f"table{ENDINGS[form]}"
    write_atomically(text, table(summarise(cells), format=form, metrics=metrics))
    written, problems = [text], []
    endings = (".png", ".pdf") if form == "latex" else (".png",)
    for picture, metric in ((folder / f"{name}{ending}", name) for name in ("nll", "error") for ending in endings):
        try:
            save_curves(cells, picture, metric=metric, spread=spread)
            written.append(picture)
        except UsageError as error:  # the table stands, whether or not its cells can share an axis
            problems.append(f"{picture} is not drawn: {error}")
    if len(written) > 1:
        written.append(folder / "curves.csv")
        write_atomically(written[-1], curves_csv(cells, spread=spread))
    return written, problems
