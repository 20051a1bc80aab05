"""Measures of findings on made-up cells: where each holds, does not, and where nothing is known."""

import pytest

from gpbench.errors import UsageError
from gpbench.report.plan import answers

PLAN = """
title = "T"
paper = "villacampa2017"
datasets = ["german", "magic"]
split = "holdout:0.1*4"
metrics = ["nll", "error"]
published = "numbers.csv"
[methods.a]
method = "x-gpc"
printed = "A"
[methods.b]
method = "svgpc"
printed = "B"
"""
NUMBERS = "dataset,method,metric,value,spread\ngerman,A,nll,0.50,0.01\nmagic,A,nll,0.30,0.01\ngerman,B,nll,0.9,0.01\n"
FAST = [(0.1, 1.0), (0.2, 0.505), (0.4, 0.5), (0.8, 0.5)]
SLOW = [(0.1, 2.0), (1.0, 1.0), (2.0, 0.9), (4.0, 0.4), (8.0, 0.4), (9.0, 0.4)]


@pytest.fixture
def bench(tmp_path, ran):
    def make(given, plan=PLAN):
        """Data set, table -> NLLs or curves of the splits."""
        (tmp_path / "numbers.csv").write_text(NUMBERS, encoding="utf-8")

        def outcomes(block):
            for value in given.get((block.dataset, block.table.name), ()):
                if isinstance(value, dict):
                    yield value
                    continue
                curve = isinstance(value, list)
                yield (
                    {"trace": [(*point, point[1] / 2) for point in value], "nll": value[-1][1]}
                    if curve
                    else {"nll": value}
                )

        return ran(plan, outcomes, count=4)

    return make


def told(checks):
    return [(check.words, check.holds, check.measured) for check in checks]


def test_iterations_and_seconds_to_a_method_s_own_end(bench):
    found = bench({("german", "a"): [FAST, FAST], ("german", "b"): [SLOW, SLOW]})
    german, magic = answers.comes_to_its_end(found, first="a", second="b", at_least=2.0)
    assert german.words == "german: a 2 iterations, b 4 iterations, 2 times by splits"
    assert (german.holds, len(german.cells)) == (True, 4)
    assert (magic.words, magic.measured) == ("magic: a b not run", False)
    seconds = answers.comes_to_its_end(found, first="a", second="b", quantity="seconds", at_most=10.0)
    assert told(seconds)[0] == ("german: a 0.2 s, b 4 s, 20 times by splits", False, True)
    with pytest.raises(UsageError, match="iterations or seconds"):
        answers.comes_to_its_end(found, first="a", second="b", quantity="looks")


def test_as_printed_goes_by_the_rule_of_verdicts(bench):
    near, far = (0.49, 0.51, 0.5, 0.5), (0.39, 0.41, 0.4, 0.4)
    found = bench({("german", "a"): near, ("magic", "a"): far})
    assert told(answers.as_printed(found, methods=["a", "b"])) == [
        ("german, a: 0.5, printed 0.50 ± 0.01, agrees", True, True),
        ("german, b: not run", None, False),
        ("magic, a: 0.4, printed 0.30 ± 0.01, higher", False, True),
    ]
    assert len(answers.as_printed(found, methods=["a"], datasets=["german"])) == 1
    one = bench({("german", "a"): near[:1]})
    assert told(answers.as_printed(one, methods=["a"], datasets=["german"]))[0][1] is None
    with pytest.raises(UsageError, match=r"unknown table of \[methods\]"):
        answers.as_printed(found, methods=["c"])


def test_splits_span_a_printed_number_or_do_not(bench):
    found = bench({("german", "a"): (0.45, 0.6), ("magic", "a"): (0.31, 0.5), ("german", "b"): (0.9,)})
    assert told(answers.spans_printed(found, methods=["a", "b"])) == [
        ("german, a: 0.45 to 0.6, printed 0.50 ± 0.01", True, True),
        ("german, b: 0.9 to 0.9, printed 0.9 ± 0.01", None, True),
        ("magic, a: 0.31 to 0.5, printed 0.30 ± 0.01", False, True),
    ]


def test_which_of_two_data_sets_lies_nearer_to_what_is_printed_where_they_are_told_apart(bench):
    plan = PLAN + '[overrides.magic]\nprinted = "german"\n'
    near, far, wide = (0.52, 0.53, 0.52, 0.53), (0.41, 0.42, 0.41, 0.42), (0.2, 0.7, 0.1, 0.8)
    asked = {"datasets": ("magic", "german"), "methods": ["a", "b"]}
    found = bench({("german", "a"): far, ("magic", "a"): near, ("german", "b"): far}, plan)
    nearer, gap = answers.nearer_printed_on(found, **asked)
    assert told([nearer, gap]) == [
        ("a: magic 0.525, german 0.415, printed 0.50 ± 0.01", True, True),
        ("b: not run", None, False),
    ]
    assert {cell.dataset for cell in nearer.cells} == {"german", "magic"}
    farther, _ = answers.nearer_printed_on(bench({("german", "a"): near, ("magic", "a"): far}, plan), **asked)
    assert farther.holds is False
    close, _ = answers.nearer_printed_on(bench({("german", "a"): wide, ("magic", "a"): near}, plan), **asked)
    assert close.holds is None
    within = {("german", "a"): (0.501, 0.502, 0.501, 0.502), ("magic", "a"): (0.505, 0.506, 0.505, 0.506)}
    both, _ = answers.nearer_printed_on(bench(within, plan), **asked)
    assert both.holds is None, "both as near as a printed number can be asked for"


def test_a_median_is_below_a_value(bench):
    found = bench({("german", "a"): (0.5, 1.5, 1.6)})
    german, magic = answers.below(found, method="a", metric="nll", value=1.0)
    assert (german.words, german.holds) == ("german: a nll 1.5", False)
    assert magic.measured is False
    assert answers.below(found, method="a", metric="nll", value=2.0)[0].holds is True
    assert answers.above(found, method="a", metric="nll", value=1.0)[0].holds is True
    assert answers.above(found, method="a", metric="nll", value=1.0)[1].measured is False


def test_which_of_two_lies_nearer_to_what_is_printed_where_they_are_told_apart(bench):
    near, far, wide = (0.52, 0.53, 0.52, 0.53), (0.41, 0.42, 0.41, 0.42), (0.2, 0.7, 0.1, 0.8)
    pair = {"pairs": [["a", "b"]]}
    german, magic = answers.nearer_printed(bench({("german", "a"): near, ("german", "b"): far}), **pair)
    assert (german.words, german.holds) == ("german: a 0.525, b 0.415, printed 0.50 ± 0.01", True)
    assert magic.measured is False
    german, _ = answers.nearer_printed(bench({("german", "a"): far, ("german", "b"): near}), **pair)
    assert german.holds is False
    german, _ = answers.nearer_printed(bench({("german", "a"): near, ("german", "b"): wide}), **pair)
    assert german.holds is None
    within = {("german", "a"): (0.501, 0.502, 0.501, 0.502), ("german", "b"): (0.505, 0.506, 0.505, 0.506)}
    assert answers.nearer_printed(bench(within), **pair)[0].holds is True, "another number is printed for b"
    german, _ = answers.nearer_printed(bench(within, PLAN.replace('"B"', '"A"')), **pair)
    assert german.holds is None, "told apart, and both as near as a printed number can be asked for"
    part = {("german", "a"): near[:3], ("german", "b"): far[:3]}
    assert answers.nearer_printed(bench(part), **pair)[0].holds is True
    in_order = bench(part, PLAN.replace("holdout:0.1*4", "contiguous:4"))
    assert answers.nearer_printed(in_order, **pair)[0].holds is None, "three of four folds in file order"


def test_a_number_that_is_cut_short_may_lie_within_the_tolerance_too(bench):
    within = {
        ("german", "a"): [{"nll": nll, "stopped_by": "seconds"} for nll in (0.501, 0.502, 0.501, 0.502)],
        ("german", "b"): (0.505, 0.506, 0.505, 0.506),
    }
    german, _ = answers.nearer_printed(bench(within, PLAN.replace('"B"', '"A"')), pairs=[["a", "b"]])
    assert german.holds is None


def test_a_printed_nll_that_no_calibrated_predictor_has(bench, monkeypatch):
    monkeypatch.setitem(globals(), "NUMBERS", NUMBERS + "german,A,error,0.40,0.01\nmagic,A,error,0.10,0.01\n")
    found = bench({("german", "a"): (0.6, 0.6), ("magic", "a"): (0.4, 0.4)})
    german, magic = answers.below_calibrated(found, methods=["a"])
    assert german.words.startswith("german, a: printed 0.5 at error 0.4, least 0.555; ours 0.6 at error")
    assert (german.holds, magic.holds) == (True, False)
    assert not answers.below_calibrated(bench({}), methods=["a"])[0].measured


def test_two_with_other_splits_are_told_apart_by_their_means(bench, monkeypatch):
    monkeypatch.setitem(globals(), "PLAN", PLAN.replace('printed = "B"', 'printed = "A"\nsplit = "folds:4"'))
    near, far = (0.52, 0.53, 0.52, 0.53), (0.41, 0.42, 0.41, 0.42)
    german, _ = answers.nearer_printed(bench({("german", "a"): near, ("german", "b"): far}), pairs=[["a", "b"]])
    assert german.holds is True
    overlapping = (0.4, 0.6, 0.4, 0.6)
    german, _ = answers.nearer_printed(bench({("german", "a"): near, ("german", "b"): overlapping}), pairs=[["a", "b"]])
    assert german.holds is None


def curve(*points):
    """A split whose trace has (iteration, NLL, error), and whose metrics are the last of it."""
    return {
        "trace": [(0.1 * iteration, nll, error) for iteration, nll, error in points],
        "iterations": [iteration for iteration, _, _ in points],
        "nll": points[-1][1],
        "error": points[-1][2],
    }


@pytest.mark.parametrize(
    ("error", "holds"), [(0.2, True), (0.4, False), (0.22, True)], ids=["as printed", "another", "within the tolerance"]
)
def test_a_printed_pair_lies_on_the_way_or_does_not(bench, monkeypatch, error, holds):
    monkeypatch.setitem(globals(), "NUMBERS", NUMBERS + "german,A,error,0.20,0.01\nmagic,A,error,0.20,0.01\n")
    splits = [curve((1, 0.7 + d, 0.5), (100, 0.3 + d, 2 * error - 0.5), (1000, 0.1 + d, 0.05)) for d in (-0.01, 0.01)]
    german, magic = answers.passes_printed(bench({("german", "a"): splits}), methods=["a"])
    assert german.holds is holds
    assert german.words.startswith(f"german, a: printed 0.5 at error 0.20 ± 0.01, ours passes it at error {error} ±")
    assert german.words.endswith("by iteration 10")  # half way from 1 to 100 in logarithms
    assert magic.measured is False


def test_what_begins_below_a_printed_nll_or_ends_above_it_does_not_pass_it(bench, monkeypatch):
    monkeypatch.setitem(globals(), "NUMBERS", NUMBERS + "german,A,error,0.20,0.01\nmagic,A,error,0.20,0.01\n")
    below = [curve((1, 0.4 + d, 0.3), (10, 0.2 + d, 0.1)) for d in (-0.01, 0.01)]
    above = [curve((1, 0.9 + d, 0.3), (10, 0.8 + d, 0.1)) for d in (-0.01, 0.01)]
    found = bench({("german", "a"): below, ("magic", "a"): above})
    (german,) = answers.passes_printed(found, methods=["a"])  # of magic, which ends above, it is not asked
    assert (german.words, german.holds) == (
        "german, a: printed 0.5 at error 0.20 ± 0.01, ours does not pass it",
        False,
    )
