"""Predictions for new rows as a table: csv or parquet, one row for each."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

import pandas as pd

from gpbench.report.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

__all__ = ["FORMATS", "frame_of", "write_frame"]

FORMATS = (".csv", ".parquet")
"""Endings that :func:`write_frame` knows."""


def frame_of(
    numbers: npt.NDArray[Any],
    point: npt.NDArray[Any],
    probabilities: npt.NDArray[Any] | None,
    *,
    classes: Sequence[str],
    latent: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None = None,
) -> pd.DataFrame:
    """The table: line, predicted, p_CLASS for each class; or line, mean; latent_mean and latent_variance last.

    Parameters
    ----------
    numbers, point : (n,)
        Lines in the file of the new rows; names of classes, or means of counts.
    probabilities : (n, C) or None
    classes : sequence of str
    latent : pair of (n, F), optional
        Of several latent functions, one a class, the columns bear the class's name too.
    """
    columns: dict[str, Any] = {"line": numbers}
    if probabilities is None:
        columns["mean"] = point
    else:
        columns["predicted"] = point
        columns |= {f"p_{name}": probabilities[:, k] for k, name in enumerate(classes)}
    if latent is not None:
        F = latent[0].shape[1]
        for kind, values in zip(("mean", "variance"), latent, strict=True):
            for k in range(F):
                columns[f"latent_{kind}" if F == 1 else f"latent_{kind}_{classes[k]}"] = values[:, k]
    return pd.DataFrame(columns)


def write_frame(path: Path, frame: pd.DataFrame) -> None:
    """Write a table as csv or parquet, by the ending of the name; whole or not at all.

    Raises
    ------
    StoreError
        The path cannot be written.
    """
    if path.suffix.lower() == ".parquet":
        buffer = BytesIO()
        frame.to_parquet(buffer, index=False)
        write_atomically(path, buffer.getvalue())
    else:
        write_atomically(path, frame.to_csv(index=False))
