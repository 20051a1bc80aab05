import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from gpbench.report.compare.pairs import Contender, arenas_of
from gpbench.report.compare.significance import (
    average_ranks,
    correction,
    correlated_t,
    critical_difference,
    difference,
    holm,
    paired_interval,
    signed_ranks,
    unpaired_interval,
    win_rates,
)

A, B = Contender("linear", "linear"), Contender("x-gpc", "x-gpc")


def test_without_overlap_it_is_the_paired_t_test():
    a, b = np.array([0.3, 0.5, 0.4, 0.6]), np.array([0.2, 0.5, 0.2, 0.3])
    expected = stats.ttest_rel(a, b)
    low, high, p = paired_interval(a - b, rho=0.0)
    interval = expected.confidence_interval(0.95)
    assert (low, high, p) == pytest.approx((interval.low, interval.high, expected.pvalue), rel=1e-12)


def test_the_variance_is_corrected_for_shared_training_rows():
    # d = 1, 3: mean 2, s = sqrt 2; with rho = 1 the error is sqrt(2 (1/2 + 1)) = sqrt 3, and t with one degree of
    # freedom has its 97.5 % quantile at tan(0.475 pi).
    low, high, p = paired_interval([1.0, 3.0], rho=1.0)
    half = math.tan(0.475 * math.pi) * math.sqrt(3.0)
    assert (low, high) == pytest.approx((2.0 - half, 2.0 + half), rel=1e-12)
    assert p == pytest.approx(1.0 - 2.0 / math.pi * math.atan(2.0 / math.sqrt(3.0)), rel=1e-12)


def test_on_unlike_splits_without_overlap_it_is_welch_s_test():
    a, b = np.array([0.3, 0.5, 0.4, 0.6]), np.array([0.2, 0.5, 0.2, 0.3, 0.1])
    expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert unpaired_interval(a, b, rho=0.0) == pytest.approx((expected.low, expected.high), rel=1e-12)
    low, high = unpaired_interval(a, a + 1.0, rho=0.25)  # both variances are twice as large as without
    plain = unpaired_interval(a, a + 1.0, rho=0.0)
    assert (high - low) / (plain[1] - plain[0]) == pytest.approx(math.sqrt(2.0), rel=1e-12)
    assert unpaired_interval([0.5, 0.5], [0.2, 0.2], rho=0.1) == pytest.approx((0.3, 0.3))


def test_one_split_has_no_interval():
    assert paired_interval([0.1], rho=0.1) == (None, None, None)
    assert unpaired_interval([0.1], [0.2, 0.3], rho=0.1) == (None, None)


@pytest.mark.parametrize(("value", "p"), [(0.0, 1.0), (0.5, 0.0)])
def test_the_same_difference_on_every_split(value, p):
    assert paired_interval([value] * 3, rho=0.5) == (value, value, p)


def test_the_interval_covers_as_often_as_it_says_when_splits_share_their_rows():
    """Differences with the correlation rho / (1/n + rho) ... that the correction assumes: d_i = common + own."""
    rng = np.random.default_rng(0)
    n, rho, runs = 10, 1 / 9, 4000
    correlation = rho / (1.0 + rho)  # var of the mean = s2 (1/n + rho), where s2 estimates the variance of the own part
    own = rng.normal(size=(runs, n)) * math.sqrt(1.0 - correlation)
    common = rng.normal(size=(runs, 1)) * math.sqrt(correlation)
    d = common + own
    covered = {
        rho: np.mean([low <= 0.0 <= high for low, high, _ in (paired_interval(row, rho=rho) for row in d)])
        for rho in (0.0, 1 / 9)
    }
    assert covered[1 / 9] == pytest.approx(0.95, abs=0.015)
    assert covered[0.0] < 0.88


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("folds:10", 1 / 9), ("contiguous:5", 1 / 4), ("active:50/10", 1 / 9), ("holdout:0.2*5", 0.25),
        # training sets that share half of their rows or less
        ("folds:2", 0.0), ("folds:3", 0.0), ("folds:4", 1 / 3), ("holdout:0.5*5", 0.0), ("holdout:0.7*5", 0.0),
        ("draws:20", 0.0),
    ],
)  # fmt: skip
def test_the_correction_follows_from_the_protocol(split, expected):
    assert correction(split, []) == pytest.approx(expected)


def test_the_correction_from_the_rows_that_were_counted(make_cell):
    counted = make_cell(protocol="given")
    assert correction("given", [counted]) is None
    counted.provenance["data"] = {"rows": 400, "test_rows": 100}
    assert correction("given", [counted]) == 0.25
    assert correction("holdout:200*5", [counted]) == 0.5
    assert correction("a protocol of tomorrow", [counted]) == 0.25
    counted.provenance["data"] = {"rows": 400, "test_rows": 7000}  # IDA's twonorm: the interval is the plain one
    assert correction("given", [counted]) == 0.0


def test_limits_of_rows_change_the_correction(make_cell):
    def cell(trained, tested, **limits):
        made = make_cell(limits=limits)
        made.provenance["data"] = {"rows": trained, "test_rows": tested}
        return made

    # eleven million rows in ten blocks, of which 100,000 are tested
    assert correction("contiguous:10", [cell(9_900_000, 100_000, test_rows=100_000)]) == pytest.approx(1 / 99)
    # a limit above what there is bounds nothing
    assert correction("contiguous:10", [cell(900, 100, test_rows=100_000)]) == pytest.approx(1 / 9)
    # 2,000 of 8,000 rows: two such sets share a quarter of .8
    assert correction("holdout:0.2*5", [cell(2000, 2000, train_rows=2000)]) == 0.0
    # 7,500 of 8,000: they share .75 of their rows
    assert correction("holdout:0.2*5", [cell(7500, 2000, train_rows=7500)]) == pytest.approx(2000 / 7500)
    assert correction("folds:10", [make_cell(limits={"test_rows": 5})]) is None  # the rows are not recorded


def test_the_correlated_t_by_integration():
    """Chances of the posterior density of the mean difference, integrated by another route."""
    d, rho, rope = np.array([0.02, -0.01, 0.03, 0.015]), 1 / 9, 0.01
    scale = d.std(ddof=1) * math.sqrt(1 / 4 + rho)

    def density(x):  # Student's t with three degrees of freedom
        return (1 + ((x - d.mean()) / scale) ** 2 / 3) ** -2 * 2 / (math.pi * math.sqrt(3)) / scale

    expected = [quad(density, *ends)[0] for ends in ((-np.inf, -rope), (-rope, rope), (rope, np.inf))]
    found = correlated_t(d, rho=rho, rope=rope)
    assert found == pytest.approx(expected, abs=1e-7)
    assert sum(found) == pytest.approx(1.0)


def test_the_correlated_t_agrees_with_the_test_where_nothing_is_equivalent():
    d = np.array([0.3, 0.5, -0.1, 0.6])
    lower, same, higher = correlated_t(d, rho=0.0, rope=0.0)
    assert same == pytest.approx(0.0)
    assert 2 * lower == pytest.approx(stats.ttest_1samp(d, 0.0).pvalue)
    assert lower + higher == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("value", "expected"), [(0.0, (0, 1, 0)), (0.01, (0, 1, 0)), (0.02, (0, 0, 1)), (-1, (1, 0, 0))]
)
def test_the_same_difference_everywhere_is_certain(value, expected):
    assert correlated_t([value] * 3, rho=0.1, rope=0.01) == expected
    assert correlated_t([value], rho=0.1, rope=0.01) is None


def test_wins_by_hand():
    found = win_rates({"a": [0.1, 0.2], "b": [0.3, 0.3], "c": [0.1, 0.4], "d": [0.5, 0.4]}, ["x", "y"], metric="nll")
    assert found.share == ((0.5, 0.625), (0.375, 0.5))
    assert found.families == 4
    assert win_rates({}, ["x", "y"], metric="nll") is None
    one = win_rates({"a": [0.1, 0.2]}, ["x", "y"], metric="nll")
    assert (one.share[0][1], one.low) == (1.0, None)


def test_the_bootstrap_s_interval_is_that_of_the_binomial():
    """A share of wins of n families under resampling is binomial: its quantiles are known."""
    table = {str(number): [0.0, 1.0] if number < 14 else [1.0, 0.0] for number in range(20)}
    found = win_rates(table, ["x", "y"], metric="nll")
    expected = stats.binom.ppf([0.025, 0.975], 20, 0.7) / 20
    assert (found.low[0][1], found.high[0][1]) == pytest.approx(expected, abs=1e-12)
    assert (found.low[0][0], found.high[0][0]) == pytest.approx((0.5, 0.5))
    ranks = average_ranks(table, ["x", "y"], metric="nll")
    assert (ranks.low[0], ranks.high[0]) == pytest.approx((2 - expected[1], 2 - expected[0]), abs=1e-12)


def arena(make_cell, pairs):
    cells = [
        make_cell(method=method, index=index, nll=nll)
        for index, pair in enumerate(pairs)
        for method, nll in zip(("linear", "x-gpc"), pair, strict=True)
    ]
    (found,), _ = arenas_of(cells)
    return found


def test_difference_by_hand(make_cell):
    found = difference(arena(make_cell, [(0.5, 0.25), (0.5, 0.75), (1.0, 0.25), (0.5, 0.5)]), A, B, metric="nll")
    assert (found.splits, found.first, found.second, found.mean) == (4, 0.625, 0.4375, 0.1875)
    assert (found.lower, found.higher, found.rho) == (1, 2, pytest.approx(1 / 9))
    d = np.array([0.25, -0.25, 0.75, 0.0])
    half = stats.t.ppf(0.975, 3) * d.std(ddof=1) * math.sqrt(1 / 4 + 1 / 9)
    assert (found.low, found.high) == pytest.approx((0.1875 - half, 0.1875 + half))
    assert found.practical == correlated_t(d, rho=1 / 9, rope=0.01)


def test_splits_without_a_finite_number_are_in_no_pair(make_cell):
    found = difference(arena(make_cell, [(0.5, 0.25), (None, 0.75)]), A, B, metric="nll")
    assert (found.splits, found.mean, found.low) == (1, 0.25, None)
    assert difference(arena(make_cell, [(0.5, 0.25)]), A, B, metric="brier") is None


@pytest.mark.parametrize(("methods", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (10, 3.164)])
def test_critical_values_of_demsar(methods, q):
    """Table 5 (a) of Demšar (2006)."""
    sets = 14
    assert critical_difference(methods, sets) == pytest.approx(
        q * np.sqrt(methods * (methods + 1) / (6 * sets)), rel=4e-4
    )


def test_average_ranks_by_hand():
    found = average_ranks(
        {"a": [0.3, 0.1, 0.2], "b": [0.2, 0.1, 0.2], "c": [0.1, 0.3, 0.2]}, ["x", "y", "z"], metric="nll"
    )
    # ranks: 3 1 2; 2.5 1 2.5; 1 3 2
    assert found.labels == ("y", "x", "z")
    assert found.ranks == pytest.approx((5 / 3, 6.5 / 3, 6.5 / 3))
    expected = stats.friedmanchisquare([0.3, 0.2, 0.1], [0.1, 0.1, 0.3], [0.2, 0.2, 0.2])
    assert (found.statistic, found.p) == (expected.statistic, expected.pvalue)


def test_friedman_needs_three_methods_and_two_data_sets():
    two = average_ranks({"a": [1.0, 2.0], "b": [1.0, 2.0]}, ["x", "y"], metric="nll")
    assert (two.ranks, two.statistic, two.p) == ((1.0, 2.0), None, None)
    assert two.difference is not None
    one = average_ranks({"a": [1.0, 2.0, 3.0]}, ["x", "y", "z"], metric="nll")
    assert (one.ranks, one.p, one.difference, one.cliques()) == ((1.0, 2.0, 3.0), None, None, [])
    same = average_ranks({"a": [1.0] * 3, "b": [2.0] * 3}, ["x", "y", "z"], metric="nll")
    assert (same.ranks, same.p) == ((2.0, 2.0, 2.0), None)


def test_bars_join_what_does_not_differ():
    table = {str(number): [1.0, 2.0, 3.0, 4.0] for number in range(12)}
    found = average_ranks(table, list("wxyz"), metric="nll")
    assert found.difference == pytest.approx(2.569 * np.sqrt(20 / 72), rel=1e-3)  # 1.354
    assert found.cliques() == [(0, 1), (1, 2), (2, 3)]
    # With one data set fewer than three times as many, ranks two apart no longer differ.
    few = average_ranks(dict(list(table.items())[:5]), list("wxyz"), metric="nll")
    assert few.difference == pytest.approx(2.569 * np.sqrt(20 / 30), rel=1e-3)  # 2.098
    assert few.cliques() == [(0, 2), (1, 3)]


def test_wilcoxon_by_hand():
    # Three differences of one sign: 2 of the 8 sign patterns are as extreme.
    (found,) = signed_ranks({("x", "y"): [-0.1, -0.2, -0.3]})
    assert (found.families, found.first_better, found.second_better, found.p, found.p_holm) == (3, 3, 0, 0.25, 0.25)
    assert found.median == pytest.approx(-0.2)


@pytest.mark.parametrize("values", [[0.1], [0.0, 0.0]])
def test_no_test_without_differences(values):
    (found,) = signed_ranks({("x", "y"): values})
    assert (found.p, found.p_holm) == (None, None)


def test_pairs_that_never_met_are_left_out():
    assert signed_ranks({("x", "y"): []}) == []


def test_zeros_and_ties_give_a_p():
    (found,) = signed_ranks({("x", "y"): [0.0, 0.1, 0.1, -0.2, 0.3, 0.0]})
    assert 0.0 < found.p < 1.0


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_only_pairs_with_a_p_are_counted():
    found = signed_ranks({("a", "b"): [-0.1, -0.2, -0.3], ("a", "c"): [0.1], ("b", "c"): [0.3, 0.1, 0.2]})
    assert [each.p_holm for each in found] == [0.5, None, 0.5]
