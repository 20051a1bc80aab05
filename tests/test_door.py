"""The one door: ``import gpbench`` offers what a scheme's author needs, and loads it when it is asked for."""

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from types import ModuleType

import numpy as np
import pytest

import gpbench


@pytest.mark.parametrize("name", gpbench.__all__)
def test_each_name_is_the_one_of_its_module(name):
    found = getattr(gpbench, name)
    assert name in dir(gpbench)
    if isinstance(found, ModuleType):
        assert found is import_module(f"{gpbench._MODULE[name]}.{name}")
    else:
        assert found is getattr(import_module(gpbench._MODULE[name]), name)


def test_type_checkers_see_what_is_offered():
    tree = ast.parse(inspect.getsource(gpbench))
    (block,) = [each for each in tree.body if isinstance(each, ast.If)]
    seen = {alias.name: statement.module for statement in block.body for alias in statement.names}
    assert seen == gpbench._MODULE
    assert sorted(gpbench.__all__) == sorted(seen)


def test_unknown_names_are_no_attributes():
    with pytest.raises(AttributeError, match="module 'gpbench' has no attribute 'nothing'"):
        gpbench.nothing  # noqa: B018 - the access is what is tested
    assert not hasattr(gpbench, "numpy")


def loaded_after(statement):
    heavy = "{'numpy', 'scipy', 'sklearn', 'pandas', 'click', 'matplotlib'}"
    code = f"import sys; {statement}; print(sorted({heavy} & set(sys.modules)))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_import_loads_no_numerics():
    assert loaded_after("import gpbench; dir(gpbench)") == "[]"
    assert loaded_after("import gpbench; gpbench.GpbenchError") == "[]"
    assert "numpy" in loaded_after("import gpbench; gpbench.Basis")


def test_a_notebooks_way_from_rows_to_probabilities(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = (X[:, 0] > 0).astype(int)
    scheme = gpbench.method("x-gpc").build({"inducing": "10", "max_iterations": 60})
    told = []
    fit = scheme.fit(
        X,
        y,
        inducing=gpbench.InducingRule("random", count=10, seed=0),
        likelihood=gpbench.likelihood("logit"),
        classes=2,
        rng=rng,
        on_step=lambda step: told.append(step.iteration),
    )
    assert isinstance(fit, gpbench.Fit)
    assert told == list(range(1, 61))
    fit.posterior.save(tmp_path / "q.npz")
    again = gpbench.load_posterior(tmp_path / "q.npz")
    assert np.array_equal(again.predict(X).values, fit.posterior.predict(X).values)
    assert np.mean(again.predict(X).point == y) > 0.9
