import numpy as np
import pytest
from scipy import stats

from gpbench.report.compare.significance import average_ranks, critical_difference, holm, signed_ranks


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
    assert (found.datasets, found.first_better, found.second_better, found.p, found.p_holm) == (3, 3, 0, 0.25, 0.25)
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
