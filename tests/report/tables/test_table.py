import csv
import io
import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from gpbench.errors import UsageError
from gpbench.report.tables.lines import text as lines_of
from gpbench.report.tables.summary import summarise
from gpbench.report.tables.table import ENDINGS, RENDERERS, Display, Line, Number, table
from gpbench.report.text import escape_latex, escape_markdown, printable


@pytest.fixture
def small(make_cell):
    """Two methods on two data sets; one failed cell; x-gpc wins on german."""
    cells = [make_cell(index=i, nll=nll, error=0.25, seconds=s) for i, (nll, s) in enumerate([(0.25, 10), (0.75, 14)])]
    cells += [
        make_cell(method="linear", settings={}, index=i, nll=nll, error=0.5, seconds=0.01)
        for i, nll in enumerate([0.5, 0.75])
    ]
    cells += [
        make_cell(dataset="wine_2", index=0, nll=1.5, seconds=1234.5),
        make_cell(dataset="wine_2", index=1, status="timeout", message="ended from outside"),
    ]
    return summarise(cells)


def test_text(small):
    assert table(small).splitlines() == [
        "data set  method  split     cells                   NLL                error            train (s)",
        "─" * 103,
        "german    linear  folds:10  2                       0.6250 ± 0.1768    0.5000 ± 0.0000  0.0100 ± 0.0000",
        "german    x-gpc   folds:10  2                       0.5000 ± 0.3536 *  0.2500 ± 0.0000    12.0 ± 2.8",
        "wine_2    x-gpc   folds:10  failed 1/2 (timeout 1)  1.5000             0.2500             1234",
        "─" * 103,
        "* lowest mean NLL of the data set.",
        "NLL: mean negative log predictive probability of the test targets, in nats.",
        "Mean ± standard deviation over splits.",
        "Times were taken on Zen 4.",
        "The same in all rows that have it: inducing=100.",
        "x-gpc on wine_2, folds:10: 1 of 2 cells failed: NumericalError: ended from outside",
    ]


def test_markdown(small):
    assert table(small, format="markdown") == (
        "| data set | method | split | cells | NLL | error | train (s) |\n"
        "|---|---|---|---|---:|---:|---:|\n"
        "| german | linear | folds:10 | 2 | 0.6250 ± 0.1768 | 0.5000 ± 0.0000 | 0.0100 ± 0.0000 |\n"
        "| german | x-gpc | folds:10 | 2 | **0.5000** ± 0.3536 | 0.2500 ± 0.0000 | 12.0 ± 2.8 |\n"
        "| wine\\_2 | x-gpc | folds:10 | failed 1/2 (timeout 1) | 1.5000 | 0.2500 | 1234 |\n"
        "\n"
        "- Bold: lowest mean NLL of the data set.\n"
        "- NLL: mean negative log predictive probability of the test targets, in nats.\n"
        "- Mean ± standard deviation over splits.\n"
        "- Times were taken on Zen 4.\n"
        "- The same in all rows that have it: inducing=100.\n"
        "- x-gpc on wine\\_2, folds:10: 1 of 2 cells failed: NumericalError: ended from outside\n"
    )


def test_latex(small):
    assert table(small, format="latex") == (
        "% \\usepackage{booktabs, graphicx, siunitx}\n"
        "% bold: lowest mean NLL of the data set\n"
        "% NLL: mean negative log predictive probability of the test targets, in nats.\n"
        "% Mean ± standard deviation over splits.\n"
        "% Times were taken on Zen 4.\n"
        "% The same in all rows that have it: inducing=100.\n"
        "% x-gpc on wine_2, folds:10: 1 of 2 cells failed: NumericalError: ended from outside\n"
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n"
        "\\sisetup{detect-weight}%\n"
        "\\begin{tabular}{llllS[table-format=1.4]@{\\,}c@{\\,}S[table-format=1.4]"
        "S[table-format=1.4]@{\\,}c@{\\,}S[table-format=1.4]S[table-format=4.4]@{\\,}c@{\\,}S[table-format=1.4]}\n"
        "\\toprule\n"
        "data set & method & split & cells & \\multicolumn{3}{c}{NLL} & \\multicolumn{3}{c}{error} & "
        "\\multicolumn{3}{c}{train (s)} \\\\\n"
        "\\midrule\n"
        "german & linear & folds:10 & 2 & 0.6250 & {$\\pm$} & 0.1768 & 0.5000 & {$\\pm$} & 0.0000 & "
        "0.0100 & {$\\pm$} & 0.0000 \\\\\n"
        "german & x-gpc & folds:10 & 2 & \\bfseries 0.5000 & {$\\pm$} & 0.3536 & 0.2500 & {$\\pm$} & 0.0000 & "
        "12.0 & {$\\pm$} & 2.8 \\\\\n"
        "wine\\_2 & x-gpc & folds:10 & failed 1/2 (timeout 1) & 1.5000 & & & 0.2500 & & & 1234 & & \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}}%\n"
    )


LATEX = shutil.which("pdflatex")


@pytest.mark.skipif(LATEX is None, reason="needs pdflatex (Debian: texlive-latex-recommended, texlive-science)")
def test_latex_compiles_and_fits_the_line(small, make_cell, tmp_path):
    hostile = summarise([make_cell(dataset="a_b&c#%$^~\\{}", method="x-gpc", index=0, nll=-12.5, seconds=0.0)])
    plan = Display(
        ("data set", "", "X", "Y"),
        (),
        (
            Line(("German", "NLL", "-0.44 ± 0.17 *", "large (3.10 ± 2.00)"), ()),
            Line(("", "  printed", "–", "374 ± 7.3"), ()),
            Line(("", "  verdict", "agrees", "cut short"), ()),
        ),
        *("", ("it is ≤ 2 √(se²)",)),
        keys=2,
    )
    told = r"NLL & \bfseries -0.44 & {$\pm$} & 0.17 & \multicolumn{3}{c}{large (3.10 $\pm$ 2.00)}"
    assert told in RENDERERS["latex"](plan)
    bounds = Number("-0.1132 [-0.1224, +0.1040]", best=True)
    pairs = Display(("pair",), ("NLL", "time"), (Line(("a - b",), (bounds, Number("> 0.01"))),), "0 lies outside", ())
    told = r"{\boldmath\textbf{$-0.1132$ [$-0.1224$, $+0.1040$]}} & $>$ 0.01"
    assert told in RENDERERS["latex"](pairs)
    wide = Display(("a",), ("n", "m"), (Line(("w" * 90,), (Number("3.14159", "12.5"), Number("large"))),), "", ())
    tables = [
        table(small, format="latex"),
        table(hostile, format="latex"),
        *(RENDERERS["latex"](each) for each in (wide, plan, pairs)),
    ]
    body = "\n\n".join(each for each in tables)
    (tmp_path / "t.tex").write_text(
        "\\documentclass{article}\\usepackage{booktabs,graphicx,siunitx}\\setlength{\\parindent}{0pt}\n"
        f"\\begin{{document}}\n{body}\n\\end{{document}}\n"
    )
    done = subprocess.run(
        [LATEX, "-interaction=nonstopmode", "-halt-on-error", "t.tex"],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    if "not found" in done.stdout:
        pytest.skip("a package of LaTeX is missing: " + done.stdout[-300:])
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
    assert "Package siunitx Error" not in done.stdout


@pytest.mark.parametrize("width", [80, 60])
def test_text_fits_the_terminal(make_cell, width):
    cells = [
        make_cell(dataset=dataset, method=method, index=i, nll=0.5 + 0.1 * i, error=0.25, seconds=0.012 + 0.003 * i)
        for dataset in ("breast-cancer-wisconsin", "german")
        for method in ("x-gpc", "linear")
        for i in range(2)
    ]
    text = table(summarise(cells), width=width)
    assert max(map(len, text.splitlines())) <= width
    for words in ("breast-cancer-wisconsin", "german", "x-gpc", "linear", "folds:10", "0.55"):
        assert words in text
    assert "Mean ± standard deviation over splits." in text


NUMBERS = tuple(Number(f"{0.1234 * k:+.4f} [{-0.5:+.4f}, {k:+.4f}]", best=k > 2) for k in range(1, 5))
PAIRS = Display(
    ("data set", "split", "pair", "splits"),
    ("NLL", "error", "Brier", "a head that is long"),
    tuple(
        Line((name, "folds:10", f"x-gpc (inducing={k}) - svgpc (inducing={k})", "10"), NUMBERS)
        for name in ("breast-cancer-wisconsin", "german")
        for k in (100, 200)
    ),
    "0 lies outside the interval",
    ("A sentence that is a good deal longer than any of the terminals that there are in this place, or elsewhere.",),
)
PLANNED = Display(
    ("data set", "", *(f"METHOD-{k}, shuffled" for k in range(6))),
    (),
    tuple(Line((name, "NLL", *(f"0.{k}4 ± 0.17" for k in range(6))), ()) for name in ("German", "")),
    "",
    (),
    keys=2,
)


@pytest.mark.parametrize("width", [80, 60, 40])
@pytest.mark.parametrize("shown", [PAIRS, PLANNED])
def test_every_table_fits_and_loses_no_number(shown, width):
    lines = lines_of(shown, width).splitlines()
    assert max(map(len, lines)) <= width
    whole = "\n".join(lines)
    for line in shown.lines:
        for number in line.numbers:
            kept = re.findall(r"[-+]\d\.\d", number.mean)
            assert whole.count(kept[0]) >= 1
        for words in line.words[2:] if shown is PLANNED else ():
            assert words in whole
    assert lines_of(shown, 500) == lines_of(shown)


def test_no_more_is_left_out_than_the_width_asks_for(small):
    assert table(small, width=200) == table(small)
    assert "0.6250" in table(small, width=102)
    narrow = table(small, width=94)
    assert "In all rows: split folds:10." in narrow.replace("\n  ", " ")
    assert "0.6250" in narrow


def test_settings_are_said_once_below(make_cell):
    own = [{"inducing": m, "kernel": "se", "batch_size": 10 * m, "rate": None} for m in (16, 100)]
    cells = [make_cell(settings=each) for each in own]
    text = table(summarise([*cells, make_cell(method="svgpc", settings={"kernel": "se", "warmth": 2})]))
    assert "x-gpc (inducing=16) " in text
    assert "x-gpc (inducing=16) also has batch_size=160." in text
    assert "The same in all rows that have it: kernel=se.\n" in text
    assert text.count("kernel") == 1


def test_csv_holds_every_number_in_full(make_cell):
    cells = [make_cell(index=i, nll=nll, seconds=1 / 3) for i, nll in enumerate([1 / 3, 1 / 7])]
    cells.append(make_cell(method="li,ne", settings={}, status="failed"))
    summary = summarise(cells)
    linear, xgpc = csv.DictReader(io.StringIO(table(summary, format="csv")))
    assert float(xgpc["nll_mean"]) == summary[1]["nll"]["mean"]
    assert float(xgpc["nll_sd"]) == summary[1]["nll"]["sd"]
    assert float(xgpc["train_seconds_mean"]) == 1 / 3
    assert (xgpc["cells"], xgpc["failed"], xgpc["processors"], xgpc["seeds"]) == ("2", "0", "Zen 4", "0")
    assert linear["method"] == "li,ne"
    assert (linear["failed"], linear["nll_mean"], linear["train_seconds_mean"]) == ("1", "", "")


@pytest.mark.parametrize("form", list(RENDERERS))
def test_no_times_from_different_processors(make_cell, form):
    cells = [make_cell(cpu="Zen 4", seconds=77.0), make_cell(method="linear", settings={}, cpu="M4", seconds=77.0)]
    text = table(summarise(cells), format=form)
    assert "train (s)" not in text
    assert "77" not in text
    assert "No times are shown: the cells ran on different processors (M4; Zen 4)." in text


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_no_time_for_a_row_of_different_threads(make_cell, form):
    cells = [make_cell(index=index, threads=threads, seconds=77.0) for index, threads in enumerate([1, 4])]
    cells += [make_cell(method="linear", settings={}, seconds=55.0)]
    text = table(summarise(cells), format=form)
    assert "77" not in text
    assert "55.0" in text
    assert "x-gpc on german, folds:10: no time is shown, since its cells ran with 1 or 4 threads." in text
    assert "do not compare" not in text


def test_rows_of_different_threads_are_told(make_cell):
    text = table(summarise([make_cell(threads=2, seconds=77.0), make_cell(method="linear", settings={})]))
    assert "77.0" in text
    assert "Times do not compare between all rows: their cells ran with 1 or 2 threads." in text
    assert "With 2 threads: x-gpc on german, folds:10." in text


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_cells_that_a_limit_ended_are_told(make_cell, form):
    ends = ["converged", "seconds", "iterations", "seconds"]
    cells = [make_cell(index=index, stopped_by=end) for index, end in enumerate(ends)]
    cells += [make_cell(index=4, status="failed"), make_cell(dataset="wine", stopped_by="iterations")]
    cells += [make_cell(method="linear", settings={})]
    told = (
        "Training ended at a limit, not by convergence: "
        "x-gpc on german, folds:10 (iterations 1/4, seconds 2/4); x-gpc on wine, folds:10 (iterations 1/1)."
    )
    summary = summarise(cells)
    assert table(summary, format=form).count(told) == 1
    rows = list(csv.DictReader(io.StringIO(table(summary, format="csv"))))
    assert [row["stopped_by"] for row in rows] == [
        "converged 1",
        "converged 1; iterations 1; seconds 2",
        "iterations 1",
    ]


def test_many_rows_that_a_limit_ended_are_told_together(make_cell):
    names = ("a", "b", "c")
    cells = [
        make_cell(dataset=dataset, method=method, settings={}, stopped_by="iterations")
        for dataset in names
        for method in ("x-gpc", "svgpc")
    ]
    said = "Training ended at a limit, not by convergence: {} (iterations 1/1)."
    assert said.format("all rows") in table(summarise(cells))
    cells += [make_cell(dataset=dataset, method="linear", settings={}) for dataset in names]
    cells += [make_cell(dataset="a", method="hgb", settings={}, stopped_by="iterations")]
    cells += [make_cell(dataset="b", method="hgb", settings={})]
    assert said.format("all rows of svgpc, x-gpc; hgb on a, folds:10") in table(summarise(cells))


def test_converged_cells_need_no_note(make_cell):
    assert "limit" not in table(summarise([make_cell()]))


def test_the_end_of_a_method_s_own_schedule_is_no_limit(make_cell):
    summary = summarise([make_cell(stopped_by="schedule")])
    assert "limit" not in table(summary)
    (row,) = csv.DictReader(io.StringIO(table(summary, format="csv")))
    assert row["stopped_by"] == "schedule 1"


def test_csv_has_no_times_from_different_processors(make_cell):
    cells = [make_cell(cpu="Zen 4"), make_cell(method="linear", settings={}, cpu="M4")]
    rows = list(csv.DictReader(io.StringIO(table(summarise(cells), format="csv"))))
    assert [row["train_seconds_mean"] for row in rows] == ["", ""]
    assert [row["processors"] for row in rows] == ["M4", "Zen 4"]


def test_cells_that_ran_at_once_are_told(make_cell):
    assert "Up to 4 cells ran at once" in table(summarise([make_cell(index=0), make_cell(index=1, jobs=4)]))
    assert "at once" not in table(summarise([make_cell()]))


def marked(summary):
    """Methods whose mean is marked in the text table."""
    return [line.split()[1] for line in table(summary).splitlines() if re.search(r"\d \*", line)]


def test_equal_means_share_the_mark(make_cell):
    means = {"a": 0.30001, "b": 0.30004, "c": 0.3002}
    assert marked(summarise([make_cell(method=name, nll=nll) for name, nll in means.items()])) == ["a", "b"]


def test_a_method_without_rivals_bears_no_mark(make_cell):
    assert marked(summarise([make_cell(), make_cell(dataset="b")])) == []


@pytest.mark.parametrize("spoil", [{"status": "failed"}, {"protocol": "folds:5"}, {"seed": 1}])
def test_only_the_same_splits_compete(make_cell, spoil):
    """Method b would win, but for one cell that failed or lies on another split; a and c are left to compete."""
    cells = [make_cell(method=name, index=i, nll=nll) for name, nll in (("a", 0.4), ("c", 0.5)) for i in range(2)]
    cells += [make_cell(method="b", index=0, nll=0.1), make_cell(method="b", index=1, nll=0.1)]
    assert marked(summarise(cells)) == ["b"]
    cells[-1] = make_cell(**({"method": "b", "index": 1, "nll": 0.1} | spoil))
    assert "a" in marked(summarise(cells))
    assert "b" not in marked(summarise(cells))


def test_as_many_splits_are_not_the_same_splits(make_cell):
    whole = [make_cell(method=name, index=i, nll=nll) for name, nll in (("a", 0.4), ("c", 0.5)) for i in range(2)]
    parts = [make_cell(method="b", index=0, nll=0.1), make_cell(method="d", index=1, nll=0.2)]
    assert marked(summarise([*whole, *parts])) == ["a"]
    assert "* lowest mean NLL of the data set, of those with the same splits" in table(summarise([*whole, *parts]))
    assert "* lowest mean NLL of the data set.\n" in table(summarise(whole))


def test_why_there_is_no_auc_is_told(make_cell):
    cells = [make_cell(index=i) for i in range(3)]
    for cell, area in zip(cells, (0.7, None, 0.9), strict=True):
        cell.metrics["auc"] = area
    told = "neither AUC nor average precision, since the test rows of 1 of 3 cells are of one class"
    assert told in " ".join(table(summarise(cells), metrics=("nll", "auc")).split())
    assert told not in " ".join(table(summarise(cells)).split())
    assert told not in " ".join(table(summarise(cells[::2]), metrics=("nll", "auc")).split())


def test_seeds_other_than_zero_are_shown(make_cell):
    assert "folds:10 seed 3 " in table(summarise([make_cell(seed=3)]))
    assert "folds:10 seeds 0, 3 " in table(summarise([make_cell(seed=3), make_cell(seed=0)]))


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0, "0.00"), (0.00123456, "0.00123"), (1e-9, "0.000000"), (12.345, "12.3"), (98765, "98765")],
)
def test_times_have_three_digits(make_cell, seconds, shown):
    line = table(summarise([make_cell(seconds=seconds)])).splitlines()[2]
    assert line.split()[-1] == shown


def test_nothing_finished(make_cell):
    text = table(summarise([make_cell(status="failed")]), format="markdown")
    assert "| german | x-gpc | folds:10 | failed 1/1 | – | – | – |" in text
    assert "german & x-gpc & folds:10 & failed 1/1 & -- & -- & -- " in table(
        summarise([make_cell(status="failed")]), format="latex"
    )


def test_names_are_escaped(make_cell):
    summary = summarise([make_cell(dataset="a|b_c\n\x1b[31m&", method="50%*")])
    assert "| a\\|b\\_c �\\[31m\\& | 50%\\* |" in table(summary, format="markdown")
    assert "a\\textbar{}b\\_c �[31m\\& & 50\\%* &" in table(summary, format="latex")
    assert "\x1b" not in table(summary)


def test_escapes():
    assert escape_latex("\\{}$&#%_^~<>|") == (
        r"\textbackslash{}\{\}\$\&\#\%\_\textasciicircum{}\textasciitilde{}\textless{}\textgreater{}\textbar{}"
    )
    assert escape_markdown("`a*b_c[d]<e>|") == r"\`a\*b\_c\[d\]\<e\>\|"
    assert printable("a\tb \n c\x07") == "a b c�"


def test_unknown_format():
    with pytest.raises(UsageError, match="unknown table format 'makrdown'; did you mean markdown"):
        table([], format="makrdown")


@pytest.mark.parametrize("form", list(ENDINGS))
def test_an_empty_summary_is_a_table_of_heads(form):
    text = table([], format=form)
    assert text.endswith("\n")
    assert "method" in text


def disturbed(make_cell, wall, cpu, *, clock="processor", **options):
    cell = make_cell(**options)
    return replace(cell, clock=clock, metrics={**cell.metrics, "wall_seconds": wall, "cpu_seconds": cpu})


@pytest.mark.parametrize(
    ("wall", "cpu", "words"),
    [
        (8.0, 2.0, "took up to 4 times as many wall seconds as processor seconds: the machine was busy, or waited"),
        (2.5, 2.0, "took up to 1.2 times as many wall seconds"),
        (5_025.0, 2.0, "took up to 2,500 times as many wall seconds"),
        (
            1.0,
            3.0,
            "used up to 3 times as many processor seconds as wall seconds: more threads ran than were asked for",
        ),
        (2.3, 2.0, None),
        (2.0, 2.0, None),
        (0.004, 0.002, None),  # a page fault or two
    ],
)
def test_clocks_that_are_apart_are_told(make_cell, wall, cpu, words):
    cells = [disturbed(make_cell, 2.0, 2.0), disturbed(make_cell, wall, cpu, index=1)]
    written = table(summarise(cells))
    if words is None:
        assert "wall seconds" not in written
    else:
        assert f"x-gpc on german, folds:10: in 1 of 2 cells training {words}" in written


def test_many_rows_whose_clocks_are_apart_are_told_in_one_sentence(make_cell):
    cells = [disturbed(make_cell, 9.0, 2.0, method=method) for method in "abcdef"]
    assert "The clocks speak against the times of all rows: wall" in table(summarise(cells))
    written = table(summarise([*cells, make_cell(method="g")]))
    assert "the times of a on german, folds:10; b on" in written
    assert "times of all rows" not in written


def test_two_clocks_share_no_column(make_cell):
    cells = [disturbed(make_cell, 2.0, 2.0), disturbed(make_cell, 2.0, 7.0, clock="wall", method="linear", threads=4)]
    written = table(summarise(cells))
    assert "No times are shown: the cells ran on different processors (Zen 4; Zen 4, wall seconds)" in written
    assert "train (s)" not in written
    alone = table(summarise(cells[1:]))
    assert "Times were taken on Zen 4, wall seconds." in alone
    assert "more threads" not in alone
