import json

import numpy as np
import pytest
from click.testing import CliRunner

from gpbench.bench import reference
from gpbench.bench.cell import CellSpec, Limits, SplitSpec
from gpbench.bench.methods import method as known_method
from gpbench.bench.reference import write_reference
from gpbench.bench.result import Problem, Result
from gpbench.bench.store import Store
from gpbench.cli import main
from gpbench.config import load_config

#: Brier 0.185, ECE 0.35.
ARRAYS = {"test_probabilities": np.array([[0.9, 0.1], [0.4, 0.6]]), "y_test": np.array([0, 0])}


def result(
    method,
    dataset="german",
    index=0,
    *,
    nll=0.5,
    seconds=1.0,
    status="ok",
    cpu="Zen 4",
    protocol="folds:10",
    settings=None,
    limits=None,
):
    spec = CellSpec(
        method=method,
        version=1,
        settings=settings or {},
        limits=Limits(**(limits or {})),
        dataset=dataset,
        checksum="c" * 64,
        split=SplitSpec(protocol=protocol, index=index, count=10, seed=0),
        seed=0,
        likelihood="logit",
    )
    done = status == "ok"
    trace = {"seconds": [seconds], "iteration": [1], "nll": [nll], "error": [nll / 2], "bound": [None]}
    return Result.of(
        spec,
        status=status,
        stopped_by="converged" if done else None,
        metrics={"nll": nll if done else None, "error": nll / 2 if done else None, "train_seconds": seconds},
        trace=trace if done else {name: [] for name in trace},
        provenance={"cpu": cpu, "jobs": 1, "end": "2026-11-27T12:00:00+00:00"},
        problem=None if done else Problem("NumericalError", "no", 1),
    )


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Puts results into the store that the environment names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPBENCH_RESULTS", str(tmp_path / "results"))
    store = Store(tmp_path / "results" / "runs")

    def put(*cells):
        for cell in cells:
            store.put(cell, ARRAYS if cell.finished else None)

    return put


@pytest.fixture
def three(put):
    """Three methods on two data sets and two splits each."""
    nlls = {"x-gpc": (0.25, 0.5), "svgpc": (0.5, 0.5), "linear": (0.75, 1.0)}
    put(
        *(
            result(method, dataset, index, nll=nll + 0.125 * (dataset == "wine"), seconds=seconds)
            for dataset in ("german", "wine")
            for seconds, (method, pair) in enumerate(nlls.items(), start=1)
            for index, nll in enumerate(pair)
        )
    )


def compare(*args):
    return CliRunner().invoke(main, ["compare", *map(str, args)])


def test_json_holds_everything(three):
    done = compare("x-gpc", "svgpc", "linear", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert [each["label"] for each in found["contenders"]] == ["x-gpc", "svgpc", "linear"]
    german, wine = found["meetings"]
    assert (german["dataset"], german["split"], german["splits"], wine["dataset"]) == ("german", "folds:10", 2, "wine")
    assert german["means"]["nll"] == {"x-gpc": 0.375, "svgpc": 0.5, "linear": 0.875}
    assert german["means"]["brier"]["x-gpc"] == pytest.approx(0.185)
    first = german["pairings"][0]
    assert (first["first"], first["second"], first["differences"]["nll"]["mean"]) == ("x-gpc", "svgpc", -0.125)
    assert [(each["label"], each["reached"], each["median"]) for each in german["attainment"]] == [
        ("x-gpc", 2, 1.0), ("svgpc", 1, None), ("linear", 0, None),
    ]  # fmt: skip
    assert found["ranks"]["nll"]["labels"] == ["x-gpc", "svgpc", "linear"]
    assert found["ranks"]["nll"]["ranks"] == [1.0, 2.0, 3.0]
    assert [each["p"] for each in found["over_datasets"]["nll"]] == [0.5, 0.5, 0.5]
    shares = {each["label"]: each["share"][-1] for each in found["profiles"]["curves"]}
    assert shares == {"x-gpc": 1.0, "svgpc": 0.5, "linear": 0.0}


def test_tables_for_people(three):
    done = compare("x-gpc", "svgpc")
    assert done.exit_code == 0
    heads = [
        "Scores on the splits", "Time to 1.02 times the best NLL", "Paired differences", "How large", "Pairs over",
        "Average ranks over", "Share of data sets",
    ]  # fmt: skip
    assert [any(line.startswith(head) for line in done.stdout.splitlines()) for head in heads] == [True] * 7
    assert "german    folds:10  x-gpc   2       0.3750 *" in done.stdout
    assert "x-gpc - svgpc  2       -0.1250 [" in done.stdout


def test_one_variant_of_a_method_is_chosen(put):
    for inducing, better in ((20, 0.0), (50, 0.125), (100, 0.25)):
        settings = {"inducing": str(inducing), "rate": 0.1}
        put(*(result("x-gpc", index=index, nll=0.5 - better, settings=settings) for index in range(2)))
    put(*(result("svgpc", index=index, nll=0.5) for index in range(2)))
    done = compare("x-gpc:inducing=20", "x-gpc:inducing=100,rate=0.10", "--json")
    labels = [each["label"] for each in json.loads(done.stdout)["contenders"]]
    assert labels == ["x-gpc (inducing=20)", "x-gpc (inducing=100)"]
    done = compare("svgpc", "x-gpc:inducing=100", "--json")
    assert [each["label"] for each in json.loads(done.stdout)["contenders"]] == ["svgpc", "x-gpc"]
    for words, message in (
        ("x-gpc:inducing=7", "no results of x-gpc with inducing=7; there are: 20, 50, 100"),
        ("x-gpc:inducin=20", "unknown setting (of x-gpc) 'inducin'"),
        ("x-gpc:20", "expected METHOD or METHOD:name=value,name=value; got 'x-gpc:20'"),
    ):
        done = compare(words, "svgpc")
        assert done.exit_code == 2
        assert message in done.stderr


def test_metrics_and_data_sets_are_chosen(three):
    done = compare("x-gpc", "svgpc", "--metrics", "error", "-d", "wine")
    assert "NLL" not in done.stdout.split("Time to")[0]
    assert "german" not in done.stdout
    assert (
        compare("x-gpc", "svgpc", "--metrics", "eror").stderr == "gpbench: unknown metric 'eror'; did you mean error?\n"
    )


@pytest.mark.parametrize("form", ["markdown", "latex"])
def test_other_formats(three, form):
    done = compare("x-gpc", "svgpc", "--format", form)
    start = {"markdown": "## Scores", "latex": "% Scores"}[form]
    assert done.stdout.startswith(start)


def test_a_folder_holds_tables_numbers_and_pictures(three, tmp_path):
    done = compare("x-gpc", "svgpc", "linear", "--output", tmp_path / "out")
    assert done.exit_code == 0
    names = ["comparison.txt", "comparison.json", "ranks.png", "profiles.png"]
    assert done.stdout.splitlines() == [str(tmp_path / "out" / name) for name in names]
    assert json.loads((tmp_path / "out" / "comparison.json").read_text())["ranks"]
    for name in names[2:]:
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")


def test_nothing_pairs_up(put):
    put(result("x-gpc"), result("svgpc", "wine"))
    done = compare("x-gpc", "svgpc")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "gpbench: nothing pairs up: no two of these methods finished the same split of a data set. "
        "There is: x-gpc on german, folds:10, and svgpc on wine, folds:10\n"
    )


def test_one_method_and_unknown_ones(three):
    assert "two methods at the least; there are only x-gpc" in compare("x-gpc").stderr
    done = compare("x-gpc", "svgp")
    assert (done.exit_code, done.stderr) == (2, "gpbench: no results: unknown method 'svgp'; did you mean svgpc?\n")
    assert (
        "no results under split contiguous:5; there are: folds:10"
        in compare("x-gpc", "svgpc", "--split", "contiguous:5").stderr
    )
    assert compare().exit_code == 2


def test_no_results(put, tmp_path):
    done = compare("x-gpc", "svgpc")
    assert done.exit_code == 1
    assert "there are no results in" in done.stderr


def test_failed_cells_are_in_no_pair_and_are_told(put):
    put(result("x-gpc"), result("x-gpc", index=1, status="failed"), result("svgpc"), result("svgpc", index=1))
    done = compare("x-gpc", "svgpc", "--json")
    found = json.loads(done.stdout)
    assert found["meetings"][0]["splits"] == 1
    assert found["notes"] == ["x-gpc failed on 1 of the splits that it began of german, folds:10; they are in no pair."]


def test_times_of_two_processors_are_not_compared(put, tmp_path):
    put(result("x-gpc"), result("svgpc", cpu="Apple M4"))
    found = json.loads(compare("x-gpc", "svgpc", "--json").stdout)
    assert found["meetings"][0]["attainment"] == []
    assert found["meetings"][0]["pairings"][0]["differences"]["nll"]["mean"] == 0.0
    (note,) = found["notes"]
    assert "different processors (Apple M4; Zen 4)" in note
    done = compare("x-gpc", "svgpc", "--output", tmp_path / "out")
    assert done.exit_code == 0
    assert "profiles.png is not drawn" in done.stderr


def test_a_data_set_where_not_all_meet_is_left_out_of_ranks(three, put):
    put(result("x-gpc", "heart"), result("svgpc", "heart"))
    found = json.loads(compare("x-gpc", "svgpc", "linear", "--json").stdout)
    assert found["ranks"]["nll"]["datasets"] == ["german", "wine"]
    assert found["over_datasets"]["nll"][0]["families"] == 3
    assert found["notes"] == ["Average ranks and profiles leave out where not all methods meet: heart."]


def test_ranks_and_wins_are_left_out_where_all_meet_nowhere(put):
    put(result("x-gpc", "heart"), result("svgpc", "heart"), result("svgpc", "wine"), result("linear", "wine"))
    done = compare("x-gpc", "svgpc", "linear")
    assert done.exit_code == 0
    assert "Scores on the splits" in done.stdout
    assert "leave out where not all methods meet: heart, wine" in " ".join(done.stdout.split())
    assert "Average ranks over" not in done.stdout
    assert "Share of data sets" not in done.stdout


def test_one_protocol_is_chosen(put):
    put(
        *(
            result(method, protocol=protocol)
            for method in ("x-gpc", "svgpc")
            for protocol in ("folds:10", "contiguous:10")
        )
    )
    both = json.loads(compare("x-gpc", "svgpc", "--json").stdout)
    assert len(both["meetings"]) == 2
    assert both["ranks"]["nll"]["datasets"] == ["german"]
    one = json.loads(compare("x-gpc", "svgpc", "--json", "--split", "contiguous:10").stdout)
    assert [each["split"] for each in one["meetings"]] == ["contiguous:10"]


def test_the_time_to_the_goal_is_in_the_text_with_those_that_do_not_arrive(three):
    done = compare("x-gpc", "svgpc", "-d", "german")
    table = done.stdout.split("Time to 1.02 times the best NLL")[1].split("Paired")[0].splitlines()
    rows = [line.split() for line in table if line.startswith("german")]
    assert rows == [
        ["german", "folds:10", "x-gpc", "2", "0.3825", "1", "*", "1", "2/2"],
        ["german", "folds:10", "svgpc", "2", "0.3825", ">", "2", ">", "2", "1/2"],
    ]


def test_two_data_sets_of_one_family_are_one_observation(put):
    names = ("diabetes", "diabetis", "german", "german-numeric")
    put(
        *(
            result(method, name, index, nll=nll)
            for name in names
            for method, nll in (("x-gpc", 0.25), ("svgpc", 0.5))
            for index in range(2)
        )
    )
    found = json.loads(compare("x-gpc", "svgpc", "--json").stdout)
    assert found["over_datasets"]["nll"][0]["families"] == 2
    assert found["wins"]["nll"]["families"] == 2
    assert [note for note in found["notes"] if "family of" in note] == [
        "Over data sets the family of diabetes counts once, as diabetes, folds:10 (not diabetis, folds:10).",
        "Over data sets the family of german counts once, as german, folds:10 (not german-numeric, folds:10).",
    ]


def test_the_region_of_practical_equivalence_is_chosen(three):
    wide = json.loads(compare("x-gpc", "svgpc", "--rope", "0.5", "--json").stdout)
    assert wide["rope"] == 0.5
    narrow = json.loads(compare("x-gpc", "svgpc", "--json").stdout)
    same = [found["meetings"][0]["pairings"][0]["differences"]["nll"]["practical"][1] for found in (wide, narrow)]
    assert same[0] > 0.5 > same[1]
    assert "at least 0; got -1.0" in compare("x-gpc", "svgpc", "--rope", "-1").stderr


def test_more_is_better_where_it_is(put):
    """The AUC of the first is higher: it wins, and its rank is 1."""
    put(*(result("x-gpc", name) for name in ("german", "wine")))
    worse = {"test_probabilities": np.array([[0.4, 0.6], [0.6, 0.4], [0.7, 0.3]]), "y_test": np.array([0, 1, 1])}
    better = {**worse, "y_test": np.array([1, 0, 0])}
    store = Store(load_config().store)
    for method, arrays in (("x-gpc", better), ("svgpc", worse)):
        for name in ("german", "wine"):
            store.put(result(method, name), arrays)
    found = json.loads(compare("svgpc", "x-gpc", "--json").stdout)
    assert found["meetings"][0]["means"]["auc"] == {"svgpc": 0.0, "x-gpc": 1.0}
    assert found["ranks"]["auc"]["labels"] == ["x-gpc", "svgpc"]
    assert found["wins"]["auc"]["share"][0][1] == 0.0
    scores = compare("svgpc", "x-gpc", "--metrics", "auc").stdout.split("Time to")[0]
    assert [line.split()[-2:] for line in scores.splitlines() if " x-gpc " in line] == [["1.0000", "*"]] * 2


QUICK = {"seconds": 20.0, "iterations": 50, "train_rows": 1000, "test_rows": 1000}


def test_cells_of_quick_forms_are_left_out_where_there_are_others(put):
    pair = [("x-gpc", 0.25), ("svgpc", 0.5)]
    put(*(result(method, nll=nll, limits=QUICK) for method, nll in pair))
    alone = json.loads(compare("x-gpc", "svgpc", "--json").stdout)
    assert [each["label"] for each in alone["contenders"]] == ["x-gpc", "svgpc"]
    put(*(result(method, index=index, nll=2 * nll) for method, nll in pair for index in range(2)))
    done = compare("x-gpc", "svgpc", "--json")
    found = json.loads(done.stdout)
    assert [each["label"] for each in found["contenders"]] == ["x-gpc", "svgpc"]
    assert found["meetings"][0]["means"]["nll"] == {"x-gpc": 0.5, "svgpc": 1.0}
    assert done.stderr.startswith("gpbench: 2 cells of plans' quick forms are left out; ")
    report = CliRunner().invoke(main, ["report", "--format", "csv"])
    assert len(report.stdout.splitlines()) == 3
    assert "2 cells of plans' quick forms are left out" in report.stderr


def test_what_exists_and_has_no_results_is_not_called_unknown(three, tmp_path):
    (tmp_path / "customers.csv").write_text("a,b\n1,2\n")
    for words, message in (
        (["x-gpc", "klsp-sgd"], "no results of klsp-sgd"),
        (["x-gpc", "klsp-sgd", "-d", "german"], "no results of klsp-sgd on german"),
        (["x-gpc", "svgpc", "-d", "heart"], "no results on heart"),
        (["x-gpc", "svgpc", "-d", "customers.csv"], "no results on customers.csv"),
    ):
        done = compare(*words)
        assert (done.exit_code, done.stderr) == (2, f"gpbench: {message}\n")


def test_a_method_that_has_run_elsewhere_alone_is_told(put):
    put(result("x-gpc"), result("svgpc", "wine"))
    done = compare("x-gpc", "svgpc", "-d", "german")
    assert (done.exit_code, done.stderr) == (2, "gpbench: no results of svgpc on german\n")


@pytest.fixture
def shipped(put, tmp_path, monkeypatch):
    """Reference results of two methods: their defaults and three variants under one protocol, others under others."""
    monkeypatch.setattr(reference, "shipped", lambda name: tmp_path / "shipped" / name)
    cells = []
    for name, nll in (("x-gpc", 0.25), ("svgpc", 0.5)):
        default = dict(known_method(name).resolve({}))
        kinds = [("holdout:0.2*2", {}, 0.0), ("folds:5", {"kernel": "se"}, 0.125)]
        kinds += [("holdout:0.2*2", {"inducing": each}, 0.25) for each in ("25", "50", "200")]
        cells += [
            result(name, dataset, index, nll=nll + more, settings=default | other, protocol=protocol)
            for protocol, other, more in kinds
            for dataset in ("german", "wine")
            for index in range(2)
        ]
    write_reference(tmp_path / "shipped" / "reference" / "a" / "b.parquet", cells)


def test_of_reference_results_a_name_stands_for_the_defaults(shipped):
    done = compare("x-gpc", "svgpc", "--json")
    found = json.loads(done.stdout)
    assert [each["label"] for each in found["contenders"]] == ["x-gpc", "svgpc"]
    assert [(each["dataset"], each["split"]) for each in found["meetings"]] == [
        ("german", "holdout:0.2*2"), ("wine", "holdout:0.2*2"),
    ]  # fmt: skip
    assert found["meetings"][0]["means"]["nll"] == {"x-gpc": 0.25, "svgpc": 0.5}
    assert "the store has no results of x-gpc, svgpc" in done.stderr
    assert "8 cells are reference results" in done.stderr
    two = json.loads(compare("x-gpc:inducing=50", "svgpc", "--json").stdout)
    assert two["meetings"][0]["means"]["nll"] == {"x-gpc": 0.5, "svgpc": 0.5}
    assert "there are no results in" in compare("x-gpc", "svgpc", "--fresh").stderr


def test_the_store_s_own_cells_are_compared_where_it_has_them(shipped, put):
    put(*(result(method, index=index, settings={"inducing": "7"}) for method in ("x-gpc", "svgpc") for index in (0, 1)))
    done = compare("x-gpc", "svgpc", "--json")
    assert (done.stderr, [each["split"] for each in json.loads(done.stdout)["meetings"]]) == ("", ["folds:10"])
    more = compare("x-gpc", "svgpc", "--with-reference")
    assert "cells are reference results" in more.stderr


def test_a_method_of_one_s_own_meets_reference_results_on_its_splits(shipped, put):
    put(*(result("linear", "wine", index, protocol="folds:5") for index in range(2)))
    found = json.loads(compare("linear", "x-gpc", "--json").stdout)
    assert [(each["dataset"], each["split"]) for each in found["meetings"]] == [("wine", "folds:5")]
    assert found["meetings"][0]["means"]["nll"] == {"linear": 0.5, "x-gpc": 0.375}
