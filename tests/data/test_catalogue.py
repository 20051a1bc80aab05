from importlib.metadata import EntryPoint

import pytest

from gpbench.data import catalogue as module
from gpbench.data.catalogue import Entry, File, catalogue, entries, entry, family_of
from gpbench.data.entries import read_file, read_folder
from gpbench.data.formats import FORMATS
from gpbench.data.readers import READERS
from gpbench.errors import DataError, PluginError, UsageError

# What the issue and the papers name, by the ids of the design.
PAPERS = {
    "hensman2015": "banana thyroid heart twonorm ringnorm german waveform breast-cancer flare-solar diabetes image "
    "splice titanic mnist-odd-even airline",
    "villacampa2017": "glass new-thyroid satellite svmguide2 vehicle vowel waveform3 wine prior3 mnist airline-3",
    "wenzel2019": "a9a-union bank-marketing click-prediction cod-rna diabetes electricity german higgs ijcnn1 "
    "mnist-odd-even shuttle susy w8a-union",
    "sheth2015": "ucsdpeds1l abalone usps-3-5 musk stock bank32nh blogfeedback",
    "izmailov2016": "german-numeric svmguide1 magic ijcnn1 cod-rna-files skin-nonskin a8a",
}
PRINTED = {  # n and d as the papers print them, where the files agree
    "a9a-union": (36974, 123),
    "cod-rna": (343564, 8),
    "diabetes": (768, 8),
    "electricity": (45312, 8),
    "german": (1000, 20),
    "higgs": (11000000, 28),
    "ijcnn1": (141691, 22),
    "shuttle": (58000, 9),
    "susy": (5000000, 18),
    "w8a-union": (34780, 300),
    "ucsdpeds1l": (4000, 30),
    "abalone": (4177, 8),
    "usps-3-5": (1540, 256),
    "stock": (950, 9),
    "bank32nh": (8192, 32),
    "satellite": (6435, 36),
    "vowel": (540, 10),
    "waveform3": (1000, 21),
    "airline-3": (2127068, 8),
}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_data_set_of_the_papers_is_there(paper):
    named = {name for name, one in entries().items() if paper in one.papers}
    assert named == set(PAPERS[paper].split())


@pytest.mark.parametrize("name", PRINTED)
def test_n_and_d_are_those_printed(name):
    assert (entry(name).n, entry(name).d) == PRINTED[name]


@pytest.mark.parametrize(("name", "figure"), [("bank-marketing", "43"), ("click-prediction", "12"), ("musk", "6,958")])
def test_notes_say_where_a_paper_prints_something_else(name, figure):
    assert any(figure in note for note in entry(name).notes)


@pytest.mark.parametrize("name", entries())
def test_entries_are_complete(name):
    one = entry(name)
    assert one.title
    assert one.source
    assert one.licence
    assert one.d
    assert one.maker in {"files", "embedded", "generated"}
    assert bool(one.editions) == (one.maker == "files")
    assert bool(one.classes) == (one.task in {"binary", "multiclass"})
    for edition in one.editions:
        assert edition.reader == "openml" or edition.reader in READERS
        assert edition.reader == "openml" or edition.parts
        for part in edition.parts:
            assert part.format in FORMATS or edition.reader != "tables"
    for file in one.files:
        assert all(len(digest) == 64 and int(digest, 16) for digest in file.sha256)
        assert all(url.startswith(("https://", "http://", "doi:")) for url in file.urls)


def test_each_file_is_declared_alike_wherever_it_is_used():
    by_path = {}
    for one in entries().values():
        for file in one.files:
            assert by_path.setdefault(file.path, file) == file


def test_an_unknown_id_is_answered_with_near_ones():
    with pytest.raises(UsageError, match=r"unknown data set 'electrisity'; did you mean electricity"):
        entry("electrisity")


GOOD = """
source = "s"
licence = "l"
[files.f]
path = "a/b/f"
[datasets.one]
title = "One"
task = "binary"
d = 2
counts = {no = 3, yes = 4}
parts = [{file = "f", format = "csv", header = true, role = "train"}, {file = "f", format = "csv", role = "test"}]
recipe = {target = "y", ordered = [["x", ["low", "high"]]]}
[[datasets.two.editions]]
name = "first"
parts = [{file = "f", format = "csv"}]
[[datasets.two.editions]]
name = "second"
n = 9
parts = [{file = "f", format = "libsvm", features = 2, labels = {file = "f", format = "idx"}}]
[datasets.two]
title = "Two"
task = "count"
n = 7
d = 2
"""


def test_a_catalogue_file_is_read(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(GOOD)
    one, two = sorted(read_file(path), key=lambda found: found.id)
    assert (one.n, one.classes, one.editions[0].counts) == (7, ("no", "yes"), {"no": 3, "yes": 4})
    assert one.editions[0].parts[0].options == {"header": True}
    assert one.editions[0].recipe.part == "part"
    assert one.editions[0].recipe.ordered == (("x", ("low", "high")),)
    assert [edition.n for edition in two.editions] == [7, 9]
    assert two.editions[1].parts[0].labels.format == "idx"
    assert two.files == (File("a/b/f"),)


def test_fingerprints_follow_what_decides_the_rows_and_nothing_else(tmp_path):
    def fingerprint(old="", new=""):
        path = tmp_path / "s.toml"
        path.write_text(GOOD.replace(old, new) if old else GOOD)
        return next(found for found in read_file(path) if found.id == "one").fingerprint

    path = 'path = "a/b/f"'
    assert fingerprint() == fingerprint(path, path + '\nurls = ["https://y/2"]')
    assert fingerprint() == fingerprint('title = "One"', 'title = "Other"')
    assert fingerprint() != fingerprint(path, path + f'\nsha256 = "{"1" * 64}"')
    assert fingerprint() != fingerprint("recipe = {", "recipe = {drop = [0], ")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title = ", "titel = ", ", line 7: [datasets.one]: unknown key 'titel'; did you mean title"),
        ('task = "binary"', 'task = "binry"', ", line 8: [datasets.one]: unknown task 'binry'; did you mean binary"),
        ("d = 2\ncounts", 'd = "2"\ncounts', ", line 9: [datasets.one]: d must be an integer >= 1; got '2'"),
        ("{no = 3, yes = 4}", "{no = 3, yes = 4.5}", "[datasets.one.counts]: yes must be an integer >= 0; got 4.5"),
        ('file = "f", format = "csv", header', 'file = "g", format = "csv", header', ".parts.1]: unknown file 'g'"),
        ('role = "test"', 'role = "dev"', ", line 11: [datasets.one.parts.2]: unknown role 'dev'"),
        ('target = "y"', 'goal = "y"', ", line 12: [datasets.one.recipe]: unknown key 'goal'"),
        (
            'target = "y"',
            "target = 0.5",
            "recipe]: target must be a text or an integer or a list of texts or",
        ),
        ('target = "y"', "bins = 3", "[datasets.one.recipe]: recipe: bins needs the task ordinal"),
        ('[["x", ["low", "high"]]]', '[["x", "low", "high"]]', "recipe]: ordered must be a list of lists; got [['x',"),
        (
            'path = "a/b/f"',
            'path = "a/../f"',
            ", line 4: [files.f]: path must be <source>/<data set>/<file>; got 'a/",
        ),
        ('path = "a/b/f"', 'path = "f"', "path must be <source>/<data set>/<file>"),
        ('path = "a/b/f"', 'urls = ["x"]', ", line 4: [files.f]: path is missing"),
        ('path = "a/b/f"', 'path = "a/b/f"\nproven = "no"', "[files.f]: proven must be true or false; got 'no'"),
        ('licence = "l"', "", "licence is missing"),
        (
            'name = "second"',
            'nam = "second"',
            ", line 17: [datasets.two.editions.2]: unknown key 'nam'; did you",
        ),
        ("d = 2", "d = ", "is no TOML"),
    ],
)
def test_mistakes_in_a_catalogue_file_are_named(tmp_path, old, new, message):
    path = tmp_path / "s.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(DataError) as caught:
        read_file(path)
    assert message in str(caught.value)
    assert "s.toml" in str(caught.value)


def test_a_byte_order_mark_counts_for_nothing(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(GOOD, encoding="utf-8-sig")
    assert {one.id for one in read_file(path)} == {"one", "two"}


def test_one_id_in_two_files_is_refused(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text(GOOD)
    with pytest.raises(DataError, match=r"b.toml: data set one exists already"):
        read_folder(tmp_path)


class _Point(EntryPoint):
    def load(self):
        return _PLUGINS[self.name]()


def _raise():
    raise RuntimeError("boom")


_MINE = Entry(id="mine", title="Mine", task="binary", n=1, d=1, classes=("a", "b"), source="me", licence="none")
_PLUGINS = {
    "good": lambda: _MINE,
    "function": lambda: lambda: [Entry(**{**_MINE.__dict__, "id": "mine-too"})],
    "clash": lambda: Entry(**{**_MINE.__dict__, "id": "glass"}),
    "broken": _raise,
    "wrong": lambda: 7,
}


def test_plugins_add_data_sets_and_broken_ones_break_nothing(monkeypatch, tmp_path):
    (tmp_path / "mine.toml").write_text(GOOD)
    monkeypatch.setitem(_PLUGINS, "file", lambda: str(tmp_path / "mine.toml"))
    points = [_Point(name, f"pkg:{name}", "gpbench.datasets") for name in _PLUGINS]
    monkeypatch.setattr(module, "entry_points", lambda *_, **__: points)
    catalogue.cache_clear()
    try:
        found = catalogue()
        with pytest.raises(PluginError, match=r"no data set 'broken': plug-in broken .*RuntimeError: boom"):
            entry("broken")
        with pytest.raises(UsageError, match=r"did you mean glass.* plug-in that does not load: .*RuntimeError: boom"):
            entry("glas")
    finally:
        catalogue.cache_clear()
    assert {"mine", "mine-too", "one", "two", "glass"} <= set(found.entries)
    assert found.entries["glass"].source != "me"
    assert set(found.broken) == {"clash", "broken", "wrong"}
    assert "RuntimeError: boom" in str(found.broken["broken"])
    assert "glass exists already" in str(found.broken["clash"])
    assert "expected an Entry" in str(found.broken["wrong"])


def test_data_sets_that_share_rows_are_one_family():
    assert family_of("diabetis") == family_of("diabetes") == "diabetes"
    assert {family_of(name) for name in ("german", "german-numeric", "german-categorical")} == {"german"}
    assert family_of("higgs-11k") == family_of("higgs")
    assert family_of("mnist-odd-even") == family_of("mnist")
    assert family_of("wine") == family_of("wine-uci") == "wine"
    assert family_of("waveform3:50") == "waveform3" != family_of("waveform")
    assert family_of("mine.csv") == "mine.csv"
    assert family_of("openml:61") == "openml:61"
    for one in entries().values():
        assert entries()[one.family].family == one.family, one.id
