import pytest

from gpbench.bench.plan.run import PlanCells
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
    status="ok",
    cpu="Zen 4",
    jobs=1,
    threads=1,
    stopped_by="converged",
    message="too bad",
    **description,
):
    """A stored result; the key is made of all that describes it."""
    described = {
        "format": 1,
        "dataset": dataset,
        "checksum": "c" * 64,
        "method": method,
        "version": 1,
        "settings": {"inducing": "100", "rate": None} if settings is None else settings,
        "likelihood": "logit",
        "limits": limits or {},
        "scaling": "standard",
        "split": {"protocol": protocol, "index": index, "count": count, "seed": seed},
        "seed": seed,
    } | description
    finished = status == "ok"
    if trace is None:
        trace = [(seconds, nll, error)] if finished else []
    times, nlls, errors = (list(column) for column in zip(*trace, strict=True)) if trace else ([], [], [])
    return {
        **described,
        "key": repr(described),
        "status": status,
        "stopped_by": stopped_by if finished else None,
        "metrics": {
            "nll": nll if finished else None,
            "error": error if finished else None,
            "train_seconds": seconds,
        },
        "trace": {"seconds": times, "iteration": list(range(1, len(times) + 1)), "nll": nlls, "error": errors},
        "provenance": {"cpu": cpu, "jobs": jobs, "threads": threads, "end": "2026-11-27T12:00:00.000+00:00"},
        "problem": None if finished else {"type": "NumericalError", "message": message, "iteration": 3},
    }


@pytest.fixture
def make_cell():
    return _cell


@pytest.fixture
def found_of(tmp_path):
    """A plan with cells, as renderers are given them; nothing is stored."""
    return lambda plan, cells=(): PlanCells(plan, list(cells), Store(tmp_path / "runs"))
