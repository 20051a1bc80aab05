"""The page in headless Chromium, from a file, without a network. Skipped where there is no Chromium."""

import html
import json
import os
import re
import shutil
import subprocess

import numpy as np
import pytest
from hostile import NAMES

from gpbench.report.page import page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")]

#: What a reader does: looks, switches a method off and on, changes the metric, zooms in and back, points.
DRIVER = """
const lines = () => [...document.querySelectorAll("polyline")];
const of = (method) => lines().filter((each) => each.dataset.method === method).length;
const ticks = () => [...document.querySelector("#charts svg").querySelectorAll("text")].map((each) => each.textContent);
const report = { curves: lines().length, hacked: window.hacked ?? null };
report.drawn = [...document.querySelectorAll(".chart svg[role]")].map((each) =>
  each.viewBox.baseVal.width / each.getBoundingClientRect().width);
const box = document.querySelector('#chart-controls input[data-method="x-gpc"]');
if (box) {
  report.before = of("x-gpc");
  box.click();
  report.off = of("x-gpc");
  report.others = of("linear");
  box.click();
  report.on = of("x-gpc");
}
const root = document.querySelector("#charts svg");
const area = root.getBoundingClientRect();
const point = (type, fx, fy) => root.dispatchEvent(new PointerEvent(type, {
  bubbles: true, button: 0, pointerId: 1, clientX: area.left + fx * area.width, clientY: area.top + fy * area.height,
}));
report.whole = ticks();
point("pointermove", 0.9, 0.5);
const tip = document.querySelector(".tip");
report.tip = tip.textContent;
const boxOf = (each) => { const b = each.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };
report.tips = [0.2, 0.5, 0.9].map((fx) => [0.15, 0.5, 0.8].map((fy) => {
  point("pointermove", fx, fy);
  const pointer = [area.left + fx * area.width, area.top + fy * area.height];
  return { pointer, tip: boxOf(tip), chart: boxOf(tip.parentElement), seconds: tip.firstChild?.textContent,
    value: [...tip.children].find((each) => each.textContent.startsWith("x-gpc"))?.textContent };
})).flat();
point("pointerdown", 0.3, 0.3);
point("pointermove", 0.5, 0.5);
point("pointerup", 0.6, 0.6);
report.zoomed = ticks();
[...document.querySelectorAll(".chart button")].find((each) => each.textContent === "reset").click();
report.again = ticks();
const select = document.querySelector("#chart-controls select");
select.value = "error";
select.dispatchEvent(new Event("change"));
report.error = ticks();
const heads = [...document.querySelectorAll("th button")];
const sort = heads.find((each) => each.textContent === "NLL");
if (sort) {
  const rows = [...sort.closest("table").tBodies[0].rows];
  const column = () => [...sort.closest("table").tBodies[0].rows].map((each) => each.cells[4].textContent);
  const clicked = () => { sort.click(); return column(); };
  report.sorted = { first: column(), up: clicked(), down: clicked(), last: clicked() };
  const filter = document.querySelector("input[type=search]");
  if (filter) {
    filter.value = "svgpc german";
    filter.dispatchEvent(new Event("input"));
    report.filtered = rows.filter((each) => !each.hidden).map((each) => each.cells[1].textContent);
  }
}
report.width = [document.documentElement.scrollWidth, document.documentElement.clientWidth];
document.documentElement.dataset.report = JSON.stringify(report);
parent.postMessage(report.width, "*");
"""
WRAPPER = """<!doctype html><iframe src="page.html" style="width: 360px; height: 9000px; border: 0"></iframe>
<script>onmessage = (event) => { document.documentElement.dataset.report = JSON.stringify(event.data); };</script>"""


def browse(path, *flags):
    """The document as it is once its scripts have run."""
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               "--no-first-run", "--disable-extensions", "--disable-background-networking",
               f"--user-data-dir={path.parent / 'profile'}", "--virtual-time-budget=3000", *flags]  # fmt: skip
    environment = {**os.environ, "HOME": str(path.parent)}
    done = subprocess.run([*command, "--dump-dom", path.as_uri()], capture_output=True, check=True, env=environment)
    return done.stdout.decode("utf-8")


def drive(text, folder, *flags):
    """What the driver reports; the page's policy is loosened so that it may run, everything else is as it is."""
    loose = re.sub(r"script-src &#x27;sha256-[^;\"]*", "script-src &#x27;unsafe-inline&#x27;", text)
    assert loose != text
    (folder / "page.html").write_text(loose.replace("</body>", f"<script>{DRIVER}</script></body>"), encoding="utf-8")
    return reported(browse(folder / "page.html", *flags))


def reported(document):
    return json.loads(html.unescape(re.search(r'data-report="([^"]*)"', document)[1]))


@pytest.fixture
def cells(make_cell):
    trace = [(0.1, 0.7, 0.5), (0.3, 0.6, 0.4), (1.0, 0.5, 0.25), (10.0, 0.45, 0.2)]
    return [
        make_cell(dataset=dataset, method=method, index=index, trace=trace)
        for dataset in ("german", "a-data-set-with-a-rather-long-name-that-must-not-widen-the-page")
        for method in ("x-gpc", "linear", "svgpc")
        for index in range(2)
    ]


def test_charts_beside_one_another_are_drawn_at_one_scale(cells, tmp_path):
    found = drive(page(cells, title="t"), tmp_path, "--window-size=1280,900")
    assert found["drawn"] == pytest.approx([1.0, 1.0], abs=0.01)


def test_a_reader_can_look_switch_and_zoom(cells, tmp_path):
    found = drive(page(cells, title="t"), tmp_path)
    assert found["curves"] == 6
    assert (found["before"], found["off"], found["others"], found["on"]) == (2, 0, 2, 2)
    assert found["zoomed"] != found["whole"] == found["again"]
    assert [text in found["whole"] for text in ("test NLL (nats)", "training time (s)", "1", "0.5")] == [True] * 4
    assert "test error" in found["error"]
    assert re.search(r"^[\d.]+ slinear: 0\.\d{4}svgpc: 0\.\d{4}x-gpc: 0\.\d{4}$", found["tip"])


def test_it_is_as_wide_as_a_phone(cells, make_cell, tmp_path):
    cells = [*cells, make_cell(index=3, status="failed", message="word " * 60 + "x" * 300)]
    drive(page(cells, title="A title of several words that has to be broken"), tmp_path)
    (tmp_path / "phone.html").write_text(WRAPPER, encoding="utf-8")
    scroll, client = reported(browse(tmp_path / "phone.html"))
    assert client == 360
    assert scroll <= client


def test_the_page_as_it_is_runs_its_script_and_no_other(make_cell, tmp_path):
    """With its own policy; injected scripts would not even run if they came through."""
    cells = [make_cell(dataset=name, method=name, index=index) for index, name in enumerate(NAMES)]
    (tmp_path / "page.html").write_text(page(cells, title="t"), encoding="utf-8")
    document = browse(tmp_path / "page.html")
    assert document.count("<polyline") == len(NAMES)
    injected = (
        (tmp_path / "page.html").read_text().replace("</body>", "<script>document.title = 'hacked'</script></body>")
    )
    (tmp_path / "page.html").write_text(injected, encoding="utf-8")
    assert "<title>t</title>" in browse(tmp_path / "page.html")


def test_hostile_names_come_to_nothing_even_without_the_policy(make_cell, tmp_path):
    cells = [make_cell(dataset=name, method=name, protocol=name, index=index) for index, name in enumerate(NAMES)]
    cells += [make_cell(dataset=name, status="failed", message=name) for name in NAMES]
    found = drive(page(cells, title=NAMES[0]), tmp_path)
    assert (found["curves"], found["hacked"]) == (len(NAMES), None)


def test_the_box_stands_at_the_pointer_and_tells_the_lines_own_value(make_cell, tmp_path):
    trace = [(0.1, 0.7, 0.5), (0.4, 0.6, 0.3), (2.5, 0.35, 0.3), (10.0, 0.3, 0.2)]
    text = page([make_cell(index=index, trace=trace) for index in range(2)], title="t")
    (line,) = json.loads(re.search(r'id="chart-data">(.*?)</script>', text)[1])["charts"][0]["curves"]
    found = drive(text, tmp_path)
    assert len(found["tips"]) == 9
    for each in found["tips"]:
        (x, y), (left, top, right, bottom) = each["pointer"], each["tip"]
        assert min(abs(left - x), abs(right - x)) <= 16  # beside the pointer, not below the chart
        assert top - 2 <= y <= bottom + 2
        outer = each["chart"]
        assert outer[0] - 1 <= left
        assert right <= outer[2] + 1
        assert outer[1] - 1 <= top
        assert bottom <= outer[3] + 1
        seconds = float(each["seconds"].removesuffix(" s"))
        near = [np.interp(np.log(factor * seconds), np.log(line["seconds"]), line["nll"]) for factor in (0.995, 1.005)]
        assert min(near) - 1e-3 <= float(each["value"].partition(": ")[2]) <= max(near) + 1e-3  # three digits of time


def test_tables_sort_and_filter(make_cell, tmp_path):
    cells = [
        make_cell(dataset=dataset, method=method, nll=nll)
        for dataset, nlls in (("german", (0.5, 1.6, 0.4)), ("heart", (10.5, 0.45, 0.6)), ("magic", (0.3, 0.41, 0.2)))
        for method, nll in zip(("linear", "svgpc", "x-gpc"), nlls, strict=True)
    ]
    found = drive(page(cells, title="t"), tmp_path)
    first, up, down, last = (found["sorted"][name] for name in ("first", "up", "down", "last"))
    values = [float(each) for each in up]
    assert values == sorted(values)
    assert values[-1] == 10.5  # as numbers, not as words
    assert down == up[::-1]
    assert last == first
    assert found["filtered"] == ["svgpc"]
