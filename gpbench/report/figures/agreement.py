"""One method's predictions of the test rows against another's: latent means, variances, probabilities."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt

from gpbench.errors import UsageError, unknown_name
from gpbench.report.figures.axes import STYLE
from gpbench.report.figures.palette import styles
from gpbench.report.plan.figure import close, new_figure
from gpbench.report.plan.rows import posterior_of, rows_of
from gpbench.report.plan.series import Series, series_of
from gpbench.report.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from gpbench.bench.plan.plan import Plan
    from gpbench.report.groups import Cell

__all__ = ["QUANTITIES", "agreement"]

#: What is compared: the latent function's mean and variance, and the probability of the last class.
QUANTITIES = {"mean": "posterior mean", "variance": "posterior variance", "probability": "probability of the class"}

Array = npt.NDArray[Any]


def agreement(plan: Plan, cells: Sequence[Cell]) -> tuple[Figure, str]:
    """The picture, a row of panels for each method and data set, and correlations and differences as csv.

    All splits that both finished are taken together.

    Raises
    ------
    UsageError
        [figure] names no such table or quantity, or no split was finished by two.
    DataError
        The data set, or a posterior, cannot be had.
    """
    against = str(plan.figure["against"])
    names = [each.name for each in plan.methods]
    if against not in names:
        raise unknown_name("table of [methods]", against, names)
    quantities = [str(name) for name in plan.figure.get("quantities", QUANTITIES)]
    for name in quantities:
        if name not in QUANTITIES:
            raise unknown_name("quantity", name, QUANTITIES)
    series = series_of(cells)
    pairs = [
        (truth, other)
        for truth in series
        for other in series
        if truth.name == against and other.name != against and other.row == truth.row and _common(truth, other)
    ]
    if not pairs:
        raise UsageError(f"there is no split that {against} and another method have finished")
    look = styles((each.method, each.label) for each in series)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["dataset", "method", "against", "quantity", "rows", "correlation", "largest_difference", "rms"])
    with mpl.rc_context(STYLE):
        drawn = new_figure(len(quantities), len(pairs), width=2.9, height=2.9)
        for row, (truth, other) in enumerate(pairs):
            left, right = _quantities(plan, truth, other)
            for column, name in enumerate(quantities):
                ax = drawn.add_subplot(len(pairs), len(quantities), row * len(quantities) + column + 1)
                x, y = left[name], right[name]
                low, high = min(x.min(), y.min()), max(x.max(), y.max())
                ax.plot([low, high], [low, high], color="#8c8c8c", linewidth=0.9)
                style = look[other.label]
                ax.plot(x, y, style.marker, color=style.color, markersize=3, alpha=0.6, linestyle="none")
                ax.set_aspect("equal", adjustable="datalim")
                ax.set_title(QUANTITIES[name], loc="left")
                ax.set_xlabel(printable(truth.label))
                ax.set_ylabel(printable(other.label))
                correlation, largest = _correlation(x, y), float(np.abs(x - y).max())
                words = f"correlation {correlation:.4f}\nlargest difference {largest:.3g}"
                ax.text(0.03, 0.97, words, transform=ax.transAxes, va="top", fontsize=7, color="#404040")
                rms = float(np.sqrt(np.mean((x - y) ** 2)))
                writer.writerow([truth.dataset, other.label, truth.label, name, len(x), correlation, largest, rms])
        return close(drawn, plan, [], notes=["A mark is a test row; all splits together."]), file.getvalue()


def _common(truth: Series, other: Series) -> list[tuple[Cell, Cell]]:
    by_split = {_split(cell): cell for cell in other.finished}
    return [(cell, by_split[_split(cell)]) for cell in truth.finished if _split(cell) in by_split]


def _split(cell: Cell) -> tuple[Any, ...]:
    split = cell["split"]
    return split["protocol"], split["index"], split["seed"]


def _quantities(plan: Plan, truth: Series, other: Series) -> tuple[dict[str, Array], dict[str, Array]]:
    sides: tuple[list[dict[str, Array]], list[dict[str, Array]]] = ([], [])
    for pair in _common(truth, other):
        X = rows_of(plan, pair[0]).X_test
        for cell, found in zip(pair, sides, strict=True):
            posterior = posterior_of(cell)
            mean, variance = posterior.latent(X)
            values = posterior.predict(X).values
            found.append(
                {
                    "mean": mean.ravel(),
                    "variance": variance.ravel(),
                    "probability": values[:, -1] if values.ndim == 2 else values,
                }
            )
    first, second = ({name: np.concatenate([each[name] for each in own]) for name in QUANTITIES} for own in sides)
    return first, second


def _correlation(x: Array, y: Array) -> float:
    if x.std() == 0.0 or y.std() == 0.0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])
