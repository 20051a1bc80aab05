import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from gpbench.bench import reference
from gpbench.model.kernels import SE, Linear, Matern32, Sum, White

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job ignores it, and its children do
    signal.signal(signal.SIGINT, signal.default_int_handler)


ORACLES = Path(__file__).parent / "oracles"

# A test that passes today passes tomorrow: the same examples each time. `make fuzz` draws others.
hypothesis.settings.register_profile("seeded", derandomize=True)
hypothesis.settings.register_profile("fuzz", derandomize=False)
hypothesis.settings.load_profile("seeded")


@pytest.fixture(autouse=True)
def _no_reference(request, tmp_path_factory, monkeypatch):
    """Tests see no reference results but their own, whatever has been run here; those of the real ones are marked."""
    if request.node.get_closest_marker("reference") is None:
        empty = tmp_path_factory.getbasetemp() / "no-reference"
        monkeypatch.setattr(reference, "shipped", lambda name: empty / name)


@pytest.fixture
def read_oracle():
    """Inputs and expected values of an oracle file, lists as arrays; a kernel as a Kernel, with its jitter."""

    def read(name):
        content = json.loads((ORACLES / f"{name}.json").read_text())
        return _arrays(content["inputs"]), _arrays(content["expected"])

    return read


def _arrays(value):
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [_arrays(item) for item in value]
    if isinstance(value, list):
        return np.array(value, dtype=np.float64)
    if isinstance(value, dict) and "parts" in value:
        return _kernel(value), value["jitter"]
    if isinstance(value, dict):
        return {key: _arrays(item) for key, item in value.items()}
    return value


def _kernel(spec):
    parts = []
    for part in spec["parts"]:
        if part["type"] == "linear_ard":
            parts.append(Linear.of(variances=part["variances"]))
        else:
            kind = {"se_ard": SE, "se_iso": SE, "matern32_ard": Matern32}[part["type"]]
            scales = part["lengthscale"] if part["type"] == "se_iso" else part["lengthscales"]
            parts.append(kind.of(variance=part["variance"], lengthscales=scales))
    if spec["white"] > 0:
        parts.append(White.of(variance=spec["white"]))
    return Sum(tuple(parts))


SHIM = """
#include <errno.h>
int flock(int file, int operation) { errno = ENOLCK; return -1; }
int lockf(int file, int command, long length) { errno = ENOLCK; return -1; }
"""


@pytest.fixture(scope="session")
def without_flock(tmp_path_factory):
    """An environment in whose programs flock fails as it does on many servers' folders."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("no C compiler for Linux is here")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    command = [compiler, "-shared", "-fPIC", "-o", str(folder / "shim.so"), str(folder / "shim.c")]
    subprocess.run(command, check=True, capture_output=True)
    environ = os.environ | {"LD_PRELOAD": str(folder / "shim.so")}
    probe = "import fcntl, sys; fcntl.flock(sys.stdin, fcntl.LOCK_EX)"
    done = subprocess.run([sys.executable, "-c", probe], env=environ, capture_output=True, text=True, check=False)
    assert "No locks available" in done.stderr
    return environ
