from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from gpbench.errors import DataError, UsageError
from gpbench.toml import read_toml

TEXT = '''# a comment with a [table] and key = 1
title = "T" # x = 2
notes = """
title = 3
[methods.no]
"""
rows = [
  1, # [b]
  "two = 2",
]
limits = { seconds = 3 }
"quoted key" = 1
dotted . inner = true

[methods.x-gpc]
rate = 0.5

[[forms]]
n = 1
[forms.recipe]
drop = ["a"]
[[forms]]
n = 2
recipe = { drop = "b" }
[forms.more.still]
z = 1
["a.b"]
y = 2
'''


@pytest.fixture
def read(tmp_path):
    def make(text, **options):
        path = tmp_path / "a.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_toml(path, **options)

    return make


def said(call):
    with pytest.raises(UsageError) as caught:
        call()
    return str(caught.value).partition("a.toml")[2]


def line_of(text):
    return 1 + TEXT[: TEXT.index(text)].count("\n")


@pytest.mark.parametrize(
    ("table", "key", "text"),
    [
        ((), "title", 'title = "T"'),
        ((), "notes", "notes ="),
        ((), "rows", "rows = ["),
        ((), "quoted key", '"quoted key"'),
        (("limits",), "seconds", "limits ="),
        (("dotted",), "inner", "dotted . inner"),
        (("methods", "x-gpc"), "rate", "rate = 0.5"),
        (("methods", "x-gpc"), None, "[methods.x-gpc]"),
        (("methods", "x-gpc"), "absent", "[methods.x-gpc]"),
        (("forms", 0), "n", "n = 1"),
        (("forms", 0, "recipe"), "drop", 'drop = ["a"]'),
        (("forms", 1), "n", "n = 2"),
        (("forms", 1, "recipe"), "drop", "recipe = {"),
        (("forms", 1, "more", "still"), "z", "z = 1"),
        (("a.b",), "y", "y = 2"),
    ],
    ids=str,
)
def test_where_a_key_stands(read, table, key, text):
    found = read(TEXT)
    parts = list(table)
    while parts:
        name = parts.pop(0)
        found = found.array(name)[parts.pop(0)] if parts and isinstance(parts[0], int) else found.table(name)
    assert found.line(key) == line_of(text)


def test_what_stands_nowhere_has_no_line(read):
    assert read(TEXT).line("absent") is None
    assert said(lambda: read(TEXT).text("absent")) == ": absent is missing"


def test_lines_are_counted_in_files_of_windows_and_behind_a_mark(read):
    found = read(b"\xef\xbb\xbfa = 1\r\n\r\nb = 'x'\r\n")
    assert (found.line("a"), found.line("b")) == (1, 3)


ASKED = 'word = "w"\nempty = ""\nwords = ["a", "b"]\none = "a"\nwhole = 3\npart = 0.5\nyes = true\nnan = nan\n'


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda table: table.text("word"), "w"),
        (lambda table: table.text("none", None), None),
        (lambda table: table.text("empty", ""), ""),
        (lambda table: table.text("word", among=("v", "w")), "w"),
        (lambda table: table.texts("words"), ("a", "b")),
        (lambda table: table.texts("one"), ("a",)),
        (lambda table: table.texts("none", ()), ()),
        (lambda table: table.integer("whole"), 3),
        (lambda table: table.integer("none", 7), 7),
        (lambda table: table.positive("part"), 0.5),
        (lambda table: table.positive("whole"), 3.0),
        (lambda table: table.scalars("words"), ("a", "b")),
    ],
)
def test_answers(read, ask, expected):
    assert ask(read(ASKED)) == expected


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda table: table.text("none"), ": none is missing"),
        (lambda table: table.text("whole"), ", line 5: whole must be a text; got 3"),
        (lambda table: table.text("empty"), ", line 2: empty must be a text; got ''"),
        (lambda table: table.text("word", among=("wo", "x")), ", line 1: unknown word 'w'; did you mean wo?"),
        (lambda table: table.texts("whole"), ", line 5: whole must be a list of texts; got 3"),
        (lambda table: table.texts("empty"), ", line 2: empty must be a list of texts; got ''"),
        (lambda table: table.texts("words", among="ac", kind="letter"), ", line 3: unknown letter 'b'; known: a, c"),
        (lambda table: table.integer("part"), ", line 6: part must be an integer >= 1; got 0.5"),
        (lambda table: table.integer("yes"), ", line 7: yes must be an integer >= 1; got True"),
        (lambda table: table.integer("whole", least=4), ", line 5: whole must be an integer >= 4; got 3"),
        (lambda table: table.positive("yes"), ", line 7: yes must be a positive number; got True"),
        (lambda table: table.positive("nan"), ", line 8: nan must be a positive number; got nan"),
        (lambda table: table.scalars("word"), ", line 1: word must be a list of values; got 'w'"),
        (lambda table: table.table("word"), ", line 1: word must be a table; got 'w'"),
        (lambda table: table.array("words"), ", line 3: words must be a list of tables; got ['a', 'b']"),
        (lambda table: table.only(["wort"]), ", line 1: unknown key 'word'; did you mean wort?"),
    ],
)
def test_refusals(read, ask, message):
    assert said(lambda: ask(read(ASKED))) == message


@dataclass(frozen=True)
class Made:
    name: str
    columns: tuple[str | int, ...] | str = ()
    pairs: tuple[tuple[str, tuple[int, ...]], ...] = ()
    share: float | None = None
    many: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    anything: Any = None

    def __post_init__(self):
        if self.share == 0.25:
            raise UsageError("share must not be a quarter")


def test_a_dataclass_is_the_form_of_a_table(read):
    found = read('columns = ["a", 1]\npairs = [["x", [1, 2]], ["y", 3]]\nshare = 1\ncounts = {a = 1}\nanything = [1]\n')
    assert found.build(Made, name="n") == Made(
        name="n", columns=("a", 1), pairs=(("x", (1, 2)), ("y", (3,))), share=1.0, counts={"a": 1}, anything=[1]
    )
    assert read('name = "n"\ncolumns = "auto"').build(Made) == Made("n", columns="auto")
    assert read('name = "n"\ncolumns = 3').build(Made) == Made("n", columns=(3,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": name is missing"),
        ("name = 3", ", line 1: name must be a text; got 3"),
        ("name = 'n'\nmany = 1", ", line 2: many must be true or false; got 1"),
        ("name = 'n'\nshare = '1'", ", line 2: share must be a number; got '1'"),
        ("name = 'n'\ncolumns = 0.5", ", line 2: columns must be a list of texts or integers or a text; got 0.5"),
        ("name = 'n'\npairs = [[1, [2]]]", ", line 2: pairs must be a list of lists; got [[1, [2]]]"),
        ("name = 'n'\ncounts = {a = 1.5}", ", line 2: counts must be a table; got {'a': 1.5}"),
        ("name = 'n'\ncolums = 1", ", line 2: unknown key 'colums'; did you mean columns or counts?"),
        ("name = 'n'\nshare = 0.25", ": share must not be a quarter"),
    ],
)
def test_what_is_not_of_its_form_is_refused(read, text, message):
    assert said(lambda: read(text).build(Made)) == message


def test_what_is_no_toml_or_cannot_be_read(read, tmp_path):
    with pytest.raises(DataError, match=r"^the list .*a.toml is no TOML: .*line 1"):
        read("a = = 1", what="the list", error=DataError)
    with pytest.raises(UsageError, match="is no TOML: "):
        read(b"\xff\xfe")
    with pytest.raises(UsageError, match="is no TOML: "):
        read("a = " + "[" * 100_000)
    with pytest.raises(UsageError, match=r"nothing\.toml cannot be read: No such file"):
        read_toml(tmp_path / "nothing.toml")


def test_errors_are_of_the_kind_asked_for_in_inner_tables_too(read):
    found = read("[a.b]\nc = 1\n[a.d]\n[[e]]\nf = 2", error=DataError)
    assert list(found.tables("a")) == ["b", "d"]
    with pytest.raises(DataError, match=r"line 2: \[a\.b\]: c must be a text; got 1"):
        found.tables("a")["b"].text("c")
    with pytest.raises(DataError, match=r"line 5: \[e\.1\]: f must be a text; got 2"):
        found.array("e")[0].text("f")


def test_a_long_value_is_cut_short_in_a_message(read):
    assert len(said(lambda: read(f"a = {list(range(1000))}").text("a"))) < 120
