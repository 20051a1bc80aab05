from dataclasses import fields

import pytest

from gpbench.bench.cell import Limits, SplitSpec
from gpbench.bench.plan.blocks import blocks
from gpbench.bench.plan.cells import PlanCells, PlanResult, Shown
from gpbench.bench.plan.read import read_plan
from gpbench.bench.result import Problem, Result
from gpbench.bench.store import Store


def _cell(
    *,
    dataset="german",
    method="x-gpc",
    settings=None,
    limits=None,
    index=0,
    seed=0,
    protocol="folds:10",
    count=10,
    nll=0.5,
    error=0.25,
    seconds=1.0,
    trace=None,
    iterations=None,
    status="ok",
    cpu="Zen 4",
    jobs=1,
    threads=1,
    stopped_by="converged",
    message="too bad",
    **description,
):
    """A stored result; ``trace`` is of (seconds, nll, error), at iterations 1, 2 and so on unless they are given."""
    finished = status == "ok"
    if trace is None:
        trace = [(seconds, nll, error)] if finished else []
    times, nlls, errors = (list(column) for column in zip(*trace, strict=True)) if trace else ([], [], [])
    described = {
        "dataset": dataset,
        "checksum": "c" * 64,
        "method": method,
        "version": 1,
        "settings": {"inducing": "100", "rate": None} if settings is None else settings,
        "likelihood": "logit",
        "limits": Limits(**(limits or {})),
        "split": SplitSpec(protocol=protocol, index=index, count=count, seed=seed),
        "seed": seed,
    }
    return Result(
        **described | description,
        status=status,
        stopped_by=stopped_by if finished else None,
        metrics={"nll": nll if finished else None, "error": error if finished else None, "train_seconds": seconds},
        trace={
            "seconds": times,
            "iteration": list(range(1, len(times) + 1)) if iterations is None else iterations,
            "nll": nlls,
            "error": errors,
            "bound": [None] * len(times),
        },
        provenance={"cpu": cpu, "jobs": jobs, "threads": threads, "end": "2026-11-27T12:00:00.000+00:00"},
        problem=None if finished else Problem("NumericalError", message, 3),
    )


@pytest.fixture
def make_cell():
    return _cell


@pytest.fixture
def plan_cell(tmp_path):
    """A stored result as a plan shows it."""

    def make(cell, block, plan):
        shown = Shown.of(cell.key, block, plan, folder=tmp_path / "runs")
        return PlanResult(**{each.name: getattr(cell, each.name) for each in fields(cell)}, shown=shown)

    return make


@pytest.fixture
def found_of(tmp_path):
    """A plan with cells, as renderers are given them; nothing is stored."""
    return lambda plan, cells=(): PlanCells(plan, list(cells), Store(tmp_path / "runs"))


@pytest.fixture
def ran(tmp_path, make_cell, plan_cell, found_of):
    """A plan of this text with cells: of each block, one for each split's outcome."""

    def make(text, outcomes, *, name="mine.toml", **common):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        plan = read_plan(path)
        cells = []
        for block in blocks(plan):
            for index, outcome in enumerate(outcomes(block)):
                given = {"protocol": block.split, "settings": dict(block.settings)} | outcome | common
                cell = make_cell(dataset=block.dataset, method=block.table.method.id, index=index, **given)
                cells.append(plan_cell(cell, block, plan))
        return found_of(plan, cells)

    return make
