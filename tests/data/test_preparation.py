import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpbench.data.formats import beside, one_after_another, read_table
from gpbench.data.formats.frames import frame
from gpbench.data.preparation import Recipe, open_prepared, prepare
from gpbench.data.record import fitted
from gpbench.errors import DataError, UsageError

BINARY = Recipe(task="binary")


@pytest.fixture
def make(tmp_path):
    """Prepare a csv text, cut into blocks of a few lines."""

    def make(text, recipe=BINARY, *, block_bytes=64, folder="prepared", **options):
        path = tmp_path / "table.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        read = options.pop("read", {})
        return prepare(
            lambda: read_table(path, format="csv", block_bytes=block_bytes, **read),
            recipe,
            id="d",
            title="D",
            folder=tmp_path / folder,
            **options,
        )

    return make


def nothing_else(tmp_path):
    return sorted(path.name for path in tmp_path.iterdir()) == ["table.csv"]


def test_a_plain_table(make, tmp_path):
    dataset = make("a,b,t\n1.5,2,0\n-3,4,1\n0.25,6,1\n")
    assert (dataset.id, dataset.title, dataset.task, dataset.features) == ("d", "D", "binary", ("a", "b"))
    assert dataset.X.tolist() == [[1.5, 2], [-3, 4], [0.25, 6]]
    assert dataset.y.tolist() == [0, 1, 1]
    assert dataset.classes == ("0", "1")
    assert isinstance(dataset.X, np.memmap)
    assert not dataset.X.flags.writeable
    assert sorted(path.name for path in (tmp_path / "prepared").iterdir()) == ["X.npy", "header.json", "y.npy"]
    again = open_prepared(tmp_path / "prepared")
    assert again.checksum == dataset.checksum
    assert np.array_equal(again.X, dataset.X)


@given(
    st.integers(1, 40),
    st.integers(1, 5),
    st.sampled_from(["float32", "float64"]),
    st.tuples(st.booleans(), st.booleans()),
)
@settings(deadline=None, max_examples=30)
def test_blocks_and_orders_do_not_matter(tmp_path_factory, n, d, dtype, changes):
    deduplicate, sort = changes
    rng = np.random.default_rng(n * d)
    X = rng.integers(-2, 2, (n + 2, d)) * 0.5
    y = np.concatenate([[0, 1], rng.integers(0, 2, n)])
    table = pd.DataFrame(X, columns=[f"c{j}" for j in range(d)]).assign(t=y)
    recipe = Recipe(task="binary", dtype=dtype, deduplicate=deduplicate, sort=sort)
    found = []
    for size in (1, 3, 1000):

        def tables(size=size):
            for start in range(0, len(table), size):
                yield frame(
                    table[start : start + size].copy(), numbers=range(start, min(start + size, len(table))), source="t"
                )

        folder = tmp_path_factory.mktemp("prepared") / "x"
        found.append(prepare(tables, recipe, id="d", title="", folder=folder))
    expected = table
    if deduplicate:
        expected = expected.drop_duplicates()
    if sort:
        expected = expected.sort_values(list(table.columns[:-1]), kind="stable")
    for dataset in found:
        assert np.array_equal(dataset.X, expected.iloc[:, :-1].to_numpy())
        assert np.array_equal(dataset.y, expected["t"])
        assert dataset.X.dtype == np.dtype(dtype)
        assert dataset.checksum == found[0].checksum


def test_duplicates_are_those_of_label_and_inputs_and_the_first_stays(make):
    text = "1,2,0\n1,2,1\n-0.0,2,0\n1,2,0\n0.0,2,0\n"
    dataset = make(text, Recipe(task="binary", deduplicate=True))
    assert dataset.X.tolist() == [[1, 2], [1, 2], [0, 2]]
    assert dataset.y.tolist() == [0, 1, 0]
    assert dataset.notes[-1] == "duplicates of (target, inputs) removed: 2 of 5 rows"


def test_one_hot_categories_are_sorted(make):
    text = "c,x,t\nred,1,a\n10,2,b\nblue,3,a\nred,4,b\n"
    dataset = make(text, Recipe(task="binary", categorical="auto"), block_bytes=20)
    assert dataset.features == ("c=10", "c=blue", "c=red", "x")
    assert dataset.X.tolist() == [[0, 0, 1, 1], [1, 0, 0, 2], [0, 1, 0, 3], [0, 0, 1, 4]]
    assert dataset.notes == ("one-hot coded (sorted categories): c",)
    shorter = make(text, Recipe(task="binary", categorical=("c",), drop_first=True), folder="other")
    assert shorter.features == ("c=blue", "c=red", "x")
    assert "the first left out" in shorter.notes[0]


def test_numbers_may_be_categories_and_sort_as_numbers(make):
    dataset = make("10,0\n9,1\n10,1\n", Recipe(task="binary", categorical=(0,)))
    assert dataset.features == ("x1=9", "x1=10")


def test_a_column_that_turns_into_text_far_down_is_a_category_if_most_of_it_is_text(make):
    numbers = "".join(f"{k % 3},{k},t{k % 2}\n" for k in range(20))
    words = "".join(f"w{k % 2},{k},t{k % 2}\n" for k in range(21))
    small = {"read": {"header": False}, "block_bytes": 32}
    dataset = make(numbers + words, Recipe(task="binary", categorical="auto"), **small)
    assert dataset.features == ("x1=0", "x1=1", "x1=2", "x1=w0", "x1=w1", "x2")
    assert (dataset.X[:, :5].sum(axis=1) == 1).all()
    assert dataset.X[-1].tolist() == [0, 0, 0, 1, 0, 20]
    with pytest.raises(DataError, match=r"line 21: column 'x1' holds numbers; got 'w0' \(20 of 40 values are"):
        make(
            numbers + "".join(words.splitlines(keepends=True)[:20]),
            Recipe(task="binary", categorical="auto"),
            **small,
            folder="other",
        )


DIGITS = "".join(f"0{1 + k % 3},{k},{'01' if k % 2 else '1.0'}\n" for k in range(30))
LETTERS = "".join(f"{'AB'[k % 2]}1,{k},{'01' if k % 2 else 'z'}\n" for k in range(40)) + "01,3,01\n"


@pytest.mark.parametrize("categorical", ["auto", (0,)])
@pytest.mark.parametrize("block_bytes", [32, 1 << 20])
@pytest.mark.parametrize("text", [DIGITS + LETTERS, LETTERS + DIGITS])
def test_categories_and_classes_are_as_written_wherever_in_the_file_they_stand(make, categorical, block_bytes, text):
    recipe = Recipe(task="multiclass", categorical=categorical)
    dataset = make(text, recipe, block_bytes=block_bytes, read={"header": False})
    assert dataset.features == ("x1=01", "x1=02", "x1=03", "x1=A1", "x1=B1", "x2")
    assert dataset.X[:, :5].sum(axis=0).tolist() == [11, 10, 10, 20, 20]
    assert dataset.class_counts() == {"01": 36, "1.0": 15, "z": 20}


@given(
    st.lists(
        st.tuples(st.sampled_from(["01", "1", "1.0", "A", "B", "C", ""]), st.sampled_from(["0", "00", "1", "y"])),
        min_size=8,
        max_size=30,
    )
)
@settings(deadline=None, max_examples=40)
def test_the_size_of_blocks_changes_no_category_and_no_class(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("blocks")
    (folder / "t.csv").write_text("c,x,t\n" + "".join(f"{c},{k},{t}\n" for k, (c, t) in enumerate(rows)))
    found = []
    for size in (16, 48, 1 << 20):
        recipe = Recipe(task="multiclass", categorical="auto", impute="median")
        try:
            made = prepare(
                lambda size=size: read_table(folder / "t.csv", format="csv", header=True, block_bytes=size),
                recipe,
                id="d",
                title="",
                folder=folder / "prepared",
            )
            found.append(made.checksum)
        except DataError as error:
            found.append(str(error))
    assert len(set(found)) == 1


def test_numbers_that_are_categories_or_classes_throughout_go_by_their_values(make):
    text = "01,1,1\n1.0,2,01\n2,3,2.0\n02,4,2\n" * 4
    dataset = make(text, Recipe(task="binary", categorical=(0,)), block_bytes=16)
    assert dataset.features == ("x1=1", "x1=2", "x2")
    assert dataset.class_counts() == {"1": 8, "2": 8}


def test_labels_in_a_file_beside_are_as_written(tmp_path):
    (tmp_path / "X.csv").write_text("1.5\n" * 60)
    (tmp_path / "y.csv").write_text("01\n1\n" * 15 + "z\n01\n" * 15)

    def tables():
        left = read_table(tmp_path / "X.csv", format="csv", block_bytes=32, names=["x"])
        return beside(left, read_table(tmp_path / "y.csv", format="csv", block_bytes=20, names=["t"]))

    dataset = prepare(tables, Recipe(task="multiclass"), id="d", title="", folder=tmp_path / "prepared")
    assert dataset.class_counts() == {"01": 30, "1": 15, "z": 15}


def test_ordered_categories_are_one_column(make):
    text = "M,1,0\nF,2,1\nI,3,0\n"
    dataset = make(text, Recipe(task="binary", ordered=((0, ()),)))
    assert dataset.X.tolist() == [[2, 1], [0, 2], [1, 3]]
    assert dataset.notes == ("coded as 0, 1, ...: x1 (F, I, M)",)
    given_order = make(text, Recipe(task="binary", ordered=(("x1", ("I", "F", "M")),)), folder="other")
    assert given_order.X[:, 0].tolist() == [2, 1, 0]
    with pytest.raises(DataError, match=r"table\.csv, line 3: column 'x1' must be one of M, F; got 'I'"):
        make(text, Recipe(task="binary", ordered=(("x1", ("M", "F")),)), folder="third")


def test_identifiers_are_no_categories(make):
    text = "".join(f"id{k},{k % 2}\n" for k in range(1200))
    with pytest.raises(DataError, match=r"table\.csv, line \d+ or after: column 'x1' is no category"):
        make(text, Recipe(task="binary", categorical="auto"))


def test_columns_are_dropped_and_rows_kept_by_name_and_position(make):
    text = "id,x,t\n7,1,a\n8,2,b\n9,3,c\n"
    dataset = make(text, Recipe(task="binary", drop=("id",), keep=("a", "c")))
    assert dataset.X.tolist() == [[1], [3]]
    assert dataset.classes == ("a", "c")
    assert dataset.notes == ("rows kept: those with target a, c; 1 others left out", "columns dropped: id")
    first = make("0,1,5\n1,2,6\n", Recipe(task="binary", target=0, drop=(-1,)), folder="other")
    assert first.features == ("x2",)
    assert first.y.tolist() == [0, 1]


def test_a_one_hot_target(make):
    text = "x,red,green,blue\n1,1,0,0\n2,0,0,1\n3,0,1,0\n"
    recipe = Recipe(task="multiclass", target=("red", "green", "blue"))
    dataset = make(text, recipe)
    assert dataset.classes == ("red", "green", "blue")
    assert dataset.y.tolist() == [0, 2, 1]
    for row in ("4,1,1,0", "4,0,0,0", "4,2,-1,0", "4,0.5,0.5,0"):
        with pytest.raises(DataError, match="line 5: expected a single 1 among the columns red"):
            make(text + row + "\n", recipe, folder="other")


def test_one_class_against_the_rest(make):
    dataset = make("1,1\n2,4\n3,1\n4,7\n", Recipe(task="binary", positive=("1",)))
    assert dataset.classes == ("4,7", "1")
    assert dataset.y.tolist() == [1, 0, 1, 0]
    assert dataset.notes == ("class 1: target 1; class 0: all others",)


def test_counts(make):
    dataset = make("1,0\n2,7\n3,1e2\n", Recipe(task="count"))
    assert dataset.y.tolist() == [0, 7, 100]
    assert dataset.classes == ()
    for wrong in ("-1", "2.5", "x", "inf"):
        with pytest.raises(DataError, match="line 4: targets in column 'x2' must be"):
            make(f"1,0\n2,7\n3,1\n4,{wrong}\n", Recipe(task="count"), folder="other")


def test_ordinal_levels_and_bins(make):
    levels = make("1,low\n2,high\n3,mid\n", Recipe(task="ordinal", classes=("low", "mid", "high")))
    assert levels.y.tolist() == [0, 2, 1]
    binned = make("1,0\n2,1\n3,2.5\n4,9.99\n5,10\n6,5\n", Recipe(task="ordinal", bins=4), folder="other")
    assert binned.y.tolist() == [0, 0, 1, 3, 3, 2]
    assert binned.classes == ("[0, 2.5)", "[2.5, 5)", "[5, 7.5)", "[7.5, 10]")
    with pytest.raises(DataError, match="all targets are 3; expected different values"):
        make("1,3\n2,3\n", Recipe(task="ordinal", bins=4), folder="third")


HOLES = "a,b,t\n1,?,0\n2,5,1\n?,7,1\n4,?,0\n3,6,1\n"


def test_missing_values_name_all_columns_and_the_first_line(make, tmp_path):
    with pytest.raises(
        DataError, match=r"table\.csv, line 2: missing values in column a \(1\), b \(2\).*--impute median"
    ):
        make(HOLES)
    assert nothing_else(tmp_path)


def filled(dataset, rows):
    """All rows, filled by what some of them tell."""
    scaling = fitted(dataset, rows=np.array(rows), scaling="none").scaling
    assert not scaling.constant.any()
    return scaling.apply(np.asarray(dataset.X)).tolist()


def test_missing_values_become_the_medians_of_the_training_rows(make):
    dataset = make(HOLES, Recipe(task="binary", impute="median"))
    assert dataset.notes == (
        "missing values filled by the training rows' medians (categories: most frequent): a (1 of 5), b (2 of 5)",
    )
    assert filled(dataset, range(5)) == [[1, 6], [2, 5], [2.5, 7], [4, 6], [3, 6]]
    assert filled(dataset, [0, 1, 2]) == [[1, 6], [2, 5], [1.5, 7], [4, 6], [3, 6]]


def test_missing_categories_become_the_most_frequent_one_of_the_training_rows(make):
    text = "c,x,t\nu,1,0\nv,2,1\n?,3,1\nv,4,0\nu,5,1\nu,6,1\n"
    dataset = make(text, Recipe(task="binary", categorical="auto", impute="median"))
    assert filled(dataset, [0, 1, 2, 3])[2] == [0, 1, 3]
    assert filled(dataset, [0, 1, 4, 5])[2] == [1, 0, 3]
    fewer = make(text, Recipe(task="binary", categorical="auto", impute="median", drop_first=True), folder="third")
    assert filled(fewer, [0, 1, 2, 3])[2] == [1, 3]
    assert filled(fewer, [0, 1, 4, 5])[2] == [0, 3]
    with pytest.raises(DataError, match=r"line 4: missing values in column c \(1\);"):
        make(text, Recipe(task="binary", categorical="auto"), folder="other")


def test_rows_with_missing_values_may_be_left_out(make):
    dataset = make(HOLES + "1,1,?\n5,5,0\n", Recipe(task="binary", missing="drop"))
    assert dataset.X.tolist() == [[2, 5], [3, 6], [5, 5]]
    assert dataset.y.tolist() == [1, 1, 0]
    assert dataset.notes == ("rows with missing values left out: 4",)


def test_a_target_is_never_imputed(make):
    with pytest.raises(DataError, match=r"line 3: missing targets in column t \(1\)"):
        make("x,t\n1,0\n2,?\n3,1\n", Recipe(task="binary", impute="median"))


def test_infinite_values_name_the_column_and_the_line(make):
    with pytest.raises(DataError, match=r"table\.csv, line 3: infinite values in column x2 \(1\)"):
        make("1,2,0\n1,3,1\n1,inf,0\n")
    with pytest.raises(DataError, match=r"line 2: infinite values in column x1 \(1\) \(beyond float32's range"):
        make("1,0\n1e39,1\n", Recipe(task="binary", dtype="float32"))
    assert make("1,0\n1e39,1\n").X[1, 0] == 1e39


@pytest.mark.parametrize(
    ("text", "recipe", "message"),
    [
        ("1,0\n2,0\n", BINARY, "column 'x2': all targets are '0'; expected at least two classes"),
        ("1,0\n2,1\n3,2\n", BINARY, "the task binary needs 2 labels; there are 3: 0, 1, 2"),
        ("1,a\n2,b\n3,x y\n", Recipe(task="binary", keep=("z",)), "no row is left"),
        ("1\n2\n", BINARY, "expected at least one input column beside the target"),
        ("1,0\nabc,1\n", BINARY, "table.csv, line 2: column 'x1' must hold numbers; got 'abc'"),
        ("1,0\n2\n", BINARY, "table.csv, line 2: expected 2 values; got 1"),
        ("", BINARY, "table.csv, line 1: expected rows; the file is empty"),
        ("a,a,t\n1,2,3\n", BINARY, "column names must differ"),
        ("?,0,1\n?,1,0\n", Recipe(task="binary", impute="median"), "column x1: all values are missing; drop it"),
        ("?,0,1\n?,1,0\n", Recipe(task="binary", categorical=(0,)), "column 'x1': all values are missing; drop it"),
    ],
)
def test_tables_that_cannot_be_used(make, tmp_path, text, recipe, message):
    with pytest.raises(DataError, match=re.escape(message)):
        make(text, recipe)
    assert nothing_else(tmp_path)


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (Recipe(task="binary", target="tt"), "unknown column 'tt'"),
        (Recipe(task="binary", target=3), "column 3 does not exist; there are 3"),
        (Recipe(task="binary", drop=("zz",)), "unknown column 'zz'"),
        (Recipe(task="auto"), "targets in column 't' have 4 different values"),
    ],
)
def test_recipes_that_do_not_fit(make, tmp_path, recipe, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        make("a,b,t\n1,2,0.5\n1,2,1.5\n1,2,2\n1,3,3\n", recipe)
    assert nothing_else(tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"task": "regression"},
        {"task": "binary", "dtype": "int"},
        {"task": "binary", "impute": "mean"},
        {"task": "binary", "categorical": "all"},
        {"task": "binary", "bins": 5},
        {"task": "ordinal", "bins": 1},
        {"task": "multiclass", "positive": ("a",)},
        {"task": "binary", "part": "p", "sort": True},
    ],
)
def test_recipes_that_make_no_sense(options):
    with pytest.raises(UsageError, match="recipe: "):
        Recipe(**options)


def test_constant_columns_stay_and_are_noted(make):
    assert make("1,2,0\n1,3,1\n").notes == ("constant columns: x1",)


def test_the_publishers_split_from_a_column_survives_rows_that_are_left_out(make):
    text = "p,x,t\ntrain,1,a\ntest,2,a\ntest,3,b\ntrain,4,c\ntrain,5,b\n"
    dataset = make(text, Recipe(task="binary", part="p", keep=("a", "b")))
    ((train, test),) = dataset.given
    assert (train.tolist(), test.tolist()) == ([0, 3], [1, 2])
    assert dataset.features == ("x",)


def test_given_splits_are_stored_and_checked(make, tmp_path):
    splits = [(np.array([0, 1]), np.array([2])), (np.array([2]), np.array([0, 1]))]
    dataset = make("1,0\n2,1\n3,1\n", given=splits)
    again = open_prepared(tmp_path / "prepared")
    assert [(train.tolist(), test.tolist()) for train, test in again.given] == [([0, 1], [2]), ([2], [0, 1])]
    assert again.checksum == dataset.checksum != make("1,0\n2,1\n3,1\n", folder="other").checksum
    for train, test in (([0], [3]), ([0, 1], [1]), ([], [1]), ([-1], [0])):
        with pytest.raises(DataError, match="given split"):
            make("1,0\n2,1\n3,1\n", given=[(np.array(train, dtype=int), np.array(test))], folder="third")
    with pytest.raises(DataError, match="given splits count the table's 3 rows; preparation changed them"):
        make("1,0\n2,1\n3,1\n", Recipe(task="binary", deduplicate=True), given=splits, folder="third")


def test_several_files_are_one_table_with_one_progress(tmp_path):
    paths = [tmp_path / "one.csv", tmp_path / "two.csv"]
    for path, first in zip(paths, (0, 100), strict=True):
        path.write_text("".join(f"{first + k},{k % 2}\n" for k in range(50)))
    parts = [(path.stat().st_size, lambda path=path: read_table(path, format="csv", block_bytes=99)) for path in paths]
    seen = []
    dataset = prepare(
        lambda: one_after_another(parts),
        BINARY,
        id="d",
        title="",
        folder=tmp_path / "x",
        progress=lambda read, total: seen.append((read, total)),
    )
    assert dataset.X[:, 0].tolist() == [*range(50), *range(100, 150)]
    total = sum(size for size, _ in parts)
    assert {whole for _, whole in seen} == {total}
    assert [read for read, _ in seen] == sorted(read for read, _ in seen)
    assert seen[-1] == (total, total)


def test_progress_counts_the_pass_that_looks_for_categories(make, tmp_path):
    seen = []
    text = "".join(f"{'ab'[k % 2]},{k % 2}\n" for k in range(200))
    make(text, Recipe(task="binary", categorical="auto"), progress=lambda read, total: seen.append((read, total)))
    size = (tmp_path / "table.csv").stat().st_size
    assert seen[-1] == (2 * size, 2 * size)
    assert [read for read, _ in seen] == sorted(read for read, _ in seen)


def test_files_whose_columns_differ_do_not_go_together(tmp_path):
    (tmp_path / "one.csv").write_text("a,t\n1,0\n2,1\n")
    (tmp_path / "two.csv").write_text("b,t\n1,0\n2,1\n")
    parts = [(1, lambda name=name: read_table(tmp_path / name, format="csv")) for name in ("one.csv", "two.csv")]
    with pytest.raises(DataError, match=r"two\.csv: expected the 2 columns of the file before it; got 2 \(b, t"):
        prepare(lambda: one_after_another(parts), BINARY, id="d", title="", folder=tmp_path / "x")
