import os
import subprocess
import sys
from pathlib import Path

import pytest
import scipy.linalg
from threadpoolctl import threadpool_info

from gpbench.bench import resources
from gpbench.bench.resources import check_threads, one_pool_size, pools
from gpbench.errors import GpbenchWarning, UsageError


def test_libraries_are_warmed_once_for_each_number_of_threads(monkeypatch):
    calls = []
    cholesky = scipy.linalg.cholesky

    def counted(*arguments, **options):
        calls.append({pool["num_threads"] for pool in threadpool_info()})
        return cholesky(*arguments, **options)

    monkeypatch.setattr(scipy.linalg, "cholesky", counted)
    resources._warm.cache_clear()
    for number in (1, 2, 1, 2):
        with one_pool_size(number):
            pass
    assert calls == [{1}, {2}]


def test_threads_of_what_a_scheme_imports_are_held_too(tmp_path):
    (tmp_path / "late.py").write_text("import sklearn.cluster\nfrom bench_fakes import FakeScheme\n")
    program = (
        "import sys\n"
        "from dataclasses import replace\n"
        "from bench_fakes import CALLS, FAKE, task\n"
        "from gpbench.bench.runner import run_cell\n"
        "assert 'sklearn' not in sys.modules\n"
        "run_cell(replace(task(), method=replace(FAKE, scheme='late:FakeScheme')))\n"
        "print(*CALLS[-1][2])\n"
    )
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, check=True,
        env={**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "PYTHONPATH": paths},
    )  # fmt: skip
    assert done.stdout.split() == ["1", "1", "1"]  # BLAS of NumPy and SciPy, and scikit-learn's OpenMP


def test_more_threads_than_cores_are_warned_of(monkeypatch):
    monkeypatch.setattr(resources, "_cores", lambda: 2)
    before = pools()
    assert check_threads(2) == 2
    with pytest.warns(GpbenchWarning, match=r"^3 threads are more than the cores of this machine \(2\); they wait"):
        assert check_threads(3) == 3
    assert pools() == before


def test_more_threads_than_the_libraries_run_are_refused(monkeypatch):
    monkeypatch.setattr(resources, "_cores", lambda: 1)
    monkeypatch.setattr(resources, "pools", lambda: [{"api": "openmp", "threads": 1}, {"api": "blas", "threads": 2}])
    with pytest.raises(UsageError, match="the number of threads must be at most 2, as many as BLAS runs; got 3"):
        check_threads(3)


def test_this_process_has_cores():
    assert 1 <= resources._cores() <= os.cpu_count()
