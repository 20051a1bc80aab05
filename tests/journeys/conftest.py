"""Commands as they are typed: each a process of its own, in a folder of its own, with nothing but gpbench at hand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Shell:
    """A folder in which somebody types; ``path`` is Python's, beside gpbench's own."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {
            **os.environ,
            "GPBENCH_DATA": str(folder / "data"),
            "GPBENCH_RESULTS": str(folder / "results"),
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, folder))),
            "COLUMNS": "80",
        }

    def __call__(self, line, *, code=0):
        """What a line prints; ``gpbench`` is its first word."""
        words = line.split()
        assert words[0] == "gpbench"
        program = [sys.executable, "-c", "from gpbench.cli import main; main()", *words[1:]]
        done = subprocess.run(
            program, capture_output=True, text=True, cwd=self.folder, env=self.environment, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)
