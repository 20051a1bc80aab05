import pytest
from bench_fakes import FAKE, POINTS

from gpbench.bench.choices import choose, parse_assignments
from gpbench.bench.methods import method
from gpbench.errors import UsageError


def settings(choices):
    return {choice.method.id: choice.settings for choice in choices}


def test_assignments_are_split_at_the_first_equals_sign():
    assert parse_assignments(["rate = 0.5", "a=b=c", "empty="]) == {"rate": "0.5", "a": "b=c", "empty": ""}


@pytest.mark.parametrize("text", ["rate", "=3", " =3"])
def test_assignment_without_name_or_value(text):
    with pytest.raises(UsageError, match="--set expects name=value; got "):
        parse_assignments([text])


def test_assignment_given_twice():
    with pytest.raises(UsageError, match="--set gives rate twice: '1' and '2'"):
        parse_assignments(["rate=1", "rate=2"])


def test_a_flag_reaches_the_methods_that_have_the_setting():
    found = settings(choose([FAKE, POINTS], {"inducing": "8", "kernel": None}, assignments={"rate": "0.5"}))
    assert found["points"]["inducing"] == "8"
    assert "inducing" not in found["fake"]
    assert found["points"]["rate"] == found["fake"]["rate"] == 0.5
    assert found["fake"]["kernel"] == "se"


def test_a_flag_that_no_method_has_is_refused():
    with pytest.raises(UsageError, match="--batch-size applies to none of the methods fake, points"):
        choose([FAKE, POINTS], {"batch_size": "8"}, assignments={})


def test_an_unknown_assignment_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match=r"unknown setting \(of fake\) 'kernl'; did you mean kernel"):
        choose([FAKE], {}, assignments={"kernl": "se"})


def test_given_by_flag_and_assignment():
    with pytest.raises(UsageError, match="kernel is given twice: by --kernel and by --set kernel=linear"):
        choose([FAKE], {"kernel": "se"}, assignments={"kernel": "linear"})


def test_method_named_twice():
    with pytest.raises(UsageError, match="method fake is named twice"):
        choose([FAKE, FAKE], {}, assignments={})


def test_wrong_value():
    with pytest.raises(UsageError, match="method fake: setting rate must be a number"):
        choose([FAKE], {}, assignments={"rate": "x"})


def test_the_limit_on_iterations_is_told_to_schemes_that_plan_their_steps():
    assert settings(choose([FAKE], {}, assignments={}, iterations=7))["fake"]["max_iterations"] == 7
    told = choose([FAKE], {}, assignments={"max_iterations": "9"}, iterations=7)
    assert settings(told)["fake"]["max_iterations"] == 9


def test_likelihood_is_a_setting_and_no_link():
    chosen = settings(choose([FAKE], {"likelihood": "probit"}, assignments={}))
    assert chosen["fake"]["likelihood"] == "probit"
    with pytest.raises(UsageError, match="setting likelihood must be one of fake, probit; got 'cauchit'"):
        choose([FAKE], {"likelihood": "cauchit"}, assignments={})
    with pytest.raises(UsageError, match="likelihood is given twice: by --likelihood and by --set likelihood=fake"):
        choose([FAKE], {"likelihood": "probit"}, assignments={"likelihood": "fake"})
    with pytest.raises(
        UsageError, match=r"--likelihood applies to none of the methods klsp: .*; --set link=logit names"
    ):
        choose([method("klsp")], {"likelihood": "logit"}, assignments={})
