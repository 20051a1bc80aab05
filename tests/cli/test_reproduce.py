import csv
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from gpbench.bench import execution
from gpbench.bench import methods as methods_module
from gpbench.bench.plan import read as plan_read
from gpbench.bench.store import Store
from gpbench.cli import main

FAKES = Path(__file__).parents[1] / "bench"
PLAN = """
title = "Mine"
datasets = ["breast-cancer-wisconsin", "far.csv"]
split = "folds:3"
published = "numbers.csv"
[methods.fake]
label = "Fake"
steps = 4
[methods.points]
[sweep]
inducing = [4, 6]
[overrides."breast-cancer-wisconsin"]
label = "BCW"
[quick]
datasets = ["breast-cancer-wisconsin"]
sweep = { inducing = [4] }
"""
NUMBERS = "dataset,method,metric,value,spread\nBCW,Fake,nll,0.1,0.01\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty current folder with a plan, and no settings from outside; the methods `fake` and `points`."""
    monkeypatch.chdir(tmp_path)
    for name in ("GPBENCH_RESULTS", "GPBENCH_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GPBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.syspath_prepend(str(FAKES))
    import bench_fakes  # noqa: PLC0415

    entry = SimpleNamespace(name="fakes", value="bench_fakes:FAKE", load=lambda: [bench_fakes.FAKE, bench_fakes.POINTS])
    monkeypatch.setattr(methods_module, "entry_points", lambda **_: [entry])
    methods_module._registry.cache_clear()
    bench_fakes.CALLS.clear()
    started = execution.executor
    monkeypatch.setattr(
        execution, "executor", lambda jobs: bench_fakes.Serial() if jobs > 0 else started(jobs)
    )  # in this process, which counts them
    (tmp_path / "mine.toml").write_text(PLAN, encoding="utf-8")
    (tmp_path / "numbers.csv").write_text(NUMBERS, encoding="utf-8")
    (tmp_path / "far.csv").write_text(
        "a,b,target\n1,2,x\n3,?,y\n", encoding="utf-8"
    )  # cannot be read: a value is missing
    yield SimpleNamespace(path=tmp_path, calls=bench_fakes.CALLS)
    monkeypatch.undo()
    methods_module._registry.cache_clear()


def gpbench(*arguments):
    return CliRunner().invoke(main, [str(each) for each in arguments])


def rows(path):
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_a_plan_runs_goes_on_and_writes_its_table(place):
    done = gpbench("reproduce", "mine.toml")
    assert done.exit_code == 0, done.stderr
    assert "gpbench: far.csv: " in done.stderr  # the rest went on
    assert len(place.calls) == 3 + 2 * 3
    folder = place.path / "results" / "reproduced" / "mine"
    assert done.stdout.splitlines()[0] == "Mine"
    assert done.stdout.splitlines()[-5:] == [
        str(folder / name) for name in ("table.txt", "table.md", "table.tex", "table.csv", "provenance.json")
    ]
    table = rows(folder / "table.csv")
    assert {row["label"] for row in table} == {"Fake", "points, M = 4", "points, M = 6"}
    first = table[0]
    nll = [
        cell["metrics"]["nll"] for cell in Store(place.path / "results" / "runs").cells() if cell["method"] == "fake"
    ]
    assert float(first["centre"]) == pytest.approx(sum(nll) / 3)
    assert (first["printed"], first["verdict"], first["cut_short"]) == ("0.1", "cut short", "3")
    assert {row["why"] for row in table if row["dataset"] == "far.csv"} == {"no data"}
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    assert (provenance["cells"], list(provenance["missing"])) == (9, ["far.csv"])
    assert str(place.path) not in (folder / "table.txt").read_text(encoding="utf-8")
    text = (folder / "table.txt").read_text(encoding="utf-8")
    again = gpbench("reproduce", "mine.toml")
    assert (again.exit_code, len(place.calls)) == (0, 9)
    assert (folder / "table.txt").read_text(encoding="utf-8") == text
    assert gpbench("reproduce", "mine.toml", "--force", "--methods", "fake").exit_code == 0
    assert len(place.calls) == 12


def test_report_renders_from_the_store_alone(place):
    assert gpbench("reproduce", "mine.toml").exit_code == 0
    (place.path / "far.csv").unlink()
    (place.path / "far.csv").write_text("", encoding="utf-8")
    text = (place.path / "results" / "reproduced" / "mine" / "table.txt").read_text(encoding="utf-8")
    done = gpbench("report", "mine.toml")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.replace("not run", "no data").splitlines()[:9] == text.splitlines()[:9]
    assert len(place.calls) == 9
    assert gpbench("report", "mine.toml", "--format", "csv").stdout.startswith("dataset,dataset_label,")
    assert gpbench("report", "mine.toml", "--format", "html").stdout.startswith("<!doctype html>")
    assert gpbench("report", "mine.toml", "--output", "there").stdout.splitlines()[0] == "there/table.txt"
    assert gpbench("report", "mine.toml", "--quick").stdout.count("not run") > 0
    for flag in (["--quick"], ["--folds", 2], ["--max-seconds", 2]):
        done = gpbench("report", *flag)
        assert (done.exit_code, f"{flag[0]} is of a plan" in done.stderr) == (2, True)


def test_the_quick_form(place):
    done = gpbench("reproduce", "mine.toml", "--quick")
    assert (done.exit_code, done.stderr) == (0, "")
    assert len(place.calls) == 2 * 2
    assert all(len(X) <= 1000 for X, _, _ in place.calls)
    head = (place.path / "results" / "partial" / "mine" / "table.md").read_text(encoding="utf-8").splitlines()[1]
    assert head.startswith("> QUICK FORM, not for its numbers: at most 2 splits")
    assert not (place.path / "results" / "reproduced").exists()


def test_a_dry_run_runs_and_fetches_nothing(place):
    (place.path / "far.csv").write_text("a,b,same,target\n" + "1,2,5,x\n3,4,5,y\n" * 9, encoding="utf-8")
    done = gpbench("reproduce", "mine.toml", "--dry-run")
    assert done.exit_code == 0, done.stderr
    assert "far.csv  (18 rows, 2 inputs, binary, classes x, y)" in done.stdout
    assert "  points, M = 6: 3 cells of folds:3, about 3 s (estimate)" in done.stdout
    assert "18 cells, 0 of them stored; the others take about " in done.stdout
    assert place.calls == []
    assert not (place.path / "results").exists()
    (place.path / "mine.toml").write_text(PLAN.replace('"far.csv"', '"higgs"'), encoding="utf-8")
    done = gpbench("reproduce", "mine.toml", "--dry-run")
    assert "data not here: higgs; `gpbench fetch higgs` tries to bring them" in done.stdout
    gpbench("reproduce", "mine.toml", "--datasets", "breast-cancer-wisconsin", "--methods", "fake")
    assert "  Fake: 3 cells of folds:3, 3 stored\n" in gpbench("reproduce", "mine.toml", "--dry-run").stdout


@pytest.mark.parametrize(
    ("file", "table", "told"),
    [
        ("a,b,target\n" + "1,2,x\n3,4,y\n" * 9, "target = 'churn'", ["far.csv: ", "churn"]),
        ("a,b,target\n1,2,x\n3,?,y\n", "", ["far.csv: ", "missing"]),
        ("a,b,target\n" + "".join(f"1,{k},{k}.25\n" for k in range(30)), "", ["far.csv: ", "task"]),
        ("a,b,target\n" + "1,2,x\n3,4,y\n" * 4, "", ["points, M = 6: ", "5 training rows, 6 inducing points"]),
    ],
)
def test_a_dry_run_says_what_will_fail(place, file, table, told):
    (place.path / "far.csv").write_text(file, encoding="utf-8")
    (place.path / "mine.toml").write_text(PLAN + f"[files.'far.csv']\n{table}\n", encoding="utf-8")
    done = gpbench("reproduce", "mine.toml", "--dry-run")
    faults = [line for line in done.stdout.splitlines() if line.startswith("will fail: ")]
    assert (done.exit_code, len(faults)) == (2, 1)
    assert faults[0].startswith(f"will fail: {told[0]}")
    assert told[1] in faults[0]
    assert place.calls == []


def test_figures_are_written_as_pdf_too(place):
    curves = PLAN.replace('title = "Mine"', 'title = "Mine"\nrender = "curves"').replace(
        'published = "numbers.csv"\n', ""
    )
    (place.path / "mine.toml").write_text(curves, encoding="utf-8")
    done = gpbench("reproduce", "mine.toml", "--quick", "--figures", "pdf", "--figures", "svg")
    assert done.exit_code == 0, done.stderr
    folder = place.path / "results" / "partial" / "mine"
    starts = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}
    for ending, start in starts.items():
        assert (folder / f"curves.{ending}").read_bytes().startswith(start)
    done = gpbench("report", "mine.toml", "--quick", "--format", "latex", "--output", "there")
    assert done.stdout.splitlines() == [
        f"there/{name}" for name in ("curves.png", "curves.pdf", "curves.csv", "provenance.json")
    ]
    done = gpbench("report", "--format", "latex", "--output", "paper", "-d", "breast-cancer-wisconsin")
    assert sorted(each.name for each in (place.path / "paper").iterdir()) == [
        *("curves.csv", "error.pdf", "error.png", "nll.pdf", "nll.png", "table.tex")
    ]


def test_a_dry_run_counts_no_more_splits_than_there_are(place):
    """A publisher's are not known before the data are open: one, or as many as the plan takes."""
    for planned, cells in (("", 1), ("splits = 4\n", 4)):
        text = 'title = "T"\ndatasets = ["german"]\nsplit = "given"\n' + planned + "[methods.linear]\n"
        (place.path / "given.toml").write_text(text, encoding="utf-8")
        assert f"linear: {cells} cells of given" in gpbench("reproduce", "given.toml", "--dry-run").stdout
        done = gpbench("reproduce", "given.toml", "--dry-run", "--folds", 1000)
        if planned:
            assert (done.exit_code, "--folds must be at most 4" in done.stderr) == (2, True)
        else:
            assert "linear: 1 cells of given" in done.stdout


def test_parts_of_a_plan_do_not_take_the_place_of_the_whole(place):
    done = gpbench("reproduce", "mine.toml", "--datasets", "breast-cancer-wisconsin", "--folds", 1, "--max-seconds", 9)
    assert (done.exit_code, len(place.calls)) == (0, 3)
    text = (place.path / "results" / "partial" / "mine" / "table.txt").read_text(encoding="utf-8")
    assert "Only the first 1 splits of each data set." in text
    assert "Training ends after 9 s at the latest." in text
    done = gpbench("report", "mine.toml", "--dataset", "breast-cancer-wisconsin", "--folds", 1, "--max-seconds", 9)
    assert done.stdout.splitlines()[:20] == text.splitlines()[:20]
    done = gpbench("report", "mine.toml", "--dataset", "breast-cancer-wisconsin", "--folds", 3)
    assert "not run" in done.stdout
    assert "Only the first" not in done.stdout
    done = gpbench("reproduce", "mine.toml", "--output", "here", "--methods", "fake", "--quick")
    assert done.stdout.splitlines()[-5] == "here/table.txt"


def test_no_data_at_all_gives_exit_code_3_and_failed_cells_4(place):
    done = gpbench("reproduce", "mine.toml", "--datasets", "far.csv")
    assert done.exit_code == 3
    assert "no data" in done.stdout
    (place.path / "mine.toml").write_text(PLAN.replace("steps = 4", 'trouble = "error"'), encoding="utf-8")
    done = gpbench("reproduce", "mine.toml")
    assert done.exit_code == 4
    assert "failed 3/3" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["min.toml"], "the plan min.toml cannot be read: No such file"),
        (["nobody/fig1"], "unknown plan 'nobody/fig1'"),
        (["mine.toml", "--datasets", "far"], "unknown data set of mine 'far'; did you mean far.csv?"),
        (["mine.toml", "--methods", "fak"], "unknown method of mine 'fak'; did you mean fake?"),
        (["mine.toml", "--folds", "0"], "--folds must be at least 1; got 0"),
        (["mine.toml", "--folds", "4"], "--folds must be at most 3, the splits of a data set of mine; got 4"),
        (["mine.toml", "--folds", "1000", "--dry-run"], "--folds must be at most 3, the splits of a data set of mine"),
        (["mine.toml", "--jobs", "0"], "jobs must be at least 1; got 0"),
        (["mine.toml", "--jobs", "0", "--dry-run"], "jobs must be at least 1; got 0"),
        (["mine.toml", "--threads", "0", "--dry-run"], "threads must be at least 1; got 0"),
        (["mine.toml", "--datasets", "", "--dry-run"], "expected names with commas between; got ''"),
        (["mine.toml", "--methods", "", "--dry-run"], "expected names with commas between; got ''"),
        (["mine.toml", "--methods", "fake,", "--dry-run"], "expected names with commas between; got 'fake,'"),
        (["mine.toml", "--jobs", "2", "--scheduler", "tcp://h:1"], "exclude one another"),
    ],
)
def test_wrong_usage_is_refused_before_anything_runs(place, arguments, message):
    done = gpbench("reproduce", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    assert place.calls == []


def test_figures_are_drawn_and_their_options_checked(place):
    (place.path / "mine.toml").write_text(
        PLAN.replace('published = "numbers.csv"', 'render = "curves"\nmetrics = ["accuracy", "bound"]')
        + '[figure]\npanels = "inducing"\n',
        encoding="utf-8",
    )
    done = gpbench("reproduce", "mine.toml", "--quick")
    assert done.exit_code == 0, done.stderr
    assert (place.path / "results" / "partial" / "mine" / "curves.png").read_bytes().startswith(b"\x89PNG")
    text = (place.path / "mine.toml").read_text(encoding="utf-8")
    (place.path / "mine.toml").write_text(text.replace("panels =", "panel ="), encoding="utf-8")
    done = gpbench("reproduce", "mine.toml")
    assert done.exit_code == 2
    assert "[figure]: unknown option of render = 'curves' 'panel'; did you mean panels?" in done.stderr


def test_processes_give_what_serial_gives(place):
    text = (
        PLAN.replace("[methods.points]\n", "")
        .replace("[sweep]\ninducing = [4, 6]\n", "")
        .replace("sweep = { inducing = [4] }\n", "")
        .replace("[methods.fake]", "[methods.linear]")
        .replace("steps = 4\n", "")
    )
    (place.path / "mine.toml").write_text(text, encoding="utf-8")
    found = []
    for options in (["--output", "one"], ["--output", "two", "--jobs", "2", "--force"]):
        assert gpbench("reproduce", "mine.toml", "--quick", *options).exit_code == 0
        found.append([row for row in rows(Path(options[1]) / "table.csv") if row["metric"] != "train_seconds"])
    assert found[0] == found[1]


def test_plans_that_ship_are_offered_by_name(place, monkeypatch):
    folder = place.path / "papers" / "mine2020"
    folder.mkdir(parents=True)
    (folder / "fig1.toml").write_text(PLAN.replace('published = "numbers.csv"\n', ""), encoding="utf-8")
    monkeypatch.setattr(plan_read, "PAPERS", place.path / "papers")
    done = gpbench("reproduce", "mine2020/fig1", "--quick")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("results/partial/mine2020/fig1/provenance.json")
    assert "mine2020/fig1          2        2" in gpbench("list", "plans").stdout
    assert (
        gpbench("report", "mine2020/fig2").stderr
        == "gpbench: unknown plan 'mine2020/fig2'; did you mean mine2020/fig1?\n"
    )


@pytest.mark.parametrize("flags", [[], ["--dry-run"]])
def test_printed_numbers_that_are_not_there_are_told_before_any_cell_runs(place, flags):
    (place.path / "numbers.csv").unlink()
    found = gpbench("reproduce", "mine.toml", *flags)
    assert found.exit_code == 2
    assert "numbers.csv cannot be read" in found.stderr
    assert place.calls == []
