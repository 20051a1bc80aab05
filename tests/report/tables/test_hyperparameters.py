import numpy as np
import pytest

from gpbench.model.kernels import make_kernel
from gpbench.model.latent import Latent
from gpbench.model.likelihoods import Logit
from gpbench.model.posterior import Posterior
from gpbench.report.tables.hyperparameters import hyperparameter_display, hyperparameter_text


@pytest.fixture
def cell(make_cell, tmp_path):
    """A cell whose posterior has a kernel of some variance and length scale."""

    def make(index, *, variance, status="ok"):
        kernel = make_kernel("se", 2, variance=variance, lengthscale=0.5, noise=0.0)
        latent = Latent(kernel, np.eye(2), m_w=np.zeros(2), root=np.eye(2), form="covariance", jitter=0.0)
        found = {**make_cell(index=index, status=status), "key": f"cell{index}"}
        if status == "ok":
            np.savez(tmp_path / f"cell{index}.npz", **Posterior((latent,), Logit(20), classes=2).arrays())
        shown = {"dataset": "German", "method": "X", "arrays": str(tmp_path / f"cell{index}.npz")}
        return {**found, "shown": shown}

    return make


def test_medians_over_splits(cell):
    cells = [
        cell(0, variance=1.0),
        cell(1, variance=4.0),
        cell(2, variance=2.0),
        cell(3, variance=9.0, status="failed"),
    ]
    lines = hyperparameter_display(cells).lines
    assert [line.words for line in lines] == [
        ("German", "X", "part0.variance", "3"), ("German", "X", "part0.lengthscales[0]", "3"),
    ]  # fmt: skip
    assert [tuple(number.mean for number in line.numbers) for line in lines] == [("2", "1 to 4"), ("0.5", "0.5 to 0.5")]


def test_it_is_a_table_of_markdown(cell):
    text = hyperparameter_text([cell(0, variance=1.0)])
    assert text.startswith("| data set | method | hyper-parameter | splits | median | range |")
    assert "| German | X | part0.variance | 1 | 1 | – |" in text
