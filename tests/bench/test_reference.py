"""Results as data: what a file of reference results keeps of a cell, and what takes the place of what."""

import errno
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bench_fakes import spec

from gpbench.bench.cell import Limits, OriginSpec
from gpbench.bench.reference import POINTS, merged, read_reference, reference_files, tidy, write_reference
from gpbench.bench.result import Problem, Result
from gpbench.errors import StoreError, UsageError

ORIGIN = OriginSpec(key="0" * 20, method="klsp", version=1, settings={"kernel": "se"}, source="a")


def a_result(points=3, *, provenance=None, status="ok", **options):
    seconds = [0.1 * (number + 1) for number in range(points)]
    return Result.of(
        spec(limits=Limits(seconds=2), **options),
        status=status,
        stopped_by="iterations" if status == "ok" else None,
        metrics={"nll": 0.5, "error": 0.1 + 0.2, "train_seconds": 0.1, "iterations": 7, "bound": None},
        trace={
            "seconds": seconds, "iteration": list(range(points)), "nll": [0.5] * points,
            "error": [None] * points, "bound": [-1.0] * points,
        },
        provenance=provenance or {"cpu": "Zen", "threads": 1, "end": "2026", "dirty": False, "packages": {"a": "2"}},
        problem=None if status == "ok" else Problem("ValueError", "deliberate", 3),
        arrays_sha256="a" * 64 if status == "ok" else None,
    )  # fmt: skip


def test_a_cell_comes_back_but_for_its_trace_in_single_precision(tmp_path):
    cells = [
        a_result(),
        replace(a_result(index=1), origin=ORIGIN, source="b" * 20),
        a_result(0, index=2, status="failed"),
    ]
    write_reference(tmp_path / "paper" / "item.parquet", cells)
    found = read_reference(tmp_path / "paper" / "item.parquet")
    assert [cell.key for cell in found] == sorted(cell.key for cell in cells)
    for cell in cells:
        (same,) = [each for each in found if each.key == cell.key]
        assert replace(same, trace=cell.trace) == cell
        for name, column in cell.trace.items():
            expected = column if None in column else pytest.approx(column, rel=1e-6)
            assert same.trace[name] == expected


def test_a_trace_keeps_a_hundred_points_its_first_and_last_among_them(tmp_path):
    write_reference(tmp_path / "a.parquet", [a_result(1234)])
    (found,) = read_reference(tmp_path / "a.parquet")
    iterations = found.trace["iteration"]
    assert (len(iterations), iterations[0], iterations[-1]) == (POINTS, 0, 1233)
    assert (np.diff(iterations) > 0).all()


def test_the_file_is_small_sorted_and_the_same_for_the_same_cells(tmp_path):
    packages = {"numpy": "2", "long": "x" * 5000}
    cells = [
        a_result(index=index, seed=seed, provenance={"packages": packages, "end": f"2026-{seed}-{index}"})
        for index in range(3)
        for seed in range(30)
    ]
    write_reference(tmp_path / "a.parquet", cells)
    write_reference(tmp_path / "b.parquet", cells[::-1])
    content = (tmp_path / "a.parquet").read_bytes()
    assert content == (tmp_path / "b.parquet").read_bytes()
    assert len(content) < 40_000  # 90 times the provenance would be 450,000
    table = pq.read_table(tmp_path / "a.parquet")
    keys = table.column("key").to_pylist()
    assert keys == sorted(keys)
    assert str(table.schema.field("trace_nll").type) == "list<element: float>"
    assert str(table.schema.field("nll").type) == "double"


@pytest.mark.parametrize("how", [{"changes": "a"}, {"provenance": {"dirty": True}}], ids=["changes", "dirty"])
def test_cells_of_a_dirty_checkout_are_refused(tmp_path, how):
    with pytest.raises(UsageError, match="1 of 2 cells were made by a checkout with changes"):
        write_reference(tmp_path / "a.parquet", [a_result(), replace(a_result(index=1), **how)])
    assert not list(tmp_path.iterdir())


def test_two_that_write_at_once_write_a_file_each(tmp_path, monkeypatch):
    path, write = tmp_path / "a.parquet", pq.write_table

    def interleaved(*args, **options):
        write(*args, **options)
        monkeypatch.setattr(pq, "write_table", write)
        write_reference(path, [a_result(index=1)])

    monkeypatch.setattr(pq, "write_table", interleaved)
    write_reference(path, [a_result()])
    assert read_reference(path)[0].split == a_result().split
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_whole_leaves_the_file_before(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    write_reference(path, [a_result()])

    def full(_, where, **__):
        where.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(StoreError, match="No space left on device"):
        write_reference(path, [a_result(), a_result(index=1)])
    assert len(read_reference(path)) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_later_cell_takes_the_place_of_the_same_with_other_versions_or_content():
    old = [a_result(), a_result(index=1), a_result(seed=5)]
    new = [replace(a_result(), version=2), replace(a_result(index=1), checksum="new")]
    assert {cell.key for cell in merged(old, new)} == {cell.key for cell in (*new, old[2])}
    again = replace(a_result(), provenance={"end": "2027"})
    assert [cell.ended for cell in merged([a_result()], [again])] == ["2027"]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 100])
def test_what_is_no_such_file_is_a_store_error(tmp_path, content):
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(StoreError, match=r"a.parquet cannot be read as reference results"):
        read_reference(tmp_path / "a.parquet")
    assert read_reference(tmp_path / "none.parquet") == []


def test_a_file_with_something_else_in_it_is_a_store_error(tmp_path):
    table = pq.read_table(write(tmp_path))
    pq.write_table(table.drop_columns(["method"]), tmp_path / "a.parquet")
    with pytest.raises(StoreError, match=r"a.parquet holds something that is no cell: it lacks method"):
        read_reference(tmp_path / "a.parquet")


def write(folder):
    write_reference(folder / "a.parquet", [a_result()])
    return folder / "a.parquet"


def test_a_tidy_table_has_a_row_a_cell_and_no_lists_unless_asked_for():
    table = tidy([a_result(), a_result(index=1)], traces=False)
    assert (len(table), table["nll"].tolist(), sorted(table["split_index"])) == (2, [0.5, 0.5], [0, 1])
    assert not [name for name in table.columns if name.startswith("trace_")]
    assert tidy([]).empty


def test_a_column_has_the_same_type_in_every_file(tmp_path):
    unknown = replace(
        a_result(), metrics={"nll": None, "error": None, "train_seconds": 1.0, "iterations": 7, "auc": None}
    )
    write_reference(tmp_path / "a.parquet", [unknown])
    write_reference(tmp_path / "b.parquet", [a_result(index=1)])
    write_reference(tmp_path / "none.parquet", [])
    together = pa.unify_schemas([pq.read_schema(path) for path in sorted(tmp_path.glob("*.parquet"))])
    assert {str(together.field(name).type) for name in ("nll", "auc", "iterations", "bound")} == {"double"}
    assert {"key", "dataset", "method", "version"} <= set(pq.read_schema(tmp_path / "none.parquet").names)
    assert read_reference(tmp_path / "none.parquet") == []


@pytest.mark.reference
def test_the_files_that_ship_can_be_read_as_one_table():
    files = reference_files()
    together = pa.unify_schemas([pq.read_schema(path) for path in files])
    assert {str(together.field(name).type) for name in ("nll", "auc", "brier", "bound")} == {"double"}
    assert all("key" in pq.read_schema(path).names for path in files)
