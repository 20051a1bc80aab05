"""What a plan becomes: renderers by the name that stands under ``render`` in the plan.

A renderer is a function ``render(found, folder) -> list of Path``: it writes files into the folder, which exists, and
returns them in the order in which a reader wants them. It runs and computes nothing: what it needs beyond cells is
stored by a step of :mod:`gpbench.bench.derived.stored`. ``found`` is a :class:`gpbench.bench.plan.cells.PlanCells`.

- ``found.plan`` is a :class:`gpbench.bench.plan.plan.Plan`. ``plan.notes`` must be shown; they say among other things
  what was cut short and which data could not be had. ``plan.figure`` holds the options of [figure], of which a renderer
  is only ever given those that it declares here.
- ``found.results`` are :class:`gpbench.bench.plan.cells.PlanResult`, in the plan's order, those of failed cells too:
  stored results with ``shown``, the plan's labels, the positions of data set and variant in it and the swept values.
  ``shown.method`` already names these (``X-GPC, M = 16``); ``variant`` is the label without them, ``printed`` the name
  in the published file, ``name`` the table of [methods].
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from gpbench.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gpbench.bench.plan.cells import PlanCells
    from gpbench.bench.plan.plan import Plan

    Render = Callable[[PlanCells, Path], list[Path]]

__all__ = ["RENDERERS", "Renderer", "check_figure", "renderer_of"]


@dataclass(frozen=True)
class Renderer:
    """Where a renderer is, and what it lets a plan choose.

    Attributes
    ----------
    function : str
        ``"module:function"``; imported when it is called, since matplotlib is heavy.
    options : mapping
        Option of [figure] -> what it means.
    """

    function: str
    options: Mapping[str, str]

    def load(self) -> Render:
        """The function."""
        module, _, name = self.function.partition(":")
        found: Render = getattr(import_module(module), name)
        return found


#: Word under ``render`` -> renderer.
RENDERERS: dict[str, Renderer] = {
    "table": Renderer("gpbench.report.plan.table:render", {}),
    "curves": Renderer(
        "gpbench.report.figures.curves:render",
        {
            "panels": "a swept name: a panel for each of its values",
            "title": "of a panel; {dataset}, {n}, {d}, {m} are the label, the training rows, inputs, inducing inputs",
            "hyperparameters": "true: the kernels at the end are written beside the picture",
        },
    ),
    "learning-curves": Renderer(
        "gpbench.report.figures.learning_curves:render",
        {"x": "the swept name along the horizontal axis; the first one by default"},
    ),
    "panels": Renderer(
        "gpbench.report.figures.panels:render",
        {
            "columns": "the swept name whose values are the columns; the first one by default",
            "last": "tables of [methods] for a last column, one for each row in the rows' order",
            "last_title": "its title",
        },
    ),
    "scatter": Renderer(
        "gpbench.report.figures.scatter:render",
        {
            "x": "metric along the horizontal axis; cpu_seconds by default",
            "y": "metrics of the vertical axes, a panel each; the plan's metrics without times by default",
            "join": "the swept name in whose order a method's marks are joined; the first one by default",
            "against": "a table of [methods] whose predictions every other method's are set against, row by row",
            "quantities": "with against: of mean, variance, probability; all by default",
        },
    ),
    "contraction": Renderer(
        "gpbench.report.figures.contraction:render",
        {
            "sizes": "active set sizes",
            "rows": "random inputs, the active set among them",
            "inputs": "dimensions of the unit cube that they are drawn from",
            "repeats": "random pairs of covariances for each size",
            "kernels": "kernels, a row of panels each",
            "slopes": "slopes of the ordinal likelihood, a panel each",
            "edges": "sets of edges of the ordinal likelihood, each under each slope",
        },
    ),
    "factors": Renderer(
        "gpbench.report.figures.factors:render",
        {
            "prior_variance": "of the unknown, whose prior mean is 0",
            "centres": "of the factors: where each is a half",
            "widths": "of their steps; negative: the step goes down",
        },
    ),
    "truth": Renderer("gpbench.report.figures.truth:render", {}),
    "rivals": Renderer(
        "gpbench.report.plan.rivals:render",
        {"rivals": "tables of [methods] that the others are measured against"},
    ),
    "attainment": Renderer(
        "gpbench.report.plan.attaining:render",
        {"factor": "of a method's own NLL at the end, at which it has arrived; 1.02 by default"},
    ),
    "logged": Renderer("gpbench.report.plan.logged:render", {}),
    "outline": Renderer(
        "gpbench.report.plan.outline:render",
        {
            "of": "datasets or methods",
            "heads": "of methods: heads of the columns of texts",
            "text": "of methods: a table of the texts of each method",
            "settings": "of methods: settings to show",
        },
    ),
}


def renderer_of(plan: Plan) -> Render:
    """The function that renders a plan."""
    return RENDERERS[plan.render].load()


def check_figure(plan: Plan) -> None:
    """See that [figure] holds nothing that the plan's renderer does not know.

    Raises
    ------
    UsageError
        It does; the message names the nearest option.
    """
    known = RENDERERS[plan.render].options
    for name in plan.figure:
        if not known:
            raise UsageError(f"{plan.path}: [figure]: render = {plan.render!r} has no options; got {name}")
        if name not in known:
            error = unknown_name(f"option of render = {plan.render!r}", name, known)
            raise UsageError(f"{plan.path}: [figure]: {error}")
