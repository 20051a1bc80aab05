"""An error of a method's own code is told with its innermost file and line there."""

from pathlib import Path

import numpy as np
import pytest
from bench_fakes import FAKE, task

import gpbench
from gpbench.bench.check.check import check
from gpbench.bench.location import location
from gpbench.bench.runner import run_cell
from gpbench.errors import NumericalError

SOURCE = Path(__file__).with_name("third_party.py").read_text(encoding="utf-8")
WRONG = "            np.ones(2) @ np.ones(3)  # wrong"


def raised(function):
    try:
        function()
    except Exception as error:  # noqa: BLE001
        return error
    raise AssertionError


@pytest.mark.parametrize("file", ["wrong_scheme.py", "wrong_package/__init__.py", "wrong_parts/inner/scheme.py"])
def test_check_names_file_and_line_of_the_schemes_own_code(tmp_path, monkeypatch, file):
    mark = "            before = self.q.mean"
    text = SOURCE.replace(mark, f"{WRONG}\n{mark}")
    assert text != SOURCE
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    method = gpbench.Method(id="wrong", title="Wrong", tasks=gpbench.BINARY, scheme=f"{module}:Laplace")
    first = next(check(method))
    assert first.outcome == "failed"
    line = text.splitlines().index(WRONG) + 1
    assert first.reason.startswith("ValueError: matmul")
    assert first.reason.endswith(f" ({file}:{line})")


def test_a_cell_stores_the_place_and_tells_of_it():
    problem = run_cell(task(trouble="error")).result.problem
    assert problem.place.startswith("bench_fakes.py:")
    assert str(problem) == f"ValueError: deliberate ({problem.place})"
    assert run_cell(task(trouble="interrupt")).result.problem.place == ""


def test_what_gpbench_says_itself_has_no_place():
    def refuse():
        raise NumericalError("not positive definite")

    assert location(raised(refuse), FAKE) == ""
    assert location(raised(lambda: np.ones(2) @ np.ones(3)), FAKE) == ""  # none of the method's own code was running
    assert run_cell(task(trouble="infinite")).result.problem.place == ""


def test_gpbenchs_own_methods_are_placed_in_gpbench():
    scheme = gpbench.method("linear").build({})
    wrong = raised(lambda: scheme.train(np.ones((3, 2)), "text", classes=2, rng=None, on_step=None))
    assert location(wrong, gpbench.method("linear")).startswith("gpbench/schemes/")
