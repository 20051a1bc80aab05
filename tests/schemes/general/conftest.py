"""What tests of the schemes for any likelihood share: rows of each task, and one way to train on them."""

import numpy as np
import pytest

from gpbench.model.basis import Basis
from gpbench.model.inducing import InducingRule
from gpbench.model.likelihoods import Gaussian, Logit, Ordinal, Poisson, Probit
from gpbench.schemes.base import StopTraining
from gpbench.schemes.general.bound import SparseRows
from gpbench.schemes.general.settings import Observation

CLASSES = {"count": 0, "binary": 2, "ordinal": 4}
EDGES = {"binary": [0.0], "ordinal": [-1.0, 0.0, 1.0]}


def _data(task, n=80, *, seed=0, log_rate=1.0, constant=0):
    """Rows (n, 2 + constant), the last columns zero, and targets of a task."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = np.sin(2 * X[:, 0]) + 0.7 * X[:, 1]
    if task == "count":
        y = rng.poisson(np.exp(log_rate + f))
    else:
        y = np.digitize(f + rng.logistic(scale=0.3, size=n), EDGES[task])
    return np.column_stack([X, np.zeros((n, constant))]), y


@pytest.fixture(scope="session")
def data():
    return _data


@pytest.fixture(scope="session")
def train(fit):
    """Fits with so many random rows as active set, or by a rule."""

    def run(scheme, task, X, y, *, rule=None, M=8, **options):
        rule = rule or InducingRule("random", count=M, seed=1)
        return fit(scheme, X, y, task=task, classes=CLASSES[task], inducing=rule, **options)

    return run


@pytest.fixture(scope="session")
def classes():
    """Classes of each task."""
    return CLASSES


class _Limit:
    """Told of steps, which it keeps; a limit passes after some checks within them."""

    def __init__(self, checks):
        self.left, self.steps = checks, []

    def __call__(self, step):
        self.steps.append(step)

    def check(self):
        self.left -= 1
        if self.left < 0:
            raise StopTraining


@pytest.fixture(scope="session")
def limit():
    """Makes an ``on_step`` with a limit that passes after so many checks."""
    return _Limit


_OBSERVED = {
    "poisson": (Observation(Poisson(), 0.5, has_mean=True), lambda n, rng: rng.poisson(3.0, n)),
    "ordinal": (Observation(Ordinal((-1.0, 0.2, 1.3), slope=1.5)), lambda n, rng: rng.integers(0, 4, n)),
    "logit": (Observation(Logit()), lambda n, rng: rng.integers(0, 2, n)),
    "probit": (Observation(Probit()), lambda n, rng: rng.integers(0, 2, n)),
    "gaussian": (Observation(Gaussian(0.6), 0.3, has_mean=True), lambda n, rng: rng.normal(size=n)),
}


@pytest.fixture(params=_OBSERVED)
def observed(request):
    """An observation of each likelihood, and what draws n targets for it."""
    return _OBSERVED[request.param]


@pytest.fixture
def problem(read_oracle):
    """Rows, observation, inputs and expected values of an oracle of a sparse model."""

    def read(name, **options):
        inputs, expected = read_oracle(name)
        kernel, jitter = inputs["kernel"]
        if inputs.get("likelihood") == "ordinal":
            observation = Observation(Ordinal(tuple(inputs["edges"]), slope=inputs["slope"], nodes=120))
            y = inputs["y"].astype(int) - 1
        elif "mean_constant" in inputs:
            observation = Observation(Poisson(), inputs["mean_constant"], has_mean=True)
            y = inputs["y"].astype(int)
        else:
            observation, y = Observation(Logit(nodes=120)), (inputs["y"] > 0).astype(int)
        rows = SparseRows(Basis(kernel, inputs["Z"], jitter=jitter), y, X=inputs["X"], **options)
        return rows, observation, inputs, expected

    return read
