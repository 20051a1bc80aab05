"""Plans: a table or a figure as a TOML file. The papers' stand in ``gpbench/papers/PAPER/ITEM.toml``.

Every key of the file is described in ``docs/reference/plans.md``; what a plan is, once it is read, stands here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpbench.bench.cell import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpbench.bench.method import Method
    from gpbench.data.options import FileOptions

__all__ = [
    "CENTRES",
    "DESCRIPTIVE",
    "METRICS",
    "RENDERINGS",
    "SELF_CONTAINED",
    "SPREADS",
    "Override",
    "Plan",
    "PlanMethod",
    "Quick",
    "Reduction",
]

CENTRES = ("mean", "median")
SPREADS = ("sd", "2sd", "se", "2se")
#: What a plan can become; ``gpbench.report.plan.renderers`` holds the function of each.
RENDERINGS = (
    "table",
    "curves",
    "learning-curves",
    "panels",
    "scatter",
    "contraction",
    "factors",
    "outline",
    "truth",
    "rivals",
    "attainment",
    "logged",
)
#: Of these, what runs no cells.
DESCRIPTIVE = ("contraction", "factors", "outline")
#: And of these, what needs neither data sets nor methods.
SELF_CONTAINED = ("contraction", "factors")
#: What can be shown of a cell.
METRICS = (
    "nll",
    "error",
    "accuracy",
    "brier",
    "ece",
    "overconfidence",
    "auc",
    "average_precision",
    "worst",
    "train_seconds",
    "bound",
)


@dataclass(frozen=True, kw_only=True)
class PlanMethod:
    """A table of [methods].

    Attributes
    ----------
    name : str
        The table's name.
    method : Method
    label, printed : str
        As it is shown, and as the published file has it.
    settings : mapping
        Its own; values as they stand in the file.
    limits : mapping
        In place of the plan's, by name.
    split, scaling : str or None
        In place of the plan's.
    counted : bool
        Whether its verdicts count in the table's share of agreement.
    """

    name: str
    method: Method
    label: str
    printed: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    limits: Mapping[str, Any] = field(default_factory=dict, hash=False)
    split: str | None = None
    scaling: str | None = None
    counted: bool = True


@dataclass(frozen=True, kw_only=True)
class Override:
    """A table of [overrides]: what is different on one data set. None where nothing is said."""

    label: str | None = None
    printed: str | None = None
    incomparable: str | None = None
    methods: tuple[str, ...] | None = None
    split: str | None = None
    splits: int | None = None
    limits: Mapping[str, Any] = field(default_factory=dict, hash=False)
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True)
class Quick:
    """The table [quick]: caps of the quick form."""

    splits: int = 2
    train_rows: int = 1000
    test_rows: int = 1000
    iterations: int = 50
    seconds: float = 20.0
    datasets: tuple[str, ...] | None = None
    sweep: Mapping[str, tuple[Any, ...]] = field(default_factory=dict, hash=False)
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """What was cut short of a plan, by its quick form or on the command line.

    Attributes
    ----------
    words : str
        For the reader, of the quick form; empty otherwise. Results of a quick form are not compared with printed ones.
    caps : Limits
        Nothing is above these.
    splits : int or None
        At most so many splits.
    settings : mapping
        Over all others.
    """

    words: str = ""
    caps: Limits = field(default_factory=Limits)
    splits: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A plan, checked: every name in it is known.

    Attributes
    ----------
    id : str
        ``wenzel2019/table1``, or the name of the user's file.
    path : Path
    title, paper, item : str
    datasets : tuple of str
    methods : tuple of PlanMethod
    split : str
    splits : int or None
        Only the first so many.
    seed : int
    scaling : str
    limits : Limits
    paper_limits : Limits
        Seconds and iterations that the paper's own runs ended by; none where they ran to convergence.
    centre, spread, render : str
    metrics : tuple of str
    published : tuple of str
        Files of results/published.
    notes : tuple of str
        For the reader, printed with whatever is rendered. What was cut short and what could not be had is added to
        them before anything is rendered.
    defaults, sweep, figure, overrides, quick, files
        The tables of these names.
    reduction : Reduction
        What was cut short.
    missing : mapping
        Data set -> why it cannot be had, in a line; known once it was looked for.
    """

    id: str
    path: Path
    title: str
    paper: str
    item: str
    datasets: tuple[str, ...]
    methods: tuple[PlanMethod, ...]
    split: str = "folds:10"
    splits: int | None = None
    seed: int = 0
    scaling: str = "standard"
    limits: Limits = field(default_factory=Limits)
    paper_limits: Limits = field(default_factory=Limits)
    centre: str = "mean"
    spread: str = "sd"
    render: str = "table"
    metrics: tuple[str, ...] = ("nll", "error", "train_seconds")
    published: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    sweep: Mapping[str, tuple[Any, ...]] = field(default_factory=dict, hash=False)
    figure: Mapping[str, Any] = field(default_factory=dict, hash=False)
    overrides: Mapping[str, Override] = field(default_factory=dict, hash=False)
    quick: Quick = field(default_factory=Quick)
    files: Mapping[str, FileOptions] = field(default_factory=dict, hash=False)
    reduction: Reduction = field(default_factory=Reduction)
    missing: Mapping[str, str] = field(default_factory=dict, hash=False)

    def override(self, dataset: str) -> Override:
        """What is different on a data set; nothing by default."""
        return self.overrides.get(dataset, Override())

    def dataset_label(self, dataset: str) -> str:
        """A data set as it is shown."""
        return self.override(dataset).label or dataset

    def printed_dataset(self, dataset: str) -> str:
        """A data set as the published file has it."""
        return self.override(dataset).printed or self.dataset_label(dataset)
