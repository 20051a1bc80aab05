"""gpbench fit and gpbench predict, as they are typed: a practitioner's way from a raw table to probabilities."""

import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import gpbench
import gpbench.bench.fitting
import gpbench.bench.trained
from gpbench.bench.sources import FileSource, opened
from gpbench.bench.trained import trained_of
from gpbench.cli import main
from gpbench.data.newrows import read_new_rows
from gpbench.data.options import FileOptions
from gpbench.data.splits import Protocol


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    monkeypatch.setenv("GPBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("GPBENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.chdir(tmp_path)

    def run(*args, code=0):
        result = CliRunner().invoke(main, [str(each) for each in args])
        assert result.exit_code == code, result.output + result.stderr
        return result

    return run


def customers(n=150, *, seed=0, gaps=True):
    """Numbers, a category, gaps, a column without use, and a target with names."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n).astype(float),
            "plan": rng.choice(["basic", "plus", "pro"], n),
            "usage": rng.gamma(2.0, 10.0, n),
            "id": 7,
            "churn": "",
        }
    )
    f = 0.1 * (frame.usage - 20) + 2 * (frame["plan"] == "pro") + rng.normal(size=n)
    frame["churn"] = np.where(f > 0.5, "left", "stays")
    if gaps:
        frame.loc[rng.choice(n, 9, replace=False), "age"] = np.nan
    return frame


FIT = ("-m", "x-gpc", "--target", "churn", "--impute", "median", "--set", "max_iterations=60", "--inducing", 10)


def test_the_way_from_a_table_to_probabilities(invoke, tmp_path):
    customers().to_csv("rows.csv", index=False)
    new = customers(20, seed=1)
    new.loc[3, "plan"] = "platinum"
    new.loc[4, "age"] = np.nan
    new = new[["plan", "id", "usage", "age"]].assign(remark="x")  # another order, no target, one column more
    new.to_csv("new.csv", index=False)
    said = invoke("fit", "rows.csv", *FIT, "--output", "churn.gpb")
    assert re.search(r"churn\.gpb: x-gpc on 150 rows of rows\.csv, 5 inputs, classes left, stays", said.stdout)
    result = invoke("predict", "churn.gpb", "new.csv", "--output", "p.csv")
    assert result.stdout == ""
    assert "unknown categories of column plan, coded as none of the known: 1" in result.stderr
    assert re.search(r"missing values of column age, filled as in training: \d", result.stderr)
    p = pd.read_csv("p.csv")
    assert list(p.columns) == ["line", "predicted", "p_left", "p_stays"]
    assert len(p) == 20
    assert (p.p_left + p.p_stays).to_numpy() == pytest.approx(1.0)
    assert (p.predicted == np.where(p.p_left > 0.5, "left", "stays")).all()
    invoke("predict", "churn.gpb", "new.csv", "--output", "p.parquet", "--latent")
    wide = pd.read_parquet("p.parquet")
    assert list(wide.columns) == [*p.columns, "latent_mean", "latent_variance"]
    assert wide.p_left.to_numpy() == pytest.approx(p.p_left.to_numpy(), abs=1e-15)
    assert ((wide.latent_mean > 0) == (wide.p_stays > 0.5)).all()
    printed = invoke("predict", "churn.gpb", "new.csv")
    assert printed.stdout.splitlines()[0] == "line,predicted,p_left,p_stays"
    assert (tmp_path / "p.csv").read_text() == printed.stdout


def test_a_model_predicts_what_the_estimator_and_the_stored_cell_predict(invoke, tmp_path):
    customers().to_csv("rows.csv", index=False)
    ran = json.loads(invoke("run", "-d", "rows.csv", "--folds", 3, "--seed", 5, *FIT, "--json").stdout)
    (cell,) = [each for each in ran["cells"] if each["split"]["index"] == 0]
    source = FileSource(
        (tmp_path / "rows.csv").resolve(), FileOptions(target="churn", impute="median"), tmp_path / "data"
    )
    split = Protocol.parse("folds:3").split(opened(source), 0, seed=5)
    with np.load(tmp_path / "results" / "runs" / f"{cell['key']}.npz") as arrays:
        stored = arrays["test_probabilities"]
    # the stored cell's model on raw rows
    raw = customers()
    raw.iloc[split.test].to_csv("test.csv", index=False)
    invoke("predict", cell["key"][:8], "test.csv", "--output", "cell.csv")
    columns = ["p_left", "p_stays"]
    assert pd.read_csv("cell.csv")[columns].to_numpy() == pytest.approx(stored, abs=1e-12)
    # a model that is fitted on the same rows
    raw.iloc[split.train].to_csv("train.csv", index=False)
    invoke("fit", "train.csv", *FIT, "--seed", 5)
    invoke("predict", "train.gpb", "test.csv", "--output", "model.csv")
    assert pd.read_csv("model.csv")[columns].to_numpy() == pytest.approx(stored, abs=1e-12)
    # the estimator, on the prepared rows, which are scaled already
    record = trained_of(tmp_path / "train.gpb").preparation
    X, X_test = (read_new_rows(name, record).X for name in ("train.csv", "test.csv"))
    y = raw.churn.iloc[split.train].to_numpy()
    estimator = gpbench.GPClassifier("x-gpc", random_state=5, scaling="none", max_iterations=60, inducing=10).fit(X, y)
    assert estimator.predict_proba(X_test) == pytest.approx(stored, abs=1e-12)


def test_a_category_is_known_whatever_rows_stand_beside_it(invoke):
    """``01`` among rows that all hold numbers there is what it is beside a row of text, and what it was in training."""
    rng = np.random.default_rng(0)
    c = np.array(["01", "02", "x", "z", "w", "v"])[np.arange(120) % 6]
    x = rng.normal(size=120)
    t = np.where(4 * np.isin(c, ["01", "x", "w"]) + x > 2, "yes", "no")
    pd.DataFrame({"c": c, "x": x, "t": t}).to_csv("k.csv", index=False)
    invoke("fit", "k.csv", "-m", "linear", "-o", "k.gpb")
    Path("numbers.csv").write_text("c,x\n01,0.1\n01,0.2\n01,0.3\n")
    Path("text.csv").write_text("c,x\n01,0.1\n01,0.2\n01,0.3\nx,0.1\n")
    numbers, text = (invoke("predict", "k.gpb", name) for name in ("numbers.csv", "text.csv"))
    assert "unknown" not in numbers.stderr
    assert numbers.stdout.splitlines() == text.stdout.splitlines()[:4]
    assert [line.split(",")[1] for line in numbers.stdout.splitlines()[1:]] == ["yes"] * 3


def test_words_for_missing_values_hold_for_new_rows_by_file_and_by_cell(invoke, tmp_path):
    """-999.0, as pandas writes it, is what --missing -999 said it was, in csv and in parquet, for models and cells."""
    frame = customers()
    frame.to_csv("blank.csv", index=False)
    frame.fillna({"age": -999.0}).to_csv("rows.csv", index=False)
    frame.fillna({"age": -999.0}).to_parquet("rows.parquet")
    flags = ("-m", "linear", "--target", "churn", "--impute", "median", "--missing", "-999")
    ran = invoke("run", "-d", "rows.csv", "--folds", 2, *flags, "--json")
    key = json.loads(ran.stdout)["cells"][0]["key"]
    for name in ("rows.csv", "rows.parquet"):
        invoke("fit", name, *flags, "-o", "m.gpb")
        for model in ("m.gpb", key):
            told = [invoke("predict", model, new).stdout for new in ("blank.csv", "rows.csv", "rows.parquet")]
            values = [line.partition(",")[2] for line in told[0].splitlines()]
            for text in told[1:]:
                assert [line.partition(",")[2] for line in text.splitlines()] == values


def test_new_rows_in_an_archive(invoke, tmp_path):
    """What fit takes, predict takes: ARCHIVE::MEMBER, which its message on an archive of several files names."""
    customers(gaps=False).to_csv("rows.csv", index=False)
    with zipfile.ZipFile("a.zip", "w") as archive:
        archive.write("rows.csv")
        archive.write("rows.csv", "other.csv")
    invoke("fit", "a.zip::rows.csv", "--target", "churn", "-m", "linear", "-o", "m.gpb")
    told = invoke("predict", "m.gpb", "a.zip", code=2).stderr
    assert "say which: a.zip::rows.csv, a.zip::other.csv" in told
    expected = invoke("predict", "m.gpb", "rows.csv").stdout
    assert invoke("predict", "m.gpb", "a.zip::rows.csv").stdout == expected
    assert "none.csv" in invoke("predict", "m.gpb", "a.zip::none.csv", code=1).stderr
    (tmp_path / "copy.csv").hardlink_to("a.zip")
    assert "another file" in invoke("predict", "m.gpb", "a.zip::rows.csv", "-o", "copy.csv", code=2).stderr


@pytest.mark.parametrize("method", ["pep", "linear", "hgb", "rff", "dirichlet-gpc", "sep-mgpc"])
def test_every_kind_of_posterior_is_read_again(invoke, method):
    customers(gaps=False).to_csv("rows.csv", index=False)
    few = ("--set", "max_iterations=5", "--inducing", 5) if method in {"dirichlet-gpc", "sep-mgpc"} else ()
    invoke("fit", "rows.csv", "-m", method, "--target", "churn", "-o", "m.gpb", *few)
    p = invoke("predict", "m.gpb", "rows.csv").stdout
    assert len(p.splitlines()) == 151


def test_counts_have_a_mean(invoke):
    frame = customers(gaps=False).assign(calls=np.random.default_rng(0).poisson(3, 150)).drop(columns="churn")
    frame.to_csv("rows.csv", index=False)
    few = ("--inducing", 5, "--set", "max_iterations=5", "-m", "gvi-gradient")
    invoke("fit", "rows.csv", "--target", "calls", "--task", "count", *few)
    lines = invoke("predict", "rows.gpb", "rows.csv", "--latent").stdout.splitlines()
    assert lines[0] == "line,mean,latent_mean,latent_variance"
    assert float(lines[1].split(",")[1]) > 0


def test_what_does_not_fit_is_named(invoke, tmp_path):
    customers(gaps=False).to_csv("rows.csv", index=False)
    invoke("fit", "rows.csv", "--target", "churn", "-m", "linear", "-o", "m.gpb")
    customers(20).drop(columns="usage").to_csv("short.csv", index=False)
    assert "usage not among" in invoke("predict", "m.gpb", "short.csv", code=1).stderr
    gap = customers(20, gaps=False)
    gap.loc[2, "usage"] = np.nan
    gap.to_csv("gap.csv", index=False)
    assert "column 'usage' has no value" in invoke("predict", "m.gpb", "gap.csv", code=1).stderr
    worse = customers(20, gaps=False).astype({"usage": object})
    worse.loc[2, "usage"] = "n/k"
    worse.to_csv("worse.csv", index=False)
    said = invoke("predict", "m.gpb", "worse.csv", code=1).stderr
    assert "worse.csv, line 4: column 'usage' must hold numbers; got 'n/k'; correct it, or leave the row out" in said
    assert "no latent functions" in invoke("predict", "m.gpb", "rows.csv", "--latent", code=2).stderr
    assert ".csv or .parquet" in invoke("predict", "m.gpb", "rows.csv", "-o", "p.txt", code=2).stderr
    assert "no folder" in invoke("fit", "rows.csv", "--target", "churn", "-o", "absent/m.gpb", code=2).stderr
    assert "no folder" in invoke("predict", "m.gpb", "rows.csv", "-o", "absent/p.csv", code=2).stderr
    assert not (tmp_path / "absent").exists()
    assert "; FILE takes a catalogue id" in invoke("fit", "absent.csv", code=3).stderr
    assert "there is none" in invoke("predict", "abcdef12", "rows.csv", code=2).stderr
    assert "a model's file, or the key" in invoke("predict", "absent.gpb", "rows.csv", code=2).stderr
    (tmp_path / "broken.gpb").write_bytes((tmp_path / "m.gpb").read_bytes()[:300])
    said = invoke("predict", "broken.gpb", "rows.csv", code=1).stderr
    assert said.startswith("gpbench: broken.gpb is no model that `gpbench fit` wrote, or one that is damaged")
    said = invoke("predict", "rows.csv", "gap.csv", code=1).stderr
    assert said.startswith("gpbench: rows.csv is no model that `gpbench fit` wrote; the model comes first")
    said = invoke("fit", "rows.csv", "--inducing", 500, code=2).stderr
    assert "150 training rows, 500 inducing points; --inducing 150 fits" in said


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--seed", -1), "the seed must be an integer >= 0; got -1"),
        (("--threads", 0), "the number of threads must be at least 1; got 0"),
        (("--max-seconds", "nan"), "the limit on seconds must be a positive number; got nan"),
    ],
)
def test_numbers_out_of_range_are_refused_before_a_file_is_read(invoke, option, said):
    Path("rows.csv").write_text("no table", encoding="utf-8")
    assert invoke("fit", "rows.csv", *option, code=2).stderr == f"gpbench: {said}\n"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kernel", ["se", "linear-ard"])
def test_predictions_that_are_not_finite_are_refused_and_nothing_is_written(invoke, tmp_path, kernel):
    frame = customers(gaps=False).drop(columns="plan")
    frame["usage"] /= 1e4  # 1e308 overflows when it is divided by its spread
    frame.to_csv("rows.csv", index=False)
    invoke("fit", "rows.csv", "--target", "churn", "--inducing", 5, "--kernel", kernel, "-o", "m.gpb", "--seed", 1,
           "--set", "max_iterations=20")  # fmt: skip
    frame.loc[[3, 5], "usage"] = 1e308
    frame.to_csv("wide.csv", index=False)
    for words in ((), ("--latent",), ("-o", "p.csv")):
        result = invoke("predict", "m.gpb", "wide.csv", *words, code=1)
        assert result.stdout == ""
        assert re.search(r"gpbench: the predictions must be finite; got \S.* for line 5 of the new rows", result.stderr)
    assert not (tmp_path / "p.csv").exists()


def test_a_file_that_is_read_is_not_written_over(invoke, tmp_path):
    customers(gaps=False).to_csv("rows.csv", index=False)
    Path("link.csv").symlink_to("rows.csv")
    Path("hard.csv").hardlink_to("rows.csv")
    table = Path("rows.csv").read_bytes()
    Path("table.gpb").write_bytes(table)
    fit = ("fit", "--target", "churn", "-m", "linear")
    for words in (
        ("rows.csv", "-o", "rows.csv"),
        ("rows.csv", "-o", tmp_path / "link.csv"),
        ("./link.csv", "-o", "rows.csv"),
        ("rows.csv", "-o", "hard.csv"),
        ("table.gpb", "--file-format", "csv"),  # the model's name by default
    ):
        assert "--output expects another file than those that are read" in invoke(*fit, *words, code=2).stderr
    invoke(*fit, "rows.csv", "-o", "m.csv")  # a name that can be a table's, too
    model = Path("m.csv").read_bytes()
    for words in (("m.csv", "rows.csv", "-o", "link.csv"), ("m.csv", "rows.csv", "-o", "m.csv")):
        assert "another file than those that are read" in invoke("predict", *words, code=2).stderr
    Path("rows.svg").write_bytes(table)
    run = ("run", "-m", "linear", "-d", "rows.svg", "--target", "churn", "--file-format", "csv", "--plot", "rows.svg")
    assert "--plot expects another file than those that are read" in invoke(*run, code=2).stderr
    assert Path("m.csv").read_bytes() == model
    for name in ("rows.csv", "link.csv", "hard.csv", "table.gpb", "rows.svg"):
        assert Path(name).read_bytes() == table
    invoke(*fit, "rows.csv", "-o", "m.csv")  # an older model is


def test_a_place_that_takes_no_model_is_told_before_training(invoke, tmp_path, monkeypatch):
    """And by the name that was given, not by that of a file beside it."""
    customers(gaps=False).to_csv("rows.csv", index=False)
    (tmp_path / "rows.gpb").mkdir()
    before = sorted(each.name for each in tmp_path.iterdir())
    monkeypatch.setattr(gpbench.bench.fitting, "fit_rows", None)  # is not come to
    monkeypatch.setattr(gpbench.bench.trained, "fit_rows", None)
    fit = ("fit", "rows.csv", "--target", "churn", "-m", "linear")
    told = invoke(*fit, code=2).stderr
    assert "--output expects the name of a file for the model; rows.gpb is a folder" in told
    assert "/dev/null is no plain file" in invoke(*fit, "-o", "/dev/null", code=2).stderr
    for place in (f"{'x' * 300}.gpb", "/proc/m.gpb"):
        told = invoke(*fit, "-o", place, code=1).stderr
        assert f"gpbench: cannot write {place}: " in told
        assert "unfinished" not in told
    assert sorted(each.name for each in tmp_path.iterdir()) == before


def changed(source, target, **changes):
    """A model's file with another JSON part."""
    with np.load(source, allow_pickle=False) as found:
        arrays = dict(found)
    arrays["model"] = np.array(json.dumps(json.loads(str(arrays["model"])) | changes))
    with Path(target).open("wb") as file:
        np.savez(file, **arrays)


def test_models_of_other_versions_are_read_or_refused_by_name(invoke):
    customers(gaps=False).to_csv("rows.csv", index=False)
    invoke("fit", "rows.csv", "--target", "churn", "-m", "linear", "-o", "m.gpb")
    changed("m.gpb", "older.gpb", version=0, gpbench="0.0.1")
    told = invoke("predict", "older.gpb", "rows.csv")
    assert "trained by version 0 of linear (gpbench 0.0.1)" in told.stderr
    assert told.stdout == invoke("predict", "m.gpb", "rows.csv").stdout
    changed("m.gpb", "newer.gpb", format=99, gpbench="7.0")
    assert "format 99, written by gpbench 7.0" in invoke("predict", "newer.gpb", "rows.csv", code=1).stderr


def test_the_file_holds_no_pickles_and_what_it_says(invoke):
    customers().to_csv("rows.csv", index=False)
    invoke("fit", "rows.csv", *FIT, "--seed", 3)
    with np.load("rows.gpb", allow_pickle=False) as found:
        about, record = json.loads(str(found["model"])), json.loads(str(found["preparation"]))
        assert not any(found[name].dtype.hasobject for name in found.files)
    assert (about["format"], about["method"], about["seed"], about["gpbench"]) == (1, "x-gpc", 3, gpbench.__version__)
    assert about["settings"]["inducing"] == "10"
    assert record["classes"] == ["left", "stays"]
