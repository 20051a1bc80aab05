import json
from pathlib import Path

import numpy as np
import pytest

from gpbench.optimize.steps import AdaDelta

ORACLE = json.loads((Path(__file__).parents[1] / "oracles" / "optimiser_trajectories.json").read_text())


@pytest.mark.parametrize("name", ["adadelta_rate0.1_momentum0.9", "adadelta_rate1_momentum0"])
def test_walks_as_climin_does(name):
    expected = ORACLE["expected"][name]
    A, b, x = (np.array(ORACLE["inputs"][key]) for key in ("A", "b", "x0"))
    given = expected["params"]
    walk = AdaDelta(
        3, rate=given["step_rate"], decay=given["decay"], momentum=given["momentum"], offset=given["offset"]
    )
    for t in range(1, 21):
        x = x + walk.look_ahead()
        x = x + walk.step(b - A @ x)
        if f"after_{t}" in expected:
            assert x == pytest.approx(expected[f"after_{t}"], abs=1e-10)


def test_an_entry_without_gradient_stays():
    walk = AdaDelta(2)
    total = np.zeros(2)
    for _ in range(50):
        total += walk.look_ahead()
        total += walk.step(np.array([1.0, 0.0]))
    assert total[0] > 0
    assert total[1] == 0.0
