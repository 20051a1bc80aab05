import base64
import hashlib
import json
import re
from dataclasses import replace

import pytest
from hostile import NAMES, Reader

from gpbench.report.page import Part, Picture, page, write_page
from gpbench.report.page.parts import plan_part
from gpbench.report.tables.table import Display, Line, Number


def chart_data(text):
    return json.loads(re.search(r'id="chart-data">(.*?)</script>', text)[1])


@pytest.fixture
def cells(make_cell):
    trace = [(0.1, 0.7, 0.5), (1.0, 0.5, 0.25)]
    return [
        *(make_cell(index=index, trace=trace) for index in range(2)),
        *(make_cell(method="linear", index=index, nll=0.6) for index in range(2)),
        make_cell(dataset="wine", index=1, status="failed", message="matrix < 0 & worse"),
    ]


def test_nothing_is_loaded_from_anywhere(cells):
    picture = Picture("curves", "image/png", b"\x89PNG")
    found = Reader(page(cells, title="t", plans=[Part(title="Figure 1", pictures=[picture])]))
    for tag, attributes in found.elements:
        assert tag not in {"link", "iframe", "object", "embed", "base", "form"}
        for name in ("src", "href", "action", "data", "srcset"):
            value = attributes.get(name, "#")
            assert value.startswith(("#", "data:image/")), (tag, name, value)
        assert not [name for name in attributes if name.startswith("on")]
    assert found.all("img")[0] == {
        "src": "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode(),
        "alt": "curves",
    }


def test_only_our_own_scripts_may_run(cells):
    text = page(cells, title="t")
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    assert len(scripts) == 2
    digests = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    (policy,) = (each["content"] for each in Reader(text).all("meta") if each.get("http-equiv"))
    assert policy == f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {allowed}"
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text


def test_table_failures_and_provenance(cells):
    found = Reader(page(cells, title="Two methods"))
    texts = found.texts
    assert texts.count("Two methods") == 2  # head and heading
    assert "5 cells, 2 data sets, 2 methods; 1 failed." in texts
    assert "0.5000 ± 0.0000" in texts
    assert "NumericalError: matrix < 0 & worse" in texts
    row = texts[texts.index("folds:10, 2/10, seed 0") - 2 :][:6]
    assert row == ["wine", "x-gpc", "folds:10, 2/10, seed 0", "failed", "3", "NumericalError: matrix < 0 & worse"]
    assert "Zen 4" in texts
    anchors = {each["href"] for each in found.all("a")}
    assert anchors == {f"#{each['id']}" for each in found.all("section")}


def test_curves_are_means_over_splits(cells):
    data = chart_data(page(cells, title="t"))
    assert [each["label"] for each in data["methods"]] == ["linear", "x-gpc"]
    (chart,) = data["charts"]
    assert (chart["title"], chart["split"]) == ("german", "folds:10")
    linear, xgpc = chart["curves"]
    assert (linear["seconds"], linear["nll"], linear["nll_band"]) == ([1.0], [0.6], [0.0])
    assert (xgpc["seconds"][0], xgpc["seconds"][-1]) == (0.1, 1.0)
    assert (xgpc["nll"][0], xgpc["error"][-1], xgpc["splits"], xgpc["of"]) == (0.7, 0.25, 2, 2)


def test_values_that_are_not_finite_are_null(make_cell):
    data = chart_data(page([make_cell(trace=[(0.1, None, 0.5), (1.0, 0.5, 0.5)])], title="t"))
    assert data["charts"][0]["curves"][0]["nll"][0] is None


def test_times_of_two_processors_are_not_drawn(make_cell):
    text = page([make_cell(), make_cell(index=1, cpu="M4")], title="t")
    assert chart_data(text)["charts"] == []
    assert "Not drawn: german, folds:10: times of different processors (M4; Zen 4)." in Reader(text).texts


def test_provenance_that_differs_is_counted(make_cell):
    texts = Reader(page([make_cell(), make_cell(index=1, cpu="M4"), make_cell(index=2)], title="t")).texts
    assert "M4 (1 cells); Zen 4 (2 cells)" in texts


def test_a_plan_has_a_section_of_its_own(cells):
    shown = Display(
        ("set", "a"), ("NLL",), (Line(("german", "worse"), (Number("0.5", "0.1", best=True),)),), "best", ("n1",)
    )
    found = Reader(page(cells, title="t", plans=[Part(title="Table 1", notes=["n2"], tables=[("x/table1", shown)])]))
    assert found.texts[found.texts.index("x/table1") :][:9] == [
        "x/table1", "set", "a", "NLL", "german", "worse", "0.5 ± 0.1", "Bold: best.", "n1",
    ]  # fmt: skip
    assert {"class": "worse"} in found.all("td")
    assert "n2" in found.texts


@pytest.mark.parametrize(
    ("rendering", "heads"),
    [
        ('render = "attainment"', ["iterations ×"]),
        ('render = "rivals"', ["× stays", "end NLL"]),
        ('render = "table"', ["X-GPC"]),
    ],
)
def test_a_plan_that_is_a_table_shows_it(ran, rendering, heads):
    figure = '[figure]\nrivals = ["svgpc"]\n' if "rivals" in rendering else ""
    plan = f'title = "T"\ndatasets = ["german"]\nsplit = "holdout:0.1*2"\n{rendering}\n{figure}'
    plan += '[methods.x-gpc]\nlabel = "X-GPC"\n[methods.svgpc]\n'
    trace = [(0.1, 0.7, 0.5), (1.0, 0.5, 0.25), (2.0, 0.5, 0.25)]
    part = plan_part(ran(plan, lambda _: [{"trace": trace}] * 2, count=2))
    shown = [head for _, each in part.tables for head in (*each.word_heads, *each.number_heads)]
    assert set(heads) <= set(shown)
    assert not part.pictures


@pytest.mark.parametrize("name", NAMES)
def test_hostile_names_stay_text(make_cell, name):
    cells = [
        make_cell(dataset=name, method=name, protocol=name, cpu=name, settings={name: name}),
        make_cell(dataset=name, method=name, settings={name: "2"}),
        make_cell(dataset=name, method=name, status="failed", message=name, settings={name: "2"}, index=1),
    ]
    harmless = page([make_cell(dataset="d", method="m", settings={"s": value}) for value in "ab"], title="t")
    text = page(cells, title=name, plans=[Part(title=name, notes=[name], pictures=[Picture(name, "image/png", b"")])])
    found = Reader(text)
    scripts = Reader(harmless).all("script")
    assert found.all("script") == scripts
    assert {tag for tag, _ in found.elements} - {tag for tag, _ in Reader(harmless).elements} <= {
        "img",
        "figure",
        "figcaption",
        "li",
        "ul",
        "td",
        "th",
        "tr",
        "div",
        "table",
        "caption",
        "thead",
        "tbody",
    }
    assert not [key for _, attributes in found.elements for key in attributes if key.startswith("on")]
    assert all(each["src"].startswith("data:image/png;") for each in found.all("img"))


def test_the_same_cells_in_any_order_give_the_same_page(cells):
    assert page(cells, title="t") == page(cells[::-1], title="t")


def test_no_cells_at_all(tmp_path):
    write_page([], tmp_path / "a" / "page.html", title="Nothing")
    text = (tmp_path / "a" / "page.html").read_text(encoding="utf-8")
    assert "0 cells, 0 data sets, 0 methods; none failed." in Reader(text).texts


def test_the_first_screen_says_who_won(make_cell):
    cells = [
        make_cell(dataset=dataset, method=method, nll=nll)
        for dataset, nlls in (("german", (0.5, 0.6, 0.4)), ("heart", (0.5, 0.4, 0.6)), ("magic", (0.3, 0.4, 0.2)))
        for method, nll in zip(("linear", "svgpc", "x-gpc"), nlls, strict=True)
    ]
    failed = make_cell(dataset="bank", method="x-gpc", status="failed")
    text = page([*cells, make_cell(dataset="bank", method="svgpc"), failed], title="t")
    words = "Lowest mean test NLL over 3 data sets on which all 3 methods ended well: x-gpc on 2, svgpc on 1."
    assert words in text
    assert "Lowest mean" not in page([make_cell()], title="t")  # nobody to compare with
    assert text.count('<tr class="failed"') == 1


def test_one_data_set_has_one_winner(make_cell):
    cells = [make_cell(method=method, nll=nll) for method, nll in (("linear", 0.5), ("x-gpc", 0.4))]
    assert "Lowest mean test NLL of all 2 methods: x-gpc, 0.4000." in page(cells, title="t")


def test_rows_whose_times_were_disturbed_are_marked(make_cell):
    calm, busy = make_cell(method="linear"), make_cell()
    busy = replace(busy, clock="processor", metrics={**busy.metrics, "wall_seconds": 9.0, "cpu_seconds": 2.0})
    text = page([calm, busy], title="t")
    assert text.count('<tr class="busy"') == 1
    assert "Yellow rows: the clocks speak against these times, see below." in text
    assert "the machine was busy" in chart_data(text)["charts"][0]["cpu"]
    assert '<tr class="busy"' not in page([calm, busy], title="t", metrics=["nll"])  # no times, nothing to mark
    assert "Yellow rows" not in page([calm], title="t")


def test_shares_of_wins_where_two_methods_meet_on_two_data_sets(make_cell):
    cells = [
        make_cell(dataset=dataset, method=method, nll=nll)
        for dataset, nlls in (("german", (0.5, 0.4)), ("heart", (0.5, 0.4)), ("magic", (0.3, 0.4)))
        for method, nll in zip(("linear", "x-gpc"), nlls, strict=True)
    ]
    texts = Reader(page(cells, title="t")).texts
    at = texts.index("x-gpc", texts.index("Share of data sets where the row's method is better than the column's"))
    shares = [text for text in texts[at:] if text.startswith(("0.33 ", "0.67 "))]
    assert [text[:4] for text in shares[:2]] == ["0.33", "0.67"]  # linear against x-gpc, and the other way round
    assert "Share of data sets" not in page(cells[:2], title="t")  # one data set
    assert "Share of data sets" not in page(cells[::2], title="t")  # one method
