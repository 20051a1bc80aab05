import math
import random
import statistics as reference

import pytest

from gpbench.report.groups import group_cells, natural
from gpbench.report.tables.summary import statistics, summarise


def test_mean_and_sd_by_hand(make_cell):
    cells = [make_cell(index=i, nll=nll, error=0.1 * i, seconds=i + 1.0) for i, nll in enumerate([0.25, 0.5, 1.0])]
    (row,) = summarise(cells)
    assert row["cells"] == 3
    assert row["failed"] == 0
    assert row["nll"]["mean"] == pytest.approx(1.75 / 3, abs=1e-15)
    # deviations -1/3, -1/12, 5/12: squares 16/144 + 1/144 + 25/144 = 42/144, over two
    assert row["nll"]["sd"] == pytest.approx(math.sqrt(21 / 144), abs=1e-15)
    assert row["error"]["mean"] == pytest.approx(0.1, abs=1e-15)
    assert row["train_seconds"] == {"mean": 2.0, "sd": 1.0}


def test_order_of_cells_plays_no_part(make_cell):
    generator = random.Random(1)
    cells = [
        make_cell(dataset=dataset, method=method, index=i, nll=generator.random(), seconds=generator.random())
        for dataset in ("b", "a10", "a9")
        for method in ("x-gpc", "linear")
        for i in range(7)
    ]
    expected = summarise(cells)
    assert [(row["dataset"], row["method"]) for row in expected] == [
        (dataset, method) for dataset in ("a9", "a10", "b") for method in ("linear", "x-gpc")
    ]
    for _ in range(5):
        generator.shuffle(cells)
        assert summarise(cells) == expected


@pytest.mark.parametrize("size", [2, 3, 10])
def test_statistics_against_the_standard_library(size):
    generator = random.Random(size)
    values = [generator.gauss(1e6, 1e-3) for _ in range(size)]
    found = statistics(values)
    assert found["mean"] == pytest.approx(reference.mean(values), rel=1e-15)
    assert found["sd"] == pytest.approx(reference.stdev(values), rel=1e-6)


def test_one_split_has_no_spread(make_cell):
    (row,) = summarise([make_cell(nll=0.4)])
    assert row["nll"] == {"mean": 0.4, "sd": None}


def test_failed_cells_are_counted_and_never_averaged(make_cell):
    cells = [
        make_cell(index=0, nll=0.4),
        make_cell(index=1, nll=0.6),
        make_cell(index=2, status="failed", seconds=99.0),
        make_cell(index=3, status="failed", seconds=99.0),
        make_cell(index=4, status="timeout", message="ended  from\noutside"),
    ]
    (row,) = summarise(cells)
    assert (row["cells"], row["failed"]) == (5, 3)
    assert row["outcomes"] == {"failed": 2, "ok": 2, "timeout": 1}
    assert row["problems"] == {"NumericalError: too bad": 2, "NumericalError: ended from outside": 1}
    assert row["nll"]["mean"] == 0.5
    assert row["train_seconds"]["mean"] == 1.0


def test_nothing_but_failures_leaves_no_numbers(make_cell):
    (row,) = summarise([make_cell(status="failed")])
    assert row["nll"] == row["error"] == row["train_seconds"] == {"mean": None, "sd": None}


def test_a_number_that_is_not_finite_is_not_left_out(make_cell):
    (row,) = summarise([make_cell(index=0, nll=0.5), make_cell(index=1, nll=None)])
    assert row["nll"] == {"mean": None, "sd": None}
    assert row["error"]["mean"] == 0.25


def test_protocols_are_not_mixed(make_cell):
    rows = summarise([make_cell(protocol="folds:10", nll=0.2), make_cell(protocol="folds:5", nll=0.4)])
    assert [(row["split"], row["nll"]["mean"], row["method_label"]) for row in rows] == [
        ("folds:5", 0.4, "x-gpc"),
        ("folds:10", 0.2, "x-gpc"),
    ]


def test_seeds_are_repetitions_of_the_protocol(make_cell):
    (row,) = summarise([make_cell(seed=1, nll=0.2), make_cell(seed=0, nll=0.4)])
    assert row["seeds"] == [0, 1]
    assert row["cells"] == 2


def test_settings_that_differ_make_rows_of_their_own(make_cell):
    settings = [{"inducing": "100", "rate": None}, {"inducing": "16", "rate": None}, {"inducing": "100", "rate": 0.1}]
    cells = [make_cell(settings=each, index=i) for each in settings for i in range(2)]
    assert [(row["method"], row["method_label"], row["cells"]) for row in summarise(cells)] == [
        ("x-gpc", "x-gpc (inducing=16, rate=none)", 2),
        ("x-gpc", "x-gpc (inducing=100, rate=0.1)", 2),
        ("x-gpc", "x-gpc (inducing=100, rate=none)", 2),
    ]


def test_a_label_means_the_same_on_every_data_set(make_cell):
    cells = [
        make_cell(dataset="a", settings={"inducing": "100"}),
        make_cell(dataset="b", settings={"inducing": "3%"}),
        make_cell(dataset="b", method="linear", settings={}),
    ]
    assert [row["method_label"] for row in summarise(cells)] == [
        "x-gpc (inducing=100)",
        "linear",
        "x-gpc (inducing=3%)",
    ]


def test_the_fewest_facts_tell_apart_and_the_others_are_details(make_cell):
    cells = [
        make_cell(limits={"seconds": 5.0}, settings={"ard": True}),
        make_cell(version=2, settings={}),
    ]
    assert [(row["method_label"], row["details"]) for row in summarise(cells)] == [
        ("x-gpc", ["ard=unset", "version=2"]),
        ("x-gpc (limits.seconds=5.0)", ["ard=true", "version=1"]),
    ]


def test_of_facts_that_tell_as_much_the_one_that_says_most_is_named(make_cell):
    settings = [{"batch_size": 10 * m, "inducing": f"{m}", "zeal": 3} for m in (16, 100)]
    rows = summarise([make_cell(settings=each) for each in settings])
    assert [(row["method_label"], row["details"]) for row in rows] == [
        ("x-gpc (inducing=16)", ["batch_size=160"]),
        ("x-gpc (inducing=100)", ["batch_size=1000"]),
    ]
    cells = [make_cell(version=1, settings={"new": 1}), make_cell(version=2, settings={})]
    assert [row["method_label"] for row in summarise(cells)] == ["x-gpc (version=1)", "x-gpc (version=2)"]


def test_a_limit_and_the_setting_that_it_became_are_said_once(make_cell):
    cells = [
        make_cell(settings={"max_iterations": 300}, limits={"iterations": 300}),
        make_cell(settings={"max_iterations": 50}),
        make_cell(settings={"max_iterations": 300}, limits={"iterations": 100}),
    ]
    assert [(row["method_label"], row["details"]) for row in summarise(cells[:2])] == [
        ("x-gpc (max_iterations=50)", []),
        ("x-gpc (max_iterations=300)", []),
    ]
    assert [row["method_label"] for row in summarise(cells)] == [
        "x-gpc",
        "x-gpc (limits.iterations=100)",
        "x-gpc (limits.iterations=300)",
    ]


@pytest.mark.parametrize("facts", [4, 6, 9])
def test_labels_are_apart_and_can_spare_nothing(make_cell, facts):
    """As many settings as there are rows less one are needed where each row has one of its own."""
    names = [f"s{index}" for index in range(facts)]
    settings = [dict.fromkeys(names, 0)] + [dict.fromkeys(names, 0) | {name: 1} for name in names]
    labels = [row["method_label"] for row in summarise([make_cell(settings=each) for each in settings])]
    assert len(set(labels)) == facts + 1
    assert all(label.count("=") == facts for label in labels)
    double = [{**each, **{f"t{name}": value for name, value in each.items()}} for each in settings]
    assert {row["method_label"].count("=") for row in summarise([make_cell(settings=each) for each in double])} == {
        facts
    }


def test_the_likelihood_counts_within_a_data_set_only(make_cell):
    apart = [make_cell(dataset="a", likelihood="logit"), make_cell(dataset="b", likelihood="softmax")]
    assert [row["method_label"] for row in summarise(apart)] == ["x-gpc", "x-gpc"]
    together = [make_cell(likelihood="logit"), make_cell(likelihood="probit")]
    assert [row["method_label"] for row in summarise(together)] == [
        "x-gpc (likelihood=logit)",
        "x-gpc (likelihood=probit)",
    ]


def test_a_data_set_that_changed_is_another(make_cell):
    rows = summarise([make_cell(checksum="a" * 64), make_cell(checksum="b" * 64, method="linear")])
    assert [row["dataset_label"] for row in rows] == ["german (checksum=aaaaaaaa)", "german (checksum=bbbbbbbb)"]
    assert {row["dataset"] for row in rows} == {"german"}


def test_times_of_several_processors_are_not_averaged(make_cell):
    (row,) = summarise([make_cell(index=0, cpu="Zen 4"), make_cell(index=1, cpu="M4")])
    assert row["processors"] == ["M4", "Zen 4"]
    assert row["train_seconds"] == {"mean": None, "sd": None}
    assert row["nll"]["mean"] == 0.5


def test_the_same_cell_from_two_places_counts_once(make_cell):
    failed = make_cell(status="failed")
    finished = make_cell(nll=0.3)
    assert failed.key == finished.key
    for cells in ([failed, finished, finished], [finished, finished, failed]):
        (row,) = summarise(cells)
        assert (row["cells"], row["failed"], row["nll"]["mean"]) == (1, 0, 0.3)


def test_cells_of_a_group_stand_in_the_order_of_seed_and_split(make_cell):
    cells = [make_cell(index=i, seed=seed) for i in (2, 0, 1) for seed in (1, 0)]
    (group,) = group_cells(cells)
    assert [(cell.split.seed, cell.split.index) for cell in group.cells] == [
        (seed, i) for seed in (0, 1) for i in range(3)
    ]


def test_numbers_in_names_sort_as_numbers():
    assert sorted(["m=100", "m=16", "k", "10"], key=natural) == ["10", "k", "m=16", "m=100"]


def test_no_cells_no_rows():
    assert summarise([]) == []
