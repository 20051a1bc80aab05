import math

import numpy as np
import pytest
from scipy import stats

from gpbench.report.compare.pairs import Contender, arenas_of
from gpbench.report.compare.significance import difference, overlap, paired_interval

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


def test_one_split_has_no_interval():
    assert paired_interval([0.1], rho=0.1) == (None, None, None)


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
    [("folds:10", 1 / 9), ("contiguous:5", 1 / 4), ("active:50/10", 1 / 9), ("holdout:0.2*5", 0.25)],
)
def test_overlap_follows_from_the_protocol(split, expected):
    assert overlap(split, []) == pytest.approx(expected)


def test_overlap_from_the_rows_that_were_counted(make_cell):
    counted = make_cell(protocol="given")
    assert overlap("given", [counted]) is None
    counted.provenance["data"] = {"rows": 400, "test_rows": 100}
    assert overlap("given", [counted]) == 0.25
    assert overlap("holdout:200*5", [counted]) == 0.5
    assert overlap("a protocol of tomorrow", [counted]) == 0.25


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


def test_splits_without_a_finite_number_are_in_no_pair(make_cell):
    found = difference(arena(make_cell, [(0.5, 0.25), (None, 0.75)]), A, B, metric="nll")
    assert (found.splits, found.mean, found.low) == (1, 0.25, None)
    assert difference(arena(make_cell, [(0.5, 0.25)]), A, B, metric="brier") is None
