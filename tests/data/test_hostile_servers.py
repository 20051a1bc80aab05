"""Whatever a server does: an end within the limits, exit code 3, place and remedy, and nothing anywhere else."""

import hashlib
import json
import os
import random
import tempfile
import threading
import time

import hostile_server as hostile
import numpy as np
import pytest
from hostile_server import FAULTS, GOOD, Hostile

from gpbench.data import fetching, mirror
from gpbench.data import load as module
from gpbench.data.entries import read_file
from gpbench.data.load import load
from gpbench.data.web import Patience
from gpbench.errors import DataUnavailable

LIMITS = Patience(
    probe=1, connect=0.3, read=0.25, attempts=2, pause=0.01, wait=0.2, rate=2000, window=0.4, total=2.0, most=400_000
)
SLACK = 4.0  # seconds for reading the file, on a machine that is busy with other things
PATH = "toys/toy/toy.csv"
TOML = """
source = "toys"
licence = "none"
[files.toy]
path = "toys/toy/toy.csv"
urls = ["URL/toy.csv"]
KNOWN
[datasets.toy]
title = "Toy"
task = "binary"
d = 1
counts = {a = 2, b = 3}
parts = [{file = "toy", format = "csv"}]
"""
KNOWN = {
    "known": f'sha256 = "{hashlib.sha256(GOOD).hexdigest()}"\nsize = {len(GOOD)}',
    "unknown": "about = 100_000",
    "copy": f'sha256 = "{"0" * 64}"\nproven = false',
}


@pytest.fixture
def server():
    running = Hostile()
    yield running
    deadline = time.monotonic() + SLACK  # no request outlives the limits, though the server still does its worst
    while any(thread.name.startswith("GET ") for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    running.close()


@pytest.fixture
def toy(monkeypatch, tmp_path, server):
    """The data set; how much is known of its file is told by a name."""
    for name in ("home", "tmp", "data", "cwd"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path / "cwd")
    (tmp_path / "evil.csv").write_text("before")

    def make(known):
        path = tmp_path / "toys.toml"
        path.write_text(TOML.replace("URL", server.url).replace("KNOWN", KNOWN[known]))
        found = {one.id: one for one in read_file(path)}
        for place in (module, mirror):
            monkeypatch.setattr(place, "entry", lambda name: found[name])
        for place in (mirror, fetching):
            monkeypatch.setattr(place, "entries", lambda: found)
        return tmp_path / "data"

    return make


def _elsewhere(root):
    """All that stands outside the data folder, with its content."""
    return {
        path.relative_to(root): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
        if root / "data" not in path.parents
    }


def _files(data):
    return {path.relative_to(data / "files").as_posix() for path in (data / "files").rglob("*") if path.is_file()}


def _load(data):
    return load("toy", folder=data, patience=LIMITS)


def _left_in_order(data, *, known):
    """No more than a part that can be continued: something vouches for it."""
    left = _files(data)
    assert len(left) <= 2, left
    for name in left:
        place = data / "files" / name
        if name.endswith(".part"):
            assert place.stat().st_size > 0
            assert known or json.loads(place.with_name(place.name + ".json").read_text())["validator"]
        else:
            assert name.endswith(".part.json"), left
            assert name.removesuffix(".json") in left
    assert not list(data.rglob("header.json"))
    assert not list(data.rglob("*.lease"))


@pytest.mark.parametrize("known", ["known", "unknown"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_ends_with_exit_code_three_and_poisons_nothing(toy, server, tmp_path, known, name):
    data = toy(known)
    before = _elsewhere(tmp_path)
    server.script = FAULTS[name]
    begin = time.monotonic()
    with pytest.raises(DataUnavailable) as failed:
        _load(data)
    assert time.monotonic() - begin < LIMITS.total + LIMITS.connect + LIMITS.read + SLACK
    assert failed.value.exit_code == 3
    assert f"    {server.url}/toy.csv: " in str(failed.value)
    assert "remedy:" in str(failed.value)
    _left_in_order(data, known=known == "known")
    assert _elsewhere(tmp_path) == before
    server.script = hostile.good
    _is_good(_load(data), data, known=known == "known")


@pytest.mark.parametrize(
    "mirror",
    [
        "http://[::1", "http://127.0.0.1:99999", "http://127.0.0.1:x/", "http://", "ftp://127.0.0.1/", "file:///etc",
        "http://a..b/", "://", "http://127.0.0.1:1/?#", "https://SERVER/",
    ],
)  # fmt: skip
def test_mirrors_that_are_none(toy, server, tmp_path, mirror):
    data = toy("known")
    mirror = mirror.replace("SERVER", server.url.removeprefix("http://"))
    server.script = FAULTS["not_found"]
    with pytest.raises(DataUnavailable) as failed:
        load("toy", folder=data, mirror=mirror, patience=LIMITS)
    assert f"    {mirror.rstrip('/')}" in str(failed.value)
    assert _files(data) == set()
    server.script = hostile.good
    assert load("toy", folder=data, mirror=mirror, patience=LIMITS).n == 5  # the publisher has it


@pytest.mark.parametrize(
    "proxy", ["http://[::1", "http://127.0.0.1:99999", "nonsense:port", "http://", "http://127.0.0.1:1", "socks5://x:1"]
)
def test_proxies_that_are_none(toy, server, monkeypatch, proxy):
    data = toy("unknown")
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(DataUnavailable, match=r"/toy.csv: .*"):
        _load(data)
    assert _files(data) == set()


def test_a_proxy_that_does_its_worst(toy, server, monkeypatch):
    data = toy("unknown")
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "")
    for name in ("resets_after_the_request", "status_line_of_garbage", "hangs_before_the_header"):
        server.script = FAULTS[name]
        with pytest.raises(DataUnavailable, match=r"/toy.csv: "):
            _load(data)
    assert _files(data) == set()


def _is_good(found, data, *, known):
    np.testing.assert_array_equal(found.X[:, 0], [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(found.y, [0, 1, 0, 1, 1])
    assert _files(data) == {PATH} if known else {PATH, PATH + ".sha256"}


def _storm(toy, server, *, seed):
    """Each request meets a fault that was drawn for it, and one in four none; at the end all is well."""
    numbers = random.Random(seed)
    known = numbers.choice(list(KNOWN))
    data = toy(known)
    faults = [one for one in FAULTS.values() if one not in hostile.BEFORE_REQUESTS]

    def script(request):
        (hostile.good if numbers.random() < 0.25 else numbers.choice(faults))(request)

    for _ in range(5):
        server.script = script
        begin = time.monotonic()
        try:
            _is_good(_load(data), data, known=known == "known")
            break
        except DataUnavailable:
            _left_in_order(data, known=known == "known")
        finally:
            assert time.monotonic() - begin < 2 * (LIMITS.total + LIMITS.connect + LIMITS.read) + SLACK
    server.script = hostile.good
    _is_good(_load(data), data, known=known == "known")


@pytest.mark.parametrize("seed", range(8))
def test_faults_in_any_order(toy, server, seed):
    _storm(toy, server, seed=seed)


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("GPBENCH_STRESS"), reason="make stress runs it")
@pytest.mark.parametrize("seed", range(100, 100 + 10 * int(os.environ.get("GPBENCH_STRESS") or 0)))
def test_faults_in_any_order_for_longer(toy, server, seed):
    _storm(toy, server, seed=seed)
