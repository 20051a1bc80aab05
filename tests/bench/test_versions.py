"""A change of a method's numbers raises its version: versions.json holds method -> version -> numbers of a tiny run.

Where this fails although a version was raised, or for a new method,

    python tests/bench/test_versions.py

writes down the numbers of each version that is not known yet, and never others for one that is.
"""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from gpbench.bench.builtin import BUILT_IN
from gpbench.bench.check.trial import TASKS, Trial

FILE = Path(__file__).with_name("versions.json")
RIVALS = "gpbench.peers."
"""Other libraries, in environments of their own, with versions of their own."""
METHODS = [each for each in BUILT_IN if not each.scheme.startswith(RIVALS)]
FEWER = {"max_iterations": 8}
BY_SIGNS = {"ep-mgpc", "sep-mgpc"}
"""Methods whose steps go by the signs of gradients: of those that are zero but for rounding, too."""
FIXED = {"hyperparameters": "fixed", "learn_inducing": False}
DIGITS = 9
TOLERANCE = 1e-6
"""Relative and absolute. Other processors' kernels move these numbers by at most 1e-8; a change by less is none."""


def numbers(method):
    """Task -> bound, where there is one, and predictions after a few steps: what every processor comes to."""
    found = {}
    for task in TASKS:
        if task in method.tasks:
            trial = Trial(method, task)
            fit = trial.fit(trial.settings(trial.short, FEWER, FIXED if method.id in BY_SIGNS else {}))
            bound = [] if fit.bound is None else [fit.bound]
            every = [*bound, *np.ravel(trial.predicted(fit.posterior)[:4])]
            found[task] = [float(f"{value:.{DIGITS}g}") for value in every]
    return found


def known():
    return json.loads(FILE.read_text(encoding="ascii")) if FILE.exists() else {}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.id)
def test_the_numbers_of_a_version_are_what_they_were(method):
    if method.extra is not None and importlib.util.find_spec("polyagamma") is None:
        pytest.skip(f"the extra {method.extra} is not installed")
    written = known().get(method.id, {})
    for task, values in numbers(method).items():
        version = method.version_for(task)
        expected = written.get(str(version), {}).get(task)
        assert expected is not None, f"version {version} for {task} is not in {FILE.name}: run {Path(__file__).name}"
        np.testing.assert_allclose(
            values, expected, rtol=TOLERANCE, atol=TOLERANCE, err_msg="raise the version of this method"
        )


def test_no_other_method_nor_a_later_version_is_written_down():
    versions = {each.id: each.latest for each in METHODS}
    assert known().keys() == versions.keys()
    assert {name: max(map(int, own)) for name, own in known().items()} == versions


def main():
    found = known()
    for each in METHODS:
        own = found.setdefault(each.id, {})
        missing = {task for task in each.tasks if task not in own.get(str(each.version_for(task)), {})}
        for task, values in numbers(each).items() if missing else ():
            if task in missing:
                own.setdefault(str(each.version_for(task)), {})[task] = values
                sys.stdout.write(f"{each.id} {each.version_for(task)} {task}\n")
    ordered = {each.id: found[each.id] for each in METHODS}
    lines = [
        f' "{name}": {{\n' + ",\n".join(f'  "{version}": {json.dumps(own)}' for version, own in each.items()) + "\n }"
        for name, each in ordered.items()
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="ascii")


if __name__ == "__main__":
    main()
