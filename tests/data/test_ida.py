import io
import stat
import tarfile
import zipfile

import pytest

from gpbench.data.archives import matching, read_members
from gpbench.data.ida import realisations
from gpbench.errors import DataError

#            x1   x2  label
ROWS = [(0.5, 1.0, 1), (2.0, -1.0, -1), (0.5, 1.0, 1), (0.5, 1.0, -1), (-3.0, 4.0, 1)]
SPLITS = [([4, 1, 0], [2, 3]), ([3, 2], [0, 4, 1]), ([0, 2, 3], [1, 4])]


def _texts(rows=ROWS, splits=SPLITS):
    texts = {}
    for k, (train, test) in enumerate(splits, start=1):
        for half, chosen in (("train", train), ("test", test)):
            texts[f"toy_{half}_data_{k}.asc"] = "".join(f"   {rows[i][0]:.7e}  {rows[i][1]: .7e}\n" for i in chosen)
            texts[f"toy_{half}_labels_{k}.asc"] = "".join(f"  {rows[i][2]: .7e}\n" for i in chosen)
    return texts


def _tar(path, texts, links=()):
    with tarfile.open(path, "w:gz") as archive:
        for name, text in texts.items():
            info = tarfile.TarInfo(name if "evil" in name else f"toy/{name}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
        for name, to in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, to
            archive.addfile(info)
    return path


@pytest.mark.parametrize("sort", [False, True])
def test_each_split_has_the_rows_of_its_files_and_each_row_once(tmp_path, sort):
    table, given = realisations(_tar(tmp_path / "toy.tar.gz", _texts()), name="toy", sort=sort)
    rows = table.to_numpy()
    assert len(given) == 3
    for (train, test), (their_train, their_test) in zip(given, SPLITS, strict=True):
        assert sorted([*train, *test]) == list(range(5))
        for mine, theirs in ((train, their_train), (test, their_test)):
            assert sorted(map(tuple, rows[mine])) == sorted(ROWS[i] for i in theirs)


def test_rows_keep_the_order_of_the_first_realisation_or_are_sorted(tmp_path):
    path = _tar(tmp_path / "toy.tar.gz", _texts())
    plain, _ = realisations(path, name="toy")
    assert [tuple(row) for row in plain.to_numpy()] == [ROWS[i] for i in (4, 1, 0, 2, 3)]
    ordered, _ = realisations(path, name="toy", sort=True)
    inputs = [tuple(row) for row in ordered[["x1", "x2"]].to_numpy()]
    assert inputs == sorted(inputs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"toy_test_data_2.asc": " 9 9\n 0.5 1\n 2 -1\n"},
            "realisation 2: expected the rows of the first; row 3|is not among",
        ),
        ({"toy_test_data_1.asc": ""}, "the file is empty"),
        ({"toy_train_labels_3.asc": "1\n"}, "expected one label for each of 3 rows"),
        ({"toy_train_data_1.asc": "1 2\n3\n4 5\n"}, "toy_train_data_1.asc: expected rows of numbers"),
        ({"toy_train_data_1.asc": "1 2\n3 x\n4 5\n"}, "toy_train_data_1.asc: expected rows of numbers"),
        ({"toy_train_labels_2.asc": None}, "toy_train_labels_2.asc: no such member"),
    ],
)
def test_archives_that_do_not_fit_are_errors(tmp_path, change, message):
    texts = {name: text for name, text in (_texts() | change).items() if text is not None}
    with pytest.raises(DataError, match=message):
        realisations(_tar(tmp_path / "toy.tar.gz", texts), name="toy")


def test_a_realisation_with_fewer_rows_is_an_error(tmp_path):
    with pytest.raises(DataError, match="realisation 2: expected 5 rows, got 4"):
        realisations(_tar(tmp_path / "t.tar", _texts(splits=[SPLITS[0], ([0, 1], [2, 3])])), name="toy")


def test_another_archive_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"expected members toy_train_data_1.asc"):
        realisations(_tar(tmp_path / "t.tar", {"other.asc": "1"}), name="toy")
    (tmp_path / "no.tar").write_bytes(b"rubbish" * 100)
    with pytest.raises(DataError, match=r"no.tar: "):
        realisations(tmp_path / "no.tar", name="toy")


@pytest.mark.parametrize("name", ["../../evil.asc", "/evil.asc", "a/../../evil.asc", "..\\evil.asc", "C:\\evil.asc"])
def test_archives_that_would_write_elsewhere_are_refused(tmp_path, name):
    (tmp_path / "in").mkdir()
    path = _tar(tmp_path / "in" / "t.tar", {"good.asc": "1", name: "1"})
    with pytest.raises(DataError, match=r"t.tar: member '.*evil.asc' would leave its folder; the archive is refused"):
        read_members(path, suffix=".asc")
    with zipfile.ZipFile(tmp_path / "in" / "z.zip", "w") as archive:
        archive.writestr("good.csv", "1")
        archive.writestr(name, "1")
    for pattern in ("good.csv", "*.csv"):
        with pytest.raises(DataError, match=r"z.zip: member '.*evil.asc' would leave its folder"):
            matching(tmp_path / "in" / "z.zip", pattern)
    assert sorted(one.name for one in tmp_path.rglob("*")) == ["in", "t.tar", "z.zip"]


def test_archives_with_links_are_refused(tmp_path):
    path = _tar(tmp_path / "t.tar", {"good.asc": "1"}, links=[("link.asc", "/etc/passwd")])
    with pytest.raises(DataError, match=r"t.tar: member 'link.asc' is a link or a device; the archive is refused"):
        read_members(path, suffix=".asc")
    link = zipfile.ZipInfo("link.csv")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(DataError, match=r"z.zip: member 'link.csv' is a link or a device"):
        matching(tmp_path / "z.zip", "link.csv")


def test_archives_larger_than_the_bound_are_refused(tmp_path):
    path = _tar(tmp_path / "t.tar.gz", {"a.asc": "1" * 1000, "b.asc": "2" * 1000})
    with pytest.raises(DataError, match="expected at most 1,500 bytes"):
        read_members(path, suffix=".asc", limit=1500)
    with pytest.raises(DataError, match="expected at most 1,500 bytes"):  # also by what is passed over
        read_members(path, suffix=".txt", limit=1500)


def test_members_are_found_by_pattern(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("b_test-2.csv", "b_test-1.csv", "b_train.csv"):
            archive.writestr(name, "1")
    assert matching(tmp_path / "a.zip", "b_test-*.csv") == ["b_test-1.csv", "b_test-2.csv"]
    assert matching(tmp_path / "nowhere.zip", "plain.csv") == ["plain.csv"]
    with pytest.raises(DataError, match="no member matches 'c"):
        matching(tmp_path / "a.zip", "c*.csv")
    (tmp_path / "no.zip").write_bytes(b"no zip")
    with pytest.raises(DataError, match=r"no.zip: damaged or of another format"):
        matching(tmp_path / "no.zip", "*")
