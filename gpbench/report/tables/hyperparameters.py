"""The kernels that training ended with, as a table: what a paper says in words about variances and length scales."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from gpbench.model.posterior import load_posterior
from gpbench.report.groups import OK
from gpbench.report.tables.display import NONE, Display, Line, Number
from gpbench.report.tables.table import RENDERERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.report.groups import Cell

__all__ = ["hyperparameter_display", "hyperparameter_text"]


def hyperparameter_text(cells: Sequence[Cell], *, form: str = "markdown") -> str:
    """The table in a format of :data:`gpbench.report.tables.table.RENDERERS`.

    Raises
    ------
    DataError
        A posterior cannot be read.
    """
    return RENDERERS[form](hyperparameter_display(cells))


def hyperparameter_display(cells: Sequence[Cell]) -> Display:
    """A row for each hyper-parameter, method and data set: its median over splits, and the least and largest value.

    Parameters
    ----------
    cells : sequence of dict
        As renderers get them; those that have not ended well, and models without kernels, are left out.

    Raises
    ------
    DataError
        A posterior cannot be read.
    """
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for cell in cells:
        if cell["status"] != OK:
            continue
        for number, values in enumerate(_kernels(Path(cell["shown"]["arrays"]))):
            for name, value in values.items():
                own = f"f{number + 1} {name}" if number else name
                found[cell["shown"]["dataset"], cell["shown"]["method"], own].append(value)
    lines = [
        Line(
            (dataset, method, name, str(len(values))),
            (Number(f"{median(values):.4g}"), Number(_range(values))),
        )
        for (dataset, method, name), values in found.items()
    ]
    return Display(
        word_heads=("data set", "method", "hyper-parameter", "splits"),
        number_heads=("median", "range"),
        lines=tuple(lines),
        best="",
        notes=("Length scales are of the scaled inputs; the number in brackets is the input's, from 0.",),
    )


def _kernels(path: Path) -> list[dict[str, float]]:
    """Hyper-parameters of each latent function."""
    latents = getattr(load_posterior(path), "latents", ())
    return [{name: float(value) for name, value in latent.kernel.values().items()} for latent in latents]


def _range(values: Sequence[float]) -> str:
    return NONE if len(values) == 1 else f"{min(values):.4g} to {max(values):.4g}"
