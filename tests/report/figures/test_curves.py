import csv
import io
import math
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex

from gpbench.bench.cell import Limits
from gpbench.errors import StoreError, UsageError
from gpbench.report.figures.curves import curves_csv, figure, render, save_curves
from gpbench.report.figures.style import LEGEND_ROW, fit_legend, styles_of, time_limits, value_limits
from gpbench.report.files import write_atomically
from gpbench.report.groups import group_cells
from gpbench.report.traces import Curve


@pytest.fixture
def cells(make_cell):
    """Two splits of x-gpc from 0.7 down to 0.3 and 0.5, and of linear at 0.6 after 0.1 s."""
    traces = [[(0.1, 0.7, 0.5), (10.0, end, end / 2)] for end in (0.3, 0.5)]
    found = [make_cell(index=i, trace=trace, nll=trace[-1][1], seconds=10.0) for i, trace in enumerate(traces)]
    return found + [
        make_cell(method="linear", settings={}, index=i, nll=nll, error=0.3, seconds=0.1)
        for i, nll in enumerate((0.55, 0.65))
    ]


def lines(ax):
    """Labelled lines of a panel."""
    return {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}


def legend(drawn):
    (found,) = drawn.legends
    return [text.get_text() for text in found.get_texts()]


def test_axes_say_what_they_show(cells):
    (ax,) = figure(cells).axes
    assert ax.get_title(loc="left") == "german"
    assert ax.get_title(loc="right") == "folds:10"
    assert ax.get_xlabel() == "training time (s)"
    assert ax.get_ylabel() == "test NLL (nats)"
    assert ax.get_xscale() == "log"
    (ax,) = figure(cells, "error").axes
    assert ax.get_ylabel() == "test error"


def test_line_and_band_of_a_method(cells):
    (ax,) = figure(cells, spread="sd").axes
    line = lines(ax)["x-gpc"]
    seconds, mean = line.get_data()
    assert (seconds[0], seconds[-1]) == (0.1, 10.0)
    np.testing.assert_allclose(mean[[0, -1]], [0.7, 0.4])
    (band,) = [each for each in ax.collections if isinstance(each, PolyCollection)]
    corners = band.get_paths()[0].vertices
    at_the_end = corners[corners[:, 0] == 10.0, 1]
    sd = 0.2 / math.sqrt(2)
    np.testing.assert_allclose([at_the_end.min(), at_the_end.max()], [0.4 - sd, 0.4 + sd])


def test_a_method_without_a_way_is_a_marker_and_a_dashed_line_from_its_time_on(cells):
    (ax,) = figure(cells).axes
    line = lines(ax)["linear"]
    assert line.is_dashed()
    np.testing.assert_allclose(line.get_xdata(), [0.1, ax.get_xlim()[1]])
    np.testing.assert_allclose(line.get_ydata(), [0.6, 0.6])
    markers = [each for each in ax.lines if each.get_marker() == "D"]
    np.testing.assert_allclose([markers[0].get_xdata(), markers[0].get_ydata()], [[0.1], [0.6]])


def test_legend_stands_outside_and_the_notes_name_the_band(cells):
    drawn = figure(cells)
    assert legend(drawn) == ["linear", "x-gpc"]
    words = drawn.legends[0].get_title().get_text().splitlines()
    assert words == ["Times were taken on Zen 4.", "Bands: mean ± 2 standard errors over splits."]
    other = figure(cells, spread="2sd").legends[0].get_title().get_text()
    assert other.endswith("Bands: mean ± 2 standard deviations over splits.")
    drawn.draw_without_rendering()
    below = drawn.legends[0].get_window_extent()
    assert not any(ax.get_tightbbox().overlaps(below) for ax in drawn.axes)


def test_one_split_has_no_band(cells):
    drawn = figure([cells[0], cells[2]])
    assert legend(drawn) == ["linear", "x-gpc"]
    assert not drawn.axes[0].collections


def test_a_panel_for_each_data_set_and_protocol_and_metric(cells, make_cell):
    more = [*cells, make_cell(dataset="a9a"), make_cell(protocol="given")]
    drawn = figure(more, ("nll", "error"))
    titles = [(ax.get_title(loc="left"), ax.get_title(loc="right"), ax.get_ylabel()) for ax in drawn.axes]
    assert titles == [
        (dataset, split, metric)
        for dataset, split in (("a9a", "folds:10"), ("german", "folds:10"), ("german", "given"))
        for metric in ("test NLL (nats)", "test error")
    ]
    assert len(drawn.legends) == 1


@pytest.mark.parametrize("metric", ["nll", ("nll", "error")])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7])
def test_the_lowest_panel_of_each_column_names_the_time(make_cell, metric, count):
    drawn = figure([make_cell(dataset=f"d{i}") for i in range(count)], metric)
    places = [ax.get_subplotspec() for ax in drawn.axes]
    lowest = {place.colspan.start: place.rowspan.start for place in places}  # rows come from the top
    named = {ax.get_subplotspec() for ax in drawn.axes if ax.get_xlabel()}
    assert named == {place for place in places if lowest[place.colspan.start] == place.rowspan.start}


def test_failed_cells_are_left_out_and_counted(cells, make_cell):
    failed = make_cell(index=2, status="failed", trace=[(0.1, 9.0, 1.0), (5.0, 9.0, 1.0)])
    (ax,) = figure([*cells, failed]).axes
    np.testing.assert_allclose(lines(ax)["x-gpc"].get_ydata()[-1], 0.4)
    assert [text.get_text() for text in ax.texts] == ["linear: 2 of 3 splits\nx-gpc: 2 of 3 splits"]


def test_a_method_far_above_is_named_and_does_not_flatten_the_rest(cells, make_cell):
    trace = [(0.1, 50.0, 0.5), (9.0, 40.0, 0.5)]
    bad = [make_cell(method="bad", settings={}, index=i, trace=trace, nll=40.0) for i in range(2)]
    (ax,) = figure([*cells, *bad]).axes
    assert ax.get_ylim()[1] < 1.0
    assert [text.get_text() for text in ax.texts] == ["bad: off scale (40)"]


def test_names_are_drawn_as_they_are(make_cell, tmp_path):
    save_curves([make_cell(dataset="a_$b$^{\x07", method="x$y$")], tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "a_$b$^{�" in text
    assert "x$y$" in text


def test_the_csv_holds_the_points_that_are_drawn(cells):
    rows = list(csv.DictReader(io.StringIO(curves_csv(cells, "nll", spread="sd"))))
    (ax,) = figure(cells, "nll", spread="sd").axes
    drawn = {line.get_label(): line.get_xydata() for line in ax.lines if not line.get_label().startswith("_")}
    assert drawn
    for label, points in drawn.items():
        own = [row for row in rows if row["method"] == label]
        found = [[float(row["train_seconds"]), float(row["mean"])] for row in own]
        np.testing.assert_allclose(found, points[: len(found)])  # what is there at once is drawn on to the right
        assert len(found) == (1 if label == "linear" else len(points))
    bands = [path.get_extents() for path in (each.get_paths()[0] for each in ax.collections)]
    top = max(float(row["mean"]) + float(row["band_sd"] or 0.0) for row in rows)
    assert max(each.y1 for each in bands) == pytest.approx(top)


def test_different_processors_do_not_share_an_axis(make_cell):
    with pytest.raises(UsageError, match=r"cells of one processor; these ran on 2 \(M4; Zen 4\)"):
        figure([make_cell(), make_cell(index=1, cpu="M4")])
    drawn = figure([make_cell(), make_cell(dataset="wine", cpu="M4")])
    assert "Times were taken on Zen 4 (german), on M4 (wine)." in drawn.legends[0].get_title().get_text()


def test_a_plan_s_panel_is_of_the_processor_of_most_of_its_cells(ran, tmp_path):
    text = 'title = "T"\ndatasets = ["twonorm-gen"]\nrender = "curves"\nmetrics = ["nll"]\n'
    curve = [(0.1, 0.6, 0.3), (0.2, 0.5, 0.2)]
    found = ran(f"{text}[methods.x-gpc]\n[methods.svgpc]\n", lambda _: [{"trace": curve, "nll": 0.5}] * 2, count=2)
    last = found.results[-1]
    mixed = [*found.results[:-1], replace(last, provenance={**last.provenance, "cpu": "M4"})]
    written = render(replace(found, results=mixed), tmp_path)
    assert [path.name for path in written] == ["curves.png", "curves.csv"]
    rows = list(csv.DictReader(io.StringIO(written[1].read_text(encoding="utf-8"))))
    assert {row["method"]: row["splits"] for row in rows} == {"x-gpc": "2", "svgpc": "1"}


def test_nothing_to_draw(make_cell):
    with pytest.raises(UsageError, match="no finished cells"):
        figure([make_cell(status="failed")])


def test_what_is_unknown_is_refused(cells):
    with pytest.raises(UsageError, match="metric must be one of nll, error, accuracy, bound; got 'nlll'"):
        figure(cells, "nlll")
    with pytest.raises(UsageError, match="spread must be one of sd, 2sd, se, 2se; got '3sd'"):
        figure(cells, spread="3sd")


@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("SVG", b"<?xml")])
def test_pictures_are_written_whole_and_the_same_each_time(cells, tmp_path, ending, magic):
    first, second = tmp_path / "new" / f"a.{ending}", tmp_path / f"b.{ending}"
    save_curves(cells, first)
    save_curves(list(reversed(cells)), second)
    assert first.read_bytes().startswith(magic)
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted([f"a.{ending}", f"b.{ending}", "new"])


def test_other_endings_are_refused_before_anything_is_drawn(tmp_path):
    with pytest.raises(UsageError, match=r"must end in \.png, \.pdf, \.svg; got"):
        save_curves([], tmp_path / "a.jpg")


def test_global_settings_stay_as_they_were(cells, tmp_path):
    before = dict(mpl.rcParams)
    save_curves(cells, tmp_path / "a.png")
    assert dict(mpl.rcParams) == before


def test_an_older_file_stands_when_the_new_one_cannot_be_written(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_atomically(path, "old ±\n")

    def full(self, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(StoreError, match=r"cannot write .*a\.txt: No space left on device"):
        write_atomically(path, "new\n")
    assert path.read_bytes() == "old ±\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_two_that_write_the_same_file_at_once_write_one_each(tmp_path, monkeypatch):
    """Processes of two containers may bear one number, as threads do."""
    path, write = tmp_path / "a.txt", Path.write_bytes

    def interleaved(self, content):
        write(self, content)
        monkeypatch.setattr(Path, "write_bytes", write)
        write_atomically(path, "other\n")

    monkeypatch.setattr(Path, "write_bytes", interleaved)
    write_atomically(path, "one\n")
    assert path.read_text() == "one\n"
    assert list(tmp_path.iterdir()) == [path]


def colors_of(make_cell, *methods):
    return {
        label: style.color for label, style in styles_of(group_cells([make_cell(method=m) for m in methods])).items()
    }


def test_colours_are_stable(make_cell):
    """A method's colour does not depend on the others, unless two of no fixed colour meet on one."""
    names = ["x-gpc", "linear", "ep", "klsp", "gfitc"]
    together = colors_of(make_cell, *names)
    assert together == colors_of(make_cell, *reversed(names))
    assert len(set(together.values())) == len(names)
    for name in ("x-gpc", "linear"):
        assert colors_of(make_cell, name)[name] == together[name]
    assert colors_of(make_cell, "ep")["ep"] == colors_of(make_cell, "ep", "x-gpc")["ep"]


def test_more_methods_than_colours(make_cell):
    found = colors_of(make_cell, *(f"m{i}" for i in range(9)))
    assert len(found) == 9
    assert len(set(found.values())) == 8


def test_settings_of_one_method_share_the_hue_and_differ_in_line(make_cell):
    styles = styles_of(group_cells([make_cell(settings={"inducing": m}) for m in ("16", "100", "3%")]))
    assert len({style.color for style in styles.values()}) == 3
    assert len({style.line for style in styles.values()}) == 3
    assert styles["x-gpc (inducing=3%)"].color == to_hex("#0072b2")


def curve(*mean, point=False, band=None):
    values = np.array(mean, dtype=float)
    widths = None if band is None else np.full(len(values), band)
    return Curve(np.arange(1.0, len(values) + 1), values, widths, 1 if band is None else 2, point)


def test_early_spikes_do_not_rule_the_axis():
    low, high = value_limits([curve(5.0, *np.linspace(0.7, 0.3, 20)), curve(*np.linspace(0.69, 0.35, 20))])
    assert 0.69 < high < 0.8
    assert 0.2 < low < 0.3


def test_an_ordinary_start_is_seen():
    _, high = value_limits([curve(0.69, 0.4, 0.35, 0.33, 0.32, 0.31, 0.3, 0.3, 0.3, 0.3)])
    assert high > 0.69


def test_a_baseline_that_wins_does_not_hide_the_others():
    low, high = value_limits([curve(0.3, point=True), curve(*np.linspace(0.69, 0.35, 20))])
    assert high > 0.69
    assert low < 0.3


def test_bands_are_seen_at_their_ends():
    low, high = value_limits([curve(0.5, 0.3, 0.31, band=0.1), curve(0.6, point=True, band=0.05)])
    assert low < 0.31 - 0.1
    assert high > 0.6 + 0.05


@pytest.mark.parametrize("value", [0.0, 0.3, 1e-9, 700.0])
def test_equal_values_leave_room(value):
    low, high = value_limits([curve(value, value), curve(value, point=True)])
    assert low < value < high


def test_values_that_are_not_finite_are_passed_over():
    assert value_limits([curve(np.nan, 0.5, 0.3)]) == value_limits([curve(0.5, 0.3)])
    low, high = value_limits([curve(np.nan)])
    assert low < high


def test_a_single_time_leaves_a_decade():
    low, high = time_limits([curve(0.3, point=True)])
    assert low < 1.0 < high
    assert high / low == pytest.approx(10.0)


@pytest.mark.parametrize("count", [2, 7])
def test_a_legend_of_long_labels_stays_inside_the_picture(make_cell, count):
    values = [f"{place}{'0123456789' * 9}" for place in range(count)]
    drawn = figure([make_cell(settings={"inducing": value}) for value in values])
    FigureCanvasAgg(drawn).draw()  # lays it out; a layout that collapses warns
    (found,) = drawn.legends
    box = found.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= drawn.bbox.width
    assert 0 <= box.y0 < box.y1 < drawn.axes[0].get_window_extent().y0
    assert ["".join(text.split()) for text in legend(drawn)] == [f"x-gpc(inducing={value})" for value in values]


def test_short_labels_stand_side_by_side():
    columns, labels, high = fit_legend(["a", "b", "c"], 7.0, most=3)
    assert (columns, labels, high) == (3, ["a", "b", "c"], LEGEND_ROW)
    assert fit_legend([], 7.0, most=3) == (1, [], 0)


def test_a_method_that_ran_on_fewer_splits_than_another_is_marked(cells):
    (ax,) = figure(cells[:-1]).axes
    assert [text.get_text() for text in ax.texts] == ["linear: 1 of 2 splits"]


def test_a_long_head_is_broken_into_lines_that_fit(cells):
    words = "Figure 3: test error over training time on Shuttle, by number of inducing points"
    drawn = figure([*cells, *(replace(cell, dataset="other") for cell in cells)], head=words)
    canvas = FigureCanvasAgg(drawn)
    canvas.draw()
    head = drawn._suptitle
    assert head.get_text().replace("\n", " ") == words
    assert head.get_window_extent().x1 <= drawn.bbox.x1


def marks(ax):
    """Marks at the ends of curves: their faces."""
    return [to_hex(line.get_markerfacecolor()) for line in ax.lines if len(line.get_xdata()) == 1]


def test_a_curve_that_was_cut_short_ends_in_a_hollow_mark(make_cell):
    traces = [[(0.1, 0.7, 0.5), (10.0, 0.4, 0.2)], [(0.1, 0.6, 0.5), (5.0, 0.3, 0.2)]]
    cells = [
        make_cell(method=name, trace=trace, nll=0.4, seconds=10.0, stopped_by=ended, limits={"seconds": 10.0})
        for name, trace, ended in zip(("x-gpc", "svgpc"), traces, ("seconds", "converged"), strict=True)
    ]
    drawn = figure(cells, paper=Limits())
    assert sorted(face == "#ffffff" for face in marks(drawn.axes[0])) == [False, True]
    assert "A hollow mark at the end" in drawn.legends[0].get_title().get_text()
    whole = figure(cells, paper=Limits(seconds=10.0))
    assert "#ffffff" not in marks(whole.axes[0])
    assert "#ffffff" not in marks(figure(cells).axes[0])


def test_ends_that_differ_by_factors_have_a_logarithmic_axis(make_cell):
    def cells(low):
        return [
            make_cell(method=name, trace=[(0.1, 0.7, 0.5), (1.0, end, end)], nll=end)
            for name, end in (("x-gpc", low), ("svgpc", 0.3))
        ]

    assert figure(cells(0.01)).axes[0].get_yscale() == "log"
    assert figure(cells(0.2)).axes[0].get_yscale() == "linear"
    assert figure(cells(0.0), "error").axes[0].get_yscale() == "linear"  # a logarithmic axis has no zero


def test_panels_that_are_compared_share_their_values(make_cell):
    cells = [
        make_cell(dataset=name, trace=[(0.1, start, 0.5), (1.0, end, 0.2)], nll=end)
        for name, start, end in (("german", 0.7, 0.5), ("magic", 0.4, 0.3))
    ]
    apart = [ax.get_ylim() for ax in figure(cells).axes]
    assert apart[0] != apart[1]
    shared = [ax.get_ylim() for ax in figure(cells, together={"german": "one", "magic": "one"}).axes]
    assert shared[0] == shared[1]
    assert (shared[0][0], shared[0][1]) == (apart[1][0], apart[0][1]) or shared[0][1] >= 0.7


def test_methods_are_told_apart_without_colour(make_cell):
    names = ("svi-adadelta", "vi-jj", "klsp-batch-z-fixed", "vi-taylor", "vi-jj-full", "vi-jj-hybrid")
    cells = [make_cell(method=name, trace=[(0.1, 0.7, 0.5), (1.0, 0.4, 0.2)]) for name in names]
    drawn = figure(cells)
    assert len({line.get_marker() for line in lines(drawn.axes[0]).values()}) == len(names)
    assert {line.get_marker() for line in drawn.legends[0].get_lines()} == {
        line.get_marker() for line in lines(drawn.axes[0]).values()
    }


def test_an_objective_is_called_what_it_is(make_cell):
    def label(*methods):
        cells = [make_cell(method=name, trace=[(0.1, 0.7, 0.5), (1.0, 0.4, 0.2)]) for name in methods]
        return figure(cells, "bound").axes[0].get_ylabel()

    assert label("ep-mgpc", "gfitc") == "log Z_q (nats)"
    assert label("x-gpc") == "bound (nats)"
    assert label("x-gpc", "ep") == "objective (nats)"


def test_the_trials_of_a_grid_of_rates_are_shaded(make_cell):
    settings = {"rate_grid": 2, "grid_iterations": 1, "max_iterations": 100}
    trace = [(0.1, 0.7, 0.5), (0.2, 0.6, 0.5), (1.0, 0.4, 0.2)]  # iterations 1, 2 and 3: the second ends the trials
    drawn = figure([make_cell(method="svi-adadelta", settings=settings, trace=trace)])
    (shade,) = drawn.axes[0].patches
    assert shade.get_x() + shade.get_width() == pytest.approx(0.2)
    assert "Shaded" in drawn.legends[0].get_title().get_text()
    other = figure([make_cell(method="svi-adadelta", settings={**settings, "rate_grid": 0}, trace=trace)])
    assert not other.axes[0].patches


def test_a_legend_of_many_settings_names_methods(make_cell):
    many = [make_cell(settings={"inducing": str(k)}, trace=[(0.1, 0.7, 0.5), (1.0, 0.5, 0.2)]) for k in range(1, 41)]
    drawn = figure([*many, make_cell(method="linear", settings={})])
    assert legend(drawn) == ["linear", "x-gpc, 40 settings"]
    assert drawn.get_figheight() < 5.0
    assert len(legend(figure(many[:5]))) == 5
