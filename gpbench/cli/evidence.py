"""``python -m gpbench.cli.evidence``: the plans' long work, in an order of value, into the reference results.

Each data set of a plan is a ``gpbench reproduce PLAN --datasets ID --reference`` of its own, so that the reference
results grow data set by data set; a plan whose picture needs all of its cells at once is one command. Nothing is kept
here: cells are stored as they end, and what is stored or among the reference results is not run again. So it may be
stopped or killed at any moment and goes on where it was; at most the cells at hand are lost. What has come is committed
by a person: ``git add results/reference``, then ``make results``.

    python -m gpbench.cli.evidence --list            # cells and processor hours that each plan still takes
    python -m gpbench.cli.evidence --jobs 2          # all of it
    python -m gpbench.cli.evidence --avoid klsp-sgd  # no plan in which this method stands
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from gpbench.bench.derived.stored import step_of
from gpbench.bench.plan.plan import DESCRIPTIVE
from gpbench.bench.plan.read import find_plan, shipped
from gpbench.bench.plan.run import look_ahead
from gpbench.bench.signals import Terminated, terminable
from gpbench.bench.store import Store
from gpbench.config import load_config
from gpbench.errors import GpbenchError, unknown_name
from gpbench.report.plan.reference import check_addition
from gpbench.report.text import columns
from gpbench.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.bench.plan.plan import Plan
    from gpbench.config import Config

__all__ = ["ORDER", "Work", "commands", "works"]

#: Plans by what an hour of them is worth: what is judged and quick first, single curves of an hour last.
ORDER = (
    "sheth2015/fig1",
    "villacampa2017/fig2",
    "izmailov2016/table1",
    "sheth2015/table2",
    "villacampa2017/table1",
    "wenzel2019/fig1",
    "hensman2015/fig1",
    "villacampa2017/table2",
    "hensman2015/table1",
    "wenzel2019/table1",
    "questions/speed",
    "questions/logged",
    "questions/first-lengthscale",
    "questions/waveform",
    "questions/vowel",
    "questions/z-bound-rate",
    "questions/ep-sep",
    "questions/mean-field",
    "questions/lengthscales",
    "questions/starts",
    "questions/whitening",
    "beyond/truth",
    "beyond/multiclass",
    "beyond/general",
    "beyond/frontier",
    "beyond/peers",
    "beyond/further",
    "wenzel2019/fig2",
    "wenzel2019/fig4",
    "wenzel2019/fig5",
    "wenzel2019/fig6",
    "wenzel2019/fig3",
    "villacampa2017/fig1",
    "sheth2015/fig2",
    "sheth2015/fig3",
    "sheth2015/fig4",
    "sheth2015/fig4-time",
    "hensman2015/fig2",
    "hensman2015/s1",
    "hensman2015/s2",
    "hensman2015/s3",
    "hensman2015/s4",
    "hensman2015/s5",
    "hensman2015/s6",
    "izmailov2016/fig4",
    "izmailov2016/fig5",
    "izmailov2016/fig6",
    "izmailov2016/fig7",
    "sheth2015/blogfeedback",
    "sheth2015/blogfeedback-time",
    "villacampa2017/fig4",
    "questions/lbfgs",
    "hensman2015/fig3",
    "villacampa2017/fig3",
    "hensman2015/mnist",
    "villacampa2017/fig5",
    "villacampa2017/fig5-airline",
)
#: Exit codes of a command after which the work goes on: the data cannot be had, or some cells failed; both were said.
_GOES_ON = (0, 3, 4)
_INTERRUPTED = 130


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a plan still takes.

    Attributes
    ----------
    plan : Plan
    cells, stored : int
        That it states, and those that are done.
    hours : float
        Processor hours of the others, by estimate; of data whose size is not known, none.
    unknown : int
        Blocks on such data.
    absent : tuple of str
        Data sets that are neither here nor in the mirror.
    """

    plan: Plan
    cells: int
    stored: int
    hours: float
    unknown: int
    absent: tuple[str, ...]

    @property
    def done(self) -> bool:
        """Whether nothing is left to run; what needs no cells is computed again, in seconds."""
        return self.plan.render not in DESCRIPTIVE and self.stored >= self.cells


def works(config: Config, *, plans: Sequence[str] = (), avoid: Sequence[str] = ()) -> list[Work]:
    """What is left of the plans, in the order of their value.

    Parameters
    ----------
    config : Config
    plans : sequence of str
        Only these; all by default.
    avoid : sequence of str
        Methods; a plan in which one stands is left out.

    Raises
    ------
    UsageError
        An unknown plan.
    StoreError
        The store or the reference results cannot be read.
    """
    for name in plans:
        if name not in shipped():
            raise unknown_name("plan", name, shipped())
    found = []
    store = Store(config.store)
    results = store.results()
    rank = {name: place for place, name in enumerate(ORDER)}
    for name in sorted(plans or shipped(), key=lambda name: rank.get(name, len(rank))):
        plan = find_plan(name)
        if {each.method.id for each in plan.methods}.intersection(avoid):
            continue
        outlook = look_ahead(plan, config, store, results=results)
        seconds = [each.seconds for each in outlook.estimates]
        found.append(
            Work(
                plan=plan,
                cells=sum(each.cells for each in outlook.estimates),
                stored=sum(each.stored for each in outlook.estimates),
                hours=sum(each for each in seconds if each is not None) / 3600.0,
                unknown=sum(each is None for each in seconds),
                absent=outlook.absent,
            )
        )
    return found


def commands(work: Work, *, jobs: int) -> list[list[str]]:
    """The arguments of ``gpbench`` that run a plan.

    Parameters
    ----------
    work : Work
    jobs : int
        Cells at a time.
    """
    base = ["reproduce", work.plan.id, "--reference", *(["--jobs", str(jobs)] if jobs > 1 else [])]
    if work.plan.render in DESCRIPTIVE or step_of(work.plan) is not None:
        return [base]
    return [[*base, "--datasets", name] for name in work.plan.datasets if name not in work.absent]


def _listed(found: Sequence[Work]) -> str:
    rows = [["plan", "cells", "done", "hours left", ""]]
    for each in found:
        words = [f"no data here: {' '.join(each.absent)}"] if each.absent else []
        words += [f"without {each.unknown} blocks on data of no known size"] if each.unknown else []
        rows.append([each.plan.id, f"{each.cells:,}", f"{each.stored:,}", f"{each.hours:.2f}", "; ".join(words)])
    total = sum(each.hours for each in found)
    left = sum(each.cells - each.stored for each in found)
    return "\n".join([*columns(rows, right=frozenset({1, 2, 3})), f"{left:,} cells, {total:.1f} processor hours left"])


def _run(arguments: Sequence[str]) -> int:
    """The exit code of a command, which ends with this process: by Ctrl-C or SIGTERM, so that its cells are stored."""
    # gpbench itself, with names of its own plans
    process = subprocess.Popen([sys.executable, "-c", "from gpbench.cli import main; main()", *arguments])  # noqa: S603
    try:
        with terminable():
            return process.wait()
    except (KeyboardInterrupt, Terminated):
        process.terminate()
        process.wait()
        return _INTERRUPTED


@click.command()
@click.argument("plans", nargs=-1, metavar="[PLAN]...")
@click.option("--list", "listed", is_flag=True, help="Say what each plan still takes, and run nothing.")
@click.option("--jobs", type=click.IntRange(1, 2), default=1, show_default=True, help="Cells at a time.")
@click.option("--avoid", multiple=True, metavar="METHOD", help="Leave out plans in which this method stands.")
def main(plans: tuple[str, ...], avoid: tuple[str, ...], jobs: int, *, listed: bool) -> None:
    """Run what is left of the plans, in the order of their value, into the reference results."""
    try:
        found = works(load_config(), plans=plans, avoid=avoid)
        echo(_listed(found))
        if listed:
            return
        check_addition(ORDER[0], quick=False)
    except GpbenchError as error:
        raise SystemExit(f"gpbench: {error}") from error
    trouble = []
    os.nice(10)
    for work in found:
        if work.done:
            continue
        echo(f"== {work.plan.id}: {work.cells - work.stored:,} cells, about {work.hours:.2f} processor hours")
        for arguments in commands(work, jobs=jobs):
            code = _run(arguments)
            if code < 0 or code == _INTERRUPTED:
                raise SystemExit(_INTERRUPTED)
            if code not in _GOES_ON:
                trouble.append(" ".join(arguments))
    if trouble:
        raise SystemExit("not without problems:\n" + "\n".join(f"gpbench {each}" for each in trouble))


if __name__ == "__main__":
    main()
