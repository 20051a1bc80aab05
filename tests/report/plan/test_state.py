"""What has been run of every experiment is counted from plans and reference cells."""

import pytest

from gpbench.bench.plan.plan import DESCRIPTIVE
from gpbench.bench.plan.read import find_plan, shipped
from gpbench.config import checkout
from gpbench.report.plan.state import Experiment, experiments, write_state


@pytest.mark.parametrize(
    ("full", "cut", "failed", "state"),
    [
        (0, 0, 0, "missing"),
        (3, 0, 0, "partly missing"),
        (0, 1, 9, "failed in part"),
        (9, 1, 0, "cut short"),
        (10, 0, 0, "full"),
    ],
)
def test_a_state_follows_from_the_counts(full, cut, failed, state):
    one = Experiment("paper/item", expected=10, full=full, cut=cut, failed=failed)
    assert one.state == state
    assert one.missing == 10 - full - cut - failed


def test_no_plan_that_runs_something_is_left_out():
    runs = {name for name in shipped() if find_plan(name).render not in DESCRIPTIVE}
    assert {one.plan for one in experiments()} == runs


@pytest.mark.reference
@pytest.mark.skipif(checkout() is None, reason="results/reproduced stands in a checkout alone")
def test_the_committed_state_is_that_of_the_reference(tmp_path):
    write_state(tmp_path)
    for name in ("state.csv", "state.md"):
        committed = checkout() / "results" / "reproduced" / name
        assert committed.read_bytes() == (tmp_path / name).read_bytes(), f"{name}: `make results` makes it"
