"""What the page's script draws: mean curves over training time, one chart for each data set and split protocol."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from gpbench.report.figures.palette import styles_of
from gpbench.report.text import printable
from gpbench.report.traces import curve_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.report.groups import Group
    from gpbench.report.traces import Array

__all__ = ["METRICS", "charts"]

#: Metric -> label of the axis.
METRICS = {"nll": "test NLL (nats)", "error": "test error"}


def charts(groups: Sequence[Group], *, spread: str = "2se") -> dict[str, Any]:
    """Data of all charts, ready for JSON; NaN becomes null.

    Charts whose cells ran on different processors are left out and named under ``left_out``.

    Parameters
    ----------
    groups : sequence of Group
    spread : str
        Half width of the bands, see :func:`gpbench.report.traces.mean_curve`.

    Returns
    -------
    dict
        ``metrics``, ``methods`` (label, colour, dash), ``charts`` (title, split, curves), ``left_out``.
    """
    finished = [group for group in groups if group.finished]
    places: dict[tuple[str, str], list[Group]] = defaultdict(list)
    for group in finished:
        places[group.dataset_label, group.split].append(group)
    looks = styles_of(finished)
    drawn, left_out = [], []
    for (dataset, split), members in places.items():
        cpus = sorted({cpu for group in members for cpu in group.processors})
        if len(cpus) > 1:
            left_out.append(f"{dataset}, {split}: times of different processors ({'; '.join(cpus)})")
            continue
        curves = [_curve(group, spread) for group in members]
        drawn.append(
            {"title": printable(dataset), "split": printable(split), "cpu": printable(cpus[0]), "curves": curves}
        )
    methods = [
        {"label": printable(label), "color": look.color, "dash": "" if look.line == "-" else _dash(look.line)}
        for label, look in looks.items()
    ]
    return {"metrics": METRICS, "methods": methods, "charts": drawn, "left_out": left_out}


def _curve(group: Group, spread: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "method": printable(group.method_label),
        "splits": len(group.finished),
        "of": len(group.cells),
    }
    for metric in METRICS:
        curve = curve_of(group, metric, spread=spread)
        found["seconds"] = _numbers(curve.seconds)
        found[metric] = _numbers(curve.mean)
        found[f"{metric}_band"] = None if curve.band is None else _numbers(curve.band)
    return found


def _numbers(values: Array) -> list[float | None]:
    """Six digits, which no screen can tell from more."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in np.asarray(values)]


def _dash(line: tuple[float, tuple[float, ...]]) -> str:
    return " ".join(f"{1.5 * length:g}" for length in line[1])
