"""Each measure of the papers' claims on made-up cells: where it holds, does not, and where nothing is known."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpbench.errors import NotComputed, UsageError
from gpbench.report.plan import answers, measures, pictured
from gpbench.report.plan.claims_file import MEASURES

PLAN = """
title = "T"
datasets = {datasets}
split = "holdout:0.1*4"
[methods.a]
method = "x-gpc"
[methods.b]
method = "svgpc"
[methods.c]
method = "linear"
{more}
"""
SWEEP = "[sweep]\ninducing = [4, 16, 64]\n"


@pytest.fixture
def bench(ran):
    """A plan with cells, from NLLs: name -> values of the splits, or (name, swept value) -> values."""

    def make(nlls, *, datasets=("twonorm-gen",), more="", **common):
        names = "[" + ", ".join(f'"{each}"' for each in datasets) + "]"

        def outcomes(block):
            name = block.table.name
            known = ((block.dataset, name), (name, *block.sweep.values()), name)
            return [{"nll": value} | _of(value) for value in next((nlls[key] for key in known if key in nlls), ())]

        return ran(PLAN.format(datasets=names, more=more), outcomes, **({"count": 4} | common))

    return make


def _of(value):
    """What a value stands for: an NLL, or a curve of (seconds, NLL)."""
    if not isinstance(value, list):
        return {"error": value / 2}
    return {
        "trace": [(seconds, nll, nll / 2) for seconds, nll in value], "nll": value[-1][1], "error": value[-1][1] / 2,
        "seconds": value[-1][0],
    }  # fmt: skip


def holds(checks):
    return [check.holds for check in checks]


def words(checks):
    return [check.words for check in checks]


def test_every_measure_is_tested_here():
    here = Path(__file__)
    text = "".join(each.read_text(encoding="utf-8") for each in (here, here.with_name("test_answers.py")))
    assert [name for name in MEASURES if f".{name}(" not in text] == []


def test_lower_needs_an_interval_without_zero(bench):
    low, high, wide = (0.2, 0.21, 0.2, 0.21), (0.5, 0.5, 0.51, 0.5), (0.1, 0.9, 0.2, 0.8)
    found = bench({"a": low, "b": high, "c": wide})
    check, *_ = measures.lower(found, first="a", second="b")
    assert (check.holds, check.words, len(check.cells)) == (True, "twonorm-gen: a 0.205, b 0.502", 8)
    assert holds(measures.lower(found, first="a", second="b", by=0.5)) == [False]
    assert holds(measures.lower(found, first="b", second="a")) == [False]
    assert holds(measures.lower(found, first="a", second="c")) == [None]


def test_lower_of_a_single_split_goes_by_the_difference(bench):
    found = bench({"a": (0.2,), "b": (0.5,)})
    assert holds(measures.lower(found, first="a", second="b", by=0.2)) == [True]
    assert holds(measures.lower(found, first="b", second="a")) == [False]


def test_more_is_better_for_accuracy(bench):
    found = bench({"a": (0.2, 0.22, 0.2, 0.22), "b": (0.5, 0.5, 0.52, 0.5)})
    assert holds(measures.lower(found, first="a", second="b", metric="accuracy")) == [True]


def test_what_has_not_run_is_not_measured(bench):
    found = bench({"a": (0.2,), ("german", "b"): (0.2,)}, datasets=("german", "magic"))
    checks = measures.equivalent(found, first="a", second="b", within=0.1)
    assert words(checks) == ["german: a 0.2, b 0.2", "magic: b not run"]
    assert [(check.holds, check.measured) for check in checks] == [(True, True), (None, False)]
    with pytest.raises(UsageError, match=r"unknown table of \[methods\] 'd'"):
        measures.lower(found, first="a", second="d")
    with pytest.raises(UsageError, match="unknown data set of the plan 'higgs'"):
        measures.lower(found, first="a", second="b", datasets=["higgs"])


ONE_AND_OTHER = {"first": "a", "second": "b"}


@pytest.mark.parametrize(
    ("measure", "options"),
    [
        (measures.lower, ONE_AND_OTHER),
        (measures.no_higher, ONE_AND_OTHER),
        (measures.at_or_below, ONE_AND_OTHER),
        (measures.at_or_below, {**ONE_AND_OTHER, "of_curves": True}),
        (measures.equivalent, {**ONE_AND_OTHER, "within": 0.5}),
        (measures.best, {"method": "a", "among": ["b"]}),
        (measures.sooner, ONE_AND_OTHER),
        (measures.falls_short, {"method": "a", "others": ["b"]}),
        (measures.passes, {"method": "a", "over": "b", "seconds": 1.0}),
        (measures.costs, {**ONE_AND_OTHER, "quantity": "train_seconds"}),
        (answers.comes_to_its_end, ONE_AND_OTHER),
        (pictured.agrees_with, {"method": "a", "truth": "b"}),
        (pictured.nearer_truth, ONE_AND_OTHER),
    ],
)
def test_methods_without_a_split_in_common_are_not_measured(bench, drawn, measure, options):
    found = bench({"a": (0.2, 0.2), "b": (0.5, 0.5)})
    apart = [cell for cell in found.results if cell.split.index == ("a", "b").index(cell.shown.name)]
    drawn({})
    checks = measure(replace(found, results=apart), **options)
    assert [(check.holds, check.measured) for check in checks] == [(None, False)]


def test_what_is_no_number_is_not_measured(bench):
    found = bench({"a": (math.nan, math.nan), "b": (0.5, 0.5)})
    for checks in (
        measures.best(found, method="b", among=["a"]),
        measures.reaches(found, method="a", values={"nll": 0.1}),
        measures.lower(found, first="a", second="b"),
    ):
        assert [(check.holds, check.measured) for check in checks] == [(None, False)]


def test_times_of_different_processors_decide_nothing(bench):
    found = bench({"a": [[(1.0, 0.5), (2.0, 0.2)]], "b": [[(1.0, 0.5), (2.0, 0.4)]]}, more=SWEEP)
    cells = [
        replace(cell, provenance={**cell.provenance, "cpu": {"a": "Xeon", "b": "EPYC"}.get(cell.shown.name, "Xeon")})
        for cell in found.results
    ]
    mixed = replace(found, results=cells)
    for checks in (
        measures.frontier(mixed, methods=["a"], rivals=["b"]),
        measures.passes(mixed, method="a", over="b", seconds=9.0),
        measures.beats_in_time(mixed, **ONE_AND_OTHER, sweep="inducing"),
        measures.at_or_below(mixed, **ONE_AND_OTHER, metric="train_seconds"),
    ):
        assert checks
        assert all(check.words.endswith("times of different processors") and check.holds is None for check in checks)
    assert None not in holds(measures.frontier(found, methods=["a"], rivals=["b"]))


def test_no_higher_and_equivalent(bench):
    found = bench({"a": (0.3, 0.31, 0.3, 0.31), "b": (0.2, 0.22, 0.2, 0.2), "c": (0.1, 0.9, 0.2, 0.8)})
    assert holds(measures.no_higher(found, first="a", second="b")) == [False]
    assert holds(measures.no_higher(found, first="b", second="a")) == [True]
    assert holds(measures.no_higher(found, first="a", second="c")) == [True]  # not told apart
    assert holds(measures.equivalent(found, first="a", second="b", within=0.11)) == [True]
    assert holds(measures.equivalent(found, first="a", second="b", within=0.09)) == [False]


def test_best(bench):
    found = bench({"a": (0.2, 0.3), "b": (0.3, 0.4), "c": (0.1, 0.3)})
    assert holds(measures.best(found, method="a", among=["b"])) == [True]
    assert holds(measures.best(found, method="a", among=["b", "c"])) == [False]


def test_settles_and_gains_nothing(bench):
    falling = {("a", 4): (0.5,), ("a", 16): (0.251,), ("a", 64): (0.25,)}
    found = bench(falling, more=SWEEP)
    (check,) = measures.settles(found, method="a", sweep="inducing", value=16)
    assert (check.holds, check.words) == (True, "twonorm-gen: a 0.5 0.251 0.25 with inducing 4 16 64")
    assert holds(measures.settles(found, method="a", sweep="inducing", value=4)) == [False]
    assert holds(measures.gains_nothing(found, method="a", sweep="inducing", start=16, end=64)) == [False]
    rising = bench({**falling, ("a", 4): (0.2,)}, more=SWEEP)
    assert holds(measures.settles(rising, method="a", sweep="inducing", value=16)) == [False]
    assert holds(measures.gains_nothing(rising, method="a", sweep="inducing", start=4, end=64)) == [True]
    part = bench({("a", 4): (0.5,)}, more=SWEEP)
    assert [check.measured for check in measures.settles(part, method="a", sweep="inducing", value=16)] == [False]


FAST = [[(1.0, 0.9), (2.0, 0.5), (3.0, 0.5), (4.0, 0.5)]]
SLOW = [[(1.0, 0.9), (10.0, 0.8), (20.0, 0.5), (30.0, 0.5), (40.0, 0.5)]]
NEVER = [[(1.0, 0.9), (15.0, 0.8), (30.0, 0.8)]]


def test_sooner_compares_times_to_one_goal(bench):
    found = bench({"a": FAST, "b": SLOW})
    (check,) = measures.sooner(found, first="a", second="b", factor=10.0)
    assert (check.holds, check.words) == (True, "twonorm-gen: a 2 s, b 20 s")
    assert holds(measures.sooner(found, first="a", second="b", factor=11.0)) == [False]
    assert holds(measures.sooner(found, first="b", second="a")) == [False]
    assert holds(measures.sooner(found, first=["b", "a"], second="b", factor=10.0)) == [True]


def test_sooner_counts_what_never_arrives_as_censored(bench):
    found = bench({"a": FAST, "b": NEVER})
    (check,) = measures.sooner(found, first="a", second="b", factor=10.0)
    assert (check.holds, check.words) == (True, "twonorm-gen: a 2 s, b more than 30 s")
    assert holds(measures.sooner(found, first="a", second="b", factor=20.0)) == [None]
    assert holds(measures.sooner(found, first="b", second="a")) == [False]
    # to the goal of the second's own end both arrive
    assert holds(measures.sooner(found, first="a", second="b", goal="second", factor=5.0)) == [True]


def test_one_dip_is_no_arrival(bench):
    dip = [[(1.0, 0.9), (1.5, 0.1), (10.0, 0.9), (20.0, 0.5), (30.0, 0.5), (40.0, 0.5)]]
    found = bench({"a": FAST, "b": dip})
    assert words(measures.sooner(found, first="a", second="b")) == ["twonorm-gen: a 2 s, b 20 s"]


def test_times_of_two_processors_decide_nothing(bench):
    found = bench({"a": FAST, "b": SLOW})
    found.results[0].provenance["cpu"] = "M4"
    assert holds(measures.sooner(found, first="a", second="b")) == [None]
    assert holds(measures.costs(found, first="a", second="b", quantity="train_seconds")) == [None]


def test_frontier(bench):
    found = bench({"a": FAST, "b": SLOW})
    (check,) = measures.frontier(found, methods=["a"], rivals=["b"])
    assert check.holds
    assert holds(measures.frontier(found, methods=["b"], rivals=["a"])) == [False]
    assert [each.measured for each in measures.frontier(bench({"a": FAST}), methods=["a"], rivals=["b"])] == [False]


def test_passes(bench):
    found = bench({"a": SLOW, "b": [[(0.1, 0.6)]]})
    (check,) = measures.passes(found, method="a", over="b", seconds=20)
    assert (check.holds, check.words) == (True, "twonorm-gen: a passes b after 20 s")
    assert holds(measures.passes(found, method="a", over="b", seconds=19)) == [False]


def test_rises_again(bench):
    found = bench(
        {"a": [[(1, 0.9), (2, 0.5), (3, 0.5), (4, 0.5), (5, 0.6), (6, 0.6)]], "b": [[(1, 0.9), (2, 0.1), (3, 0.9)]]}
    )
    assert holds(measures.rises_again(found, method="a")) == [True]
    assert holds(measures.rises_again(found, method="b")) == [False]  # one dip


def test_unsteady(bench):
    found = bench({"a": [[(1, 0.9), (2, 0.4), (3, 0.6), (4, 0.5)]], "b": [[(1, 0.9), (2, 0.6), (3, 0.5), (4, 0.45)]]})
    (check,) = measures.unsteady(found, method="a", others=["b"])
    assert (check.holds, check.words) == (True, "twonorm-gen: a ranges over 0.1, b ranges over 0.05")
    assert holds(measures.unsteady(found, method="a", others=["b"], factor=2.5)) == [False]
    assert holds(measures.unsteady(found, method="b", others=["a"])) == [False]


def test_unsteady_below(bench):
    def curve(jump):
        return [[(1, 0.9), (2, 0.9), (3, 0.4), (4, 0.4 + jump)]]

    nlls = {("a", 4): curve(0.2), ("a", 16): curve(0.1), ("a", 64): curve(0.04)}
    found = bench(nlls, more=SWEEP)
    assert holds(measures.unsteady_below(found, method="a", sweep="inducing", value=64)) == [True]
    assert holds(measures.unsteady_below(found, method="a", sweep="inducing", value=64, factor=3.0)) == [False]


def test_falls_short(bench):
    found = bench({"a": NEVER, "b": FAST, "c": SLOW})
    assert holds(measures.falls_short(found, method="a", others=["b", "c"])) == [True]
    assert holds(measures.falls_short(found, method="a", others=["b", "c"], tolerance=0.5)) == [False]
    assert holds(measures.falls_short(found, method="b", others=["a", "c"])) == [False]
    assert holds(measures.falls_short(found, method="a", others=["b"], metric="accuracy", by=0.0)) == [True]


def test_reaches_to_half_a_unit_of_the_print(bench):
    found = bench({"a": (0.0694,)}, error=0.0216)
    checks = measures.reaches(found, method="a", values={"nll": 0.069, "accuracy": 0.978, "error": 0.02})
    assert holds(checks) == [True, True, True]
    assert holds(measures.reaches(found, method="a", values={"nll": 0.068, "accuracy": 0.979})) == [False, False]


def test_reaches_knows_the_last_digit_of_a_value_in_text_and_of_a_small_one(bench):
    found = bench({"a": (0.074,)}, error=1e-4)
    assert holds(measures.reaches(found, method="a", values={"nll": 0.07})) == [True]
    (check,) = measures.reaches(found, method="a", values={"nll": "0.070"})
    assert check.holds is False
    assert check.words.endswith("printed 0.070")
    assert holds(measures.reaches(found, method="a", values={"error": 5e-05})) == [False]
    with pytest.raises(UsageError, match="expected a number; got 'small'"):
        measures.reaches(found, method="a", values={"nll": "small"})


def test_within_seconds(bench):
    found = bench({"a": (0.5, 0.5)}, seconds=3.0)
    assert holds(measures.within_seconds(found, method="a", seconds=3)) == [True]
    assert holds(measures.within_seconds(found, method="a", seconds=2)) == [False]
    assert holds(measures.within_seconds(found, method="a", seconds=3, converged=True)) == [True]
    cut = bench({"a": (0.5, 0.5)}, seconds=3.0, stopped_by="seconds")
    assert holds(measures.within_seconds(cut, method="a", seconds=3, converged=True)) == [False]


def test_costs(bench):
    found = bench({"a": FAST, "b": SLOW})
    assert holds(measures.costs(found, first="a", second="b", quantity="train_seconds", at_least=10.0)) == [True]
    assert holds(measures.costs(found, first="a", second="b", quantity="train_seconds", at_most=9.0)) == [False]
    assert holds(measures.costs(found, first="a", second="b", quantity="peak_rss_mb")) == [None]
    for cell in found.results:
        cell.metrics["iterations"] = 4 if cell.method == "x-gpc" else 400
    (check,) = measures.costs(found, first="b", second="a", quantity="seconds_per_iteration", at_least=10.0)
    assert (check.holds, check.words) == (True, "twonorm-gen: b 0.1, a 1, 10 times")


def test_beats_in_time(bench):
    nlls = {
        ("a", 4): [[(1.0, 0.3)]], ("a", 16): [[(9.0, 0.2)]], ("a", 64): [[(90.0, 0.1)]],
        ("b", 4): [[(0.1, 0.8)]], ("b", 16): [[(0.2, 0.5)]], ("b", 64): [[(2.0, 0.4)]],
    }  # fmt: skip
    found = bench(nlls, more=SWEEP)
    wanted = {"first": "a", "second": "b", "sweep": "inducing", "metric": "nll", "quantity": "train_seconds"}
    (check,) = measures.beats_in_time(found, **wanted)
    assert (check.holds, check.words) == (True, "twonorm-gen: a 0.3 after 1 s at 4, b 0.4 after 2 s at 64")
    assert holds(measures.beats_in_time(found, **wanted, factor=17.0)) == [False]
    assert holds(measures.beats_in_time(found, **{**wanted, "first": "b", "second": "a"})) == [False]


@pytest.fixture
def drawn(monkeypatch):
    """Arrays of a plan's picture, made up."""

    def put(arrays):
        monkeypatch.setattr(pictured, "stored_arrays", lambda _: arrays)

    return put


def key(found, method):
    return next(cell.key for cell in found.results if cell.shown.name == method)


def test_moves_to_boundary_and_nearer_boundary(bench, drawn):
    found = bench({"a": (0.1,), "b": (0.2,)})
    a, b = key(found, "a"), key(found, "b")
    leads = {
        f"{a}/lead_start/0": np.array([0.9, 0.7]), f"{a}/lead/0": np.array([0.2, 0.4]),
        f"{b}/lead_start/0": np.array([0.8, 0.8]), f"{b}/lead/0": np.array([0.7, 0.7]),
    }  # fmt: skip
    drawn(leads)
    (check,) = pictured.moves_to_boundary(found, method="a", others=["b"])
    assert (check.holds, check.words) == (True, "twonorm-gen: |p - 1/2| a 0.4 to 0.15, b 0.4 to 0.35")
    assert holds(pictured.moves_to_boundary(found, method="b", others=["a"])) == [False]
    assert holds(pictured.nearer_boundary(found, method="a", others=["b"])) == [True]
    assert holds(pictured.nearer_boundary(found, method="b", others=["a"])) == [False]


def test_on_top(bench, drawn):
    found = bench({"a": (0.1,), "b": (0.2,)})
    a, b = key(found, "a"), key(found, "b")
    drawn({
        f"{a}/inducing/0": np.array([[0.0, 0.0], [3.0, 0.0]]), f"{a}/inducing/1": np.array([[0.0, 0.1], [3.0, 0.1]]),
        f"{b}/inducing/0": np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]]),
    })  # fmt: skip
    (check,) = pictured.on_top(found, methods=["a"], other="b")
    assert (check.holds, check.words) == (True, "twonorm-gen: distance to the nearest a 0.1, b 3")
    assert holds(pictured.on_top(found, methods=["b"], other="a")) == [False]


def test_agrees_with(bench, drawn):
    found = bench({"a": (0.1,), "b": (0.2,)})
    a, b = key(found, "a"), key(found, "b")
    x = np.arange(4.0)
    same = {"mean": 2 * x, "variance": x + 1, "probability": x / 4}
    other = {"mean": x, "variance": x[::-1], "probability": x / 4 + 0.1}
    drawn({f"{one}/{name}": value for one, own in ((a, same), (b, other)) for name, value in own.items()})
    checks = pictured.agrees_with(found, method="a", truth="b")
    assert holds(checks) == [True, False, False]
    assert checks[2].words == "twonorm-gen: largest difference of a's probabilities 0.1"


PRINTED = """
title = "T"
paper = "wenzel2019"
datasets = ["german", "magic", "banana"]
split = "contiguous:2"
metrics = ["nll", "error"]
published = "numbers.csv"
[methods.x-gpc]
printed = "X-GPC"
"""


def test_logged_as_printed(ran, drawn, tmp_path):
    numbers = "dataset,method,metric,value,spread\ngerman,X-GPC,nll,0.31,0.17\nmagic,X-GPC,nll,0.5,0.1\n"
    numbers += "banana,X-GPC,error,0.4,0.1\n"
    (tmp_path / "numbers.csv").write_text(numbers, encoding="utf-8")
    given = {"german": (0.5, 0.6), "magic": (0.5, 0.6), "banana": (0.5, 0.6)}
    found = ran(PRINTED, lambda block: [{"nll": nll, "error": 0.1} for nll in given[block.dataset]], count=2)
    of = {name: [cell for cell in found.results if cell.dataset == name] for name in given}
    logged = {"german": (0.2, 0.45), "magic": (0.5 - 1e-8, 0.6), "banana": (0.1, 0.6)}
    arrays = {
        f"{cell.key}/{what}": np.array(value)
        for name in given
        for cell, number, nll in zip(of[name], logged[name], given[name], strict=True)
        for what, value in (("nll", number), ("nll/same", abs(number - nll) < 1e-6))
    }
    drawn(arrays)
    german, magic = pictured.logged_as_printed(found, method="x-gpc")  # nothing is printed for banana
    assert german.words == "german: 0.55 ± 0.0707, as logged 0.325 ± 0.177, printed 0.31 ± 0.17"
    assert (german.holds, len(german.cells)) == (True, 2)
    assert magic.holds is None  # what differs is less than the printed digits show
    few = {f"{of['magic'][0].key}/nll": np.array(0.42), f"{of['magic'][1].key}/nll": np.array(0.56)}
    drawn(arrays | few)
    assert holds(pictured.logged_as_printed(found, method="x-gpc")) == [True, True]
    same_spread = {f"{of['german'][0].key}/nll": np.array(0.3), f"{of['german'][1].key}/nll": np.array(0.4)}
    drawn(arrays | same_spread)
    (german,) = pictured.logged_as_printed(found, method="x-gpc", datasets=["german"])
    assert german.holds is True, "the mean moved alone"
    drawn(arrays | {f"{of['german'][0].key}/nll": np.array(0.9), f"{of['german'][1].key}/nll": np.array(0.9)})
    assert holds(pictured.logged_as_printed(found, method="x-gpc")) == [False, None]  # mean and spread both farther
    drawn(arrays | {f"{of['german'][1].key}/nll": np.array(0.2)})
    assert holds(pictured.logged_as_printed(found, method="x-gpc")) == [False, None]  # the mean nearer, the spread not
    drawn(arrays | {f"{of['german'][1].key}/nll": np.array(np.nan)})
    german, _ = pictured.logged_as_printed(found, method="x-gpc")
    assert (german.words.split(", ")[1], german.holds) == ("as logged – ± –", None)
    drawn({f"{cell.key}/{what}": np.array(0.3) for cell in found.results for what in ("error", "error/same")})
    (error,) = pictured.logged_as_printed(found, method="x-gpc", metric="error", datasets=["banana"])
    assert (error.words, error.holds) == ("banana, error: 0.1 ± 0, as logged 0.3 ± 0, printed 0.4 ± 0.1", True)
    drawn(arrays)
    part = replace(found, results=[cell for cell in found.results if cell.key != of["german"][1].key])
    assert holds(pictured.logged_as_printed(part, method="x-gpc")) == [None, None]  # one of two folds in file order


def test_contracts(bench, drawn):
    before = np.ones((1, 3, 2, 2))
    after = np.full((1, 3, 2, 2), 0.5)
    after[0, 2, 0, 1] = 1.5
    drawn({"before": before, "after": after, "likelihoods": np.array(["count (P)", "binary (l)", "ordinal, slope 1"])})
    found = bench({})
    checks = pictured.contracts(found, always=["count", "binary"], not_always=["ordinal"])
    assert holds(checks) == [True, True, True]
    assert checks[2].words == "ordinal: 1 of 4 pairs came no closer, the largest ratio is 1.5"
    assert holds(pictured.contracts(found, always=["ordinal"], not_always=["count"])) == [False, False]
    assert [each.measured for each in pictured.contracts(found, always=["other"], not_always=[])] == [False]


def test_negligible(bench, drawn):
    found = bench({"a": (0.1,)})
    names = ["p0.l of month", "p0.l of a day", "p0.l[2]", "p1.v of month", "p1.v[1]"]
    drawn({
        "cell": np.array([key(found, "a")] * 5), "name": np.array(names),
        "value": np.array([0.5, 9.0, 0.4, 0.01, 0.03]),
    })  # fmt: skip
    wanted = {"method": "a", "part": "p1.v", "scales": "p0.l"}
    checks = pictured.negligible(found, **wanted, most=0.05, shortest=["month", "2"])
    assert holds(checks) == [True, True]
    assert checks[1].words == "twonorm-gen: shortest length scales of 2, month"
    assert holds(pictured.negligible(found, **wanted, most=0.02, shortest=["month", "a day"])) == [False, False]


@pytest.fixture
def apart(bench, drawn):
    """Two methods, and their distances from a reference posterior: of training and of test rows."""
    found = bench({"a": (0.1,), "b": (0.2,)})
    drawn({
        "cell": np.array([key(found, "b"), key(found, "a")]), "kl": np.array([[9.0, 0.4], [0.0, 0.1]]),
        "sd": np.array([[1.0, 1.1], [1.0, 0.8]]), "link": np.array(["logit", "logit"]),
        "mean": np.array([[1.0, np.nan], [1.0, 0.2]]),
    })  # fmt: skip
    return found


def test_distance(apart):
    (check,) = pictured.distance(apart, method="a", quantity="sd", at_most=0.9)
    assert (check.holds, check.words) == (True, "twonorm-gen: a sd 0.8")
    assert holds(pictured.distance(apart, method="b", quantity="sd", at_least=0.9, at_most=1.05)) == [False]
    assert holds(pictured.distance(apart, method="b", quantity="sd", at_least=0.9)) == [True]
    with pytest.raises(UsageError, match="mean, sd, kl, probability"):
        pictured.distance(apart, method="a", quantity="variance")


def test_nearer_truth(apart):
    (check,) = pictured.nearer_truth(apart, first="a", second="b")
    assert (check.holds, check.words) == (True, "twonorm-gen: kl a 0.1, b 0.4")
    assert holds(pictured.nearer_truth(apart, first="b", second="a")) == [False]
    assert holds(pictured.nearer_truth(apart, first="b", second="a", quantity="sd")) == [True], "in logarithms"


def test_distances_that_are_none_decide_nothing(apart):
    assert holds(pictured.nearer_truth(apart, first="a", second="b", quantity="mean")) == [None]
    assert holds(pictured.distance(apart, method="b", quantity="mean", at_most=1.0)) == [None]
    checks = [
        *pictured.nearer_truth(apart, first="a", second="c"),
        *pictured.distance(apart, method="c", quantity="sd"),
    ]
    assert [check.measured for check in checks] == [False, False]


def test_two_links_have_two_truths(bench, drawn):
    found = bench({"a": (0.1,), "b": (0.2,)})
    drawn({
        "cell": np.array([key(found, "a"), key(found, "b")]), "kl": np.array([[9.0, 0.4], [0.0, 0.1]]),
        "link": np.array(["logit", "probit"]),
    })  # fmt: skip
    with pytest.raises(UsageError, match="a has reference posteriors of logit, b of probit"):
        pictured.nearer_truth(found, first="a", second="b")


def test_arrays_that_are_not_computed_decide_nothing(bench, monkeypatch):
    def nothing(_):
        raise NotComputed("no")

    monkeypatch.setattr(pictured, "stored_arrays", nothing)
    checks = pictured.contracts(bench({}), always=["count"], not_always=[])
    assert [(each.words, each.measured) for each in checks] == [("mine: its arrays are not computed", False)]


def test_at_or_below_goes_by_the_means_whatever_the_intervals_are(bench):
    found = bench({"a": (0.1, 0.9), "b": (0.4, 0.61)})
    assert holds(measures.at_or_below(found, first="a", second="b")) == [True]
    assert holds(measures.at_or_below(found, first="b", second="a")) == [False]
    assert holds(measures.at_or_below(found, first="b", second="a", slack=0.02)) == [True]
    assert holds(measures.at_or_below(found, first="a", second="b", slack=-0.5)) == [False]
    assert measures.at_or_below(bench({"a": (0.1,)}), first="a", second="b")[0].measured is False


def test_at_or_below_may_go_by_where_curves_end(bench):
    """One good look at the end decides nothing there."""
    steady, lucky = [(1.0, 0.3), (2.0, 0.3), (3.0, 0.3)], [(1.0, 0.4), (2.0, 0.4), (3.0, 0.2)]
    found = bench({"a": (steady,), "b": (lucky,)})
    assert holds(measures.at_or_below(found, first="a", second="b")) == [False]
    assert holds(measures.at_or_below(found, first="a", second="b", of_curves=True)) == [True]
    assert measures.at_or_below(bench({"a": (steady,)}), first="a", second="b", of_curves=True)[0].measured is False
