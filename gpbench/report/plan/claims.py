"""The papers' claims, decided by code: what each says, and the verdict, the numbers and the grade that cells give it.

``results/published/PAPER-claims.toml`` lists a paper's::

    paper = "hensman2015"

    [[claims]]
    text = "with more inducing points klsp gets better on banana"
    rule = "all"                       # or most
    [[claims.parts]]
    plan = "fig1"                      # of the paper
    measure = "settles"                # of gpbench.report.plan.measures, .pictured or .answers
    options = { method = "klsp", sweep = "inducing", value = 16 }

Each part's measure makes checks, of which each holds, does not, or is not decided by the numbers. By the rule ``all``
(as it is unless the file says otherwise) a claim holds if all decided checks do, and in part if some do; by ``most`` if
more than half of each part's do, and in part if that is so of some parts. A claim of which a part has nothing decided,
or of which no more than half of the checks have cells, holds in part at most. No verdict, no number and no grade is
written by hand. The grade of the evidence: ``full``; ``cut short`` where a check has no cells, or rests on fewer splits
than its plan states, or on cells that ended before the paper's did; else ``one split`` where a number rests on one.

``results/published/findings.toml`` is of the same form and holds what gpbench itself has to say; its plans are named in
full (``questions/speed``).
"""

from __future__ import annotations

import inspect
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from gpbench.bench.plan.read import find_plan
from gpbench.bench.plan.run import look_up
from gpbench.report.groups import is_cut_short
from gpbench.report.plan import answers, measures, pictured
from gpbench.report.plan.checks import blocks_of
from gpbench.report.plan.published import published_folder
from gpbench.report.scores import SCORED, with_scores
from gpbench.report.tables.lines import text
from gpbench.report.tables.table import RENDERERS, Display, Line
from gpbench.report.text import csv_text
from gpbench.toml import TomlTable, read_toml

if TYPE_CHECKING:
    from pathlib import Path

    from gpbench.bench.plan.plan import Plan
    from gpbench.bench.plan.run import PlanCells
    from gpbench.bench.store import Store
    from gpbench.report.plan.checks import Check

    Measure = Callable[..., list[Check]]

__all__ = [
    "GRADES",
    "MEASURES",
    "NOT_MEASURED",
    "VERDICTS",
    "Cause",
    "Claim",
    "Counterparts",
    "Judged",
    "Part",
    "claim_display",
    "claim_words",
    "claims_csv",
    "claims_of",
    "judge_claims",
    "judge_claims_of",
    "judge_store",
    "read_causes",
    "read_claims",
    "read_findings",
    "unjudged",
]

NOT_MEASURED = "not measured"
#: Numbers of a claim that a page shows at most; files hold all.
_MANY = 4
#: What can be said of a claim.
VERDICTS = ("holds", "holds in part", "does not hold", "undecided", NOT_MEASURED)
GRADES = ("full", "cut short", "one split")
RULES = ("all", "most")

#: Name -> measure.
MEASURES: dict[str, Measure] = {
    name: getattr(module, name) for module in (measures, pictured, answers) for name in module.__all__
}

NOTE = "Verdicts on claims follow from cells by code, as the claims' files say; grades are full, cut short, one split."

#: Letters of a line of a claim, and of its verdict, on a terminal.
_WIDTHS = (66, 48)


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


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A claim and what the cells say of it.

    Attributes
    ----------
    claim : Claim
    verdict : str
        One of :data:`VERDICTS`.
    grade : str
        One of :data:`GRADES`; empty where nothing was measured.
    checks : tuple of (Part, Check)
        All that it says, part by part; none where no cells were looked at.
    """

    claim: Claim
    verdict: str
    grade: str = ""
    checks: tuple[tuple[Part, Check], ...] = ()

    @property
    def told(self) -> list[Check]:
        """The checks of which there are numbers."""
        return [check for _, check in self.checks if check.measured]

    @property
    def measured(self) -> str:
        """The numbers."""
        told = self.told
        return self._words(told, len(self.checks) - len(told)) if told else ""

    @property
    def brief(self) -> str:
        """The same where they are few; else a few of them, and how many are left.

        Those against the claim come first, those that are undecided last.
        """
        told = self.told
        if len(told) <= _MANY:
            return self.measured
        shown = sorted(told, key=lambda check: (False, True, None).index(check.holds))[:_MANY]
        return self._words(shown, len(self.checks) - len(told), more=len(told) - _MANY)

    def _words(self, shown: Sequence[Check], left: int, *, more: int = 0) -> str:
        """Numbers, and how many of the claim's are passed over or not there; which, the files say."""
        words = [check.words for check in shown]
        words += [f"{more} more"] if more else []
        words += [f"{left} of {len(self.checks)} not measured"] if left else []
        return "; ".join(words)

    @property
    def keys(self) -> tuple[str, ...]:
        """Of the cells that it rests on."""
        return tuple(sorted(_keys(self.told)))

    @property
    def upheld(self) -> frozenset[str]:
        """Keys of the cells of the checks that are as the claim says."""
        return _keys(check for check in self.told if check.holds)

    @property
    def denied(self) -> frozenset[str]:
        """Keys of the cells of the checks that are not."""
        return _keys(check for check in self.told if check.holds is False)

    @property
    def so(self) -> int:
        """How many of the checks that the cells decide are as the claim says."""
        return sum(check.holds is True for check in self.told)

    @property
    def decided(self) -> int:
        """How many checks the cells decide."""
        return sum(check.holds is not None for check in self.told)

    @property
    def undecided(self) -> int:
        """How many they leave open although there are numbers."""
        return len(self.told) - self.decided

    @property
    def counted(self) -> str:
        """The verdict, and of how many checks that are decided how many are so: ``holds, 9 of 10 (2 undecided)``.

        Without the count where there is but a single check, or none is decided.
        """
        if self.decided == 0 or self.decided + self.undecided == 1:
            return self.verdict
        left = f" ({self.undecided} undecided)" if self.undecided else ""
        return f"{self.verdict}, {self.so} of {self.decided}{left}"


def _keys(checks: Iterable[Check]) -> frozenset[str]:
    return frozenset(cell.key for check in checks for cell in check.cells)


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


def judge_claims(claims: Sequence[Claim], cells_of: Callable[[str], PlanCells]) -> list[Judged]:
    """What the cells say of some claims.

    Parameters
    ----------
    claims : sequence of Claim
    cells_of : callable
        From a plan's id to the plan with its cells.

    Raises
    ------
    UsageError
        A claim's options name something that its plan does not know.
    """
    return [_judge(claim, cells_of) for claim in claims]


def judge_claims_of(found: PlanCells) -> list[Judged]:
    """The claims that a plan decides, by its own cells and the store's of the other plans that share in them.

    Less than the whole plan (the quick form, some methods, other limits) decides nothing; the stored cells of all do.
    """
    plan = found.plan
    claims = claims_of(plan.id)
    if not claims:
        return []
    if plan.reduction.words:
        return [unjudged(claim) for claim in claims]
    whole = find_plan(plan.id)
    is_whole = all(
        getattr(plan, name) == getattr(whole, name) for name in ("datasets", "methods", "limits", "reduction")
    )
    return judge_claims(claims, _cells_of(found.store, {plan.id: found} if is_whole else {}, fresh=found.fresh))


def _cells_of(store: Store, known: dict[str, PlanCells], *, fresh: bool) -> Callable[[str], PlanCells]:
    """Plans with their cells in a store, which is read once; each is looked up once."""
    results = cache(store.results)

    def cells_of(name: str) -> PlanCells:
        if name not in known:
            known[name] = look_up(find_plan(name), store, results=results(), fresh=fresh)
        return known[name]

    return cells_of


def judge_store(store: Store, *, fresh: bool = False) -> list[Judged]:
    """What the cells of a store say of every claim, with the reference results' unless it is to be ``fresh``."""
    return judge_claims(read_claims(), _cells_of(store, {}, fresh=fresh))


def unjudged(claim: Claim) -> Judged:
    """A claim of which no cells are looked at."""
    return Judged(claim=claim, verdict=NOT_MEASURED)


def _judge(claim: Claim, cells_of: Callable[[str], PlanCells]) -> Judged:
    checks: list[tuple[Part, Check]] = []
    parts: list[list[bool]] = []
    paper_cut = False
    single = False
    for part in claim.parts:
        found = cells_of(part.plan)
        if SCORED.intersection(map(str, _values(part.options))):
            found = replace(found, results=with_scores(found.results, found.store)[0])
        own = MEASURES[part.measure](found, **part.options)
        checks += [(part, check) for check in own]
        parts.append([check.holds for check in own if check.measured and check.holds is not None])
        cut, one = _weakness(found.plan, own)
        paper_cut, single = paper_cut or cut, single or one
    measured = sum(check.measured for _, check in checks)
    if not measured:
        return Judged(claim=claim, verdict=NOT_MEASURED, checks=tuple(checks))
    return Judged(
        claim=claim,
        verdict=_verdict(claim.rule, parts, thin=2 * measured <= len(checks)),
        grade="cut short" if paper_cut or measured < len(checks) else "one split" if single else "full",
        checks=tuple(checks),
    )


def _values(options: Mapping[str, Any]) -> list[Any]:
    """Values of options, and names inside of them."""
    found: list[Any] = []
    for value in options.values():
        found += [*value] if isinstance(value, Mapping | list | tuple) else [value]
    return found


def _verdict(rule: str, parts: Sequence[Sequence[bool]], *, thin: bool) -> str:
    """By what is decided of each part; ``thin``: no more than half of the checks have cells."""
    told = [part for part in parts if part]
    if not told:
        return "undecided"
    if rule == "most":
        held = [2 * sum(part) > len(part) for part in told]
    else:
        held = [holds for part in told for holds in part]
    if all(held):
        return "holds" if len(told) == len(parts) and not thin else "holds in part"
    return "holds in part" if any(held) else "does not hold"


def _weakness(plan: Plan, checks: Sequence[Check]) -> tuple[bool, bool]:
    """Whether some cells are cut short or too few, and whether some number rests on one split."""
    planned = {block.position: block.planned for block in blocks_of(plan)} if plan.methods else {}
    splits: dict[tuple[int, int], set[tuple[str, int, int, int]]] = defaultdict(set)
    counts: dict[tuple[int, int], int] = {}
    cut = False
    for cell in {cell.key: cell for check in checks if check.measured for cell in check.cells}.values():
        position = cell.shown.position
        splits[position].add(cell.unit)
        counts[position] = min(cell.split.count, planned.get(position) or cell.split.count)
        cut = cut or is_cut_short(cell, plan.paper_limits)
    too_few = any(len(own) < counts[position] for position, own in splits.items())
    return cut or too_few, any(len(own) == 1 for own in splits.values())


def claims_csv(judged: Sequence[Judged]) -> str:
    """Claims with all that is known of them, a row for each check: what ``results/reproduced/claims.csv`` holds.

    A claim of which no cells were looked at has one row.
    """
    rows: list[list[object]] = [
        ["paper", "claim", "rule", "verdict", "evidence", "plan", "measure", "measured", "so", "cells"]
    ]
    for each in judged:
        head = [each.claim.paper, each.claim.text, each.claim.rule, each.verdict, each.grade]
        rows += [
            [*head, part.plan, part.measure, check.words, _so(check), " ".join(sorted(_keys([check])))]
            for part, check in each.checks
        ] or [[*head, "", "", "", NOT_MEASURED, ""]]
    return csv_text(rows)


def _so(check: Check) -> str:
    if not check.measured:
        return NOT_MEASURED
    return "undecided" if check.holds is None else "yes" if check.holds else "no"


def claim_words(judged: Sequence[Judged], form: str, *, width: int | None = None) -> str:
    """Claims with their verdicts, in a format of tables; empty where there are none.

    Parameters
    ----------
    judged : sequence of Judged
    form : str
        ``text``, ``markdown`` or ``latex``.
    width : int, optional
        Of the terminal, for text.
    """
    if not judged:
        return ""
    if form == "text" and width is not None:
        rows = [Line((each.claim.text, _verdict_words(each)), ()) for each in judged]
        return text(_display(("claim of the paper", "verdict"), rows), width)
    lines = []
    for each in judged:
        words = (each.claim.text, _verdict_words(each))
        lines += _broken(words) if form == "text" else [Line(words, ())]
    return RENDERERS[form](_display(("claim of the paper", "verdict"), lines))


def _verdict_words(each: Judged) -> str:
    grade = f" ({each.grade})" if each.grade else ""
    return f"{each.verdict}{grade}" + (f": {each.measured}" if each.measured else "")


def claim_display(judged: Sequence[Judged]) -> Display | None:
    """Claims with all that is known of them; None where there are none."""
    lines = [
        Line((each.claim.text, each.claim.decided_by, each.verdict, each.grade, each.measured), ()) for each in judged
    ]
    return _display(("claim of the paper", "decided by", "verdict", "evidence", "measured"), lines) if lines else None


def _display(heads: tuple[str, ...], lines: Sequence[Line]) -> Display:
    return Display(word_heads=heads, number_heads=(), lines=tuple(lines), best="", notes=(NOTE,))


def _broken(words: Sequence[str]) -> list[Line]:
    """A row as lines that fit a terminal."""
    parts = [textwrap.wrap(word, width) for word, width in zip(words, _WIDTHS, strict=True)]
    return [Line(each, ()) for each in zip_longest(*parts, fillvalue="")]
