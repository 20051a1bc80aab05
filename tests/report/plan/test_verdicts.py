import math

import pytest

from gpbench.bench.cell import Limits
from gpbench.report.groups import is_cut_short
from gpbench.report.plan.published import Printed
from gpbench.report.plan.verdicts import Evidence, Verdict, headline, judge, printed_error, tally


def printed(value, spread: float | None = 0.04, metric="nll", unit=0.01):
    return Printed("D", "M", metric, value, spread, str(value), unit)


def ours(centre, error: float | None = 0.03, **known):
    return Evidence(**{"centre": centre, "error": error, "finished": 10, "expected": 10, **known})


def word(one, evidence, paper="villacampa2017"):
    return judge(one, evidence, paper=paper).word


@pytest.mark.parametrize(
    ("paper", "spread", "error"),
    [
        ("hensman2015", 0.2, 0.2 / (2 * math.sqrt(10))),
        ("wenzel2019", 0.2, 0.2 / math.sqrt(10)),
        ("villacampa2017", 0.2, 0.2),
        ("mine", 0.2, 0.2),
        ("wenzel2019", None, None),
    ],
)
def test_standard_errors_as_the_papers_print_them(paper, spread, error):
    assert printed_error(paper, spread) == pytest.approx(error)


def test_the_tolerance_is_two_standard_errors_of_the_difference_and_half_a_unit():
    # sqrt(0.03^2 + 0.04^2) = 0.05, so that 0.105 is the most; a fifth of 0.6 is more than that
    for excess, expected in ((0.1049, "agrees"), (0.1051, "higher"), (-0.1049, "agrees"), (-0.1051, "lower")):
        assert judge(printed(0.6), ours(0.6 + excess), paper="villacampa2017") == Verdict(expected), excess
    # three digits: half a unit is 0.0005
    assert word(printed(0.6, unit=0.001), ours(0.7004)) == "agrees"
    assert word(printed(0.6, unit=0.001), ours(0.7006)) == "higher"


def test_the_edge_is_within_whatever_the_last_bits_say():
    assert word(printed(0.1, 0.0), ours(0.105, 0.0)) == "agrees"
    assert word(printed(0.3, 0.0), ours(0.295, 0.0)) == "agrees"


def test_a_tolerance_above_a_fifth_of_the_number_decides_nothing_within_and_all_outside():
    assert word(printed(0.5), ours(0.5)) == "undecided"  # 0.105 is more than 0.1
    assert word(printed(0.5), ours(0.61)) == "higher"
    assert word(printed(0.53), ours(0.53)) == "agrees"  # 0.106
    # small numbers: a tolerance of 0.01 is fine enough
    assert word(printed(0.01, 0.0), ours(0.005, 0.002)) == "agrees"  # 0.009
    assert word(printed(0.01, 0.0), ours(0.005, 0.003)) == "undecided"  # 0.011


def test_one_split_or_no_printed_spread_decides_nothing():
    assert word(printed(0.5), ours(0.9, None, finished=1, expected=1)) == "undecided"
    assert word(printed(0.5, None), ours(0.9)) == "undecided"


def test_large_is_reproduced_by_a_median_above_one_alone():
    assert word(printed(None, None), ours(1.2)) == "agrees"
    assert word(printed(None, None), ours(1.0)) == "lower"
    assert word(printed(None, None), ours(1.2, None)) == "undecided"


def test_lower_and_higher_are_of_the_number_whatever_is_better():
    assert word(printed(0.9, 0.0, metric="accuracy"), ours(0.99, 0.0)) == "higher"
    assert word(printed(0.9, 0.0, metric="accuracy"), ours(0.81, 0.0)) == "lower"


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ({"apart": "a tenth of the rows", "absent": "not run"}, "not comparable: a tenth of the rows"),
        ({"absent": "not run"}, "not run"),
        ({"absent": "no data"}, "not run: no data"),
        ({"finished": 7, "failed": 3, "cut": 2}, "failed: 3 of 10 splits"),
        ({"finished": 2, "in_order": True, "cut": 1}, "not comparable: 2 of 10 splits in file order"),
        ({"in_order": True}, "agrees"),
        ({"cut": 4}, "cut short: 4 of 10 splits"),
        ({"cut": None}, "agrees"),
        ({"centre": None, "error": None}, "not comparable: no finite number of ours"),
        ({"finished": 5}, "agrees: 5 of 10 splits"),
        ({"finished": 5, "centre": 0.9}, "higher: 5 of 10 splits"),
        ({"expected": 0}, "agrees"),
    ],
)
def test_each_branch_goes_before_those_below(known, told):
    assert str(judge(printed(0.6), ours(**{"centre": 0.6, **known}), paper="villacampa2017")) == told


def test_times_are_never_judged_and_nothing_printed_is_nothing_judged():
    assert judge(printed(3.0, metric="train_seconds"), ours(1.0), paper="x") == Verdict("", "another machine")
    assert judge(None, ours(3.0), paper="x") == Verdict("")


@pytest.mark.parametrize(
    ("outcome", "paper", "expected"),
    [
        ({"stopped_by": "converged", "limits": {"seconds": 600.0}}, {}, False),
        ({"stopped_by": "seconds", "limits": {"seconds": 600.0}}, {}, True),
        ({"stopped_by": "seconds", "limits": {"seconds": 600.0}}, {"seconds": 3600.0}, True),
        ({"stopped_by": "seconds", "limits": {"seconds": 3600.0}}, {"seconds": 3600.0}, False),
        ({"stopped_by": "iterations", "limits": {"iterations": 250}}, {"iterations": 250}, False),
        ({"stopped_by": "iterations", "limits": {"iterations": 100}}, {"iterations": 250}, True),
        (
            {"stopped_by": "iterations", "limits": {"iterations": 250}, "settings": {"max_iterations": 100}},
            {"iterations": 250},
            True,
        ),
        ({"stopped_by": "iterations", "settings": {"max_iterations": 1000}}, {}, True),
        ({"stopped_by": "schedule", "limits": {"seconds": 1.0}}, {}, False),
        ({"stopped_by": "failed-to-improve"}, {}, False),
        ({"stopped_by": "unknown", "limits": {"iterations": 10}}, {}, False),
    ],
)
def test_what_is_cut_short(make_cell, outcome, paper, expected):
    assert is_cut_short(make_cell(**outcome), Limits(**paper)) is expected


def test_the_headline_counts_lower_against_it_and_names_all_counts():
    found = [
        *[Verdict("agrees")] * 3, Verdict("lower"), Verdict("higher"), Verdict(""), Verdict("not comparable", "w"),
        Verdict("cut short", "1 of 2 splits"), Verdict("not run"), Verdict("failed", "1 of 2 splits"),
        Verdict("undecided"),
    ]  # fmt: skip
    assert headline(found).share == pytest.approx(3 / 5)
    assert tally(found) == (
        "Verdicts: 3 of 5 decided numbers agree with what is printed (60 %), 1 are lower and 1 higher; undecided 1, "
        "not comparable 1, cut short 1, not run 1, failed 1 (not comparable: w 1)."
    )
    assert tally([Verdict("")]) == ""


def test_more_than_a_fifth_undecided_is_said():
    assert "More than a fifth" not in tally([Verdict("agrees")] * 4 + [Verdict("undecided")])
    told = tally([Verdict("agrees")] * 3 + [Verdict("undecided")])
    assert told.endswith("More than a fifth is undecided: more splits decide.")
    assert headline([Verdict("undecided")]).share is None


def test_what_no_run_of_ours_decides_says_so():
    wide, narrow = printed(0.5, 0.06), printed(0.5, 0.04)
    assert judge(wide, ours(0.5, 0.0), paper="villacampa2017") == Verdict(
        "undecided", "the printed spread alone is too wide"
    )
    assert judge(narrow, ours(0.5, 0.04), paper="villacampa2017") == Verdict("undecided")
    assert word(wide, ours(0.7, 0.0)) == "higher"
    hopeless = Verdict("undecided", "the printed spread alone is too wide")
    told = tally([Verdict("agrees"), hopeless, hopeless, Verdict("undecided")])
    assert told.endswith(
        "undecided, 2 of them since the printed spread alone is too wide: more splits decide the other 1."
    )
    assert tally([Verdict("agrees"), hopeless]).endswith("1 of them since the printed spread alone is too wide.")


def test_blocks_in_file_order_that_are_all_run_leave_no_more_splits():
    all_run = judge(
        printed(0.5, 0.04), ours(0.5, 0.05, finished=10, expected=10, in_order=True), paper="villacampa2017"
    )
    assert all_run == Verdict("undecided", "all blocks in file order are run")
    assert tally([all_run]).endswith("undecided, 1 of them since all blocks in file order are run.")
    assert judge(printed(0.5, 0.04), ours(0.5, 0.05), paper="villacampa2017") == Verdict("undecided")
