"""Rivals as cells: their own clock, what stands beside it, and workers, which may not have multiprocessing children."""

from contextlib import closing

import pytest
from bench_fakes import FakeSource, spec

from gpbench.bench.cell import Limits
from gpbench.bench.choices import Choice
from gpbench.bench.execution import executor
from gpbench.bench.expand import Request, expand
from gpbench.bench.methods import method
from gpbench.bench.runner import Task
from gpbench.errors import UsageError


def test_a_rival_in_a_daemonic_worker():
    rival, source = method("sklearn-gpc"), FakeSource(n=60)
    cell = spec(rival, source=source, limits=Limits(iterations=4), likelihood="logit")
    with closing(executor(2)) as workers:
        (outcome,) = workers.run([Task(spec=cell, method=rival, source=source)])
    result = outcome.result
    assert (result.status, result.stopped_by) == ("ok", "iterations")
    assert result.trace["iteration"][-1] == result.metrics["iterations"] == 4
    assert result.metrics["startup_seconds"] > 0.0
    assert result.metrics["compile_seconds"] >= 0.0
    assert result.metrics["train_seconds"] == result.trace["seconds"][-1]
    assert result.provenance["peer"]["name"] == "sklearn"
    assert set(result.provenance["peer"]["packages"]) == {"scikit-learn", "numpy", "scipy"}


@pytest.mark.parametrize("name", ["gpflow-svgp", "gpytorch-svgp", "gpytorch-pg"])
def test_an_absent_rival_is_refused_before_anything_runs(monkeypatch, tmp_path, name):
    monkeypatch.setenv("GPBENCH_PEERS", str(tmp_path))
    rival = method(name)
    request = Request(choices=[Choice(rival, rival.resolve({}))], sources=[FakeSource()])
    with pytest.raises(UsageError, match=f"gpbench peers install {name.partition('-')[0]}"):
        expand(request)
