import pytest

from gpbench.bench.cell import Limits
from gpbench.bench.plan import read as plan_read
from gpbench.bench.plan.read import find_plan, is_plan, read_plan
from gpbench.errors import UsageError

WHOLE = """
title = "Table 1"
paper = "wenzel2019"
notes = ["One length scale."]
datasets = ["breast-cancer-wisconsin", "german"]
split = "contiguous:10"
splits = 4
seed = 3
scaling = "none"
limits = { test_rows = 100_000, seconds = 600 }
paper_limits = { iterations = 250 }
centre = "median"
spread = "2sd"
render = "curves"
metrics = ["nll", "accuracy"]
published = "wenzel2019-table1.csv"

[defaults]
kernel = "se"

[methods.x-gpc]
label = "X-GPC"
rate = 0.9

[methods.klsp-8]
method = "klsp"
label = "KLSp M=8"
printed = "KLSp M={inducing}"
limits = { iterations = 250 }
split = "folds:3"
counted = false

[sweep]
inducing = [4, "3%"]
seconds = [1, 2]

[figure]
panels = "inducing"

[overrides.german]
label = "German"
printed = "Ger"
incomparable = "other rows"
methods = ["x-gpc"]
split = "holdout:0.2*5"
splits = 2
limits = { seconds = 60 }
settings = { noise = 0.1, x-gpc = { window = 30 } }

[quick]
iterations = 7
seconds = 2.5
datasets = ["german"]
sweep = { inducing = [4] }
settings = { batch_size = 20 }
"""

LEAST = 'title = "T"\ndatasets = ["german"]\n[methods.x-gpc]\n'


def plan(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return read_plan(path)


def test_all_that_a_plan_can_say(tmp_path):
    found = plan(tmp_path, WHOLE)
    assert (found.id, found.item, found.title, found.paper) == ("mine", "mine", "Table 1", "wenzel2019")
    assert found.datasets == ("breast-cancer-wisconsin", "german")
    assert (found.split, found.splits, found.seed, found.scaling) == ("contiguous:10", 4, 3, "none")
    assert found.limits == Limits(test_rows=100_000, seconds=600)
    assert found.paper_limits == Limits(iterations=250)
    assert [each.counted for each in found.methods] == [True, False]
    assert (found.centre, found.spread, found.render) == ("median", "2sd", "curves")
    assert (found.metrics, found.published) == (("nll", "accuracy"), ("wenzel2019-table1.csv",))
    assert found.defaults == {"kernel": "se"}
    first, second = found.methods
    assert (first.name, first.method.id, first.label, first.printed) == ("x-gpc", "x-gpc", "X-GPC", "X-GPC")
    assert first.settings == {"rate": 0.9}
    assert (second.name, second.method.id, second.printed) == ("klsp-8", "klsp", "KLSp M={inducing}")
    assert (second.limits, second.split) == ({"iterations": 250}, "folds:3")
    assert found.sweep == {"inducing": (4, "3%"), "seconds": (1, 2)}
    assert found.figure == {"panels": "inducing"}
    override = found.override("german")
    assert (override.methods, override.split, override.splits) == (("x-gpc",), "holdout:0.2*5", 2)
    assert (override.limits, override.incomparable) == ({"seconds": 60}, "other rows")
    assert override.settings == {"noise": 0.1, "x-gpc": {"window": 30}}
    assert (found.dataset_label("german"), found.printed_dataset("german")) == ("German", "Ger")
    assert found.printed_dataset("breast-cancer-wisconsin") == "breast-cancer-wisconsin"
    assert (found.quick.iterations, found.quick.seconds, found.quick.splits) == (7, 2.5, 2)
    assert (found.quick.datasets, found.quick.sweep) == (("german",), {"inducing": (4,)})


def test_the_least_that_a_plan_must_say(tmp_path):
    found = plan(tmp_path, LEAST)
    assert (found.split, found.limits, found.render, found.centre, found.spread) == (
        "folds:10", Limits(), "table", "mean", "sd",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "Table 1"', "title = 3", "title must be a text; got 3"),
        ("centre =", "center =", "unknown key 'center'; did you mean centre"),
        ('"median"', '"mode"', "unknown centre 'mode'; did you mean mean"),
        ('"curves"', '"curve"', "unknown render 'curve'; did you mean curves"),
        ('"accuracy"', '"acuracy"', "unknown metric 'acuracy'; did you mean accuracy"),
        ('"contiguous:10"', '"contigous:10"', "unknown split protocol 'contigous'; did you mean contiguous?"),
        ('"contiguous:10"', '"active:{M}/10"', "[sweep] gives no values for 'M'"),
        ('"german"]\nsplit', '"germa"]\nsplit', "unknown data set 'germa'; did you mean german"),
        ('"german"]\nsplit', '"customer.csv"]\nsplit', "there is no file customer.csv, beside the plan or in"),
        ("paper_limits = { iterations", "paper_limits = { iteration", "[paper_limits]: unknown key 'iteration'"),
        ("counted = false", "counted = 0", "counted must be true or false; got 0"),
        ('"wenzel2019-table1.csv"', '"../.."', "'../..' must be a file in the plan's folder, or one of results"),
        ('"wenzel2019-table1.csv"', '"/etc/passwd"', "'/etc/passwd' must be a file in the plan's folder"),
        ("splits = 4", "splits = 0", "splits must be an integer >= 1; got 0"),
        ("seconds = 600", "secs = 600", "[limits]: unknown key 'secs'"),
        ("seconds = 600", "seconds = -1", "limit on seconds must be a positive number; got -1"),
        ('kernel = "se"', 'kernle = "se"', "[defaults]: unknown setting (of this plan's methods) 'kernle'"),
        ("[methods.x-gpc]", "[methods.x-gcp]", "[methods.x-gcp]: unknown method 'x-gcp'; did you mean x-gpc"),
        ('method = "klsp"', 'method = "klps"', "[methods.klsp-8]: unknown method 'klps'; did you mean klsp"),
        ("rate = 0.9", "rte = 0.9", "[methods.x-gpc]: unknown setting of x-gpc 'rte'; did you mean rate"),
        ("rate = 0.9", "rate = 7", "setting rate must be a number in [0, 1]"),
        ("seconds = [1, 2]", "second = [1, 2]", "[sweep]: unknown setting, limit or word of the split 'second'"),
        ('[4, "3%"]', "[4, 4]", "[sweep]: inducing gives a value twice: [4, 4]"),
        ('[4, "3%"]', "4.0", "[sweep]: inducing must be a list of values; got 4.0"),
        ("[overrides.german]", "[overrides.germn]", "unknown data set of this plan 'germn'; did you mean german?"),
        ('methods = ["x-gpc"]', 'methods = ["klsp"]', "unknown method of this plan 'klsp'; did you mean klsp-8"),
        ("x-gpc = { window", "xgpc = { window", "unknown method of this plan 'xgpc'; did you mean x-gpc?"),
        ("{ window = 30 }", "{ windw = 30 }", "unknown setting (of this plan's methods) 'windw'"),
        ("iterations = 7", "iteration = 7", "[quick]: unknown key 'iteration'; did you mean iterations"),
        ("{ inducing = [4] }", "{ batch = [4] }", "unknown swept name of this plan 'batch'"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, old, new, message):
    assert WHOLE.count(old) == 1
    text = WHOLE.replace(old, new)
    with pytest.raises(UsageError) as caught:
        plan(tmp_path, text)
    said = str(caught.value)
    line = 1 + text[: text.index(new)].count("\n")
    assert message in said
    assert said.startswith(f"{tmp_path / 'mine.toml'}, line {line}: ")


@pytest.mark.parametrize(
    "line",
    [
        *("x = " + "[" * 5000 + "]" * 5000, "x = " + "{a=" * 5000 + "1" + "}" * 5000),
        *("a." * 5000 + "a = 1", "[" + "a." * 5000 + "a]"),
    ],
    ids=["lists", "tables", "a key", "a header"],
)  # fmt: skip
def test_a_plan_that_is_nested_without_end_is_refused(tmp_path, line):
    with pytest.raises(UsageError, match=r"mine.toml is no TOML: |mine.toml: unknown key 'a'"):
        plan(tmp_path, line + "\n")


def test_what_is_missing_or_in_two_places_has_no_line(tmp_path):
    with pytest.raises(UsageError, match=r"mine.toml: title is missing"):
        plan(tmp_path, WHOLE.replace('title = "Table 1"', ""))
    with pytest.raises(UsageError, match=r"mine.toml: 'X-GPC' stands twice under methods"):
        plan(tmp_path, WHOLE.replace('label = "KLSp M=8"', 'label = "X-GPC"'))


def test_what_is_no_toml_or_no_file(tmp_path):
    with pytest.raises(UsageError, match=r"is no TOML: .*line 2"):
        plan(tmp_path, "title = 'a'\nb = = 3")
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        find_plan(str(tmp_path / "nothing.toml"))


def test_no_data_sets(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('title = "Mine"\ndatasets = []\n[methods.linear]\n', encoding="utf-8")
    with pytest.raises(UsageError, match=r"line 2: a plan needs at least one data set"):
        read_plan(path)


def test_no_metrics(tmp_path):
    with pytest.raises(UsageError, match=r"mine.toml, line 1: a table needs at least one metric"):
        plan(tmp_path, "metrics = []\n" + LEAST)


@pytest.mark.parametrize(
    ("line", "words"), [("target = 3", "target must be a text; got 3"), ('impute = "mean"', "--impute must be median")]
)
def test_what_is_wrong_with_how_a_file_is_read_has_one_place(tmp_path, line, words):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    text = LEAST.replace('"german"', '"a.csv"') + f'\n[files."a.csv"]\n{line}\n'
    with pytest.raises(UsageError, match=words) as caught:
        plan(tmp_path, text)
    assert str(caught.value).count("mine.toml") == str(caught.value).count("[files.a.csv]") == 1


def test_data_sets_twice_and_methods_nowhere(tmp_path):
    with pytest.raises(UsageError, match="'german' stands twice under datasets"):
        plan(tmp_path, LEAST.replace('["german"]', '["german", "german"]'))
    with pytest.raises(UsageError, match=r"at least one table \[methods.ID\]"):
        plan(tmp_path, 'title = "T"\ndatasets = ["german"]\n')
    assert plan(tmp_path, 'title = "T"\ndatasets = ["german"]\nrender = "outline"\n').methods == ()


def test_two_data_sets_that_results_could_not_tell_apart(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rows.csv").write_text("x,y\n1,2\n", encoding="utf-8")
    text = LEAST.replace('["german"]', '["a/rows.csv", "b/rows.csv"]')
    with pytest.raises(UsageError, match=r"line 2: a/rows\.csv and b/rows\.csv are both called rows\.csv in results"):
        plan(tmp_path, text)
    with pytest.raises(UsageError, match="are both called waveform3 in results"):
        plan(tmp_path, LEAST.replace('["german"]', '["waveform3", "waveform3:1000"]'))


def test_a_byte_order_mark_counts_for_nothing(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(LEAST, encoding="utf-8-sig")
    assert read_plan(path).title == "T"


def test_a_file_beside_the_plan_is_a_data_set(tmp_path):
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    assert plan(tmp_path, LEAST.replace("german", "mine.csv")).datasets == ("mine.csv",)


def test_plans_that_ship_are_known_by_paper_and_item(tmp_path, monkeypatch):
    folder = tmp_path / "wenzel2019"
    folder.mkdir()
    (folder / "table1.toml").write_text(LEAST, encoding="utf-8")
    monkeypatch.setattr(plan_read, "PAPERS", tmp_path)
    assert find_plan("wenzel2019/table1").id == "wenzel2019/table1"
    with pytest.raises(UsageError, match="unknown plan 'wenzel2019/tabel1'; did you mean wenzel2019/table1"):
        find_plan("wenzel2019/tabel1")
    assert [is_plan(name) for name in ("wenzel2019/table1", "wenzel2019/tabel1", "x.toml", "results", "a/b")] == [
        True, True, True, False, False,
    ]  # fmt: skip
