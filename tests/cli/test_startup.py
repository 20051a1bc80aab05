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


def test_what_there_is_to_run_is_listed_without_packages_that_only_running_needs(imported):
    modules = imported("list")
    assert {"gpbench.schemes.tuning", "gpbench.bench.plan.estimate"} <= modules  # of every scheme, and every plan
    assert heavy(modules) == set()


def test_what_a_scheme_trains_with_is_imported_before_the_clock_runs():
    """The clock begins when ``fit`` is called."""
    for scheme in ("hgb:HGB", "linear:Linear", "rff:RFF"):
        module, name = scheme.split(":")
        program = f"""
import sys
from gpbench.bench.fitting import fit_rows
from gpbench.bench.choices import Choice
from gpbench.bench.methods import method
from gpbench.schemes.{module} import {name}
import numpy as np
def fit(self, X, y, **others):
    before = set(sys.modules)
    true(self, X, y, **others)
    print(sorted(each for each in set(sys.modules) - before if each.startswith("sklearn")))
    raise SystemExit
true, {name}.fit = {name}.fit, fit
assert "sklearn" not in sys.modules
chosen = Choice(method("{module}"), method("{module}").resolve({{}}))
fit_rows(chosen, np.arange(40.0).reshape(20, 2), np.arange(20) % 2, task="binary", classes=2, seed=0)
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]", scheme


def test_prepared_data_are_split_and_trained_on_without_packages_that_neither_uses(imported):
    assert "pandas" in heavy(imported("fetch", "twonorm-gen:300"))  # preparing needs it, and this test would see it
    modules = imported("run", "-m", "x-gpc", "-d", "twonorm-gen:300", "--folds", "2", "--max-iterations", "3")
    assert {"gpbench.schemes.settings", "gpbench.data.splits"} <= modules
    assert heavy(modules) == set()
