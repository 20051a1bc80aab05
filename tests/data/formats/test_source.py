import bz2
import gzip
import io
import lzma
import tarfile
import zipfile

import pytest

from gpbench.data.formats import open_bytes
from gpbench.data.formats.source import open_seekable
from gpbench.errors import DataError

CONTENT = b"1,2\n3,4\n" * 5000


def packed(kind):
    return {"plain": bytes, "gzip": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[kind](CONTENT)


def zip_of(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def tar_of(members, mode="w:gz"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def read_all(path, **options):
    with open_bytes(path, **options) as source:
        return source.read(1 << 30), source


@pytest.mark.parametrize("kind", ["plain", "gzip", "bz2", "xz"])
def test_compression_is_seen_in_the_bytes_whatever_the_suffix(tmp_path, kind):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(packed(kind))
    data, source = read_all(path)
    assert data == CONTENT
    assert source.position == source.total == path.stat().st_size


@pytest.mark.parametrize("kind", ["gzip", "bz2", "xz"])
def test_a_truncated_file_names_itself(tmp_path, kind):
    path = tmp_path / "table.csv"
    path.write_bytes(packed(kind)[:-20])
    with pytest.raises(DataError, match=r"table\.csv"):
        read_all(path)


def test_a_flipped_byte_fails_the_checksum(tmp_path):
    data = bytearray(packed("gzip"))
    data[-6] ^= 1
    path = tmp_path / "table.csv"
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"table\.csv"):
        read_all(path)


def test_a_zip_with_one_member_needs_no_name_and_others_do(tmp_path):
    path = tmp_path / "a.zip"
    path.write_bytes(zip_of({"in/a.csv": CONTENT}))
    data, source = read_all(path)
    assert data == CONTENT
    assert source.name == "a.zip!in/a.csv"
    path.write_bytes(zip_of({"a.csv": b"1", "b.csv": CONTENT}))
    assert read_all(path, member="b.csv")[0] == CONTENT
    with pytest.raises(DataError, match=r"holds 2 files, say which \(a\.zip::a\.csv\): a\.csv, b\.csv"):
        read_all(path)
    with pytest.raises(DataError, match=r"no member 'c\.csv'; it holds a\.csv, b\.csv"):
        read_all(path, member="c.csv")


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_tar_members_are_read_by_name(tmp_path, mode):
    path = tmp_path / "a.tar"
    path.write_bytes(tar_of({"x/one.asc": b"1", "x/two.asc": CONTENT}, mode))
    assert read_all(path, member="x/two.asc")[0] == CONTENT
    with pytest.raises(DataError, match=r"no member 'two\.asc'; it holds x/one\.asc, x/two\.asc"):
        read_all(path, member="two.asc")


def test_a_member_that_points_outside_is_read_like_any_other_and_writes_nothing(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    path = inner / "a.zip"
    path.write_bytes(zip_of({"../evil.csv": CONTENT}))
    assert read_all(path)[0] == CONTENT
    assert [item.name for item in tmp_path.rglob("*")] == ["inner", "a.zip"]


def test_a_compressed_member_is_unpacked_too(tmp_path):
    path = tmp_path / "a.zip"
    path.write_bytes(zip_of({"a.csv.gz": packed("gzip")}))
    assert read_all(path)[0] == CONTENT


def test_a_link_in_a_tar_is_no_file(tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo("passwd")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(DataError, match="no plain file"):
        read_all(path, member="passwd")


def test_missing_files_folders_and_non_archives(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        open_bytes(tmp_path / "none.csv")
    with pytest.raises(DataError, match="expected a file; got a folder"):
        open_bytes(tmp_path)
    path = tmp_path / "a.csv"
    path.write_bytes(CONTENT)
    with pytest.raises(DataError, match=r"a\.csv: expected an archive with a member 'x'"):
        open_bytes(path, member="x")


def test_seekable_files_are_unpacked_only_where_need_be(tmp_path):
    path = tmp_path / "a.bin"
    for data in (CONTENT, packed("gzip"), packed("xz")):
        path.write_bytes(data)
        with open_seekable(path) as (file, name):
            file.seek(4)
            assert file.read(4) == CONTENT[4:8]
            assert name == "a.bin"
