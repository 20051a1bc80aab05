import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

import gpbench
from gpbench.bench import methods as methods_module
from gpbench.cli import main

FAKES = Path(__file__).parents[1] / "bench"


def called(*arguments):
    return CliRunner().invoke(main, [str(each) for each in arguments])


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """The third party's method, and one with a setting that nothing reads, as plug-ins; an empty current folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("GPBENCH_RESULTS", "GPBENCH_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GPBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.syspath_prepend(str(FAKES))
    import third_party  # noqa: PLC0415

    @dataclass(frozen=True, kw_only=True)
    class Idle(third_party.Laplace):
        nothing: bool = gpbench.setting(False, "nothing reads it")

    idle = gpbench.Method(id="idle", title="Idle", tasks=gpbench.BINARY, scheme=Idle)
    entry = SimpleNamespace(name="third", value="third_party:LAPLACE", load=lambda: [third_party.LAPLACE, idle])
    monkeypatch.setattr(methods_module, "entry_points", lambda **_: [entry])
    methods_module._registry.cache_clear()
    yield third_party
    monkeypatch.undo()
    methods_module._registry.cache_clear()


def test_the_third_partys_scheme_is_short_and_imports_gpbench_alone(plugin):
    lines = Path(plugin.__file__).read_text().splitlines()
    scheme = lines[lines.index("@dataclass(frozen=True, kw_only=True)") :]
    assert len([line for line in scheme if line.strip()]) <= 40
    imports = [line for line in lines if line.startswith(("import ", "from "))]
    assert [line for line in imports if "gpbench" in line] == ["import gpbench"]


def test_a_plug_ins_method_runs_and_is_checked(plugin):
    run = called("run", "--method", "laplace", "--method", "linear", "--dataset", "breast-cancer-wisconsin",
                 "--folds", "2", "--inducing", "20", "--json")  # fmt: skip
    assert run.exit_code == 0, run.stderr
    cells = json.loads(run.stdout)["cells"]
    assert [(cell["status"], cell["stopped_by"]) for cell in cells if cell["method"] == "laplace"] == [
        ("ok", "converged")
    ] * 2
    assert all(cell["metrics"]["nll"] < 0.25 for cell in cells)

    done = called("check", "laplace")
    lines = done.stdout.splitlines()
    assert done.exit_code == 0, done.stdout
    assert lines[0].startswith("ok      binary      same bits                after ")
    assert "exempt  binary      gradient                 not offered (a method differentiable)" in lines
    assert any(line.startswith("ok                  setting tolerance ") for line in lines)
    assert lines[-1].endswith(" ok, 0 failed, 1 exempt")


def test_a_check_that_fails_ends_with_one(plugin):
    done = called("check", "idle", "--task", "binary", "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    (failed,) = [each for each in found if each["outcome"] == "failed"]
    assert failed["check"] == "setting nothing"
    assert set(failed) == {"task", "check", "outcome", "reason", "seconds"}
    assert called("check", "idle").stdout.splitlines()[-1].endswith(" 1 failed, 1 exempt")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("laplac",), "unknown method 'laplac'; did you mean laplace or sod-laplace?"),
        (("laplace", "--task", "count"),
         "method laplace cannot do generated data of task count: its task is count; laplace does binary"),
    ],
)  # fmt: skip
def test_what_cannot_be_checked_is_refused(plugin, arguments, message):
    done = called("check", *arguments)
    assert (done.exit_code, done.stderr, done.stdout) == (2, f"gpbench: {message}\n", "")
