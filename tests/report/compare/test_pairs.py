import pytest

from gpbench.errors import UsageError
from gpbench.report.compare.pairs import Contender, arenas_of, contenders_of, one_per_family

A, B = Contender("linear", "linear"), Contender("x-gpc", "x-gpc")


def test_only_the_same_split_of_the_same_data_pairs_up(make_cell):
    cells = [
        *(make_cell(method="linear", index=index) for index in range(3)),
        *(make_cell(index=index) for index in (1, 2, 3)),
        make_cell(index=0, seed=1),
        make_cell(index=0, checksum="d" * 64),
        make_cell(index=0, protocol="contiguous:10"),
    ]
    arenas, notes = arenas_of(cells)
    assert notes == []
    met = {(arena.label, arena.split): arena.common((A, B)) for arena in arenas}
    assert met == {
        ("german (checksum=cccccccc)", "folds:10"): [(1, 10, 0, 0, 0, 0), (2, 10, 0, 0, 0, 0)],
        ("german (checksum=cccccccc)", "contiguous:10"): [],
        ("german (checksum=dddddddd)", "folds:10"): [],
    }


def test_failed_cells_are_started_and_not_finished(make_cell):
    (arena,), _ = arenas_of([make_cell(method="linear"), make_cell(), make_cell(index=1, status="failed")])
    assert len(arena.started[B]) == 2
    assert arena.common((A, B)) == [(0, 10, 0, 0, 0, 0)]


@pytest.mark.parametrize("limit", ["test_rows", "train_rows"])
def test_other_rows_are_other_splits(make_cell, limit):
    (arena,), _ = arenas_of([make_cell(method="linear"), make_cell(limits={limit: 100})])
    assert arena.common((A, B)) == []


def test_settings_that_differ_between_data_sets_make_no_two_methods(make_cell):
    cells = [make_cell(settings={"rate": 0.1}), make_cell(dataset="wine", settings={"rate": 0.2})]
    arenas, notes = arenas_of(cells)
    assert {each for arena in arenas for each in arena.finished} == {B}
    assert notes == [
        (
            "x-gpc ran with different settings on different data sets (x-gpc (rate=0.1); x-gpc (rate=0.2)) "
            "and is compared as one method."
        )
    ]


def test_settings_that_differ_in_one_place_make_two_contenders(make_cell):
    arenas, notes = arenas_of([make_cell(settings={"rate": rate}) for rate in (0.1, 0.2)])
    assert [each.label for each in contenders_of(arenas)] == ["x-gpc (rate=0.1)", "x-gpc (rate=0.2)"]
    assert notes == []


def test_contenders_stand_in_the_order_in_which_they_are_named(make_cell):
    arenas, _ = arenas_of([make_cell(method=method) for method in ("a", "b", "c")])
    assert [each.label for each in contenders_of(arenas, ("c", "a"))] == ["c", "a", "b"]


def test_one_method_is_no_comparison(make_cell):
    arenas, _ = arenas_of([make_cell()])
    with pytest.raises(UsageError, match=r"two methods at the least; there are only x-gpc$"):
        contenders_of(arenas)


def test_nothing_pairs_up(make_cell):
    arenas, _ = arenas_of(
        [make_cell(), make_cell(method="linear", dataset="wine"), make_cell(method="late", status="failed")]
    )
    told = (
        r"nothing pairs up: no two of these methods finished the same split of a data set. There is: "
        r"late on nothing finished, and linear on wine, folds:10, and x-gpc on german, folds:10$"
    )
    with pytest.raises(UsageError, match=told):
        contenders_of(arenas)


def test_a_data_set_counts_once_where_most_pairs_are(make_cell):
    cells = [
        make_cell(method=method, protocol=protocol, index=index)
        for method in ("x-gpc", "linear")
        for protocol, count in (("contiguous:10", 1), ("folds:10", 2))
        for index in range(count)
    ]
    arenas, _ = arenas_of(cells)
    chosen, notes = one_per_family(arenas, (A, B))
    assert [arena.split for arena in chosen] == ["folds:10"]
    assert notes == ["Over data sets german counts once, as german, folds:10 (not german, contiguous:10)."]


def test_data_sets_that_share_rows_count_once(make_cell):
    names = ("diabetes", "diabetis", "german", "german-numeric", "wine")
    cells = [
        make_cell(method=method, dataset=name, index=index)
        for method in ("x-gpc", "linear")
        for name in names
        for index in range(3 if name == "diabetis" else 2)
    ]
    arenas, _ = arenas_of(cells)
    chosen, notes = one_per_family(arenas, (A, B))
    assert [arena.dataset for arena in chosen] == ["diabetis", "german", "wine"]
    assert notes == [
        "Over data sets the family of diabetes counts once, as diabetis, folds:10 (not diabetes, folds:10).",
        "Over data sets the family of german counts once, as german, folds:10 (not german-numeric, folds:10).",
    ]
