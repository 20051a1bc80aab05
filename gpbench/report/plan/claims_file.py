"""The papers' claims, gpbench's findings and the causes of differences, as the files of results/published have them.

``PAPER-claims.toml`` lists a paper's::

    paper = "hensman2015"

    [[claims]]
    text = "with more inducing points klsp gets better on banana"
    rule = "all"                       # or most
    [[claims.parts]]
    plan = "fig1"                      # of the paper
    measure = "settles"                # of gpbench.report.plan.measures, .pictured or .answers
    options = { method = "klsp", sweep = "inducing", value = 16 }

What cells say of them: :mod:`gpbench.report.plan.claims`. ``findings.toml`` is of the same form and holds what gpbench
itself has to say; its plans are named in full (``questions/speed``).
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from gpbench.report.plan import answers, measures, pictured
from gpbench.report.plan.published import published_folder
from gpbench.toml import TomlTable, read_toml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from gpbench.report.plan.checks import Check

    Measure = Callable[..., list[Check]]

__all__ = [
    "MEASURES", "Cause", "Claim", "Counterparts", "Part", "claims_of", "read_causes", "read_claims", "read_findings",
]  # fmt: skip

RULES = ("all", "most")

#: Name -> measure.
MEASURES: dict[str, Measure] = {
    name: getattr(module, name) for module in (measures, pictured, answers) for name in module.__all__
}


@dataclass(frozen=True, kw_only=True)
class Part:
    """What decides a part of a claim.

    Attributes
    ----------
    plan : str
        ``PAPER/ITEM``.
    measure : str
        Of :data:`MEASURES`.
    options : mapping
        Of the measure.
    """

    plan: str
    measure: str
    options: Mapping[str, Any] = field(hash=False)

    @property
    def words(self) -> str:
        """For a reader: plan and measure."""
        return f"{self.plan.partition('/')[2]}: {self.measure.replace('_', ' ')}"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim of a paper.

    Attributes
    ----------
    paper, text : str
    rule : str
        ``all`` or ``most``.
    parts : tuple of Part
    """

    paper: str
    text: str
    rule: str
    parts: tuple[Part, ...]

    @property
    def decided_by(self) -> str:
        """Plans and measures, in words."""
        return f"{'; '.join(dict.fromkeys(part.words for part in self.parts))} ({self.rule})"


def read_claims(folder: Path | None = None) -> list[Claim]:
    """Every claim, paper by paper, in the order of the files.

    Parameters
    ----------
    folder : Path, optional
        By default the one that ships.

    Raises
    ------
    UsageError
        A file is not as the module says; the message gives the line.
    """
    return list(_shipped()) if folder is None else _read(folder)


@cache
def _shipped() -> tuple[Claim, ...]:
    return tuple(_read(published_folder()))


def _read(folder: Path) -> list[Claim]:
    found: list[Claim] = []
    for path in sorted(folder.glob("*-claims.toml")):
        found += _of_file(path, [claim.text for claim in found])
    return found


def _of_file(path: Path, earlier: Sequence[str] = ()) -> list[Claim]:
    top = read_toml(path, what="the claims")
    top.only(("paper", "claims"))
    paper = top.text("paper")
    found: list[Claim] = []
    for table in top.array("claims"):
        claim = _claim(paper, table)
        if claim.text in {*earlier, *(other.text for other in found)}:
            raise table.error(f"{paper} claims twice: {claim.text!r}", key="text")
        found.append(claim)
    return found


@cache
def read_findings() -> tuple[Claim, ...]:
    """What gpbench has to say beyond the papers' claims, in the order in which a reader wants it.

    Raises
    ------
    UsageError
        As :func:`read_claims`.
    """
    return tuple(_of_file(published_folder() / "findings.toml"))


@dataclass(frozen=True, kw_only=True)
class Counterparts:
    """What stands for the numbers of a plan, there or elsewhere.

    Attributes
    ----------
    plan : str
        ``PAPER/ITEM`` that has it.
    methods : mapping
        Table of the first plan's [methods] -> the other plan's that stands for it; of any other nothing does.
    datasets : mapping
        Data set of the first plan -> the other plan's that stands for it; any other for itself.
    """

    plan: str
    methods: Mapping[str, str] = field(hash=False)
    datasets: Mapping[str, str] = field(default_factory=dict, hash=False)

    def of(self, method: str, dataset: str) -> tuple[str, str, str]:
        """Plan, table of its [methods] and data set; an empty table where nothing stands for it."""
        return self.plan, self.methods.get(method, ""), self.datasets.get(dataset, dataset)


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Why some numbers may lie apart from the printed ones, and what the cells say of it.

    Attributes
    ----------
    claim : Claim
        That it is so.
    plan : str
        ``PAPER/ITEM`` whose numbers it is to explain.
    methods, datasets, metrics : tuple of str
        Tables of its [methods], its data sets and its metrics; none: all.
    large : bool
        Only those that the paper prints as ``large``.
    cells : Counterparts, optional
        Each only where the check that rests on these cells is as the cause says.
    instead : Counterparts, optional
        The numbers that ought to agree with the printed ones, were it so.
    """

    claim: Claim
    plan: str
    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    large: bool = False
    cells: Counterparts | None = None
    instead: Counterparts | None = None

    def speaks_of(self, plan: str, *, method: str, dataset: str, metric: str, large: bool) -> bool:
        """Whether a number is one of those that it is to explain."""
        return (
            plan == self.plan
            and (large or not self.large)
            and (not self.methods or method in self.methods)
            and (not self.datasets or dataset in self.datasets)
            and (not self.metrics or metric in self.metrics)
        )


@cache
def read_causes() -> tuple[Cause, ...]:
    """What has been tried to explain numbers that are lower or higher than the printed ones.

    Raises
    ------
    UsageError
        As :func:`read_claims`.
    """
    top = read_toml(published_folder() / "causes.toml", what="the causes")
    top.only(("causes",))
    found = []
    for table in top.array("causes"):
        numbers = table.table("explains")
        numbers.only(("plan", "methods", "datasets", "metrics", "large"))
        plan = numbers.text("plan")
        found.append(
            Cause(
                claim=_claim(plan.partition("/")[0], table),
                plan=plan,
                methods=numbers.texts("methods", ()),
                datasets=numbers.texts("datasets", ()),
                metrics=numbers.texts("metrics", ()),
                large=numbers.flag("large", False),
                cells=_counterparts(table, "cells", plan),
                instead=_counterparts(table, "instead", plan),
            )
        )
    return tuple(found)


def _counterparts(table: TomlTable, key: str, plan: str) -> Counterparts | None:
    other = table.table(key)
    if not other:
        return None
    other.only(("plan", "methods", "datasets"))
    methods, datasets = other.table("methods"), other.table("datasets")
    if not methods:
        raise other.error(f"[{key}] needs the methods that stand for those of a number", key="methods")
    return Counterparts(
        plan=other.text("plan", plan),
        methods={name: methods.text(name) for name in methods},
        datasets={name: datasets.text(name) for name in datasets},
    )


def _claim(paper: str, table: TomlTable) -> Claim:
    table.only(("text", "rule", "explains", "cells", "instead", "parts"))
    parts = []
    for each in table.array("parts"):
        each.only(("plan", "measure", "options"))
        measure = each.text("measure", among=MEASURES)
        options = dict(each.table("options"))
        try:
            inspect.signature(MEASURES[measure]).bind(None, **options)
        except TypeError as error:
            raise each.error(f"options of {measure}: {error}", key="options") from None
        plan = each.text("plan")
        parts.append(Part(plan=plan if "/" in plan else f"{paper}/{plan}", measure=measure, options=options))
    if not parts:
        raise table.error("a claim needs a part that decides it", key="parts")
    return Claim(paper=paper, text=table.text("text"), rule=table.text("rule", "all", among=RULES), parts=tuple(parts))


def claims_of(plan: str) -> list[Claim]:
    """The claims that a plan decides, or helps to decide, by its id.

    Raises
    ------
    UsageError
        As :func:`read_claims`.
    """
    return [claim for claim in read_claims() if any(part.plan == plan for part in claim.parts)]
