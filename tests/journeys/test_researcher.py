"""A researcher's way: a scheme of their own, beside others on five data sets, into a paper."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest

SETS = ("breast-cancer-wisconsin", "digits-3-5", "twonorm-gen:300", "ringnorm-gen:300", "gpdraw2-gen:300")
RIVALS = ("x-gpc", "svgpc", "hgb")


@pytest.mark.slow
def test_from_forty_lines_to_a_table_and_a_figure(shell, tmp_path):
    source = (Path(__file__).parent / "damped.py").read_text(encoding="utf-8")
    code = [line for line in source.splitlines() if line.strip() and not line.strip().startswith(('"""', "#"))]
    assert len(code) <= 40
    # what installing a package with an entry point leaves behind
    (tmp_path / "damped.py").write_text(source, encoding="utf-8")
    about = tmp_path / "damped-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: damped\nVersion: 0.1\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[gpbench.methods]\ndamped = damped:DAMPED\n", encoding="utf-8")

    assert "damping = 0.7" in shell("gpbench list methods damped").stdout
    assert ", 0 failed" in shell("gpbench check damped").stdout.splitlines()[-1]

    sets = " ".join(f"-d {name}" for name in SETS)
    names = " ".join(f"-m {name}" for name in ("damped", *RIVALS))
    ran = shell(f"gpbench run {names} {sets} --folds 2 --inducing 20 --max-iterations 60 --plot curves.pdf")
    assert all(name in ran.stdout for name in ("damped", *RIVALS))
    assert max(map(len, ran.stdout.splitlines())) <= 80
    assert (tmp_path / "curves.pdf").read_bytes().startswith(b"%PDF")
    cells = {path.name for path in (tmp_path / "results/runs").glob("*.json")}
    assert len(cells) == 2 * 5 * 4

    shell(f"gpbench report {names} {sets} --fresh --format latex --output paper")
    table = (tmp_path / "paper/table.tex").read_text(encoding="utf-8")
    assert table.count(r"\bfseries") == len(SETS)
    assert len(re.findall(r"& damped &", table)) == len(SETS)
    assert (tmp_path / "paper/nll.pdf").read_bytes().startswith(b"%PDF")
    with (tmp_path / "paper/curves.csv").open(encoding="utf-8") as file:
        drawn = list(csv.DictReader(file))
    assert {row["dataset"] for row in drawn} == set(SETS)

    found = json.loads(shell(f"gpbench compare damped {' '.join(RIVALS)} {sets} --fresh --json").stdout)
    (pair,) = (each for each in found["over_datasets"]["nll"] if (each["first"], each["second"]) == ("damped", "x-gpc"))
    assert pair["families"] == len(SETS)
    assert 0.0 < pair["p"] <= pair["p_holm"] <= 1.0
    assert {len(each["pairings"]) for each in found["meetings"]} == {6}

    # an edited scheme is another: it runs again, the others don't
    (tmp_path / "damped.py").write_text(source.replace("setting(0.7,", "setting(0.9,"), encoding="utf-8")
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    shell(f"gpbench run {names} -d {SETS[1]} --folds 2 --inducing 20 --max-iterations 60")
    more = {path.name for path in (tmp_path / "results/runs").glob("*.json")}
    assert cells < more
    assert len(more) == len(cells) + 2
