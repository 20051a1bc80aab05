"""Files that CONTRIBUTING.md and README.md name are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("gpbench", "tests", "docs", "results", "benchmarks", "datasets", "requirements")
#: A path from the root, or a module's from the root or from gpbench/.
NAMED = re.compile(rf"(?<![\w/.-])(?:(?:{'|'.join(FOLDERS)})/[\w./-]*\w|[\w/]+/\w+\.py\b)")


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "README.md"])
def test_files_that_are_named_are_there(name):
    named = {path for path in NAMED.findall((ROOT / name).read_text(encoding="utf-8")) if "NAME" not in path}
    assert len(named) > 3
    assert [
        path for path in sorted(named) if not any((home / path).exists() for home in (ROOT, ROOT / "gpbench"))
    ] == []
