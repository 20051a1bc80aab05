import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from gpbench.bench.derived.stored import derive, stored_arrays
from gpbench.bench.plan.blocks import blocks
from gpbench.bench.plan.plan import Reduction
from gpbench.bench.plan.read import find_plan, read_plan
from gpbench.bench.plan.run import run_plan
from gpbench.bench.store import Store
from gpbench.config import load_config
from gpbench.errors import NotComputed, UsageError
from gpbench.report.figures import contraction as contraction_picture
from gpbench.report.figures import factors as factors_picture
from gpbench.report.figures import panels as panels_picture
from gpbench.report.figures.learning_curves import learning_curves, render
from gpbench.report.figures.panels import panel_rows, panels
from gpbench.report.figures.scatter import agreement, scatter
from gpbench.report.figures.series import finish, new_figure, points_of, series_of
from gpbench.report.figures.style import picture_bytes

HEAD = 'title = "T"\ndatasets = ["german", "heart"]\n'
SWEPT = HEAD + '[methods.klsp]\nlabel = "KL"\n[methods.svgpc]\nlabel = "SV"\n[sweep]\ninducing = [4, 16]\n'


@pytest.fixture
def plan_of(tmp_path):
    def make(text):
        path = tmp_path / "item.toml"
        path.write_text(text, encoding="utf-8")
        return read_plan(path)

    return make


@pytest.fixture
def cells_of(make_cell, plan_cell):
    """Cells of every block: the error is 1 / M, the processor's time M, for split i a tenth of i more.

    ``change`` gives what is otherwise of a block's cell with an index: arguments of ``make_cell``.
    """

    def make(plan, *, change=lambda _block, _index: {}, splits=2):
        found = []
        for block in blocks(plan):
            size = block.sweep.get("inducing", 1)
            for index in range(splits):
                made = {"nll": 2.0 / size + 0.1 * index, "error": 1.0 / size + 0.1 * index, **change(block, index)}
                cell = make_cell(
                    dataset=block.dataset,
                    method=block.table.method.id,
                    settings=dict(block.settings),
                    index=index,
                    **made,
                )
                cell.metrics["cpu_seconds"] = float(size)
                found.append(plan_cell(cell, block, plan))
        return found

    return make


def axes_of(figure):
    return {(ax.get_title(loc="left"), ax.get_ylabel()): ax for ax in figure.axes}


def texts(figure):
    return "\n".join(legend.get_title().get_text() for legend in figure.legends)


def test_series_keep_the_plan_s_order(plan_of, cells_of):
    plan = plan_of(SWEPT)
    found = series_of(cells_of(plan)[::-1])
    assert [(each.dataset, each.label, each.sweep["inducing"]) for each in found[:5]] == [
        ("german", "KL", 4), ("german", "KL", 16), ("german", "SV", 4), ("german", "SV", 16), ("heart", "KL", 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("spread", "width"), [("sd", 0.1), ("2sd", 0.2), ("se", 0.1 / np.sqrt(3)), ("2se", 0.2 / np.sqrt(3))]
)
@pytest.mark.parametrize("centre", ["mean", "median"])
def test_points_by_hand(plan_of, cells_of, spread, width, centre):
    plan = plan_of(f'spread = "{spread}"\ncentre = "{centre}"\n' + SWEPT)
    first = series_of(cells_of(plan, splits=3))[0]
    point = points_of(plan, first, "error")
    assert (point.value, point.width) == (pytest.approx(0.35), pytest.approx(width))
    assert points_of(plan, first, "bound").value is None


def test_learning_curves_have_a_panel_a_data_set_and_metric(plan_of, cells_of):
    plan = plan_of('metrics = ["nll", "error"]\n' + SWEPT)
    found = axes_of(learning_curves(plan, cells_of(plan)))
    assert set(found) == {(name, label) for name in ("german", "heart") for label in ("test NLL (nats)", "test error")}
    ax = found["german", "test error"]
    line = next(each for each in ax.lines if len(each.get_xdata()) == 2 and each.get_marker() == "None")
    np.testing.assert_allclose(line.get_ydata(), [0.3, 0.1125])
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["4", "16"]


def test_what_lies_above_the_panel_is_a_triangle(plan_of, cells_of):
    plan = plan_of('metrics = ["error"]\n' + SWEPT)

    def far(block, _index):
        return {"error": 50.0} if block.variant == "SV" and block.sweep["inducing"] == 4 else {}

    ax = axes_of(learning_curves(plan, cells_of(plan, change=far)))["heart", "test error"]
    top = ax.get_ylim()[1]
    assert top < 5.0
    triangles = [each for each in ax.lines if each.get_marker() == "^" and each.get_clip_on() is False]
    assert [list(each.get_ydata()) for each in triangles] == [[top]]


def test_failed_cells_and_notes_are_told(plan_of, cells_of):
    plan = plan_of('notes = ["Mind this."]\n' + SWEPT)

    def fail(block, index):
        return {"status": "failed"} if (block.dataset, block.variant, index) == ("heart", "KL", 0) else {}

    words = texts(learning_curves(plan, cells_of(plan, change=fail)))
    assert "Failed cells: KL on heart 2/4." in words
    assert "Mind this." in words


def test_numbers_stand_beside_the_picture(plan_of, cells_of, found_of, tmp_path):
    plan = plan_of('metrics = ["error"]\n' + SWEPT)
    picture, numbers = render(found_of(plan, cells_of(plan)), tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(io.StringIO(numbers.read_text())))
    assert len(rows) == 8 * 2
    assert (rows[0]["label"], rows[0]["inducing"], rows[0]["metric"], float(rows[0]["mean"])) == (
        "KL",
        "4",
        "error",
        0.3,
    )


@pytest.mark.parametrize("draw", [learning_curves, scatter])
def test_nothing_finished_is_said(plan_of, cells_of, draw):
    plan = plan_of(SWEPT)
    with pytest.raises(UsageError, match="no finished cells"):
        draw(plan, cells_of(plan, change=lambda _block, _index: {"status": "failed"}))


def test_an_axis_that_is_not_swept(plan_of, cells_of):
    plan = plan_of(SWEPT + '[figure]\nx = "rate"\n')
    with pytest.raises(UsageError, match="x must be a name under"):
        learning_curves(plan, cells_of(plan))


def test_scatter_joins_sizes_and_rings_the_smallest(plan_of, cells_of):
    plan = plan_of('metrics = ["error"]\n' + SWEPT)
    figure, text = scatter(plan, cells_of(plan))
    ax = axes_of(figure)["german", "test error"]
    assert ax.get_xlabel() == "processor time (s)"
    line = next(each for each in ax.lines if len(each.get_xdata()) == 2)
    assert list(line.get_xdata()) == [4.0, 16.0]
    assert picture_bytes(figure, dpi=40)  # the layout holds; a warning would be an error
    rings = [each for each in ax.lines if each.get_fillstyle() == "none"]
    assert [list(each.get_xdata()) for each in rings] == [[4.0], [4.0]]
    rows = list(csv.DictReader(io.StringIO(text)))
    assert (rows[0]["inducing"], rows[0]["cpu_seconds"], float(rows[0]["value"])) == ("4", "4", 0.3)


def test_times_of_two_processors_share_no_axis(plan_of, cells_of):
    plan = plan_of(SWEPT)
    cells = cells_of(plan, change=lambda block, _index: {"cpu": block.dataset})
    assert "Times were taken on german (german), on heart (heart)." in texts(scatter(plan, cells)[0])

    def elsewhere(block, _index):
        one = block.dataset == "german" and block.variant == "SV" and block.sweep["inducing"] == 4
        return {"cpu": "M4" if one else "Zen 4"}

    drawn, numbers = scatter(plan, cells_of(plan, change=elsewhere))
    assert "german: 2 cells of SV, M = 4 are not drawn: they ran on M4, the others on Zen 4" in texts(drawn)
    left = [row for row in csv.DictReader(io.StringIO(numbers)) if (row["dataset"], row["label"]) == ("german", "SV")]
    assert {row["inducing"] for row in left} == {"16"}
    nll = plan_of(SWEPT + '[figure]\nx = "nll"\ny = "error"\n')
    assert len(scatter(nll, cells)[0].axes) == 2


PANELS = """
title = "Panels"
datasets = ["moons.csv"]
split = "folds:3"
splits = 1
render = "panels"
[defaults]
kernel = "se"
max_iterations = 20
[methods.klsp]
label = "KL"
[methods.svgpc]
label = "SV"
batch_size = 20
[methods.whole]
method = "klsp"
label = "all"
inducing = "all"
learn_inducing = false
[sweep]
inducing = [3, 6]
[figure]
last = ["whole"]
"""


@pytest.fixture
def trained(plan_of, tmp_path, monkeypatch):
    """A plan on 45 rows of a file, its cells, and what its picture needs beyond them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("GPBENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "bench")
    from bench_fakes import Serial  # noqa: PLC0415

    rng = np.random.default_rng(0)
    X = rng.normal(size=(45, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    (tmp_path / "moons.csv").write_text("a,b,c\n" + "\n".join(f"{a},{b},{c}" for (a, b), c in zip(X, y, strict=True)))

    def train(text):
        config = load_config()
        found = run_plan(plan_of(text), config, Store(config.store), executor=Serial())
        derive(found, config)
        return found

    return train


def test_panels_show_data_inducing_inputs_and_boundaries(trained):
    found = trained(PANELS)
    rows, titles = panel_rows(found.plan, series_of(found.results))
    assert titles == ["M = 3", "M = 6", "full"]
    assert [[each and each.label for each in row] for row in rows] == [["KL", "KL", "all"], ["SV", "SV", None]]
    drawn = panels(found)
    by_place = {(row, column): drawn.axes[3 * row + column] for row in range(2) for column in range(3)}
    for place, count in (((0, 0), 3), ((0, 1), 6), ((1, 0), 3)):
        ax = by_place[place]
        inducing = [each for each in ax.lines if each.get_markeredgecolor() == "white"]
        assert [len(each.get_xdata()) for each in inducing] == [count]
        assert sum(len(each.get_xdata()) for each in ax.lines if each.get_marker() == ".") == 30
        assert ax.get_xlabel().startswith("NLL ")
    assert not [each for each in by_place[0, 2].lines if each.get_markeredgecolor() == "white"]
    assert len(by_place[1, 2].lines) == 0
    assert picture_bytes(drawn, dpi=40)


def test_one_method_s_predictions_against_another_s(trained):
    found = trained(
        PANELS.replace('"panels"', '"scatter"')
        .replace('last = ["whole"]', 'against = "whole"')
        .replace("[3, 6]", "[6]")
    )
    figure, text = agreement(found)
    rows = {(row["method"], row["quantity"]): row for row in csv.DictReader(io.StringIO(text))}
    assert set(rows) == {(name, what) for name in ("KL", "SV") for what in ("mean", "variance", "probability")}
    assert all(int(row["rows"]) == 15 for row in rows.values())
    assert len(figure.axes) == 6
    assert picture_bytes(figure, dpi=40)
    p = {cell.shown.name: np.load(cell.shown.arrays)["test_probabilities"][:, 1] for cell in found.results}
    own = rows["KL", "probability"]
    assert float(own["correlation"]) == pytest.approx(np.corrcoef(p["whole"], p["klsp"])[0, 1], abs=1e-6)
    assert float(own["largest_difference"]) == pytest.approx(np.abs(p["whole"] - p["klsp"]).max(), abs=1e-6)


@pytest.mark.parametrize(
    ("figure", "message"),
    [('against = "whol"', "unknown table of .methods. 'whol'; did you mean whole"),
     ('against = "whole"\nquantities = ["means"]', "unknown quantity 'means'; did you mean mean")],
)  # fmt: skip
def test_options_that_name_nothing(plan_of, found_of, figure, message, tmp_path):
    (tmp_path / "moons.csv").write_text("a,b\n1,0\n")
    plan = plan_of(PANELS.replace('last = ["whole"]', figure))
    with pytest.raises(UsageError, match=message):
        agreement(found_of(plan))


def test_contraction_needs_no_cells(plan_of, found_of, tmp_path):
    plan = plan_of(
        'title = "C"\nrender = "contraction"\n'
        "[figure]\nsizes = [2, 5]\nrows = 20\ninputs = 2\nrepeats = 30\nkernels = ['se', 'matern12']\n"
    )
    found = found_of(replace(plan, reduction=Reduction(words="QUICK")))
    with pytest.raises(NotComputed, match="item: the distances before and after the operator are not computed yet"):
        contraction_picture.render(found, tmp_path)
    derive(found, load_config())
    picture, numbers = contraction_picture.render(found, tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(io.StringIO(numbers.read_text())))
    assert [row["pairs"] for row in rows] == ["3"] * 12
    assert [(row["kernel"], row["M"]) for row in rows] == [
        (name, size) for name in ("se", "matern12") for size in "252525"
    ]
    arrays = stored_arrays(found)
    ratios = arrays["after"][1, 2, 0] / arrays["before"][1, 2, 0]
    assert rows[10]["likelihood"] == "ordinal (-1, 0, 1), slope 1"
    assert float(rows[10]["largest_ratio"]) == pytest.approx(ratios.max(), rel=1e-9)


def test_factors_need_no_cells(plan_of, found_of, tmp_path):
    found = found_of(plan_of('title = "F"\nrender = "factors"\n'))
    derive(found, load_config())
    picture, numbers = factors_picture.render(found, tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    rows = {row["posterior"]: float(row["mean"]) for row in csv.DictReader(io.StringIO(numbers.read_text()))}
    assert rows["EP"] == pytest.approx(rows["exact"], abs=0.05)
    assert rows["EP"] == pytest.approx(stored_arrays(found)["moments"][1, 0], rel=1e-9)


def test_inducing_inputs_of_each_class_are_hollow_and_those_outside_are_counted(plan_of, cells_of):
    """Two latent functions with three inducing inputs each; one of all lies outside of the frame."""
    (series, *_) = series_of(cells_of(plan_of(SWEPT)))
    key = series.finished[0].key
    axis = np.linspace(-1.0, 1.0, 4)
    inside = np.array([[0.0, 0.0], [0.5, 0.5], [-0.5, 0.5]])
    arrays = {
        "X": np.zeros((2, 2)), "y": np.array([0, 1]), "classes": np.array([0, 1]), "grid": np.meshgrid(axis, axis),
        "box": np.array([[-1.0, -1.0], [1.0, 1.0]]), f"{key}/margins": np.ones((1, 4, 4)),
        f"{key}/inducing/0": inside, f"{key}/inducing/1": inside + np.array([0.6, 0.0]),
    }  # fmt: skip
    ax = Figure().add_subplot()
    panels_picture._panel(ax, series, arrays)
    rings = [each for each in ax.lines if each.get_marker() == "o"]
    assert [each.get_markerfacecolor() for each in rings] == ["none", "none"]
    assert rings[0].get_markeredgecolor() != rings[1].get_markeredgecolor()
    assert ax.get_xlabel().endswith("1 of 6 outside")


def test_contraction_has_a_panel_a_family_and_says_how_many_came_no_closer(plan_of):
    plan = plan_of('title = "C"\nrender = "contraction"\n')
    before = np.full((1, 3, 1, 2), 1.0)
    after = np.array([0.5, 0.5, 0.5, 2.0, 0.5, 0.5]).reshape(1, 3, 1, 2)
    arrays = {
        "kernels": np.array(["se"]), "sizes": np.array([5]), "rows": np.array(10), "before": before, "after": after,
        "likelihoods": np.array(["count (Poisson)", "ordinal (4, 5), slope 1", "ordinal (4, 5), slope 20"]),
    }  # fmt: skip
    drawn = contraction_picture.contraction(plan, arrays)
    assert [ax.get_title(loc="left") for ax in drawn.axes] == ["SE, count (Poisson)", "SE, ordinal (4, 5)"]
    assert [ax.texts[0].get_text() for ax in drawn.axes] == [
        "0 of 2 no closer, ratio up to 0.5", "1 of 4 no closer, ratio up to 2",
    ]  # fmt: skip
    assert [text.get_text() for text in drawn.legends[0].get_texts()][1:3] == ["slope 1", "slope 20"]


def test_a_long_name_stays_within_a_figure_of_one_panel():
    drawn = finish(new_figure(1, 1, width=3.5, height=2.0), find_plan("sheth2015/fig2"), [])
    drawn.add_subplot()
    drawn.draw_without_rendering()
    assert drawn._suptitle.get_text().count("\n") == 1
    assert drawn._suptitle.get_window_extent().x1 < drawn.bbox.x1
