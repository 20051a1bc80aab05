import numpy as np
import pandas as pd
import pytest

from gpbench.data.labels import LabelCoder, factor, final_classes, infer_task, sort_labels
from gpbench.data.recipe import Recipe
from gpbench.errors import DataError, UsageError

BINARY = Recipe(task="binary")


def classes_of(column, recipe=BINARY, task=None):
    codes, labels = factor(pd.Series(column))
    classes, table = final_classes(labels, recipe, task=task or recipe.task, name="t")
    return classes, table[codes].tolist()


@pytest.mark.parametrize(
    ("column", "classes", "y"),
    [
        ([1, -1, 1], ("-1", "1"), [1, 0, 1]),
        ([1.0, 0.0], ("0", "1"), [1, 0]),
        ([2, 1, 2], ("1", "2"), [1, 0, 1]),
        ([True, False], ("False", "True"), [1, 0]),
        (["yes", "no", "yes"], ("no", "yes"), [1, 0, 1]),
        (["10", "9"], ("9", "10"), [1, 0]),
        (["+1", "-1"], ("-1", "+1"), [1, 0]),
        ([0.5, 1.5], ("0.5", "1.5"), [0, 1]),
        (["g", "h"], ("g", "h"), [0, 1]),
    ],
)
def test_two_labels(column, classes, y):
    assert classes_of(column) == (classes, y)


def test_the_order_and_the_positive_labels_may_be_said():
    assert classes_of(["g", "h"], Recipe(task="binary", classes=("h", "g"))) == (("h", "g"), [1, 0])
    assert classes_of(["g", "h"], Recipe(task="binary", positive=("g",))) == (("h", "g"), [1, 0])
    odd = Recipe(task="binary", positive=("1", "3"))
    assert classes_of([1, 2, 3, 0], odd) == (("0,2", "1,3"), [1, 0, 1, 0])


@pytest.mark.parametrize(
    ("column", "recipe", "message"),
    [
        (["a", "a"], BINARY, "column 't': all targets are 'a'; expected at least two classes"),
        (["a", "b", "c"], BINARY, "the task binary needs 2 labels; there are 3: a, b, c"),
        (["a", "b"], Recipe(task="binary", classes=("a", "c")), "expected the labels a, c; got b"),
        (["a", "b"], Recipe(task="binary", positive=("z",)), "no target is z; there are a, b"),
        (["a", "b"], Recipe(task="binary", positive=("a", "b")), "every label is positive"),
    ],
)
def test_labels_that_do_not_fit(column, recipe, message):
    with pytest.raises(DataError, match=message):
        classes_of(column, recipe)


def test_missing_labels_have_no_code():
    assert factor(pd.Series([1.0, np.nan, 0.0]))[0].tolist() == [1, -1, 0]
    assert factor(pd.Series(["a", None, "b"]))[0].tolist() == [0, -1, 1]


def test_codes_go_on_over_blocks_of_other_types():
    coder = LabelCoder("t")
    found = [coder.add(pd.Series(part), pd.DataFrame()).tolist() for part in ([1, 2], [2.0, 3.0], ["3", "x"])]
    assert found == [[0, 1], [1, 2], [2, 3]]
    assert list(coder.labels) == ["1", "2", "3", "x"]


def test_too_many_labels_name_the_line():
    block = pd.DataFrame({"t": range(30)}, index=range(100, 130))
    block.attrs = {"source": "f.csv", "unit": "line"}
    with pytest.raises(DataError, match=r"f\.csv, line 129: column 't' holds more than 20 different values"):
        LabelCoder("t", limit=20).add(block["t"], block)


def test_sorting():
    assert sort_labels(["10", "9", "-1", "1e1"]) == ["-1", "9", "10", "1e1"]
    assert sort_labels(["b", "10", "a"]) == ["10", "a", "b"]


@pytest.mark.parametrize(
    ("labels", "task"),
    [
        (["0", "1"], "binary"),
        (["x", "y"], "binary"),
        (["0.5", "7"], "binary"),
        (list("abc"), "multiclass"),
        (list("0123456789"), "multiclass"),
    ],
)
def test_tasks_that_the_targets_tell(labels, task):
    assert infer_task(labels, name="t") == task


@pytest.mark.parametrize("labels", [["0.5", "1", "2"], [str(k) for k in range(21)], ["1", "2", "x"]])
def test_tasks_that_they_do_not_tell(labels):
    with pytest.raises(UsageError, match=r"targets in column 't' have \d+ different values, such as .*--task"):
        infer_task(labels, name="t")
