"""Metrics of third-party packages: numbers made of the test rows' predicted probabilities, known by an id.

A package that adds one says in its ``pyproject.toml``::

    [project.entry-points."gpbench.metrics"]
    log10-loss = "mypackage:log10_loss"

of a function of the probabilities (n, C) and the classes (n,), 0..C-1, that gives a number; the first line of its
docstring says what it is. ``report --metrics log10-loss`` shows it, ``gpbench results`` has it as a column, and a plan
may name it. A package that does not load is reported by ``gpbench doctor`` and breaks nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gpbench.bench.plan.plan import METRICS as BUILT_IN
from gpbench.bench.result import Result
from gpbench.errors import PluginError
from gpbench.plugins import loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

__all__ = ["GROUP", "Metric", "metric_problems", "metrics"]

#: The entry-point group of third-party metrics.
GROUP = "gpbench.metrics"

#: Ids that gpbench's own metrics and columns of results have.
_TAKEN = {*BUILT_IN, *Result.__dataclass_fields__, "key", "format", "place", "iterations", "jitter", "peak_rss_mb"}


@dataclass(frozen=True)
class Metric:
    """A third party's metric.

    Attributes
    ----------
    id, meaning : str
        Its name, and what it is, in a sentence.
    function : callable
    """

    id: str
    meaning: str
    function: Callable[..., Any]

    def __call__(self, probabilities: npt.NDArray[Any], y: npt.NDArray[Any]) -> float | None:
        """The number, None where it is not finite.

        Parameters
        ----------
        probabilities : (n, C)
        y : (n,)
            Classes 0..C-1.

        Raises
        ------
        PluginError
            The function raises, or gives no number.
        """
        try:
            value = float(self.function(probabilities, y))
        except Exception as error:
            raise PluginError(f"metric {self.id} cannot be computed: {type(error).__name__}: {error}") from error
        return value if math.isfinite(value) else None


@cache
def _registry() -> tuple[Mapping[str, Metric], tuple[PluginError, ...]]:
    found: dict[str, Metric] = {}
    problems: list[PluginError] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        plugin = f"metric {entry.name!r} ({entry.value})"
        try:
            function = loaded(entry)
        except PluginError as error:
            problems.append(PluginError(f"{plugin} does not load: {error}", plugin=entry.name))
            continue
        if not callable(function):
            words = f"{plugin} must be a function of probabilities and classes; got {function!r}"
            problems.append(PluginError(words, plugin=entry.name))
        elif entry.name in found or entry.name in _TAKEN:
            problems.append(PluginError(f"{plugin} has an id that is taken"))
        else:
            meaning = (function.__doc__ or "").strip().partition("\n")[0] or f"{entry.name}, by {entry.value}."
            found[entry.name] = Metric(entry.name, meaning, function)
    return MappingProxyType(found), tuple(problems)


def metrics() -> Mapping[str, Metric]:
    """Every third party's metric by id."""
    return _registry()[0]


def metric_problems() -> tuple[PluginError, ...]:
    """Metrics that do not load, or cannot be taken."""
    return _registry()[1]
