import json
from datetime import UTC, datetime

import numpy as np

from gpbench import __version__
from gpbench.bench.provenance import now, provenance
from gpbench.bench.resources import one_pool_size, pools
from gpbench.config import checkout


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


def test_times_are_in_utc():
    assert abs((datetime.fromisoformat(now()) - datetime.now(UTC)).total_seconds()) < 60


def test_this_checkout_is_known():
    root = checkout()
    assert root is None or (root / "gpbench" / "errors.py").is_file()
