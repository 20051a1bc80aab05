import json
import subprocess
from datetime import UTC, datetime

import numpy as np
import pytest

from gpbench import __version__
from gpbench.bench import provenance as provenance_module
from gpbench.bench.provenance import code, now, provenance
from gpbench.bench.threads import one_pool_size, pools
from gpbench.config import checkout


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with one commit, in place of the checkout."""

    def git(*arguments):
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b", *arguments], cwd=tmp_path, check=True)

    (tmp_path / "gpbench").mkdir()
    (tmp_path / "gpbench" / "a.py").write_text("1")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    monkeypatch.setattr(provenance_module, "checkout", lambda: tmp_path)
    code.cache_clear()
    yield tmp_path
    code.cache_clear()


def test_what_is_recorded():
    found = provenance(threads=3, jobs=2, start="a", end="b")
    assert found["gpbench"] == __version__
    assert found["packages"]["numpy"] == np.__version__
    assert (found["threads"], found["jobs"], found["start"], found["end"]) == (3, 2, "a", "b")
    assert {"commit", "dirty", "python", "blas", "cpu", "cores", "platform"} <= set(found)
    assert found["cpu"]
    json.dumps(found, allow_nan=False)


def test_blas_and_the_architecture_of_its_kernels_are_named():
    blas = [pool for pool in pools() if pool["api"] == "blas"]
    assert {"numpy", "scipy"} <= {pool["owner"] for pool in blas}
    assert all(pool["architecture"] and pool["version"] for pool in blas)


def test_pools_are_held_and_let_go():
    before = [pool["threads"] for pool in pools()]
    with one_pool_size(1):
        assert {pool["threads"] for pool in pools()} == {1}
    assert [pool["threads"] for pool in pools()] == before


def test_commit_and_changes_of_a_checkout(repository):
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True, check=True)
    (repository / "notes.txt").write_text("not code")
    assert (code()["commit"], code()["dirty"]) == (commit.stdout.strip(), False)
    (repository / "gpbench" / "b.py").write_text("2")
    code.cache_clear()
    assert code()["dirty"] is True


def test_a_wheel_has_no_commit(monkeypatch):
    monkeypatch.setattr(provenance_module, "checkout", lambda: None)
    code.cache_clear()
    assert (code()["commit"], code()["dirty"]) == (None, None)
    code.cache_clear()


def test_times_are_in_utc():
    assert abs((datetime.fromisoformat(now()) - datetime.now(UTC)).total_seconds()) < 60


def test_this_checkout_is_known():
    root = checkout()
    assert root is None or (root / "gpbench" / "errors.py").is_file()
