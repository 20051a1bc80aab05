"""Readers of file formats: each yields blocks of rows as data frames, and every failure is a ``DataError``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpbench.data.formats.frames import Frames, beside, one_after_another, place
from gpbench.data.formats.source import Source, open_bytes
from gpbench.errors import unknown_name

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FORMATS", "Frames", "Source", "beside", "one_after_another", "open_bytes", "place", "read_table"]

FORMATS = {
    "csv": "gpbench.data.formats.delimited:read_delimited",
    "libsvm": "gpbench.data.formats.libsvm:read_libsvm",
    "arff": "gpbench.data.formats.arff:read_arff",
    "idx": "gpbench.data.formats.idx:read_idx",
    "mat": "gpbench.data.formats.mat:read_mat",
    "parquet": "gpbench.data.formats.parquet:read_parquet",
    "npz": "gpbench.data.formats.npz:read_npz",
}
"""Format to ``module:function``; imported when first used, since pyarrow and scipy.io are slow to import."""


def read_table(path: str | Path, *, format: str, **options: Any) -> Frames:  # noqa: A002 - the word of the catalogue
    """Blocks of rows of a file.

    Parameters
    ----------
    path : path
        The file; may be compressed, or an archive whose member the option ``member`` names.
    format : str
        One of :data:`FORMATS`; csv stands for all text tables.
    **options
        The format's own, see its reader.

    Yields
    ------
    pandas.DataFrame
        See :mod:`gpbench.data.formats.frames`.

    Raises
    ------
    UsageError
        Unknown format.
    DataError
        The file cannot be read; the message names it, and the line.
    """
    if format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    module, _, function = FORMATS[format].partition(":")
    frames: Frames = getattr(import_module(module), function)(path, **options)
    return frames
