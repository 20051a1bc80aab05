import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpbench.data.formats.frames import beside, frame, one_after_another, place, unique_names
from gpbench.errors import DataError


def blocks(sizes, name, *, start=0):
    for size in sizes:
        values = np.arange(start, start + size, dtype=float)
        yield frame({name: values}, numbers=range(start + 1, start + size + 1), source=f"{name}.csv")
        start += size


SIZES = st.lists(st.integers(0, 5), max_size=6)


@given(SIZES, SIZES)
@settings(deadline=None, max_examples=150)
def test_columns_beside_one_another_keep_their_rows_however_they_are_cut(left, right):
    if sum(left) != sum(right):
        with pytest.raises(DataError, match=r"[ab]\.csv, line \d+: .*no row"):
            list(beside(blocks(left, "a"), blocks(right, "b")))
        return
    found = list(beside(blocks(left, "a"), blocks(right, "b")))
    rows = [(line, *row) for block in found for line, row in zip(block.index, block.to_numpy().tolist(), strict=True)]
    assert rows == [(k + 1, k, k) for k in range(sum(left))]


def test_columns_of_one_name_do_not_stand_beside_one_another():
    with pytest.raises(DataError, match=r"a\.csv, line 1: both files have a column a"):
        list(beside(blocks([2], "a"), blocks([2], "a")))


def test_bytes_add_up_over_files():
    def part(read):
        return frame({"a": [1.0]}, numbers=range(1, 2), source="a.csv", read=read, total=10)

    found = list(one_after_another([(10, lambda: iter([part(5), part(10)])), (30, lambda: iter([part(30)]))]))
    assert [(block.attrs["read"], block.attrs["total"]) for block in found] == [(5, 40), (10, 40), (40, 40)]


def test_places_and_names():
    (block,) = blocks([3], "a", start=7)
    assert place(block, 2) == "a.csv, line 10"
    assert unique_names(["a", "b"], source="s") == ["a", "b"]
    with pytest.raises(DataError, match="s, line 1: column names must differ; more than one is named a, b"):
        unique_names(["a", "b", "a", "b", "c"], source="s")
