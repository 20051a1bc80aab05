"""Results as data: one tidy table of all cells, and reference results beside the local store."""

import io
import json
from dataclasses import replace

import pandas as pd
import pytest
from click.testing import CliRunner

import gpbench
from gpbench.bench import choices, provenance, reference
from gpbench.bench.plan import cells as plan_cells
from gpbench.bench.result import Problem
from gpbench.bench.store import Store
from gpbench.cli import main
from gpbench.errors import StoreError
from gpbench.leases import Lease
from gpbench.report.plan import reference as addition

RUN = ["run", "-m", "linear", "-m", "svgpc", "-d", "ringnorm-gen:60", "--folds", "2", "--max-iterations", "3",
       "--inducing", "5"]  # fmt: skip
PLAN = """
title = "Mine"
datasets = ["ringnorm-gen:60"]
split = "folds:2"
limits = { iterations = 3 }
metrics = ["nll", "brier"]
[defaults]
inducing = 5
[methods.linear]
[methods.svgpc]
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder, and code that is committed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPBENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("GPBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(reference, "shipped", lambda name: tmp_path / "shipped" / name)
    code = {"gpbench": "0", "commit": "a" * 40, "dirty": False}
    for module in (provenance, addition):
        monkeypatch.setattr(module, "code", lambda: code)
    for module in (choices, plan_cells):
        monkeypatch.setattr(module, "changes", lambda: None)
    monkeypatch.setattr(reference, "is_of_changes", lambda _: False)  # workers see this checkout as it is
    monkeypatch.setattr(addition, "shipped", lambda: {"mine.toml": None})
    (tmp_path / "mine.toml").write_text(PLAN)
    return tmp_path


def call(*words, code=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


def test_every_cell_is_a_row(place):
    call(*RUN)
    table = pd.read_csv(io.StringIO(call("results").stdout))
    assert sorted(table["method"]) == ["linear", "linear", "svgpc", "svgpc"]
    assert {"key", "dataset", "nll", "error", "train_seconds", "brier", "split_index", "place"} <= set(table.columns)
    assert set(table["place"]) == {"store"}
    assert json.loads(table["settings"][0])
    (only,) = pd.read_csv(io.StringIO(call("results", "-m", "linear").stdout))["method"].unique()
    assert only == "linear"
    written = call("results", "--output", "all.parquet", "--traces")
    assert written.stdout == "all.parquet\n"
    frame = pd.read_parquet("all.parquet")
    assert frame["key"].tolist() == table["key"].tolist()
    assert len(frame["trace_nll"][0]) >= 1
    loaded = gpbench.load_results(place / "results")
    assert loaded["nll"].tolist() == frame["nll"].tolist()


def test_an_empty_store_is_an_empty_table_and_no_place_is_an_error(place):
    (heads,) = call("results").stdout.splitlines()
    assert {"key", "dataset", "method", "status", "place"} <= set(heads.split(","))
    assert gpbench.load_results().empty
    assert gpbench.load_results()["key"].tolist() == []
    assert "expects --output FILE" in call("results", "--format", "parquet", code=2).stderr
    (place / "broken" / "runs").mkdir(parents=True)
    (place / "shipped" / "reference" / "a").mkdir(parents=True)
    (place / "shipped" / "reference" / "a" / "b.parquet").write_bytes(b"none")
    with pytest.raises(StoreError, match="cannot be read as reference results"):
        gpbench.load_results()
    assert gpbench.load_results(fresh=True).empty


def test_reference_results_are_read_beside_the_store_and_said(place, monkeypatch):
    first = call("reproduce", "mine.toml", "--reference")
    file = place / "shipped" / "reference" / "mine.parquet"
    assert first.stdout.endswith(f"{file}\n")
    monkeypatch.setenv("GPBENCH_RESULTS", str(place / "other"))

    assert "4 cells, 4 of them stored" in call("reproduce", "mine.toml", "--dry-run").stdout
    assert "4 cells, 0 of them stored" in call("reproduce", "mine.toml", "--dry-run", "--fresh").stdout
    again = call("reproduce", "mine.toml")
    assert again.stderr == "gpbench: 4 cells are reference results and are not run; --fresh runs them\n"
    assert Store(place / "other" / "runs").results() == []
    table = (place / "results" / "reproduced" / "mine" / "table.csv").read_bytes()
    assert (place / "other" / "reproduced" / "mine" / "table.csv").read_bytes() == table

    words = "4 of 4 cells are reference results, which come with gpbench"
    assert call("report", "mine.toml").stderr == f"gpbench: {words}\n"
    assert "svgpc" in call("report", "-d", "ringnorm-gen:60").stdout
    bare = call("report", code=1).stderr
    assert "`gpbench run` makes some; --with-reference shows those that come with gpbench" in bare
    for command in (["report", "--with-reference"], ["results"], ["compare", "linear", "svgpc"]):
        assert "4 cells are reference results, which come with gpbench; --fresh does" in call(*command).stderr
        assert "are reference results" not in CliRunner().invoke(main, [*command, "--fresh"]).stderr
    assert set(gpbench.load_results()["place"]) == {"reference"}

    assert call("reproduce", "mine.toml", "--fresh").stderr == ""
    assert len(Store(place / "other" / "runs").results()) == 4
    assert call("report", "mine.toml").stderr == ""
    assert set(gpbench.load_results()["place"]) == {"store"}


def test_a_reference_result_stands_in_for_a_cell_that_the_store_has_not_finished(place, monkeypatch):
    call("reproduce", "mine.toml", "--reference")
    table = call("report", "mine.toml").stdout
    monkeypatch.setenv("GPBENCH_RESULTS", str(place / "other"))
    store, problem = Store(place / "other" / "runs"), Problem("ValueError", "deliberate")
    for cell, status in zip(Store(place / "results" / "runs").results(), ["failed", "interrupted"] * 2, strict=True):
        store.put(replace(cell, status=status, problem=problem))
    assert "4 cells, 4 of them stored" in call("reproduce", "mine.toml", "--dry-run").stdout
    found = call("report", "mine.toml")
    assert "4 of 4 cells are reference results" in found.stderr
    assert found.stdout == table
    assert call("reproduce", "mine.toml").stdout.startswith(table)
    assert "failed 2/2" in call("report", "mine.toml", "--fresh").stdout
    every = call("results")
    rows = pd.read_csv(io.StringIO(every.stdout))
    assert list(zip(rows["place"], rows["status"], strict=True)) == [("reference", "ok")] * 4
    assert "4 cells are reference results" in every.stderr
    methods = sorted(set(rows["method"]))
    assert "4 cells are reference results" in call("compare", *methods, "--with-reference").stderr

    file = place / "shipped" / "reference" / "mine.parquet"
    cells = [replace(cell, status="failed", problem=problem) for cell in reference.read_reference(file)]
    reference.write_reference(file, cells)
    assert call("report", "mine.toml").stderr == ""  # one that failed takes nothing's place


def test_versions_that_are_no_longer_current_are_named(place, monkeypatch):
    call("reproduce", "mine.toml", "--reference")
    file = place / "shipped" / "reference" / "mine.parquet"
    old = [cell for cell in reference.read_reference(file) if cell.method == "linear"]

    reference.write_reference(file, [replace(cell, version=99) for cell in old])
    monkeypatch.setenv("GPBENCH_RESULTS", str(place / "other"))
    found = call("report", "mine.toml").stderr
    assert "2 of 2 cells are reference results" in found
    assert "cells of versions that are no longer current: linear of version 99" in found
    now = gpbench.method("linear").version
    assert f"of earlier versions: linear (now version {now}): version 99" in call("report", "--with-reference").stderr
    call("reproduce", "mine.toml", "--reference")  # runs them, and they take the place of the old ones
    assert {cell.version for cell in reference.read_reference(file) if cell.method == "linear"} == {now}


def test_of_two_that_add_to_a_plan_at_once_none_loses_a_cell(place, monkeypatch):
    found, add = [], addition.add_to_reference
    monkeypatch.setattr(addition, "add_to_reference", lambda cells: (found.append(cells), add(cells))[1])
    call("reproduce", "mine.toml", "--reference")
    file = place / "shipped" / "reference" / "mine.parquet"
    file.unlink()
    one, other = (replace(found[0], results=found[0].results[part]) for part in (slice(2), slice(2, None)))
    waiting = [other]

    def read(path):
        cells = reference.read_reference(path)
        if waiting and (lease := Lease.take(path)) is not None:  # the other one need not wait
            lease.release()
            add(waiting.pop())
        return cells

    monkeypatch.setattr(addition, "read_reference", read)
    add(one)
    while waiting:
        add(waiting.pop())
    assert len(reference.read_reference(file)) == 4


def test_cells_of_settings_that_the_plan_no_longer_has_are_dropped(place):
    call("reproduce", "mine.toml", "--reference")
    (place / "mine.toml").write_text(PLAN.replace("inducing = 5", "inducing = 6"))
    call("reproduce", "mine.toml", "--reference")
    cells = reference.read_reference(place / "shipped" / "reference" / "mine.parquet")
    assert len(cells) == 4
    assert {cell.settings["inducing"] for cell in cells if cell.method == "svgpc"} == {"6"}
    call("reproduce", "mine.toml", "--reference", "--methods", "linear")  # a part takes nothing of the rest away
    assert len(reference.read_reference(place / "shipped" / "reference" / "mine.parquet")) == 4


def test_additions_that_say_nothing_of_a_commit_are_refused(place, monkeypatch):
    assert "not its quick form" in call("reproduce", "mine.toml", "--reference", "--quick", code=2).stderr
    (place / "yours.toml").write_text(PLAN)
    assert "expects a plan that comes with gpbench" in call("reproduce", "yours.toml", "--reference", code=2).stderr
    monkeypatch.setattr(addition, "code", lambda: {"dirty": True})
    assert "expects a checkout without changes" in call("reproduce", "mine.toml", "--reference", code=2).stderr
    monkeypatch.setattr(addition, "checkout", lambda: None)
    assert "is installed as a wheel" in call("reproduce", "mine.toml", "--reference", code=2).stderr
    assert not (place / "shipped").exists()
    assert not (place / "results").exists()


PICTURE = """
title = "Mine"
datasets = ["ringnorm-gen:60"]
split = "folds:2"
limits = { iterations = 3 }
render = "curves"
metrics = ["nll"]
[figure]
hyperparameters = true
[methods.svgpc]
inducing = 5
"""


def test_a_picture_that_is_made_of_posteriors_takes_all_its_cells_from_the_reference_or_none(place, monkeypatch):
    (place / "mine.toml").write_text(PICTURE)
    written = call("reproduce", "mine.toml", "--reference").stdout.splitlines()
    assert [line.rpartition("/")[2] for line in written[-2:]] == ["mine.parquet", "mine.npz"]
    monkeypatch.setenv("GPBENCH_RESULTS", str(place / "other"))
    call("report", "mine.toml", "--output", "out")
    assert "2 cells are reference results and are not run" in call("reproduce", "mine.toml").stderr
    again = place / "other" / "reproduced" / "mine"
    tables = [path.name for path in (place / "out").glob("hyper*")]
    assert tables
    assert all((place / "out" / name).read_bytes() == (again / name).read_bytes() for name in tables)
    # with one of the two in the store, the arrays of the reference are no longer theirs
    call("run", "-m", "svgpc", "-d", "ringnorm-gen:60", "--folds", "2", "--max-iterations", "3", "--inducing", "5")
    (first, _) = sorted((place / "other" / "runs").glob("*.json"))
    first.unlink()
    assert call("reproduce", "mine.toml").stderr == ""
    assert len(Store(place / "other" / "runs").results()) == 2


def test_reports_show_the_store_and_of_what_is_asked_for_and_not_there_the_reference(place, monkeypatch):
    call("reproduce", "mine.toml", "--reference")
    monkeypatch.setenv("GPBENCH_RESULTS", str(place / "other"))
    call("run", "-m", "linear", "-d", "ringnorm-gen:60", "--folds", "3")
    for words in ([], ["-d", "ringnorm-gen:60"], ["-m", "linear"]):
        own = call("report", *words)
        assert ("svgpc" in own.stdout, own.stderr) == (False, "")
    for words in (["-m", "svgpc"], ["--with-reference"], ["--methods", "linear,svgpc", "-d", "ringnorm-gen:60"]):
        both = call("report", *words)
        assert "svgpc" in both.stdout
        assert "cells are reference results" in both.stderr
    assert "no results of svgpc" in call("report", "-m", "svgpc", "--fresh", code=2).stderr


def test_a_plan_s_cells_bear_the_labels_of_its_table(place):
    (place / "mine.toml").write_text(PLAN.replace("[methods.svgpc]", '[methods.svgpc]\nlabel = "SVGPC, Adam"'))
    call("reproduce", "mine.toml")
    call("run", "-m", "linear", "-d", "wine", "--folds", "2")
    table = pd.read_csv(io.StringIO(call("results", "mine.toml").stdout))
    assert sorted(table["method_label"]) == ["SVGPC, Adam"] * 2 + ["linear"] * 2
    assert set(table["dataset_label"]) == {"ringnorm-gen:60"}
    assert {f"{key}.json" for key in table["key"]} <= {path.name for path in (place / "results" / "runs").iterdir()}
    call("results", "mine.toml", "--method", "linear", "--output", "some.parquet")
    assert pd.read_parquet("some.parquet")["method_label"].tolist() == ["linear"] * 2


def test_what_is_read_is_not_written_over(place):
    printed = call("run", "-m", "linear", "-d", "ringnorm-gen:60", "--folds", "2", "--json").stdout
    (place / "cells.txt").write_text(printed, encoding="utf-8")
    (place / "link.csv").symlink_to("cells.txt")
    cell = min((place / "results" / "runs").glob("*.json"))
    stored = cell.read_bytes()
    for words in (
        ["results", "mine.toml", "--output", "mine.toml"],
        ["results", "--output", cell],
        ["report", "cells.txt", "--output", "cells.txt"],
        ["report", "cells.txt", "--output", "link.csv"],
        ["report", "results", "--format", "csv", "--output", cell],
        ["report", "mine.toml", "--format", "csv", "--output", "mine.toml"],
        ["report", "--claims", "--format", "csv", "--output", cell],
    ):
        assert "--output expects another file than those that are read" in call(*words, code=2).stderr
    assert (place / "mine.toml").read_text() == PLAN
    assert (place / "cells.txt").read_text(encoding="utf-8") == printed
    assert cell.read_bytes() == stored
    for _ in range(2):  # what they wrote before is no input
        call("report", "results", "--output", "results/runs/table.csv")


def test_a_damaged_cell_of_a_plan_is_said_once(place):
    call("reproduce", "mine.toml")
    damaged = min((place / "results" / "runs").glob("*.json"))
    damaged.write_text("{", encoding="utf-8")
    said = call("results", "mine.toml")
    assert said.stderr.count(damaged.name) == 1
    table = pd.read_csv(io.StringIO(said.stdout))
    assert damaged.stem not in set(table["key"])
    assert set(table["place"]) == {"store"}


def test_either_spelling_of_what_is_chosen(place):
    expected = call("reproduce", "mine.toml", "--methods", "linear,svgpc", "--datasets", "ringnorm-gen:60", "--dry-run")
    again = call(
        "reproduce", "mine.toml", "-m", "linear", "--method", "svgpc", "--dataset", "ringnorm-gen:60", "--dry-run"
    )
    assert again.stdout == expected.stdout
