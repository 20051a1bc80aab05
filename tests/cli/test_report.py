import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from gpbench.bench import sources
from gpbench.bench.cell import CellSpec, Limits, SplitSpec
from gpbench.bench.result import Problem, Result
from gpbench.bench.store import Store
from gpbench.cli import main

#: Two test rows: right with 0.9, wrong with 0.6. Brier (0.1^2 + 0.6^2) / 2, ECE (|1 - 0.9| + |0 - 0.6|) / 2.
ARRAYS = {"test_probabilities": np.array([[0.9, 0.1], [0.4, 0.6]]), "y_test": np.array([0, 0])}


def result(*, dataset="german", method="x-gpc", index=0, nll=0.5, status="ok", cpu="Zen 4"):
    spec = CellSpec(
        method=method,
        version=1,
        settings={},
        limits=Limits(),
        dataset=dataset,
        checksum="c" * 64,
        split=SplitSpec(protocol="folds:10", index=index, count=10, seed=0),
        seed=0,
        likelihood="logit",
    )
    trace = {"seconds": [0.1, 1.0], "iteration": [1, 2], "nll": [0.7, nll], "error": [0.5, 0.25], "bound": [None, None]}
    return Result.of(
        spec,
        status=status,
        stopped_by="converged" if status == "ok" else None,
        metrics={"nll": nll, "error": 0.25, "train_seconds": 1.0},
        trace=trace,
        provenance={"cpu": cpu, "jobs": 1, "end": "2026-11-27T12:00:00+00:00"},
        problem=None if status == "ok" else Problem("NumericalError", "no", 1),
    )


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A results folder with x-gpc and linear on german and x-gpc on wine; the current folder is empty."""
    for cell in (
        result(index=0, nll=0.25),
        result(index=1, nll=0.75),
        result(method="linear", nll=0.5),
        result(dataset="wine", nll=0.125),
    ):
        Store(tmp_path / "results" / "runs").put(cell, ARRAYS)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("GPBENCH_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


def report(*args):
    return CliRunner().invoke(main, ["report", *map(str, args)])


def test_table_of_the_store(results):
    done = report()
    assert done.exit_code == 0
    assert done.stderr == ""
    rows = [line.split()[:5] for line in done.stdout.splitlines()[2:5]]
    assert rows == [
        ["german", "linear", "folds:10", "1", "0.5000"],
        ["german", "x-gpc", "folds:10", "2", "0.5000"],
        ["wine", "x-gpc", "folds:10", "1", "0.1250"],
    ]


def test_metrics_are_columns(results):
    done = report("--metrics", "brier, ece,nll", "--dataset", "wine")
    head, _, row, _, *notes = done.stdout.splitlines()
    assert head.split()[5:] == ["Brier", "ECE", "NLL"]
    assert row.split()[4:] == ["0.1850", "0.3500", "0.1250"]
    assert [note.split(":")[0] for note in notes] == ["Brier", "ECE", "NLL"]
    assert report("--metrics", "nll,brior").stderr == "gpbench: unknown metric 'brior'; did you mean brier or error?\n"


def test_csv_holds_every_metric_wherever_the_cells_come_from(results, tmp_path):
    store = results / "runs"
    (tmp_path / "printed.json").write_text(json.dumps({"cells": Store(store).cells(), "store": str(store)}))
    one = next(store.glob("*.json"))
    for place, rows in ((results, 3), (tmp_path / "printed.json", 3), (one, 1)):
        found = list(csv.DictReader(io.StringIO(report(place, "--format", "csv").stdout)))
        assert len(found) == rows
        assert all(float(row["brier_mean"]) == pytest.approx(0.185) for row in found)
        assert all(float(row["ece_mean"]) == pytest.approx(0.35) for row in found)


def test_cells_without_arrays_are_told_in_one_line(results):
    for path in (results / "runs").glob("*.npz"):
        path.unlink()
    assert report().stderr == ""
    done = report("--metrics", "brier")
    assert done.exit_code == 0
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("gpbench: 4 cells without Brier score and calibration error: ")


def test_filters(results):
    done = report("--dataset", "wine", "--format", "csv")
    assert [line.split(",")[:3:2] for line in done.stdout.splitlines()[1:]] == [["wine", "x-gpc"]]
    done = report("-m", "linear", "--format", "csv")
    assert [line.split(",")[:3:2] for line in done.stdout.splitlines()[1:]] == [["german", "linear"]]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["-d", "germn"], "no results: unknown data set 'germn'; did you mean german?"),
        (["-m", "xgpc"], "no results: unknown method 'xgpc'; did you mean x-gpc?"),
        (["--processor", "M4"], "no results of a processor 'M4'; there are: Zen 4"),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(results, flags, message):
    done = report(*flags)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"gpbench: {message}\n")


@pytest.mark.parametrize("make", [False, True])
def test_no_results(tmp_path, monkeypatch, make):
    monkeypatch.setenv("GPBENCH_RESULTS", str(tmp_path / "none"))
    if make:
        (tmp_path / "none" / "runs").mkdir(parents=True)
    done = report()
    assert done.exit_code == 1
    assert done.stderr == f"gpbench: there are no results in {tmp_path / 'none' / 'runs'}; `gpbench run` makes some\n"


def test_places_given(results, tmp_path):
    """A results folder, a store, a cell's file, and the JSON of a run; what comes twice counts once."""
    cells = Store(results / "runs").cells()
    printed = tmp_path / "printed.json"
    printed.write_text(json.dumps({"cells": cells, "summary": [], "store": "x"}), encoding="utf-8")
    expected = report().stdout
    for places in ([results], [results / "runs"], [printed], [results, printed], (results / "runs").glob("*.json")):
        assert report(*places).stdout == expected
    one = results / "runs" / f"{result(dataset='wine').key}.json"
    assert "german" not in report(one).stdout


def test_a_place_that_does_not_exist(results, tmp_path):
    done = report(tmp_path / "nowhere")
    assert (done.exit_code, done.stderr) == (2, f"gpbench: there is no results folder or file {tmp_path / 'nowhere'}\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\x00rubbish", "is no JSON: expected a stored cell"),
        (b"{}", "its format must be 2; got None"),
        (b"3", "holds no cells"),
        (b"[3]", "expected a result, a table of JSON; got 3"),
        (json.dumps(result().to_json() | {"format": 9}).encode(), "its format must be 2; got 9"),
        (json.dumps(result().to_json() | {"status": "lost"}).encode(), "status"),
        (json.dumps(result().to_json() | {"seed": 1}).encode(), "its content does not match its digest"),
        (b"[" * 100_000, "is no JSON"),
        (
            json.dumps({"cells": [result().to_json() | {"trace": {"seconds": [1]}}]}).encode(),
            "trace: expected the lists seconds",
        ),
    ],
)
def test_a_file_without_cells(tmp_path, content, message):
    (tmp_path / "a.json").write_bytes(content)
    done = report(tmp_path / "a.json")
    assert done.exit_code == 1
    assert message in done.stderr
    assert str(tmp_path / "a.json") in done.stderr


def test_damaged_cells_are_told_and_passed_over(results):
    (results / "runs" / ("0" * 20 + ".json")).write_text("{", encoding="utf-8")
    done = report("--format", "csv")
    assert done.exit_code == 0
    assert "is passed over: it is no JSON" in done.stderr
    assert len(done.stdout.splitlines()) == 4


def test_a_cell_of_the_store_that_no_report_can_use_is_passed_over(results):
    broken = result(dataset="glass").to_json() | {"metrics": {}}
    del broken["digest"]  # which would tell
    (results / "runs" / f"{broken['key']}.json").write_text(json.dumps(broken), encoding="utf-8")
    done = report("--format", "csv")
    assert done.exit_code == 0
    assert f"{broken['key']}.json is passed over: metrics lacks nll, error, train_seconds" in done.stderr
    assert "glass" not in done.stdout


@pytest.mark.parametrize(
    ("name", "start"),
    [("a.csv", "dataset,"), ("a.md", "| data set"), ("a.TEX", r"% \usepackage{booktabs"), ("a.txt", "data set")],
)
def test_the_ending_says_the_format(results, name, start):
    done = report("-d", "wine", "--output", name)
    assert (done.exit_code, done.stdout) == (0, f"{name}\n")
    with open(name, encoding="utf-8") as file:  # noqa: PTH123  # relative to the current folder, as the user sees it
        assert file.read().startswith(start)


def test_a_format_goes_before_the_ending(results, tmp_path):
    assert report("--output", tmp_path / "a.dat", "--format", "csv").exit_code == 0
    assert (tmp_path / "a.dat").read_text(encoding="utf-8").startswith("dataset,")


def test_an_ending_that_says_nothing(results, tmp_path):
    done = report("--output", tmp_path / "a.dat")
    assert done.exit_code == 2
    assert "expected .txt, .csv, .md, .tex, .html, .png, .pdf, .svg, a folder, or --format" in done.stderr
    assert not (tmp_path / "a.dat").exists()


def test_a_picture(results, tmp_path):
    assert report("--output", tmp_path / "new" / "a.png").exit_code == 0
    assert (tmp_path / "new" / "a.png").read_bytes().startswith(b"\x89PNG")
    done = report("--output", tmp_path / "b.png", "--format", "csv")
    assert done.exit_code == 2
    assert "--format csv is of tables and pages" in done.stderr


@pytest.mark.parametrize(
    "flags", [["--output", "a.html"], ["--output", "a.dat", "--format", "html"], ["--format", "html"]]
)
def test_a_page(results, flags):
    done = report(*flags, "-d", "wine")
    assert done.exit_code == 0
    name = flags[1] if "--output" in flags else None
    text = Path(name).read_text(encoding="utf-8") if name else done.stdout
    assert text.startswith("<!doctype html>")
    assert "wine" in text
    assert "german" not in text


def test_a_page_in_a_folder(results, tmp_path):
    assert report("--output", tmp_path / "out", "--format", "html").stdout == f"{tmp_path / 'out' / 'page.html'}\n"
    assert "is a picture" in report("--output", "a.png", "--format", "html").stderr


def test_a_folder_holds_table_and_pictures(results, tmp_path):
    done = report("--output", tmp_path / "out", "--format", "latex", "-d", "wine")
    assert done.exit_code == 0
    found = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert found == ["curves.csv", "error.pdf", "error.png", "nll.pdf", "nll.png", "table.tex"]
    written = ("table.tex", "nll.png", "nll.pdf", "error.png", "error.pdf", "curves.csv")
    assert done.stdout.splitlines() == [str(tmp_path / "out" / name) for name in written]


def test_different_processors(results, tmp_path):
    """The table says so; the pictures are not drawn, and choosing one processor helps."""
    Store(results / "runs").put(result(dataset="wine", index=1, cpu="Apple M4"))
    assert "No times are shown" in report().stdout
    done = report("--output", tmp_path / "out")
    assert done.exit_code == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["table.txt"]
    assert "nll.png is not drawn: times that share an axis need cells of one processor" in done.stderr
    assert report("--output", tmp_path / "a.svg").exit_code == 2
    assert report("--output", tmp_path / "a.svg", "--processor", "zen").exit_code == 0


def test_a_place_that_cannot_be_written(results, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = report("--output", tmp_path / "file" / "a.csv")
    assert done.exit_code == 1
    assert done.stderr == (
        f"gpbench: cannot write {tmp_path / 'file' / 'a.csv'}: a file stands where a folder is needed\n"
    )


def test_failed_cells_are_shown(results):
    Store(results / "runs").put(result(dataset="wine", index=1, status="failed"))
    done = report()
    assert "failed 1/2" in done.stdout
    assert "x-gpc on wine, folds:10: 1 of 2 cells failed: NumericalError: no" in done.stdout


def test_unknown_format_is_a_usage_error(results):
    assert report("--format", "word").exit_code == 2


@pytest.mark.parametrize(
    ("flags", "name", "start"),
    [
        ([], "t.csv", "dataset,"),
        ([], "t.md", "> Mine"),
        ([], "t.html", "<!doctype html>"),
        (["--format", "latex"], "t.out", "% Mine"),
    ],
)
def test_a_plan_in_a_file(results, flags, name, start):
    plan = Path("mine.toml")
    plan.write_text('title = "Mine"\ndatasets = ["wine"]\n[methods.linear]\n', encoding="utf-8")
    found = report(str(plan), "--output", name, *flags)
    assert (found.exit_code, found.stdout) == (0, f"{name}\n")
    assert Path(name).read_text(encoding="utf-8").startswith(start)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["wenzel2019/table1", "--metrics", "nll"], "--metrics is of runs; a plan says itself how it is shown"),
        (["wenzel2019/table1", "--spread", "sd"], "--spread is of runs"),
        (["--claims", "--folds", "2"], "--claims is of all claims and of the store; expected it without --folds"),
        (["--claims", "--processor", "Zen"], "expected it without --processor"),
        (["--quick"], "--quick is of a plan; expected PAPER/ITEM or PLAN.toml"),
        (["--fresh", "--with-reference"], "--with-reference is of the store; expected it without RUNS and --fresh"),
    ],
)
def test_an_option_that_would_play_no_part_is_refused(results, asked, message):
    found = report(*asked)
    assert found.exit_code == 2
    assert message in found.stderr


@pytest.mark.parametrize("name", ["p.pdf", "p.PNG", "p.svg"])
def test_a_table_is_no_picture(results, name):
    Path("mine.toml").write_text('title = "Mine"\ndatasets = ["wine"]\n[methods.linear]\n', encoding="utf-8")
    found = report("mine.toml", "--output", name)
    assert found.exit_code == 2
    expected = f"expects a folder, or a file that ends in .txt, .csv, .md, .tex, .html; got {name}"
    assert f"--output of mine, which is a table, {expected}" in found.stderr
    found = CliRunner().invoke(main, ["reproduce", "mine.toml", "--output", name])
    assert (found.exit_code, found.stderr) == (
        2, f"gpbench: --output of mine, which is a table, expects a folder; got {name}\n",
    )  # fmt: skip
    assert not Path(name).exists()


def test_a_plan_s_picture_is_made_of_what_is_stored_alone(tmp_path, monkeypatch):
    """Until a step of reproduce has computed what it needs, report says so and which command does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPBENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("GPBENCH_DATA", str(tmp_path / "data"))
    X = np.random.default_rng(0).normal(size=(40, 2))
    rows = [f"{a},{b},{int(a * b > 0)}" for a, b in X]
    Path("moons.csv").write_text("\n".join(["a,b,c", *rows]), encoding="utf-8")
    Path("mine.toml").write_text(
        'title = "Mine"\nrender = "panels"\ndatasets = ["moons.csv"]\nsplit = "folds:2"\n'
        "[methods.klsp]\nkernel = 'se'\n[sweep]\ninducing = [3]\n[quick]\nsplits = 1\niterations = 5\n",
        encoding="utf-8",
    )
    made = CliRunner().invoke(main, ["reproduce", "mine.toml", "--quick", "--output", "made"])
    assert made.exit_code == 0, made.stderr
    (grids,) = (tmp_path / "results" / "runs").glob("panels-*.npz")
    kept = grids.read_bytes()
    grids.unlink()
    for flags in (["--output", "again"], ["--format", "html"]):
        done = report("mine.toml", "--quick", *flags)
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr == (
            "gpbench: mine: the grids of its panels are not computed yet; "
            "`gpbench reproduce mine.toml --quick` computes them\n"
        )
    assert "`gpbench reproduce mine.toml --folds 1 --max-seconds 20.0 --quick`" in (
        report("mine.toml", "--quick", "--folds", 1, "--max-seconds", 20, "--output", "again").stderr
    )
    grids.write_bytes(kept)
    assert report("mine.toml", "--quick", "--output", "again").exit_code == 0
    assert Path("again", "mine.png").read_bytes() == Path("made", "mine.png").read_bytes()


def test_a_plan_s_cells_are_those_of_its_file_as_it_is(tmp_path, monkeypatch):
    """Another target or other rows make another data set, though the file's name is the same."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPBENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("GPBENCH_DATA", str(tmp_path / "data"))
    rows = [f"{a},{a % 3},{a % 2},{a % 5 % 2}" for a in range(30)]
    Path("t.csv").write_text("\n".join(["a,b,c,d", *rows]), encoding="utf-8")
    for target in ("c", "d", "e"):
        Path(f"{target}.toml").write_text(
            'title = "Mine"\ndatasets = ["t.csv"]\nsplit = "folds:2"\n[methods.linear]\n'
            f'[files."t.csv"]\ntarget = "{target}"\n',
            encoding="utf-8",
        )
    assert CliRunner().invoke(main, ["reproduce", "c.toml"]).exit_code == 0
    table = report("c.toml").stdout
    assert "not run" not in table
    ahead = CliRunner().invoke(main, ["reproduce", "d.toml", "--dry-run"]).stdout
    assert "2 cells, 0 of them stored" in ahead
    assert "not run" in report("d.toml").stdout
    CliRunner().invoke(main, ["reproduce", "d.toml"])
    assert "not run" not in report("d.toml").stdout
    assert report("c.toml").stdout == table
    assert "unknown column 'e'" in report("e.toml").stderr
    assert "2 cells, 0 of them stored" in CliRunner().invoke(main, ["reproduce", "e.toml", "--dry-run"]).stdout
    Path("t.csv").write_text("\n".join(["a,b,c,d", *rows[:-2]]), encoding="utf-8")
    sources._opened.clear()  # another process
    assert "not run" in report("c.toml").stdout


def test_the_claims_of_the_papers_by_the_stored_cells(results, tmp_path):
    done = report("--claims", "--format", "csv")
    assert done.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len({(row["paper"], row["claim"]) for row in rows}) == 33
    assert {row["verdict"] for row in rows} == {row["so"] for row in rows} == {"not measured"}
    assert report("--claims", "--output", tmp_path / "claims.csv").stdout == f"{tmp_path / 'claims.csv'}\n"
    assert (tmp_path / "claims.csv").read_text(encoding="utf-8") == done.stdout
    assert "not measured" in report("--claims").stdout
    (results / "runs" / "0.json").write_text("{")
    assert report("--claims").stderr == f"gpbench: {results / 'runs' / '0.json'} is passed over: it is no JSON\n"
    assert "expected no plan, runs, data sets or methods" in report("--claims", "-d", "wine").stderr
    assert "claims are written as text, csv, markdown, latex; got html" in report("--claims", "--format", "html").stderr
