"""A reviewer's way: is the paper's table what comes out? From stored results at once, from scratch in a quick form."""

import csv
import json

import pytest

from gpbench.bench.plan.read import find_plan
from gpbench.bench.reference import reference_files

SHIPPED = [f"{path.parent.name}/{path.stem}" for path in reference_files()]


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("name", [each for each in SHIPPED if find_plan(each).render == "table"] or SHIPPED[:1])
def test_from_reference_results_nothing_is_run(shell, tmp_path, name):
    done = shell(f"gpbench report {name} --output there")
    assert "cells are reference results, which come with gpbench" in done.stderr
    written = [line.rpartition("/")[2] for line in done.stdout.splitlines()]
    (numbers,) = (each for each in written if each in {"table.csv", f"{name.rpartition('/')[2]}.csv"})
    with (tmp_path / "there" / numbers).open(encoding="utf-8") as file:
        assert len(list(csv.reader(file))) > 1
    provenance = json.loads((tmp_path / "there/provenance.json").read_text(encoding="utf-8"))
    assert provenance
    assert not list(tmp_path.glob("results/runs/*.json"))


@pytest.mark.slow
def test_from_scratch_in_a_quick_form(shell, tmp_path):
    """Wine and waveform of villacampa2017's second table need no download."""
    asked = "villacampa2017/table2 --datasets wine,waveform3 --quick"
    planned = shell(f"gpbench reproduce {asked} --dry-run").stdout
    assert "0 of them stored" in planned
    done = shell(f"gpbench reproduce {asked}")
    assert "QUICK FORM, not for its numbers" in done.stdout
    assert "printed" in done.stdout
    assert "verdict" in done.stdout
    with (tmp_path / "results/partial/villacampa2017/table2/table.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    judged = {row["verdict"] for row in rows if row["metric"] == "nll"}
    assert judged == {"not comparable"}  # a quick form decides nothing
    stored = set(tmp_path.glob("results/runs/*.json"))
    shell(f"gpbench reproduce {asked}")
    assert set(tmp_path.glob("results/runs/*.json")) == stored
