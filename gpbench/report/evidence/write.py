"""Everything that the reference results come to, written into a results folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from gpbench.bench.store import Store
from gpbench.errors import NotComputed, StoreError, UsageError, reason
from gpbench.report.evidence.apart import apart, apart_csv
from gpbench.report.evidence.experiments import (
    all_plans,
    experiment,
    experiments_csv,
    headlines,
    headlines_table,
)
from gpbench.report.evidence.page import page
from gpbench.report.evidence.summary import points, points_csv, summary_picture
from gpbench.report.figures.style import save_figure
from gpbench.report.files import write_atomically
from gpbench.report.plan.claims import judge_claims
from gpbench.report.plan.claims_file import read_causes, read_claims, read_findings
from gpbench.report.plan.claims_shown import claims_csv
from gpbench.report.plan.output import scored, write_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpbench.bench.plan.cells import PlanCells
    from gpbench.report.evidence.experiments import Experiment
    from gpbench.report.plan.claims import Judged
    from gpbench.report.plan.claims_file import Cause

__all__ = ["TEMPLATE", "Unwritten", "write_evidence"]

#: In the results folder.
TEMPLATE = "README.template.md"


@dataclass(frozen=True)
class Unwritten:
    """A plan that cannot be made of what is there, and why."""

    plan: str
    why: str


def write_evidence(folder: Path, *, template: Path | None = None) -> tuple[list[Path], list[Unwritten]]:
    """Write every plan's table or picture of which there is anything, the tables of all, the summary and the page.

    Files of plans from an earlier run that are not made again are removed.

    Parameters
    ----------
    folder : Path
        Of results: README.md goes there, everything else below ``reproduced``.
    template : Path, optional
        In place of the folder's own.

    Returns
    -------
    list of Path
        What was written, the page and what rests on all plans first.
    list of Unwritten
        Plans that could not be made, in spite of their cells.

    Raises
    ------
    UsageError
        The template, a claim or a finding names something that there is not.
    StoreError
        Something cannot be read or written.
    """
    source = template or folder / TEMPLATE
    try:
        prose = source.read_text(encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot read {source}: {reason(error)}") from error
    reproduced = folder / "reproduced"
    with TemporaryDirectory() as empty:
        plans = all_plans(Store(Path(empty)))
        claims, findings = (judge_claims(each, plans.__getitem__) for each in (read_claims(), read_findings()))
        causes = _judged_causes(plans)
        beside = apart(plans, causes)
        found = [experiment(each) for each in plans.values()]
        told = headlines(plans)
        pictured = points(plans.values())
        text = page(prose, plans=plans, findings=findings, claims=claims, told=told, found=found, beside=beside)
        made, unwritten = _plans(plans.values(), found, reproduced)
    written = {
        folder / "README.md": text,
        reproduced / "experiments.csv": experiments_csv(found),
        reproduced / "verdicts.md": headlines_table(told),
        reproduced / "claims.csv": claims_csv(claims),
        reproduced / "findings.csv": claims_csv(findings),
        reproduced / "causes.csv": claims_csv([judged for _, judged in causes]),
        reproduced / "apart.csv": apart_csv(beside),
        reproduced / "summary.csv": points_csv(pictured),
    }
    for path, content in written.items():
        write_atomically(path, content)
    drawn = summary_picture(pictured)
    picture = reproduced / "summary.png"
    if drawn is not None:
        save_figure(drawn, picture)
    _clear(reproduced, plans, kept=frozenset(made))
    return [*written, *([picture] if drawn is not None else []), *made], unwritten


def _clear(folder: Path, plans: Iterable[str], *, kept: frozenset[Path]) -> None:
    """Remove what an earlier run made of plans and this one did not: what no cell carries does not stand here."""
    for name in plans:
        for path in sorted((folder / name).glob("*")):
            if path.is_file() and path not in kept:
                path.unlink()


def _judged_causes(plans: Mapping[str, PlanCells]) -> list[tuple[Cause, Judged]]:
    causes = read_causes()
    judged = judge_claims([each.claim for each in causes], plans.__getitem__)
    return list(zip(causes, judged, strict=True))


def _plans(plans: Iterable[PlanCells], found: Sequence[Experiment], folder: Path) -> tuple[list[Path], list[Unwritten]]:
    """Each plan's own files, of those of which there is anything."""
    made: list[Path] = []
    unwritten: list[Unwritten] = []
    for plan_cells, state in zip(plans, found, strict=True):
        if state.state == "not run":
            continue
        try:
            made += write_plan(scored(plan_cells), folder / plan_cells.plan.id)
        except (NotComputed, UsageError) as error:
            unwritten.append(Unwritten(plan_cells.plan.id, str(error)))
    return made, unwritten
