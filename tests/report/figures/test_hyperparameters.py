import numpy as np
import pytest

from gpbench.report.figures.curves import hyperparameter_table
from gpbench.report.tables.table import RENDERERS


@pytest.fixture
def cell(make_cell):
    def make(index, **about):
        return {**make_cell(index=index, **about), "key": f"cell{index}", "shown": {"dataset": "German", "method": "X"}}

    return make


def arrays(*rows):
    """Of key, latent function, name and value."""
    columns = zip(*rows, strict=True)
    return {name: np.array(column) for name, column in zip(("cell", "latent", "name", "value"), columns, strict=True)}


def test_medians_over_splits(cell):
    known = arrays(
        ("cell0", 0, "variance", 1.0), ("cell0", 0, "lengthscale", 0.5),
        ("cell1", 0, "variance", 4.0), ("cell1", 0, "lengthscale", 0.5),
        ("cell2", 0, "variance", 2.0), ("cell2", 0, "lengthscale", 0.5),
    )  # fmt: skip
    lines = hyperparameter_table([cell(0), cell(1), cell(2), cell(3, status="failed")], known).lines
    assert [line.words for line in lines] == [("German", "X", "variance", "3"), ("German", "X", "lengthscale", "3")]
    assert [tuple(number.mean for number in line.numbers) for line in lines] == [("2", "1 to 4"), ("0.5", "0.5 to 0.5")]


def test_further_latent_functions_are_numbered(cell):
    known = arrays(("cell0", 0, "variance", 1.0), ("cell0", 1, "variance", 3.0))
    lines = hyperparameter_table([cell(0)], known).lines
    assert [line.words[2] for line in lines] == ["variance", "f2 variance"]


def test_it_is_a_table_of_markdown(cell):
    text = RENDERERS["markdown"](hyperparameter_table([cell(0)], arrays(("cell0", 0, "variance", 1.0))))
    assert text.startswith("| data set | method | hyper-parameter | splits | median | range |")
    assert "| German | X | variance | 1 | 1 | – |" in text
