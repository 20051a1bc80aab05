"""UCSD's pedestrian counts: features of a video's frames in a .mat file inside a zip archive.

``dirs{j}`` names the directions of walking, ``fv{j}`` holds the features of direction j, one column a frame, and
``cnt{j}`` the number of people. ``evalsets{n}`` holds frame numbers, from 1, of training and test sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpbench.data.archives import matching
from gpbench.data.formats.frames import column_names, frame
from gpbench.data.formats.mat5 import variables
from gpbench.data.formats.source import open_seekable, reading
from gpbench.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["pedestrians"]


def pedestrians(
    path: Path, *, member: str, direction: str
) -> tuple[pd.DataFrame, tuple[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]], ...]]:
    """Rows of one direction: columns x1 ... xd and ``target``, the count; no splits.

    Parameters
    ----------
    path : Path
        The archive.
    member : str
        The .mat file in it.
    direction : str
        As ``dirs`` names it.

    Raises
    ------
    DataError
        No such member or direction, or features and counts that do not fit.
    """
    matching(path, member)  # which refuses archives that no publisher makes
    with open_seekable(path, member=member) as (stream, name), reading(name):
        content = {one.name: one for one in variables(stream) if one.name in {"dirs", "fv", "cnt"}}
        absent = [key for key in ("dirs", "fv", "cnt") if key not in content]
        if absent:
            raise DataError(f"{name}: no variable {', '.join(absent)}")
        directions = [one.text() for one in content["dirs"].cells()]
        if direction not in directions:
            raise DataError(f"{name}: expected a direction {direction!r}; got {', '.join(map(repr, directions))}")
        j = directions.index(direction)
        held = {key: content[key].cells() for key in ("fv", "cnt")}
        if min(map(len, held.values())) <= j:
            raise DataError(f"{name}: expected features and counts of {len(directions)} directions; some are missing")
        features = np.asarray(held["fv"][j].array(), dtype=np.float64).T
        counts = np.asarray(held["cnt"][j].array(), dtype=np.float64).reshape(-1)
    if features.ndim != 2 or len(features) != len(counts):
        raise DataError(
            f"{name}: expected one count for each frame; got features {features.shape}, counts {counts.shape}"
        )
    table = pd.DataFrame(features, columns=column_names(features.shape[1]))
    table["target"] = counts
    return frame(table, numbers=range(1, len(table) + 1), source=name, unit="row"), ()
