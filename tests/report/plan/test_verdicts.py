import math

import pytest

from gpbench.report.plan.published import Printed
from gpbench.report.plan.verdicts import Verdict, judge, printed_error, tally


def printed(value, spread=None, metric="nll"):
    return Printed("D", "M", metric, value, spread, str(value))


@pytest.mark.parametrize(
    ("paper", "spread", "error"),
    [
        ("hensman2015", 0.2, 0.2 / (2 * math.sqrt(10))),
        ("wenzel2019", 0.2, 0.2 / math.sqrt(10)),
        ("villacampa2017", 0.2, 0.2),
        ("mine", 0.2, 0.2),
        ("wenzel2019", None, 0.0),
    ],
)
def test_standard_errors_as_the_papers_print_them(paper, spread, error):
    assert printed_error(paper, spread) == pytest.approx(error)


def test_the_bound_of_agreement_is_two_standard_errors_of_the_difference_and_a_rounding():
    # sqrt(0.03^2 + 0.04^2) = 0.05, so that 0.105 is the most
    for excess, word in ((0.1049, "agrees"), (0.1051, "worse"), (-0.1049, "agrees"), (-0.1051, "better")):
        found = judge(printed(0.5, 0.04), centre=0.5 + excess, error=0.03, paper="villacampa2017")
        assert found == Verdict(word), excess


def test_more_is_better_for_some():
    assert judge(printed(0.5, metric="accuracy"), centre=0.6, error=0.0, paper="x").word == "better"
    assert judge(printed(0.5, metric="accuracy"), centre=0.4, error=0.0, paper="x").word == "worse"
    assert judge(printed(0.5, metric="error"), centre=0.6, error=0.0, paper="x").word == "worse"


def test_large_is_a_median_above_one():
    assert judge(printed(None), centre=1.2, error=0.1, paper="hensman2015").word == "agrees"
    assert judge(printed(None), centre=0.9, error=0.1, paper="hensman2015").word == "better"


def test_what_is_not_compared():
    assert str(judge(printed(3.0, metric="train_seconds"), centre=1.0, error=0.1, paper="x")) == (
        "not comparable: another machine"
    )
    assert str(judge(printed(3.0), centre=3.0, error=0.1, paper="x", incomparable="a tenth of the rows")) == (
        "not comparable: a tenth of the rows"
    )
    assert judge(printed(3.0), centre=None, error=None, paper="x").why == "no number of ours"
    assert judge(None, centre=3.0, error=0.1, paper="x") == Verdict("")


def test_the_sum_of_verdicts():
    found = [Verdict("agrees")] * 2 + [Verdict("better"), Verdict("worse"), Verdict(""), Verdict("not comparable", "w")]
    assert tally(found) == (
        "Verdicts: of 4 comparable numbers 2 agree with what is printed, 1 are better and 1 worse (75 % agree or "
        "better); not comparable: w 1."
    )
    assert tally([Verdict("")]) == ""
