import numpy as np
import pytest

from gpbench.bench.plan.blocks import blocks
from gpbench.bench.plan.read import read_plan
from gpbench.report.figures.curves import hyperparameter_table
from gpbench.report.tables.table import RENDERERS

PLAN = 'title = "T"\ndatasets = ["german"]\n[methods.klsp]\nlabel = "X"\n[overrides.german]\nlabel = "German"\n'


@pytest.fixture
def cells(make_cell, plan_cell, tmp_path):
    """Three finished cells and a failed one."""
    (tmp_path / "item.toml").write_text(PLAN, encoding="utf-8")
    plan = read_plan(tmp_path / "item.toml")
    made = [make_cell(index=index, status="failed" if index == 3 else "ok") for index in range(4)]
    return [plan_cell(cell, *blocks(plan), plan) for cell in made]


def arrays(*rows):
    """Of key, latent function, name and value."""
    columns = zip(*rows, strict=True)
    return {name: np.array(column) for name, column in zip(("cell", "latent", "name", "value"), columns, strict=True)}


def test_medians_over_splits(cells):
    known = arrays(
        *(
            row
            for cell, variance in zip(cells, (1.0, 4.0, 2.0), strict=False)
            for row in ((cell.key, 0, "variance", variance), (cell.key, 0, "lengthscale", 0.5))
        )
    )
    lines = hyperparameter_table(cells, known).lines
    assert [line.words for line in lines] == [("German", "X", "variance", "3"), ("German", "X", "lengthscale", "3")]
    assert [tuple(number.mean for number in line.numbers) for line in lines] == [("2", "1 to 4"), ("0.5", "0.5 to 0.5")]


def test_further_latent_functions_are_numbered(cells):
    known = arrays((cells[0].key, 0, "variance", 1.0), (cells[0].key, 1, "variance", 3.0))
    assert [line.words[2] for line in hyperparameter_table(cells, known).lines] == ["variance", "f2 variance"]


def test_it_is_a_table_of_markdown(cells):
    text = RENDERERS["markdown"](hyperparameter_table(cells, arrays((cells[0].key, 0, "variance", 1.0))))
    assert text.startswith("| data set | method | hyper-parameter | splits | median | range |")
    assert "| German | X | variance | 1 | 1 | – |" in text
