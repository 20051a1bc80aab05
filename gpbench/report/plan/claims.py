"""What cells say of the papers' claims: a verdict, the numbers and a grade for each, decided by code.

Each part's measure makes checks, of which each holds, does not, or is not decided by the numbers. By the rule ``all``
(as it is unless the file says otherwise) a claim holds if all decided checks do, and in part if some do; by ``most`` if
more than half of each part's do, and in part if that is so of some parts. A claim of which a part has nothing decided,
or of which no more than half of the checks have cells, holds in part at most. No verdict, no number and no grade is
written by hand. The grade of the evidence: ``full``; ``cut short`` where a check has no cells, or rests on fewer splits
than its plan states, or on cells that ended before the paper's did; else ``one split`` where a number rests on one.

The claims themselves: :mod:`gpbench.report.plan.claims_file`; for a reader: :mod:`gpbench.report.plan.claims_shown`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from gpbench.bench.plan.cells import look_up
from gpbench.bench.plan.read import find_plan
from gpbench.report.groups import is_cut_short
from gpbench.report.plan.checks import blocks_of
from gpbench.report.plan.claims_file import MEASURES, claims_of, read_claims
from gpbench.report.scores import SCORED, with_scores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpbench.bench.plan.cells import PlanCells
    from gpbench.bench.plan.plan import Plan
    from gpbench.bench.store import Store
    from gpbench.report.plan.checks import Check
    from gpbench.report.plan.claims_file import Claim, Part

__all__ = [
    "GRADES", "NOT_MEASURED", "VERDICTS", "Judged", "judge_claims", "judge_claims_of", "judge_store", "keys_of",
    "unjudged",
]  # fmt: skip

NOT_MEASURED = "not measured"
#: What can be said of a claim.
VERDICTS = ("holds", "holds in part", "does not hold", "undecided", NOT_MEASURED)
GRADES = ("full", "cut short", "one split")
#: Numbers of a claim that a page shows at most; files hold all.
_MANY = 4


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
        return tuple(sorted(keys_of(self.told)))

    @property
    def upheld(self) -> frozenset[str]:
        """Keys of the cells of the checks that are as the claim says."""
        return keys_of(check for check in self.told if check.holds)

    @property
    def denied(self) -> frozenset[str]:
        """Keys of the cells of the checks that are not."""
        return keys_of(check for check in self.told if check.holds is False)

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


def keys_of(checks: Iterable[Check]) -> frozenset[str]:
    """Keys of the cells that checks rest on."""
    return frozenset(cell.key for check in checks for cell in check.cells)


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
