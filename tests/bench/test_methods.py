import sys
from dataclasses import replace

import pytest
from bench_fakes import FAKE, FakeScheme

from gpbench.bench import methods as methods_module
from gpbench.bench.choices import origin_of
from gpbench.bench.methods import Method, method, methods, plugin_problems
from gpbench.errors import PluginError, UsageError


class FakeEntry:
    def __init__(self, name, offered):
        self.name = name
        self.value = f"package:{name}"
        self.offered = offered

    def load(self):
        if isinstance(self.offered, BaseException):
            raise self.offered
        return self.offered


@pytest.fixture
def plugins(monkeypatch):
    """Give a list of entry points; the registry is made anew."""

    def install(*entries):
        monkeypatch.setattr(methods_module, "entry_points", lambda **_: list(entries))
        methods_module._registry.cache_clear()

    yield install
    monkeypatch.undo()
    methods_module._registry.cache_clear()


def test_built_in_methods():
    assert {"x-gpc", "linear"} <= set(methods())
    assert method("x-gpc").paper == "wenzel2019"
    assert method("x-gpc").tasks == {"binary"}
    assert plugin_problems() == ()


@pytest.mark.parametrize("name", methods())
def test_each_built_in_method_can_be_built_with_its_defaults(name):
    one = method(name)
    assert one.build(one.resolve({})) == one.load()(**one.preset)


def test_unknown_method_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match=r"unknown method .xgpc.; did you mean x-gpc"):
        method("xgpc")


def test_resolving_fills_defaults_and_parses_texts():
    assert FAKE.resolve({"rate": "0.5", "steps": 7}) == {
        "steps": 7, "rate": 0.5, "kernel": "se", "trouble": "none", "likelihood": "fake", "max_iterations": 100,
        "width": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rat": 1}, "method fake: unknown setting 'rat'; did you mean rate?"),
        ({"rate": 2}, r"method fake: setting rate must be a number in \[0, 1\]; got 2.0"),
        ({"rate": "fast"}, "got 'fast'"),
        ({"kernel": "matern"}, "one of se, linear; got 'matern'"),
        ({"kernel": 2.0}, "one of se, linear; got 2.0"),
        ({"trouble": 20.0}, "method fake: setting trouble must be a text or an integer; got 20.0"),
        ({"steps": True}, "an integer >= 0; got True"),
    ],
)
def test_wrong_settings_are_refused(given, message):
    with pytest.raises(UsageError, match=message):
        FAKE.resolve(given)


def test_preset_is_the_methods_default_and_can_be_overruled():
    quick = replace(FAKE, id="quick", preset={"steps": 2})
    assert quick.settings()["steps"].default == 2
    assert quick.resolve({})["steps"] == 2
    assert quick.resolve({"steps": "9"})["steps"] == 9
    assert FAKE.resolve({})["steps"] == 5


def test_a_number_serves_where_the_setting_is_a_text():
    one = Method(id="m", title="", tasks=frozenset({"binary"}), scheme="bench_fakes:FakeInducing")
    assert one.resolve({"inducing": 16})["inducing"] == one.resolve({"inducing": "16"})["inducing"] == "16"


def test_missing_extra_names_the_remedy():
    one = Method(id="m", title="", tasks=frozenset(), scheme="no_such_module:X", extra="gibbs")
    with pytest.raises(UsageError, match=r'method m needs .*no_such_module.*pip install "gpbench\[gibbs\]"'):
        one.load()


@pytest.mark.parametrize("scheme", ["no_such_module:X", "bench_fakes:NoSuchScheme"])
def test_scheme_that_cannot_be_imported(scheme):
    with pytest.raises(PluginError, match="method m"):
        Method(id="m", title="", tasks=frozenset(), scheme=scheme).load()


@pytest.mark.parametrize("scheme", [7, object, "bench_fakes:FAKE"])
def test_a_scheme_is_a_dataclass(scheme):
    with pytest.raises(PluginError, match="the scheme of method m must be a dataclass; got"):
        Method(id="m", title="", tasks=frozenset(), scheme=scheme).load()


@pytest.mark.parametrize("content", ["import gpbench.nothing", "from gpbench.errors import nothing"])
def test_an_extra_is_not_blamed_for_what_is_wrong_elsewhere(tmp_path, monkeypatch, content):
    (tmp_path / "wrong_scheme.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "wrong_scheme", raising=False)
    one = Method(id="m", title="", tasks=frozenset(), scheme="wrong_scheme:X", extra="gibbs")
    with pytest.raises(PluginError, match="the scheme wrong_scheme:X of method m cannot be imported"):
        one.load()


def test_task_that_a_method_cannot_do_is_refused():
    with pytest.raises(UsageError, match="method fake cannot do glass: its task is multiclass; fake does binary"):
        FAKE.check_task("multiclass", "glass")


def test_plugins_add_methods(plugins):
    other = replace(FAKE, id="other")
    plugins(FakeEntry("one", FAKE), FakeEntry("more", [other]))
    assert method("fake") is FAKE
    assert method("other") is other
    assert plugin_problems() == ()


class Loud(FakeEntry):
    def load(self):
        print("loud")
        raise GeneratorExit


def test_what_a_plugin_prints_and_raises_when_it_is_imported_spoils_no_output(plugins, capsys):
    plugins(Loud("loud", FAKE))
    assert [str(each) for each in plugin_problems()] == ["plug-in 'loud' (package:loud) does not load: GeneratorExit: "]
    assert capsys.readouterr() == ("", "loud\n")


def test_broken_plugins_are_reported_and_break_nothing(plugins):
    plugins(
        FakeEntry("a", ImportError("no such thing")),
        FakeEntry("b", [FakeScheme]),
        FakeEntry("c", replace(FAKE, id="linear")),
        FakeEntry("d", 5),
        FakeEntry("e", FAKE),
        FakeEntry("f", SystemExit(3)),
        FakeEntry("g", replace(FAKE, id="g", title=None)),
        FakeEntry("h", replace(FAKE, id="h", tasks="binary")),
    )
    messages = [str(problem) for problem in plugin_problems()]
    assert len(messages) == 7
    assert messages[0] == "plug-in 'a' (package:a) does not load: ImportError: no such thing"
    assert "must offer Method objects" in messages[1]
    assert "'linear', an id that is taken" in messages[2]
    assert "TypeError" in messages[3]
    assert messages[4] == "plug-in 'f' (package:f) does not load: SystemExit: 3"
    assert all("id and title must be texts, and tasks a frozenset" in message for message in messages[5:])
    assert next(iter(methods())) == "x-gpc"
    assert list(methods())[-1] == "fake"


def test_a_name_of_a_plug_in_that_does_not_load_is_answered_with_the_cause(plugins):
    plugins(FakeEntry("laplace", ModuleNotFoundError("No module named 'nowhere'")))
    with pytest.raises(
        PluginError, match=r"no method 'laplace': plug-in .* ModuleNotFoundError: No module named .nowhere."
    ):
        method("laplace")
    with pytest.raises(UsageError, match=r"method vijj: .*from:laplace: there is no method .* ModuleNotFoundError"):
        origin_of(replace(FAKE, id="vijj"), {"hyperparameters": "from:laplace"}, given={})


def test_any_unknown_name_tells_of_plug_ins_that_do_not_load(plugins):
    plugins(FakeEntry("several", SyntaxError("invalid syntax")))  # an entry point may offer methods of other names
    with pytest.raises(UsageError, match=r"did you mean sod-laplace\?.* plug-in that does not load: .* SyntaxError"):
        method("laplace")


def test_a_scheme_whose_module_raises_when_it_is_imported(tmp_path, monkeypatch):
    (tmp_path / "raising_scheme.py").write_text("raise ValueError('no licence')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match="raising_scheme:X of method m cannot be imported: ValueError: no licence"):
        Method(id="m", title="", tasks=frozenset(), scheme="raising_scheme:X").load()
