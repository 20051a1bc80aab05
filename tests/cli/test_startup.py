"""What commands may not import before they need it: each of these packages takes longer than many a cell."""

import os
import re
import subprocess
import sys

import pytest

HEAVY = {
    "dask",
    "distributed",
    "joblib",
    "matplotlib",
    "openml",
    "pandas",
    "pooch",
    "pyarrow",
    "requests",
    "scipy.stats",
    "sklearn",
}


@pytest.fixture
def imported(tmp_path):
    """Modules that a command imports, in the processes that it starts too.

    Python does not list those that ``import_module`` was called with, but what they import in turn.
    """
    folders = {"GPBENCH_DATA": str(tmp_path / "data"), "GPBENCH_RESULTS": str(tmp_path / "results")}

    def call(*arguments):
        program = "from gpbench.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", program, *arguments],
            capture_output=True, text=True, check=True, env={**os.environ, **folders},
        )  # fmt: skip
        return set(re.findall(r"^import time: .*\| +(\S+)$", done.stderr, re.MULTILINE))

    return call


def heavy(modules):
    return {name for name in HEAVY if any(module == name or module.startswith(f"{name}.") for module in modules)}


def test_a_method_is_shown_without_packages_that_it_does_not_use(imported):
    modules = imported("list", "methods", "x-gpc")
    assert "gpbench.schemes.settings" in modules
    assert heavy(modules) == set()


def test_prepared_data_are_split_and_trained_on_without_packages_that_neither_uses(imported):
    assert "pandas" in heavy(imported("fetch", "twonorm-gen:300"))  # preparing needs it, and this test would see it
    modules = imported("run", "-m", "x-gpc", "-d", "twonorm-gen:300", "--folds", "2", "--max-iterations", "3")
    assert {"gpbench.schemes.settings", "gpbench.data.splits"} <= modules
    assert heavy(modules) == set()
