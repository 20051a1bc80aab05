import json
import math
import signal
from types import SimpleNamespace

import numpy as np
import pytest
from bench_fakes import CALLS, FAKE, POINTS, FakePosterior, FakeSource, made_up, spec, task, without_times

from gpbench.bench import clock as clock_module
from gpbench.bench import division, runner, trace
from gpbench.bench.cell import Limits
from gpbench.bench.division import MappedRows
from gpbench.bench.methods import method
from gpbench.bench.result import Problem, Result
from gpbench.bench.runner import Bounds, Task, lost, run_cell
from gpbench.data.dataset import dataset_from_arrays
from gpbench.data.record import Preparation
from gpbench.data.scaling import ScaledRows, standardise
from gpbench.data.splits import Protocol
from gpbench.errors import UsageError
from gpbench.schemes.base import Step


def test_result_is_in_the_format_of_the_store():
    outcome = run_cell(task())
    result = outcome.result
    stored = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert Result.from_json(stored) == result
    assert (stored["format"], result.status, result.problem, outcome.halted) == (2, "ok", None, False)
    assert stored["key"] == result.key == spec().key
    assert stored["split"] == {"protocol": "folds:3", "index": 0, "count": 3, "seed": 0}
    assert set(result.metrics) == {
        "nll", "error", "train_seconds", "wall_seconds", "cpu_seconds", "iterations", "bound", "jitter", "peak_rss_mb",
    }  # fmt: skip
    assert (result.clock, result.metrics["train_seconds"]) == ("processor", result.metrics["cpu_seconds"])
    assert 1e-6 < result.provenance["calibration"]["step_seconds"] < 1.0
    assert set(result.trace) == {"seconds", "iteration", "nll", "error", "bound"}
    assert len({len(column) for column in result.trace.values()}) == 1


def test_metrics_are_those_of_the_final_posterior():
    outcome = run_cell(task(steps=40))
    metrics, arrays = outcome.result.metrics, outcome.arrays
    p = arrays["test_probabilities"][np.arange(len(arrays["y_test"])), arrays["y_test"]]
    assert metrics["nll"] == pytest.approx(-np.log(p).mean(), rel=1e-12)
    assert metrics["error"] == np.mean(arrays["test_probabilities"].argmax(axis=1) != arrays["y_test"])
    assert (metrics["iterations"], metrics["bound"], metrics["jitter"]) == (40, -40.0, 1e-6)
    last = {name: column[-1] for name, column in outcome.result.trace.items()}
    assert last == {
        "seconds": metrics["train_seconds"], "iteration": 40, "nll": metrics["nll"], "error": metrics["error"],
        "bound": -40.0,
    }  # fmt: skip
    assert arrays["kind"] == "fake"
    assert 0 < metrics["peak_rss_mb"] < 100_000


@pytest.mark.parametrize("limits", [Limits(), Limits(iterations=3)])
def test_the_bound_is_that_of_the_posterior_where_the_last_step_told_another(limits):
    result = run_cell(task(trouble="elsewhere", limits=limits)).result
    assert (result.metrics["bound"], result.trace["bound"][-1]) == (-0.5, -0.5)
    assert set(result.trace["bound"][:-1]) <= {-1.0, -2.0, -3.0, -4.0}


def test_inputs_are_scaled_by_the_training_rows_alone():
    CALLS.clear()
    run_cell(task())
    X = CALLS[-1][0]
    assert X.dtype == np.float64
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(X.std(axis=0), 1, atol=1e-12)


def test_inputs_can_be_left_as_they_are():
    CALLS.clear()
    run_cell(task(scaling="none"))
    X = CALLS[-1][0]
    rows = {tuple(row) for row in made_up("made-up", 60, 1).X}
    assert {tuple(row) for row in X} <= rows


def test_large_inputs_come_from_a_file_with_the_same_result(monkeypatch):
    CALLS.clear()
    outcomes = [run_cell(task())]
    monkeypatch.setattr(division, "MATERIALISED_BYTES", 0)
    outcomes.append(run_cell(task()))
    monkeypatch.setattr(division.shutil, "disk_usage", lambda _: SimpleNamespace(free=2**30))
    outcomes.append(run_cell(task()))
    assert [type(call[0]) for call in CALLS] == [np.ndarray, MappedRows, ScaledRows]
    rows = [outcome.result.provenance["rows"] for outcome in outcomes]
    assert rows == ["memory", "memory-mapped", "scaled on demand"]
    first, *others = (without_times(outcome.result) for outcome in outcomes)
    assert others == [first, first]


def test_same_cell_same_numbers():
    one, other = run_cell(task(steps=30)), run_cell(task(steps=30))
    assert without_times(one.result) == without_times(other.result)
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name])


def test_seed_and_split_change_the_numbers():
    found = {run_cell(task(index=index, seed=seed)).result.metrics["nll"] for index in (0, 1) for seed in (0, 1)}
    assert len(found) == 4


@pytest.mark.parametrize(
    ("limits", "iterations", "stopped_by"),
    [(Limits(), 5, "iterations"), (Limits(iterations=2), 2, "iterations"), (Limits(seconds=1e-9), 1, "seconds")],
)
def test_why_it_stopped(limits, iterations, stopped_by):
    result = run_cell(task(limits=limits)).result
    assert (result.metrics["iterations"], result.stopped_by) == (iterations, stopped_by)
    assert result.status == "ok"


@pytest.mark.parametrize("limits", [Limits(seconds=1e-9), Limits(iterations=1)])
def test_a_scheme_that_was_done_at_the_limit_says_itself_why_it_ended(limits):
    assert run_cell(task(limits=limits, steps=1, trouble="late")).result.stopped_by == "iterations"
    linear = task(method("linear"), likelihood="logit", limits=limits)
    assert run_cell(linear).result.stopped_by == "converged"


def test_a_scheme_without_a_reason_of_its_own():
    assert run_cell(task(trouble="silent")).result.stopped_by == "unknown"
    assert run_cell(task(trouble="silent", limits=Limits(iterations=2))).result.stopped_by == "iterations"


def test_a_scheme_that_never_reports_a_step_is_tested_all_the_same():
    result = run_cell(task(steps=0)).result
    assert (result.status, result.trace["iteration"], result.metrics["nll"]) == (
        "ok",
        [0],
        pytest.approx(np.log(2)),
    )


def test_evaluation_and_preparation_are_not_on_the_clock(monkeypatch):
    wall = [0.0]
    for module in (clock_module, trace):
        monkeypatch.setattr(module, "perf_counter", lambda: wall[0])
    monkeypatch.setattr(clock_module, "process_time", lambda: wall[0])
    score, divide = FakePosterior.score, runner.divide

    def slow_score(self, X, y):
        wall[0] += 1000
        return score(self, X, y)

    def slow_divide(*arguments):
        wall[0] += 1000
        return divide(*arguments)

    monkeypatch.setattr(FakePosterior, "score", slow_score)
    monkeypatch.setattr(runner, "divide", slow_divide)
    result = run_cell(task()).result
    assert wall[0] >= 2000
    assert result.metrics["train_seconds"] == 0
    assert result.trace["iteration"] == [1, 5]


def test_with_several_threads_wall_seconds_count():
    result = run_cell(task(threads=2)).result
    assert (result.clock, result.metrics["train_seconds"]) == ("wall", result.metrics["wall_seconds"])


def test_a_keyboard_interrupt_in_a_process_that_ignores_ctrl_c_is_the_schemes_own():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        outcome = run_cell(task(trouble="interrupt"))
    finally:
        signal.signal(signal.SIGINT, before)
    assert (outcome.result.status, outcome.halted) == ("failed", False)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"hard_seconds": 0.0}, "--hard-limit must be a positive number; got 0"),
        ({"memory_mb": math.nan}, "--memory-limit must be a positive number; got nan"),
    ],
)
def test_bounds_are_checked(bounds, words):
    with pytest.raises(UsageError, match=words):
        Bounds(**bounds)


def test_threads_are_held_while_training():
    CALLS.clear()
    run_cell(task())
    assert set(CALLS[-1][2]) == {1}
    assert run_cell(task()).result.provenance["threads"] == 1


@pytest.mark.parametrize(
    ("trouble", "status", "kind", "halted"),
    [
        ("error", "failed", "ValueError", False),
        ("exit", "failed", "SystemExit", False),
        ("interrupt", "interrupted", "KeyboardInterrupt", True),
        ("SIGTERM", "interrupted", "Terminated", True),
        ("generator", "failed", "GeneratorExit", False),
        ("base", "failed", "Odd", False),
    ],
)
def test_what_happens_inside_a_cell_ends_in_a_result(trouble, status, kind, halted):
    outcome = run_cell(task(trouble=trouble))
    result = outcome.result
    assert (result.status, outcome.halted, outcome.arrays, result.stopped_by) == (status, halted, None, None)
    assert (result.problem.type, result.problem.iteration) == (kind, 2)
    assert (result.metrics["nll"], result.metrics["iterations"]) == (None, 2)
    assert result.trace["iteration"][0] == 1
    json.dumps(result.to_json(), allow_nan=False)


def test_a_test_nll_that_is_not_finite_fails_the_cell():
    result = run_cell(task(trouble="infinite")).result
    assert (result.status, result.problem.type) == ("failed", "NumericalError")
    assert "got inf" in result.problem.message
    assert result.trace["nll"] == [None] * len(result.trace["nll"])


def test_data_that_changed_fail_the_cell():
    result = run_cell(task(checksum="0" * 64)).result
    assert (result.status, result.problem.type) == ("failed", "DataError")
    assert "has changed" in result.problem.message


def test_inducing_rule_comes_from_the_settings_and_the_split():
    CALLS.clear()
    run_cell(task(POINTS, index=2))
    run_cell(task(POINTS, index=2, rate=0.5, inducing="all"))
    run_cell(task(FAKE, index=2))
    (_, rule, _), (_, everything, _), (_, none, _) = CALLS
    seed = spec(index=2).split.inducing_seed()
    assert (rule.rule, rule.count, rule.seed, rule.rows) == ("random", "4", seed, 50)
    assert (everything.count, everything.seed) == ("all", seed)
    assert none.rule == "none"


@pytest.mark.parametrize("chosen", [{"inducing": "4", "inducing_rule": "random"}, {"inducing": "all"}])
def test_the_active_set_gives_the_inducing_inputs(chosen):
    known = {"protocol": "active:7/3", "index": 1, "seed": 5}
    data = made_up("made-up", 60, 1)
    split = Protocol.parse("active:7/3").split(data, 1, seed=5)
    active = standardise(data.X, split.train).apply(data.X[split.active])
    outcome = run_cell(task(method("svgpc"), likelihood="probit", max_iterations=3, **known, **chosen))
    assert outcome.result.settings["inducing"] == chosen["inducing"]
    np.testing.assert_array_equal(outcome.arrays["posterior.0.Z"], active)
    CALLS.clear()
    run_cell(task(FAKE, **known))
    rows, rule, _ = CALLS[-1]
    assert (len(rows), rule.rule) == (len(split.train), "none")
    assert not set(map(tuple, active)) & set(map(tuple, rows))


def test_what_became_of_the_data_is_recorded(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(40), np.repeat(rng.normal(size=4), 10), np.zeros(40)])
    data = dataset_from_arrays(
        X,
        rng.integers(2, size=40),
        id="few",
        title="",
        task="binary",
        classes=("no", "yes"),
        notes=("column c dropped",),
    )
    source = FakeSource(name="few")
    monkeypatch.setattr(FakeSource, "load", lambda *_: data)
    outcome = run_cell(task(method("svgpc"), source=source, likelihood="probit", max_iterations=3, inducing="9"))
    found = outcome.result.provenance["data"]
    rows = len(split_rows(data))
    counted = {"rows": rows, "test_rows": 40 - rows, "inducing": 4}
    assert found == {"notes": ["column c dropped"], "decisions": [], "constant_columns": 2, **counted}
    record = Preparation.from_json(json.loads(str(outcome.arrays["preparation"])))
    assert record.scaling.constant.tolist() == [True, False, True]
    assert record.classes == ("no", "yes")
    found = run_cell(task(source=source)).result.provenance["data"]
    assert "inducing" not in found


def test_a_class_without_a_training_row_is_told(monkeypatch):
    y = np.array([0, 1] * 10 + [2])
    X = np.random.default_rng(0).normal(size=(21, 2))
    data = dataset_from_arrays(X, y, id="rare", title="", task="multiclass", classes=("a", "b", "rare"))
    monkeypatch.setattr(FakeSource, "load", lambda *_: data)
    source = FakeSource(name="rare")
    told = [
        run_cell(task(method("linear"), source=source, protocol="contiguous:3", index=index)).result.decisions
        for index in range(3)
    ]
    assert told == [[], [], ["split 3 of 3 has no training row of class rare"]]


def split_rows(data):
    return Protocol.parse("folds:3").split(data, 0, seed=0).train


def test_the_likelihood_is_the_schemes_own_for_the_task():
    result = run_cell(task(likelihood="probit")).result
    assert result.settings["likelihood"] == "probit"
    assert result.status == "ok"


def test_test_rows_are_limited():
    outcome = run_cell(task(limits=Limits(test_rows=5)))
    assert len(outcome.arrays["y_test"]) == len(outcome.arrays["test_probabilities"]) == 5


def test_numbers_of_numpy_are_stored_as_plain_ones(monkeypatch):
    monkeypatch.setattr(runner, "Watcher", lambda *a, **k: NumpySteps(trace.Watcher(*a, **k)))
    result = run_cell(task()).result
    assert Result.from_json(json.loads(json.dumps(result.to_json(), allow_nan=False))) == result
    assert result.metrics["iterations"] == 5


class NumpySteps:
    """A watcher whose scheme counts in numpy's numbers."""

    def __init__(self, watcher):
        self.watcher = watcher

    def __call__(self, step):
        self.watcher(Step(np.int64(step.iteration), bound=np.float32(step.bound), posterior=step.posterior))

    def __getattr__(self, name):
        return getattr(self.watcher, name)


def test_arrays_that_cannot_be_stored_fail_the_cell(monkeypatch):
    monkeypatch.setattr(FakePosterior, "arrays", lambda _: {"kernel": np.array([{}], dtype=object)})
    result = run_cell(task()).result
    assert (result.status, result.problem.type) == ("failed", "TypeError")


def test_a_lost_cell_has_a_result_too():
    outcome = lost(task(), "failed", kind="WorkerDied", message="gone", iteration=7)
    assert outcome.result.key == spec().key
    assert outcome.result.problem == Problem("WorkerDied", "gone", 7)
    assert (outcome.result.metrics["iterations"], outcome.result.metrics["train_seconds"]) == (7, None)
    json.dumps(outcome.result.to_json(), allow_nan=False)


def test_a_lost_cell_tells_when_it_was_handed_over_and_nothing_of_a_machine_that_is_not_known():
    start = "2020-02-03T04:05:06.789+00:00"
    here, elsewhere = (
        lost(task(threads=2), "failed", kind="WorkerDied", message="gone", start=start, here=here).result
        for here in (True, False)
    )
    for result in (here, elsewhere):
        assert result.provenance["start"] == start < result.ended
        assert (result.threads, result.jobs) == (2, 1)
        assert Result.from_json(result.to_json()) == result
    assert here.provenance.keys() >= {"gpbench", "packages", "blas", "cpu"}
    assert elsewhere.provenance.keys() == {"threads", "jobs", "start", "end"}
    assert elsewhere.cpu == "unknown"


def test_a_source_that_fails_fails_the_cell():
    class Broken(FakeSource):
        def load(self, progress=None):  # noqa: ARG002
            raise OSError("disk on fire")

    good = task()
    result = run_cell(Task(spec=good.spec, method=FAKE, source=Broken())).result
    assert (result.status, result.problem.message) == ("failed", "disk on fire")
