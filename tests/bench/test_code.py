"""Which code makes a number: plug-ins by their source, and a checkout with changes."""

import os
import subprocess
import sys
from importlib import invalidate_caches

import pytest

from gpbench.bench import code as code_module
from gpbench.bench.code import changes, code, plugins, source_of
from gpbench.bench.method import BINARY, Method
from gpbench.bench.methods import method
from gpbench.errors import PluginError

SCHEME = """
from dataclasses import dataclass
from {name}.settings import RATE

@dataclass(frozen=True)
class Mine:
    def fit(self, X, y, **_):
        return RATE
"""


@pytest.fixture
def hashed(monkeypatch):
    """The hash of a scheme's package in a folder, as a fresh process has it."""

    def found(folder, scheme):
        before = set(sys.modules)
        monkeypatch.syspath_prepend(str(folder))
        invalidate_caches()
        code_module._package_hash.cache_clear()
        try:
            return source_of(Method(id="mine", title="Mine", tasks=BINARY, scheme=scheme))
        finally:
            sys.path.remove(str(folder))
            for name in set(sys.modules) - before:
                del sys.modules[name]
            code_module._package_hash.cache_clear()

    return found


def package(folder, name="mine", **files):
    """A package with a scheme; ``files`` are more of its modules, or others in place of its own."""
    place = folder / name
    place.mkdir(parents=True)
    every = {"__init__": "", "methods": SCHEME.format(name=name), "settings": "RATE = 1\n", **files}
    for module, text in every.items():
        (place / f"{module}.py").write_text(text)
    return folder


def test_a_package_is_known_wherever_it_stands_and_whatever_it_is_called(tmp_path, hashed):
    first = hashed(package(tmp_path / "a"), "mine.methods:Mine")
    assert len(first) == 20
    assert hashed(package(tmp_path / "b"), "mine.methods:Mine") == first
    assert hashed(package(tmp_path / "c", "yours"), "yours.methods:Mine") == first


def test_what_runs_nothing_leaves_the_hash_alone(tmp_path, hashed):
    first = hashed(package(tmp_path / "a"), "mine.methods:Mine")
    place = package(tmp_path / "b") / "mine"
    (place / "README.md").write_text("read me")
    (place / "py.typed").write_text("")
    (place / ".notes").write_text("hidden")
    (place / "methods.py").write_bytes((place / "methods.py").read_bytes().replace(b"\n", b"\r\n"))
    (place / "loop").symlink_to(place)
    assert hashed(tmp_path / "b", "mine.methods:Mine") == first


@pytest.mark.parametrize(
    "files",
    [{"settings": "RATE = 2\n"}, {"methods": SCHEME.format(name="mine") + "# more\n"}, {"extra": "X = 1\n"}],
    ids=["a module beside the scheme's", "the scheme", "a new file"],
)
def test_an_edited_package_has_another_hash(tmp_path, hashed, files):
    first = hashed(package(tmp_path / "a"), "mine.methods:Mine")
    assert hashed(package(tmp_path / "b", **files), "mine.methods:Mine") != first


def test_numbers_in_its_files_count(tmp_path, hashed):
    first = hashed(package(tmp_path / "a"), "mine.methods:Mine")
    (package(tmp_path / "b") / "mine" / "table.bin").write_bytes(b"\xff\x00")
    assert hashed(tmp_path / "b", "mine.methods:Mine") != first


ALONE = "from dataclasses import dataclass\nimport helper, numpy\n@dataclass(frozen=True)\nclass Mine:\n    pass\n"


def single(folder, name="mine", helper="X = 1"):
    folder.mkdir()
    (folder / f"{name}.py").write_text(ALONE)
    (folder / "helper.py").write_text(helper)
    (folder / "stranger.py").write_text(str(folder))
    return folder


def test_a_module_is_known_with_what_it_imports_from_beside_it(tmp_path, hashed):
    first = hashed(single(tmp_path / "a"), "mine:Mine")
    assert hashed(single(tmp_path / "b"), "mine:Mine") == first
    assert hashed(single(tmp_path / "c", "yours"), "yours:Mine") == first
    assert hashed(single(tmp_path / "d", helper="X = 2"), "mine:Mine") != first


def test_what_another_distribution_brought_is_not_its_own(tmp_path, hashed, monkeypatch):
    owners = {"mine": ["mine"], "helper": ["other"]}
    monkeypatch.setattr(code_module, "packages_distributions", lambda: owners)
    first = hashed(single(tmp_path / "a"), "mine:Mine")
    assert hashed(single(tmp_path / "b", helper="X = 2"), "mine:Mine") == first
    owners["helper"] = ["mine"]
    assert hashed(single(tmp_path / "c", helper="X = 2"), "mine:Mine") != first


def test_namespaces_are_shared_and_not_hashed_as_a_whole(tmp_path, hashed):
    scheme = SCHEME.format(name="space.mine")
    first = hashed(package(tmp_path / "a", "space/mine", methods=scheme), "space.mine.methods:Mine")
    package(tmp_path / "b", "space/mine", methods=scheme)
    package(tmp_path / "b", "space/other")
    assert hashed(tmp_path / "b", "space.mine.methods:Mine") == first


def test_a_package_in_an_archive_has_the_hash_of_the_same_in_a_folder(tmp_path, hashed):
    import shutil  # noqa: PLC0415

    folder = package(tmp_path / "a")
    first = hashed(folder, "mine.methods:Mine")
    shutil.rmtree(folder / "mine" / "__pycache__", ignore_errors=True)
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", folder)
    assert hashed(archive, "mine.methods:Mine") == first


def test_gpbenchs_own_methods_are_known_by_their_version():
    assert source_of(method("x-gpc")) is None


def test_a_scheme_without_source_is_refused():
    scheme = type("Nowhere", (), {"__module__": "nowhere_at_all", "__dataclass_fields__": {}})
    with pytest.raises(PluginError, match="source of method lost, nowhere_at_all, cannot be read"):
        source_of(Method(id="lost", title="Lost", tasks=BINARY, scheme=scheme))


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with one commit, in place of the checkout."""

    def git(*arguments):
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b", *arguments], cwd=tmp_path, check=True)

    for folder in ("schemes", "cli"):
        (tmp_path / "gpbench" / folder).mkdir(parents=True)
        (tmp_path / "gpbench" / folder / "a.py").write_text("1")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    monkeypatch.setattr(code_module, "checkout", lambda: tmp_path)

    def fresh():
        changes.cache_clear()
        code.cache_clear()
        return tmp_path / "gpbench"

    yield fresh
    monkeypatch.undo()
    fresh()


def test_a_clean_checkout_has_no_changes_nor_have_files_without_numbers(repository):
    folder = repository()
    assert changes() is None
    (folder / "cli" / "a.py").write_text("2")
    (folder / "schemes" / "a.py~").write_text("2")
    repository()
    assert changes() is None
    assert code()["dirty"] is True


def test_each_change_of_what_makes_numbers_has_a_hash_of_its_own(repository):
    folder = repository()
    found = []
    for change in (
        lambda: (folder / "schemes" / "a.py").write_text("2"),
        lambda: (folder / "schemes" / "a.py").write_text("3"),
        lambda: (folder / "schemes" / "b.py").write_text("2"),
        (folder / "schemes" / "a.py").unlink,
    ):
        change()
        repository()
        found.append(changes())
    assert None not in found
    assert len(set(found)) == 4
    (folder / "schemes" / "b.py").unlink()
    (folder / "schemes" / "a.py").write_text("1")
    repository()
    assert changes() is None


def test_commit_and_changes_of_a_checkout(repository):
    root = repository().parent
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True)
    (root / "notes.txt").write_text("not code")
    assert (code()["commit"], code()["dirty"]) == (commit.stdout.strip(), False)
    (root / "gpbench" / "b.py").write_text("2")
    repository()
    assert code()["dirty"] is True


def test_a_wheel_has_no_commit(monkeypatch):
    monkeypatch.setattr(code_module, "checkout", lambda: None)
    code.cache_clear()
    changes.cache_clear()
    assert (code()["commit"], code()["dirty"], changes()) == (None, None, None)
    code.cache_clear()
    changes.cache_clear()


METHODS = """
from dataclasses import dataclass
import numpy as np
import gpbench

@dataclass(frozen=True)
class Constant:
    p: float = gpbench.setting(0.5, "Of the second class.")

    def likelihood_for(self, task, n_classes):
        return gpbench.likelihood("probit")

    def fit(self, X, y, *, on_step, **_):
        return self

    def score(self, X, y):
        p = np.column_stack([np.full(len(y), 1 - VALUE), np.full(len(y), VALUE)])
        return np.log(p[np.arange(len(y)), y]), (p.argmax(axis=1) != y).astype(float), p

    def arrays(self):
        return {"p": np.array(VALUE)}

METHODS = [gpbench.Method(id="constant", title="Constant", tasks=gpbench.BINARY, scheme=Constant)]
"""


def install(folder, value, *, name="mine", distribution="mine", version="0.1"):
    """A plug-in as pip leaves it in a folder on the path."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text("")
    (folder / name / "methods.py").write_text(METHODS.replace("VALUE", value))
    about = folder / f"{distribution}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (about / "entry_points.txt").write_text(f"[gpbench.methods]\n{name} = {name}.methods:METHODS\n")
    return folder


def test_an_edited_plugin_runs_again_without_a_flag_and_a_moved_or_renamed_one_does_not(tmp_path):
    import json  # noqa: PLC0415

    def gpbench(folder, *words):
        environ = os.environ | {"GPBENCH_RESULTS": str(tmp_path / "results"), "GPBENCH_DATA": str(tmp_path / "data")}
        environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-c", "from gpbench.cli import main; main()", *words]
        done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def run(folder):
        return gpbench(folder, "run", "-m", "constant", "-d", "ringnorm-gen:60", "--folds", "2", "--json")["cells"]

    first = run(install(tmp_path / "a", "0.25"))
    assert first[0]["provenance"]["plugins"] == {"mine": "0.1"}
    moved = run(install(tmp_path / "b", "0.25", name="yours", distribution="other", version="0.2"))
    assert moved == first
    edited = run(install(tmp_path / "c", "0.75", version="0.2"))
    assert not {each["key"] for each in edited} & {each["key"] for each in first}
    assert edited[0]["metrics"]["nll"] != first[0]["metrics"]["nll"]
    assert edited[0]["provenance"]["plugins"] == {"mine": "0.2"}
    assert gpbench(tmp_path / "c", "doctor", "--json")["plugins"] == {"mine": "0.2"}


METRICS = '''
import numpy as np

def log10_loss(probabilities, y):
    """Mean negative decimal logarithm of the observed class's probability."""
    return -np.log10(probabilities[np.arange(len(y)), y]).mean()

def broken(probabilities, y):
    raise ValueError("deliberate")
'''

METRIC_PLAN = """
title = "T"
datasets = ["ringnorm-gen:60"]
split = "folds:2"
metrics = ["nll", "log10-loss"]
[methods.constant]
"""


def test_a_third_partys_metric_is_shown_stands_in_results_and_may_be_named_by_a_plan(tmp_path):
    folder = install(tmp_path / "a", "0.25")
    (folder / "scores.py").write_text(METRICS)
    entries = folder / "mine-0.1.dist-info" / "entry_points.txt"
    named = "[gpbench.metrics]\nlog10-loss = scores:log10_loss\nnll = scores:log10_loss\nlost = scores:lost\n"
    entries.write_text(entries.read_text() + named)
    (tmp_path / "plan.toml").write_text(METRIC_PLAN)

    def gpbench(*words):
        environ = os.environ | {"GPBENCH_RESULTS": str(tmp_path / "results"), "GPBENCH_DATA": str(tmp_path / "data")}
        environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-c", "from gpbench.cli import main; main()", *words]
        return subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = gpbench("reproduce", "plan.toml")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines() if "log10-loss" in line] == ["log10-loss"]
    shown = gpbench("report", "--metrics", "nll,log10-loss").stdout
    assert "Mean negative decimal logarithm of the observed class's probability." in shown
    nll, log10 = (float(word) for word in shown.splitlines()[2].split()[4::3][:2])
    assert log10 == pytest.approx(nll / 2.302585, abs=1e-4)
    assert "log10-loss" in gpbench("results").stdout.splitlines()[0].split(",")
    warnings = gpbench("doctor").stdout
    assert "metric 'nll' (scores:log10_loss) has an id that is taken" in warnings
    assert "metric 'lost' (scores:lost) does not load: AttributeError" in warnings
    entries.write_text(entries.read_text().replace("scores:log10_loss", "scores:broken"))
    failed = gpbench("report", "--metrics", "log10-loss")
    assert "metric log10-loss cannot be computed: ValueError: deliberate" in failed.stderr
    assert failed.returncode == 0


def test_the_plugins_of_this_environment_are_texts():
    assert all(isinstance(each, str) for pair in plugins().items() for each in pair)
