import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from gpbench.bench import execution, resources
from gpbench.bench import methods as methods_module
from gpbench.bench.store import Store
from gpbench.cli import main
from gpbench.data.scaling import SCALINGS
from gpbench.model.kernels import KERNEL_NAMES
from gpbench.model.posterior import load_posterior

FAKES = Path(__file__).parents[1] / "bench"
DATA = "breast-cancer-wisconsin"
QUICK = ["--folds", "2", "--max-iterations", "5"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty current folder, and no settings from outside."""
    monkeypatch.chdir(tmp_path)
    for name in ("GPBENCH_DATA", "GPBENCH_RESULTS", "GPBENCH_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GPBENCH_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture
def fake(place, monkeypatch):
    """The method `fake` of the tests of the harness, as a plug-in; its cells run in this process, which counts them."""
    monkeypatch.syspath_prepend(str(FAKES))
    import bench_fakes  # noqa: PLC0415

    started = execution.executor
    monkeypatch.setattr(execution, "executor", lambda jobs: bench_fakes.Serial() if jobs > 0 else started(jobs))
    entry = SimpleNamespace(name="fakes", value="bench_fakes:FAKE", load=lambda: [bench_fakes.FAKE, bench_fakes.POINTS])
    monkeypatch.setattr(methods_module, "entry_points", lambda **_: [entry])
    methods_module._registry.cache_clear()
    bench_fakes.CALLS.clear()
    yield bench_fakes
    monkeypatch.undo()
    methods_module._registry.cache_clear()


def gpbench(*arguments):
    return CliRunner().invoke(main, [str(each) for each in arguments])


def as_json(*arguments):
    result = gpbench("run", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_methods_of_gpbench_on_real_data(place):
    wanted = ["--method", "x-gpc", "--method", "linear", "--dataset", DATA, *QUICK]
    found = as_json(*wanted)
    assert set(found) == {"cells", "summary", "store"}
    assert found["store"] == str(place / "results" / "runs")
    assert [(cell["split"]["index"], cell["method"], cell["status"]) for cell in found["cells"]] == [
        (index, method, "ok") for index in (0, 1) for method in ("x-gpc", "linear")
    ]
    for cell in found["cells"]:
        assert 0 < cell["metrics"]["nll"] < np.log(2)
        assert cell["metrics"]["iterations"] <= 5
        assert cell["provenance"]["threads"] == 1
    for row in found["summary"]:
        nll = [cell["metrics"]["nll"] for cell in found["cells"] if cell["method"] == row["method"]]
        assert (row["dataset"], row["cells"], row["failed"]) == (DATA, 2, 0)
        assert row["nll"]["mean"] == pytest.approx(np.mean(nll))
        assert row["nll"]["sd"] == pytest.approx(np.std(nll, ddof=1))
        assert 0 < row["brier"]["mean"] < 0.25
        assert 0 < row["ece"]["mean"] < 0.5
    assert as_json(*wanted) == found  # nothing was run again
    store = Store(place / "results" / "runs")
    for cell in found["cells"]:
        arrays = store.arrays(cell["key"])
        rows = np.arange(len(arrays["y_test"]))
        nll = -np.log(arrays["test_probabilities"][rows, arrays["y_test"]]).mean()
        assert nll == pytest.approx(cell["metrics"]["nll"], rel=1e-9)
        assert load_posterior(store.folder / f"{cell['key']}.npz").predict(np.zeros((3, 30))).point.shape == (3,)
        assert ("hyperparameters" in cell["provenance"]["fit"]) == (cell["method"] == "x-gpc")


def test_methods_share_splits_and_inducing_inputs(fake):
    found = as_json("-m", "fake", "-m", "points", "-d", DATA, "--folds", "2", "--inducing", "7")
    assert [cell["split"] for cell in found["cells"][::2]] == [cell["split"] for cell in found["cells"][1::2]]
    for (X, _, _), (other, rule, _) in zip(fake.CALLS[::2], fake.CALLS[1::2], strict=True):
        np.testing.assert_array_equal(X, other)
        assert rule.count == "7"


def test_table_and_picture(place):
    result = gpbench("run", "-m", "linear", "-d", DATA, "--folds", 2, "--plot", "new/a.png")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "linear" in result.stdout
    assert (place / "new" / "a.png").read_bytes().startswith(b"\x89PNG")


def test_hyperparameters_of_another_method(place):
    """The other's cells run first, and are those that a plan asks for."""
    given = ["-m", "x-gpc", "-d", DATA, *QUICK, "--inducing", 9]
    found = as_json(*given, "--set", "hyperparameters=from:klsp")
    assert [cell["method"] for cell in found["cells"]] == ["x-gpc"] * 2
    assert len(Store(place / "results" / "runs").cells()) == 4
    plan = (
        f'title = "T"\ndatasets = ["{DATA}"]\nsplit = "folds:2"\nlimits = {{ iterations = 5 }}\n'
        '[defaults]\ninducing = 9\n[methods.x-gpc]\nhyperparameters = "from:klsp"\n'
    )
    (place / "mine.toml").write_text(plan, encoding="utf-8")
    assert gpbench("reproduce", "mine.toml").exit_code == 0
    assert len(Store(place / "results" / "runs").cells()) == 4
    assert "not run" not in gpbench("report", "mine.toml").stdout


def test_order_of_options_plays_no_part(fake):
    one = as_json("-m", "fake", "-m", "points", "-d", DATA, "--folds", 2, "--set", "rate=0.5", "--set", "steps=3")
    other = as_json(
        "--set", "steps=3", "--split", "folds:2", "-d", DATA, "--set", "rate=.5", "-m", "points", "-m", "fake"
    )
    assert {cell["key"]: cell for cell in one["cells"]} == {cell["key"]: cell for cell in other["cells"]}
    assert len(fake.CALLS) == 4


def test_force_runs_again(fake):
    arguments = ["-m", "fake", "-d", DATA, "--folds", 2]
    first, again = as_json(*arguments), as_json(*arguments, "--force")
    assert len(fake.CALLS) == 4
    assert [cell["key"] for cell in again["cells"]] == [cell["key"] for cell in first["cells"]]
    assert again["cells"][0]["provenance"]["start"] > first["cells"][0]["provenance"]["start"]


@pytest.mark.filterwarnings("default::gpbench.errors.GpbenchWarning")
def test_more_threads_than_cores_are_told_and_run(fake, monkeypatch):
    monkeypatch.setattr(resources, "_cores", lambda: 1)
    result = gpbench("run", "-m", "fake", "-d", DATA, "--split", "holdout:0.5*1", "--threads", 2)
    assert result.exit_code == 0
    assert result.stderr.startswith("gpbench: 2 threads are more than the cores of this machine (1); they wait")
    assert len(fake.CALLS) == 1


def test_options_reach_the_cells(fake, monkeypatch):
    monkeypatch.setattr(resources, "_cores", lambda: 2)
    found = as_json(
        "-m", "fake", "-d", DATA, "--split", "holdout:0.5*1", "--max-seconds", 9, "--max-iterations", 2, "--seed", 4,
        "--threads", 2, "--kernel", "linear", "--likelihood", "probit",
    )  # fmt: skip
    (cell,) = found["cells"]
    assert cell["split"] == {"protocol": "holdout:0.5*1", "index": 0, "count": 1, "seed": 4}
    assert (cell["seed"], cell["limits"], cell["likelihood"]) == (4, {"seconds": 9.0, "iterations": 2}, "probit")
    assert (cell["settings"]["kernel"], cell["settings"]["max_iterations"]) == ("linear", 2)
    assert (cell["metrics"]["iterations"], cell["provenance"]["threads"]) == (2, 2)


def test_scaling_is_that_of_a_plan(fake, place):
    """Every word of a plan, with the same cells: a plan's are found stored."""
    wanted = ["-m", "fake", "-d", DATA, "--folds", 2, "--set", "rate=0"]  # its steps overflow where nothing is scaled
    seen = {}
    for scaling in SCALINGS:
        found = as_json(*wanted, "--scaling", scaling)
        assert {cell["scaling"] for cell in found["cells"]} == {scaling}
        seen[scaling] = fake.CALLS[-1][0][:]
        calls = len(fake.CALLS)
        plan = (
            f'title = "T"\ndatasets = ["{DATA}"]\nsplit = "folds:2"\nscaling = "{scaling}"\n[methods.fake]\nrate = 0\n'
        )
        (place / "mine.toml").write_text(plan, encoding="utf-8")
        assert gpbench("reproduce", "mine.toml").exit_code == 0
        assert len(fake.CALLS) == calls
        provenance = json.loads((place / "results" / "reproduced" / "mine" / "provenance.json").read_text())
        assert provenance["keys"] == sorted(cell["key"] for cell in found["cells"])
    np.testing.assert_allclose(seen["standard"].std(axis=0), 1, rtol=1e-12)
    spread = seen["none"].std(axis=0)
    np.testing.assert_allclose(seen["common"].std(axis=0), spread / np.sqrt((spread**2).mean()), rtol=1e-12)
    plain = as_json(*wanted)
    assert {cell["scaling"] for cell in plain["cells"]} == {"standard"}
    assert len(fake.CALLS) == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scaling", "commn"], "Invalid value for '--scaling'"),
        (["-m", "fke"], "unknown method 'fke'; did you mean fake?"),
        (["-d", "brest-cancer"], "unknown data set 'brest-cancer'; did you mean breast-cancer"),
        (["-d", "wine"], "method fake cannot do wine: its task is multiclass; fake does binary"),
        (["--set", "rat=1"], "unknown setting (of fake) 'rat'; did you mean rate?"),
        (["--set", "rate=2"], "setting rate must be a number in [0, 1]; got 2.0"),
        (["--set", "rate"], "--set expects name=value; got 'rate'"),
        (["--batch-size", "5"], "--batch-size applies to none of the methods fake"),
        (["--kernel", "cubic"], "setting kernel must be one of se, linear; got 'cubic'"),
        (["-m", "points", "--inducing", "570"], "fewer training rows than inducing points"),
        (["--split", "fold:3"], "unknown split protocol 'fold'; did you mean folds"),
        (["--split", "folds:3", "--folds", "3"], "--split folds:3 and --folds 3 exclude one another"),
        (["--folds", "1"], "folds:1"),
        (["--folds", "1000"], "569"),
        (["--split", "given"], "no published splits"),
        (["--max-seconds", "0"], "limit on seconds must be a positive number; got 0.0"),
        (["--max-seconds", "nan"], "limit on seconds must be a positive number; got nan"),
        (["--max-iterations", "-1"], "limit on iterations must be a positive integer; got -1"),
        (["--jobs", "0"], "jobs must be at least 1; got 0"),
        (["--threads", "0"], "threads must be at least 1; got 0"),
        (["--seed", "-1"], "seed must be an integer >= 0; got -1"),
        (["--plot", "a.gif"], "--plot expects a name that ends in .png, .pdf, .svg; got a.gif"),
        (["--sed", "1"], "No such option"),
        (["-m", "fake"], "method fake is named twice"),
        (["-d", DATA], "data set breast-cancer-wisconsin is named twice"),
    ],
)
def test_wrong_usage_is_refused_before_anything_runs(fake, place, arguments, message):
    result = gpbench("run", "-m", "fake", "-d", DATA, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert fake.CALLS == []
    assert not (place / "results").exists()


def test_a_kernel_that_is_not_known_is_refused_before_anything_runs(place):
    for kernel, name in (("see", "see"), ("se+", "")):
        result = gpbench("run", "-m", "x-gpc", "-d", DATA, "--kernel", kernel)
        assert result.exit_code == 2
        assert f"gpbench: method x-gpc: unknown kernel {name!r}" in result.stderr
    assert not (place / "results").exists()


def test_data_that_cannot_be_had(fake):
    result = gpbench("run", "-m", "fake", "-d", "nowhere.csv")
    assert result.exit_code == 3
    assert "there is no file nowhere.csv" in result.stderr


def test_results_that_cannot_be_stored(fake, place):
    (place / "results").mkdir()
    (place / "results" / "runs").write_text("")
    result = gpbench("run", "-m", "fake", "-d", DATA)
    assert result.exit_code == 1
    assert "cannot write the store" in result.stderr
    assert "a file stands where a folder is needed" in result.stderr
    assert fake.CALLS == []


def test_failed_cells_give_exit_code_4_and_the_rest_goes_on(fake):
    result = gpbench("run", "-m", "fake", "-m", "points", "-d", DATA, "--folds", 2, "--set", "trouble=error", "--json")
    assert result.exit_code == 4
    found = json.loads(result.stdout)
    assert [cell["status"] for cell in found["cells"]] == ["failed"] * 4
    assert found["summary"][0]["failed"] == 2
    assert f"gpbench: fake on {DATA}, folds:2 1/2: failed: ValueError: deliberate (bench_fakes.py:" in result.stderr


def test_a_picture_of_nothing_is_not_drawn(fake, place):
    result = gpbench("run", "-m", "fake", "-d", DATA, "--folds", 2, "--set", "trouble=error", "--plot", "a.png")
    assert result.exit_code == 4
    assert not (place / "a.png").exists()
    assert "gpbench: a.png is not drawn: there are no finished cells to draw\n" in result.stderr


def test_a_picture_of_two_processors_is_not_drawn_and_the_run_has_its_own_exit_code(fake, place):
    words = ["run", "-m", "fake", "-d", DATA, "--folds", 2, "--plot", "a.png"]
    assert gpbench(*words).exit_code == 0
    (place / "a.png").unlink()
    store = Store(place / "results" / "runs")
    cell = store.results()[0]
    store.put(replace(cell, provenance={**cell.provenance, "cpu": "another"}), store.arrays(cell.key))
    result = gpbench(*words)
    assert result.exit_code == 0
    assert "gpbench: a.png is not drawn: times that share an axis need cells of one processor" in result.stderr
    assert not (place / "a.png").exists()
    assert gpbench(*words, "-m", "points", "--set", "trouble=error").exit_code == 4


def test_a_damaged_result_is_reported_and_run_again(fake, place):
    first = as_json("-m", "fake", "-d", DATA, "--folds", 2)
    path = place / "results" / "runs" / f"{first['cells'][1]['key']}.json"
    path.write_text("{")
    result = gpbench("run", "-m", "fake", "-d", DATA, "--folds", 2, "--json")
    assert result.exit_code == 0
    assert "is damaged and was set aside" in result.stderr
    assert json.loads(result.stdout)["cells"][0] == first["cells"][0]
    assert len(fake.CALLS) == 3


def test_a_file_of_ones_own(fake, place):
    rows = "\n".join(f"{'ja' if i % 3 else 'nein'},{i % 3 + 0.1 * (i % 7)},{i % 5}" for i in range(60))
    (place / "mine.csv").write_text("wahl,a,b\n" + rows)
    found = as_json("-m", "fake", "-d", "mine.csv", "--target", "wahl", "--folds", 3)
    assert [cell["status"] for cell in found["cells"]] == ["ok"] * 3
    assert found["summary"][0]["dataset"] == found["cells"][0]["dataset"]
    assert "mine" in found["summary"][0]["dataset"]


PLUGIN = """
import os
import signal
from dataclasses import dataclass
from bench_fakes import FAKE, FakeScheme
from gpbench.bench.methods import Method

@dataclass(frozen=True)
class Waiting(FakeScheme):
    def fit(self, X, y, **others):
        if os.environ.get("WAIT"):
            os.write(2, f"at work {os.getpid()}\\n".encode())
            signal.pause()
        return super().fit(X, y, **others)

METHOD = Method(id="waiting", title="Waits", tasks=FAKE.tasks, scheme=Waiting)
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_leaves_a_resumable_store_and_exit_code_130(place, jobs):
    plugin = place / "plugin"
    (plugin / "waiting-1.0.dist-info").mkdir(parents=True)
    (plugin / "waiting-1.0.dist-info" / "METADATA").write_text("Name: waiting\nVersion: 1.0\n")
    (plugin / "waiting-1.0.dist-info" / "entry_points.txt").write_text("[gpbench.methods]\nw = waiting_plugin:METHOD\n")
    (plugin / "waiting_plugin.py").write_text(PLUGIN)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(plugin), str(FAKES), os.environ.get("PYTHONPATH", "")]),
    }
    command = [
        sys.executable, "-c", "from gpbench.cli import main; main()",
        "run", "-m", "waiting", "-d", DATA, "--folds", "3", "--jobs", str(jobs), "--json",
    ]  # fmt: skip
    with subprocess.Popen(
        command, env={**environment, "WAIT": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as running:  # fmt: skip
        for _ in range(jobs):
            assert running.stderr.readline().startswith("at work")
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does: workers too
        stdout, stderr = running.communicate()
    assert running.returncode == 130
    assert stdout == ""
    assert "interrupted; what is finished is kept" in stderr
    assert "Traceback" not in stderr
    assert [cell["status"] for cell in Store(place / "results" / "runs").cells()] == ["interrupted"] * jobs
    if jobs == 1:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert [cell["status"] for cell in json.loads(done.stdout)["cells"]] == ["ok"] * 3


ODD = """
import ctypes, os, time
from dataclasses import dataclass
from bench_fakes import FAKE, FakeScheme
from gpbench.bench.methods import Method

@dataclass(frozen=True)
class Odd(FakeScheme):
    def fit(self, X, y, **others):
        print("the scheme says")
        os.write(1, b"and so does C\\n")
        if self.trouble == "segv":
            ctypes.string_at(0)
        if self.trouble == "hang":
            time.sleep(1000)
        return super().fit(X, y, **others)

METHODS = [
    Method(id=name, title=name, tasks=FAKE.tasks, scheme=Odd, preset={"trouble": name})
    for name in ("good", "segv", "hang")
]
"""


@pytest.mark.slow  # five workers
def test_a_sweep_of_good_and_bad_schemes(place):
    plugin = place / "plugin"
    (plugin / "odd-1.0.dist-info").mkdir(parents=True)
    (plugin / "odd-1.0.dist-info" / "METADATA").write_text("Name: odd\nVersion: 1.0\n")
    (plugin / "odd-1.0.dist-info" / "entry_points.txt").write_text("[gpbench.methods]\no = odd_plugin:METHODS\n")
    (plugin / "odd_plugin.py").write_text(ODD)
    path = os.pathsep.join([str(plugin), str(FAKES), os.environ.get("PYTHONPATH", "")])
    words = ["-m", "good", "-m", "segv", "-m", "hang", "-m", "linear", "-d", DATA, "--folds", "2", "--hard-limit", "2"]
    done = subprocess.run(
        [sys.executable, "-c", "from gpbench.cli import main; main()", "run", *words, "--json"],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    found = json.loads(done.stdout)  # pure
    assert "the scheme says" in done.stderr
    assert "and so does C" in done.stderr
    cells = {(cell["method"], cell["split"]["index"]): cell for cell in found["cells"]}
    assert {cells["good", 0]["status"], cells["linear", 1]["status"]} == {"ok"}
    assert {cells["segv", index]["status"] for index in range(2)} == {"failed"}
    assert "SIGSEGV" in cells["segv", 0]["problem"]["message"]
    assert {cells["hang", index]["status"] for index in range(2)} == {"timeout"}
    assert cells["good", 0]["clock"] == "processor"
    assert Store(place / "results" / "runs").get(cells["good", 1]["key"]).finished


STARTING = """
import os, signal, sys
if any("gpbench.bench.worker" in word for word in sys.orig_argv):
    os.write(2, b"a worker begins\\n")
    signal.pause()
"""


def test_ctrl_c_while_workers_begin_shows_no_traceback_of_theirs(place):
    """Each is held at its first line, before it has imported anything that could handle the signal."""
    (place / "sitecustomize.py").write_text(STARTING)
    command = [
        sys.executable, "-c", "from gpbench.cli import main; main()",
        "run", "-m", "linear", "-d", DATA, "--folds", "3", "--jobs", "2",
    ]  # fmt: skip
    with subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        for _ in range(2):
            assert running.stderr.readline() == "a worker begins\n"
        os.killpg(running.pid, signal.SIGINT)
        _, stderr = running.communicate()
    assert running.returncode == 130
    assert stderr.strip().splitlines()[-1].startswith("gpbench: interrupted; what is finished is kept")
    assert "Traceback" not in stderr


def test_help_names_every_option_of_the_design_and_imports_nothing_heavy():
    program = (
        "import sys\nfrom gpbench.cli import main\nmain(['run', '--help'], standalone_mode=False)\n"
        "heavy = {'numpy', 'scipy', 'pandas', 'sklearn', 'matplotlib'}\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in heavy))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for option in (
        "--method", "--dataset", "--split", "--folds", "--inducing", "--batch-size", "--kernel", "--likelihood",
        "--max-seconds", "--max-iterations", "--seed", "--jobs", "--threads", "--set", "--target", "--task", "--impute",
        "--plot", "--force", "--json", "--hard-limit", "--memory-limit", "--scheduler",
    ):  # fmt: skip
        assert option in done.stdout
    assert set(KERNEL_NAMES) <= set(done.stdout.replace(",", " ").split())
