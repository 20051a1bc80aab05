"""Plans: a table or a figure as a TOML file. The papers' stand in ``gpbench/papers/PAPER/ITEM.toml``.

::

    title = "Table 1"                       # required
    paper = "wenzel2019"                    # of published numbers and their standard errors
    item = "table1"                         # the file's name by default
    notes = ["One length scale, as in the paper."]   # printed with the table or the picture
    datasets = ["a9a-union", "electricity"] # required: catalogue ids, NAME:ROWS, or files beside the plan
    split = "contiguous:10"                 # as for --split; "folds:10" by default
    splits = 10                             # only the first so many of them (IDA's realisations 1 to 10 of `given`)
    seed = 0
    scaling = "standard"                    # or common (one number for all columns), none
    limits = { test_rows = 100_000, train_rows = 10_000, seconds = 600, iterations = 1000 }
    paper_limits = { iterations = 250 }     # what the paper's own runs ended by; without it they ran to convergence
    centre = "mean"                         # or median
    spread = "sd"                           # sd, 2sd, se, 2se
    render = "table"                        # or curves, learning-curves, panels, scatter, contraction, factors,
                                            # outline, truth
    metrics = ["nll", "error", "train_seconds"]      # nll error accuracy brier ece overconfidence auc
                                            # average_precision train_seconds bound
    published = "wenzel2019-table1.csv"     # or a list of files of results/published

    [defaults]                              # settings for every method that has them (one that none has is an error)
    kernel = "se"
    inducing = 100

    [methods.x-gpc]                         # required, one table a method, in the order of columns and legends
    label = "X-GPC"                         # as it is shown; by default the table's name
    rate = 0.9                              # every other key is a setting of the method

    [methods.klsp-8]                        # one method under several labels
    method = "klsp"                         # by default the table's name
    label = "KLSp M=8"
    printed = "KLSp M=8"                    # its name in the published file; by default the label; a swept name
                                            # in braces, "KLSp M={inducing}", is replaced in both
    counted = false                         # judged, and not counted in the table's share of agreement
    limits = { iterations = 250 }           # in place of the plan's
    split = "active:50/10"                  # in place of the plan's
    inducing = 8

    [sweep]                                 # one variant of each method for each value, all combinations of several
    inducing = [4, 16, 64]

    [figure]                                # what the renderer lets one choose, see gpbench.report.plan.renderers
    panels = "inducing"

    [overrides.higgs-11k]                   # what is different on one data set
    label = "Higgs (10,984 rows)"           # as it is shown; by default the id
    printed = "Higgs"                       # its name in the published file; by default the label
    incomparable = "10,984 of 11,000,000 rows"   # why printed numbers are no measure of ours; shown as the verdict
    methods = ["x-gpc"]                     # only these tables of [methods]
    split = "holdout:0.2*5"
    splits = 5
    limits = { seconds = 60 }               # merged over the plan's
    settings = { inducing = 50, svgpc = { rate = 0.1 } }   # for all methods, and for one table of [methods]

    [quick]                                 # caps of --quick; each has a default
    splits = 2
    train_rows = 1000
    test_rows = 1000
    iterations = 50
    seconds = 20
    datasets = ["a9a-union"]                # only these; all by default
    sweep = { inducing = [4] }              # in place of the plan's values
    settings = { inducing = 20 }            # over all other settings

A name under ``[sweep]`` is a setting, a limit (``train_rows``, ``test_rows``, ``iterations``, ``seconds``), or a word
that stands in braces in ``split``: ``split = "active:{active}/10"`` with ``active = [50, 100]``. A method whose own
table gives the setting, or that has no such setting, is not swept over it. A later line wins over an earlier one:
[defaults], [methods.ID], [sweep], ``settings`` of [overrides.D], ``settings`` of [quick].

``hyperparameters = "from:NAME"`` fixes a method's where those of another one ended on the same split: of the table NAME
of [methods] with its settings, else of the method NAME with the settings of the plan; under the limits of the first.
Numbers of a method's inducing points may be written 100, "3%" or "all". Unknown names are errors that name the file,
the line and the nearest known name. An outline describes data sets or methods and runs nothing; it may lack methods. A
contraction and factors make their own numbers and need neither data sets nor methods.
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
RENDERINGS = ("table", "curves", "learning-curves", "panels", "scatter", "contraction", "factors", "outline", "truth")
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
    split : str or None
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
    defaults, sweep, figure, overrides, quick
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
