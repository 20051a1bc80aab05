"""matplotlib figures written to files: the same picture gives the same bytes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

from gpbench.errors import UsageError
from gpbench.report.figures.axes import STYLE
from gpbench.report.files import PICTURES, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

__all__ = ["check_ending", "picture_bytes", "save_figure"]

#: No date in the file.
_UNDATED: dict[str, dict[str, Any]] = {".png": {}, ".pdf": {"CreationDate": None}, ".svg": {"Date": None}}


def check_ending(path: Path) -> str:
    """The ending of a picture's name, in small letters.

    Raises
    ------
    UsageError
        It is none of :data:`gpbench.report.files.PICTURES`.
    """
    ending = path.suffix.lower()
    if ending not in PICTURES:
        raise UsageError(f"a picture's name must end in {', '.join(PICTURES)}; got {str(path)!r}")
    return ending


def picture_bytes(drawn: Figure, ending: str = ".png", *, dpi: int = 200) -> bytes:
    """A figure as the content of a file.

    Parameters
    ----------
    drawn : Figure
        Made within :data:`gpbench.report.figures.axes.STYLE`.
    ending : str
        One of :data:`gpbench.report.files.PICTURES`.
    dpi : int
        Dots per inch, for png.
    """
    file = io.BytesIO()
    with mpl.rc_context(STYLE):
        drawn.savefig(file, format=ending[1:], dpi=dpi, metadata=_UNDATED[ending])
    return file.getvalue()


def save_figure(drawn: Figure, path: Path) -> None:
    """Write a figure to a png, pdf or svg file, whole or not at all.

    Raises
    ------
    UsageError
        An ending that is none of :data:`gpbench.report.files.PICTURES`.
    StoreError
        The file cannot be written.
    """
    write_atomically(path, picture_bytes(drawn, check_ending(path)))
