from dataclasses import replace

import pytest

from gpbench.bench.cell import Limits, SplitSpec
from gpbench.bench.plan.blocks import blocks, runnable
from gpbench.bench.plan.cells import Shown, stored_results
from gpbench.bench.plan.estimate import estimate
from gpbench.bench.plan.read import read_plan
from gpbench.bench.plan.reduce import asked_for, quick_form, restricted
from gpbench.bench.result import Result
from gpbench.bench.sources import dataset_id
from gpbench.errors import UsageError

HEAD = 'title = "T"\ndatasets = ["german", "breast-cancer-wisconsin"]\n'
TWO = "[methods.x-gpc]\n[methods.linear]\n"


def plan(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return read_plan(path)


def labels(found):
    return [(block.dataset, block.label) for block in found]


def test_data_set_by_data_set_method_by_method(tmp_path):
    found = blocks(plan(tmp_path, HEAD + TWO))
    assert labels(found) == [
        (dataset, method) for dataset in ("german", "breast-cancer-wisconsin") for method in ("x-gpc", "linear")
    ]
    assert [block.position for block in found] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_sweep_reaches_the_methods_that_have_the_setting_and_leave_it_open(tmp_path):
    text = (
        HEAD + TWO + '[methods.wide]\nmethod = "svgpc"\ninducing = 50\n'
        "[sweep]\ninducing = [4, 16]\nrate = [0.1, 0.5]\n[overrides.german]\nmethods = []\n"
    ).replace("methods = []", 'methods = ["linear"]')
    found = blocks(plan(tmp_path, text))
    assert labels(found) == [
        ("german", "linear"),
        *(
            ("breast-cancer-wisconsin", f"x-gpc, M = {M}, rate = {rate}")
            for M in (4, 16)
            for rate in (0.1, 0.5)
        ),
        ("breast-cancer-wisconsin", "linear"),
        *(("breast-cancer-wisconsin", f"wide, rate = {rate}") for rate in (0.1, 0.5)),
    ]  # fmt: skip
    assert [block.settings.get("inducing") for block in found] == [None, "4", "4", "16", "16", None, "50", "50"]


def test_what_is_swept_can_be_a_limit_or_a_word_of_the_split(tmp_path):
    text = (
        HEAD.replace('"german", ', "")
        + 'split = "active:{active}/5"\n[methods.x-gpc]\n[sweep]\nactive = [50, 100]\ntrain_rows = [200]\n'
    )
    found = blocks(plan(tmp_path, text))
    assert [(block.label, block.split, block.limits.train_rows) for block in found] == [
        ("x-gpc, M = 50, n = 200", "active:50/5", 200),
        ("x-gpc, M = 100, n = 200", "active:100/5", 200),
    ]


def test_swept_values_in_braces_stand_in_labels(tmp_path):
    text = HEAD + '[methods.x-gpc]\nlabel = "X, M={inducing}"\n[sweep]\ninducing = [8]\n'
    block = blocks(plan(tmp_path, text))[0]
    assert (block.label, block.printed, block.variant) == ("X, M=8", "X, M=8", "x-gpc")


def test_later_lines_win(tmp_path):
    text = (
        HEAD + 'limits = { seconds = 9, iterations = 900 }\nsplit = "folds:4"\nsplits = 3\n'
        "[defaults]\nnoise = 0.1\nvariance = 2\nlengthscale = 3\n"
        "[methods.x-gpc]\nvariance = 4\nlimits = { iterations = 500 }\n"
        '[methods.svgpc]\nsplit = "folds:5"\nscaling = "none"\nmax_iterations = 70\n'
        "[overrides.german]\nsplits = 2\nlimits = { seconds = 5 }\n"
        "settings = { noise = 0.3, svgpc = { noise = 0.4 } }\n"
    )
    first, second, third, fourth = blocks(plan(tmp_path, text))
    assert [block.settings["noise"] for block in (first, second, third, fourth)] == [0.3, 0.4, 0.1, 0.1]
    assert [block.settings["variance"] for block in (first, second)] == [4.0, 2.0]
    assert first.settings["lengthscale"] == 3.0
    assert first.limits == Limits(seconds=5, iterations=500)
    assert second.limits == Limits(seconds=5, iterations=900)
    assert third.limits == Limits(seconds=9, iterations=500)
    assert [block.settings["max_iterations"] for block in (first, second)] == [500, 70]
    assert [(block.split, block.splits) for block in (first, second, third)] == [
        ("folds:4", 2), ("folds:5", 2), ("folds:4", 3),
    ]  # fmt: skip
    assert [block.scaling for block in (first, second, third, fourth)] == ["standard", "none", "standard", "none"]


def test_a_task_that_a_method_cannot_do_is_refused(tmp_path):
    with pytest.raises(UsageError, match="method x-gpc cannot do wine: its task is multiclass"):
        blocks(plan(tmp_path, HEAD.replace("german", "wine") + TWO))


def test_settings_that_contradict_one_another_are_refused_with_the_plan(tmp_path):
    text = HEAD + '[methods.vi-taylor]\nvariant = "hybrid"\n'
    with pytest.raises(UsageError, match=r"mine.toml: vi-taylor on german: Taylor's expansion needs variant alternate"):
        blocks(plan(tmp_path, text))


def test_a_plan_that_describes_runs_nothing(tmp_path):
    found = plan(tmp_path, HEAD + 'render = "outline"\n' + TWO)
    assert runnable(found) == []
    assert len(blocks(found)) == 4


def test_the_quick_form_caps_everything(tmp_path):
    text = (
        HEAD + "splits = 5\nlimits = { seconds = 3, train_rows = 90 }\n[methods.x-gpc]\nmax_iterations = 10_000\n"
        "[sweep]\ninducing = [4, 8, 16]\n[overrides.german]\nsplits = 1\nlimits = { test_rows = 5_000 }\n"
        "[quick]\nsplits = 3\niterations = 11\nsweep = { inducing = [4] }\nsettings = { batch_size = 20 }\n"
    )
    first, second = blocks(quick_form(plan(tmp_path, text)))
    assert (first.splits, second.splits) == (1, 3)
    assert first.limits == Limits(seconds=3, iterations=11, train_rows=90, test_rows=1000)
    assert (first.settings["max_iterations"], first.settings["inducing"], first.settings["batch_size"]) == (11, "4", 20)
    words = quick_form(plan(tmp_path, text)).reduction.words
    assert words.startswith("QUICK FORM, not for its numbers: at most 3 splits, 1,000 training rows, 1,000 test rows")
    assert "11 iterations and 20 s a cell; inducing 4; batch_size = 20." in words


def test_methods_and_data_sets_are_asked_for_by_their_labels_too(tmp_path):
    text = HEAD + '[methods.x-gpc]\nlabel = "X-GPC"\n[methods.linear]\n[overrides.german]\nlabel = "German credit"\n'
    (block,) = blocks(asked_for(plan(tmp_path, text), datasets="German credit", methods="X-GPC"))
    assert (block.dataset, block.table.name) == ("german", "x-gpc")


def test_some_of_a_plan(tmp_path):
    whole = plan(tmp_path, HEAD + TWO + '[overrides.german]\nmethods = ["linear"]\n')
    assert asked_for(whole) == whole
    part = restricted(whole, datasets=["german"], methods=["x-gpc"], splits=2, seconds=1.5)
    assert blocks(part) == []  # the plan has x-gpc on the other set alone
    part = asked_for(whole, datasets="german, breast-cancer-wisconsin", methods="x-gpc", splits=2, seconds=1.5)
    (block,) = blocks(part)
    assert (block.dataset, block.splits, block.limits.seconds) == ("breast-cancer-wisconsin", 2, 1.5)
    assert part.notes == ("Only the first 2 splits of each data set.", "Training ends after 1.5 s at the latest.")
    assert blocks(asked_for(whole, splits=1, seconds=9, quick=True))[0].splits == 1
    for options, message in (
        ({"datasets": "germa"}, "unknown data set of mine 'germa'; did you mean german?"),
        ({"methods": "linea"}, "unknown method of mine 'linea'; did you mean linear?"),
        ({"splits": 0}, "--folds must be at least 1; got 0"),
        ({"seconds": 0}, "limit on seconds must be a positive number; got 0"),
    ):
        with pytest.raises(UsageError) as caught:
            asked_for(whole, **options)
        assert message in str(caught.value)


def stored(block, index, *, end="2026-01-01T00:00:10+00:00", checksum="a", seed=0, status="ok", **changes):
    split = SplitSpec(protocol=block.split, index=index, count=10, seed=seed)
    cell = block.choice.cell(
        dataset_id(block.dataset), limits=block.limits, split=split, seed=seed, scaling=block.scaling
    )
    return Result.of(
        replace(cell, checksum=checksum, likelihood="logit", **changes),
        status=status,
        metrics={},
        trace={},
        provenance={"start": "2026-01-01T00:00:00+00:00", "end": end},
    )


def test_stored_cells_are_found_without_the_data(tmp_path):
    found = plan(tmp_path, HEAD + "splits = 3\n" + TWO)
    some = blocks(found)
    results = [
        stored(some[0], 2),
        stored(some[0], 0),
        stored(some[0], 7),  # beyond the plan's splits
        stored(some[0], 1, seed=1),
        stored(some[0], 0, settings={**some[0].settings, "noise": 0.7}),
        stored(some[1], 0, checksum="old"),
        stored(some[1], 1, checksum="new", end="2026-02-01T00:00:00+00:00"),
    ]
    by_block = {block.position: own for block, own in stored_results(some, results)}
    assert [result.split.index for result in by_block[0, 0]] == [0, 2]
    assert [result.checksum for result in by_block[0, 1]] == ["new"]
    assert by_block[1, 0] == []
    key = by_block[0, 0][0].key
    shown = Shown.of(key, some[0], found, folder=tmp_path)
    assert (shown.position, shown.arrays) == ((0, 0), tmp_path / f"{key}.npz")


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("german", "german"),
        ("waveform3:1000", "waveform3"),  # as many as it has by default
        ("waveform3:50", "waveform3:50"),
        ("openml:31", "openml:31"),
        ("data/mine.csv", "mine.csv"),
        ("data/mine.zip::part/rows.csv", "mine.zip::part/rows.csv"),
    ],
)
def test_ids_of_data_sets_in_results(name, known):
    assert dataset_id(name) == known


def test_time_comes_from_stored_cells_and_else_from_an_estimate(tmp_path):
    found = plan(tmp_path, HEAD + "limits = { seconds = 40 }\n[methods.klsp-sgd]\nmax_iterations = 10_000_000\n")
    first, second = blocks(found)
    results = [stored(first, index) for index in range(4)] + [stored(first, 4, status="failed")]
    own, model = estimate(stored_results([first, second], results), results)
    assert (own.cells, own.stored, own.seconds, own.basis) == (10, 4, 60.0, "stored cells")
    assert (model.cells, model.stored, model.seconds, model.basis) == (10, 0, 410.0, "estimate")


def test_time_of_the_same_cells_under_another_seed_counts(tmp_path):
    found = plan(tmp_path, HEAD + TWO)
    block = blocks(found)[0]
    others = [stored(block, 0, seed=5, end="2026-01-01T00:00:02+00:00")]
    (one,) = estimate([(block, [])], others)
    assert (one.seconds, one.basis) == (20.0, "stored cells")


def test_time_of_a_file_in_another_folder_under_another_seed_counts(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "rows.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    text = 'title = "T"\ndatasets = ["sub/rows.csv"]\n[methods.linear]\n'
    (block,) = blocks(plan(tmp_path, text))
    results = [stored(block, index, end="2026-01-01T00:00:02+00:00") for index in range(10)]
    (later,) = blocks(plan(tmp_path, "seed = 1\n" + text))
    (one,) = estimate(stored_results([later], results), results)
    assert (one.stored, one.seconds, one.basis) == (0, 20.0, "stored cells")


def test_time_under_another_protocol_does_not_count(tmp_path):
    """An active set's size is the number of inducing inputs."""
    text = 'title = "T"\ndatasets = ["german"]\nsplit = "active:{}/10"\n[methods.gvi-fixed-point]\n'
    (few,), (many,) = (blocks(plan(tmp_path, text.format(M))) for M in (10, 500))
    results = [stored(few, index) for index in range(10)]
    (one,) = estimate(stored_results([many], results), results)
    assert one.basis == "estimate"


def test_cells_of_an_origin_that_the_plan_does_not_run_count(tmp_path):
    def seconds(text):
        return estimate([(block, []) for block in blocks(plan(tmp_path, HEAD + text))])[0].seconds

    given = '[methods.x-gpc]\nhyperparameters = "from:klsp"\n'
    assert seconds(given) > seconds(given + "[methods.klsp]\n")


def test_time_is_not_known_where_the_rows_are_not(tmp_path):
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    block = blocks(plan(tmp_path, HEAD.replace("german", "mine.csv") + TWO))[0]
    assert estimate([(block, [])])[0].seconds is None
