import numpy as np
import pytest

from gpbench.data.catalogue import entries, entry
from gpbench.data.embedded import EMBEDDED
from gpbench.data.load import is_here, load


def test_the_catalogue_names_exactly_the_embedded_sets():
    assert {name for name, one in entries().items() if one.maker == "embedded"} == set(EMBEDDED)


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_sets_have_the_rows_of_the_catalogue_and_need_no_files(name, tmp_path):
    found = load(name, folder=tmp_path / "nowhere", offline=True)
    one = entry(name)
    assert (found.n, found.d, found.task) == (one.n, one.d, one.task)
    assert found.class_counts() == one.counts
    assert is_here(name, tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_odd_digits_are_class_one(tmp_path):
    digits, odd = (load(name, folder=tmp_path) for name in ("digits", "digits-odd-even"))
    np.testing.assert_array_equal(odd.y, digits.y % 2)
    assert odd.classes == ("even", "odd")


def test_three_and_five_are_those_rows_of_the_digits(tmp_path):
    digits, both = (load(name, folder=tmp_path) for name in ("digits", "digits-3-5"))
    rows = np.isin(digits.y, (3, 5))
    np.testing.assert_array_equal(both.X, digits.X[rows])
    assert [both.classes[label] for label in both.y] == [digits.classes[label] for label in digits.y[rows]]
