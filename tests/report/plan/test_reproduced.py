"""What stands in results/reproduced comes from the reference results: it is made again, and compared to the byte."""

import pytest
from click.testing import CliRunner

from gpbench.bench.plan.read import find_plan
from gpbench.bench.plan.run import described
from gpbench.bench.reference import read_reference, reference_file, reference_files
from gpbench.cli import main
from gpbench.config import checkout
from gpbench.report.files import PICTURES

ROOT = checkout()
pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(ROOT is None, reason="results/reproduced stands in a checkout alone"),
]
PLANS = [f"{path.parent.name}/{path.stem}" for path in reference_files()]


def test_there_are_reference_results():
    assert PLANS


@pytest.mark.parametrize("plan", PLANS)
def test_tables_numbers_and_texts_are_the_same_when_they_are_made_again(plan, tmp_path, monkeypatch):
    cells = read_reference(reference_file(plan))
    if stale := len(cells) - len(described(find_plan(plan), cells)):
        pytest.skip(f"{stale} of {len(cells)} reference cells are of earlier settings: run the plan again")
    monkeypatch.setenv("GPBENCH_RESULTS", str(tmp_path / "empty"))
    found = CliRunner().invoke(main, ["report", plan, "--output", str(tmp_path / "made")])
    assert found.exit_code == 0, found.output
    committed, made = ROOT / "results" / "reproduced" / plan, tmp_path / "made"
    names = sorted(path.name for path in made.iterdir())
    assert names == sorted(path.name for path in committed.iterdir())
    for name in names:
        if not name.endswith(PICTURES):  # of a picture the numbers beside it
            assert (made / name).read_bytes() == (committed / name).read_bytes(), f"{name}: `make results` makes it"
