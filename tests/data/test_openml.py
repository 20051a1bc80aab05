"""OpenML's API, spoken by a local server that also misbehaves."""

import hashlib
import io

import numpy as np
import pandas as pd
import pytest
from webserver import Web

from gpbench.data import openml as module
from gpbench.data.download import Patience
from gpbench.data.load import is_here, load
from gpbench.errors import DataError, DataUnavailable, UsageError

openml = pytest.importorskip("openml")
QUICK = Patience(probe=1, connect=1, read=0.3, attempts=2, pause=0)

ARFF = b"""@RELATION blood
@ATTRIBUTE id INTEGER
@ATTRIBUTE V1 INTEGER
@ATTRIBUTE kind {a,b,c}
@ATTRIBUTE Class {1,2}
@DATA
1,2,a,2
2,0,b,1
3,7,c,2
4,5,a,1
5,3,b,2
"""
DESCRIPTION = """<oml:data_set_description xmlns:oml="http://openml.org/openml">
  <oml:id>1464</oml:id>
  <oml:name>blood</oml:name>
  <oml:version>1</oml:version>
  <oml:description>Donors</oml:description>
  <oml:format>ARFF</oml:format>
  <oml:licence>Public</oml:licence>
  <oml:url>{url}/data/v1/download/1586225/blood.arff</oml:url>
  {parquet}
  <oml:file_id>1586225</oml:file_id>
  {target}
  <oml:row_id_attribute>id</oml:row_id_attribute>
  <oml:status>active</oml:status>
  <oml:md5_checksum>{md5}</oml:md5_checksum>
</oml:data_set_description>
"""
TARGET = "<oml:default_target_attribute>Class</oml:default_target_attribute>"
API = "/api/v1/xml/data/1464"
DATA = "/data/v1/download/1586225/blood.arff"
TABLE = "/datasets/0000/1464/dataset_1464.pq"


@pytest.fixture
def web(monkeypatch, tmp_path):
    server = Web()
    monkeypatch.setattr(module, "SERVER", server.url + "/api/v1/xml")
    monkeypatch.setattr(openml._api_calls, "_human_delay", lambda _: 0.0)
    yield server
    server.close()


def _describe(web, *, parquet=False, target=TARGET, md5=None, **how):
    second = web.url.replace("127.0.0.1", "localhost")  # where parquet comes from is another server
    table = f"<oml:parquet_url>{second}{TABLE}</oml:parquet_url>" if parquet else ""
    text = DESCRIPTION.format(url=web.url, parquet=table, target=target, md5=md5 or hashlib.md5(ARFF).hexdigest())
    web.serve(API, text.encode(), headers={"Content-Type": "text/xml"}, **how)


def _load(tmp_path, **how):
    return load("openml:1464", folder=tmp_path / "data", patience=QUICK, **how)


def _counted(web, path):
    return sum(asked == path for asked, *_ in web.requests)


def test_arff_is_downloaded_parsed_and_prepared_by_its_description(web, tmp_path):
    _describe(web)
    web.serve(DATA, ARFF)
    found = _load(tmp_path)
    assert (found.id, found.title, found.task, found.classes) == ("openml:1464", "blood", "binary", ("1", "2"))
    assert found.features == ("V1", "kind=a", "kind=b", "kind=c")
    np.testing.assert_array_equal(found.X[:, 0], [2, 0, 7, 5, 3])
    np.testing.assert_array_equal(found.y, [1, 0, 1, 0, 1])
    assert any("Public" in note for note in found.notes)


def test_afterwards_it_is_here_without_any_server(web, tmp_path):
    _describe(web)
    web.serve(DATA, ARFF)
    first = _load(tmp_path)
    asked = len(web.requests)
    assert is_here("openml:1464", tmp_path / "data")
    assert _load(tmp_path, offline=True).checksum == first.checksum
    for path in (tmp_path / "data" / "prepared").rglob("*"):
        path.unlink() if path.is_file() else None
    web.files.clear()
    assert _load(tmp_path, offline=True).checksum == first.checksum  # prepared anew from the files
    assert len(web.requests) == asked


def test_nothing_of_the_packages_cache_is_left_or_pickled(web, tmp_path):
    _describe(web)
    web.serve(DATA, ARFF)
    _load(tmp_path)
    names = {path.name for path in (tmp_path / "data" / "files" / "openml" / "1464").iterdir()}
    assert names == {"description.xml", "description.xml.sha256", "dataset.arff", "dataset.arff.sha256"}
    assert openml.config.server != module.SERVER


def test_a_failed_call_takes_nothing_away(web, tmp_path):
    _describe(web)
    web.serve(DATA, ARFF)
    first = _load(tmp_path)
    folder = tmp_path / "data" / "files" / "openml" / "1464"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    web.files.clear()
    for path in sorted((tmp_path / "data" / "prepared").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    assert _load(tmp_path).checksum == first.checksum
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_parquet_is_preferred_where_there_is_one(web, tmp_path):
    _describe(web, parquet=True)
    table = pd.DataFrame(
        {"id": [1, 2, 3], "V1": [2.0, 0.0, 7.0], "kind": ["a", "b", "a"], "Class": pd.Categorical(["2", "1", "2"])}
    )
    buffer = io.BytesIO()
    table.to_parquet(buffer)
    web.serve(
        TABLE,
        buffer.getvalue(),
        headers={"Last-Modified": "Sat, 01 Jan 2022 00:00:00 GMT", "Content-Type": "application/octet-stream"},
    )
    found = _load(tmp_path)
    assert (found.n, found.features) == (3, ("V1", "kind=a", "kind=b"))
    assert _counted(web, DATA) == 0
    assert (tmp_path / "data" / "files" / "openml" / "1464" / "dataset.parquet").exists()


@pytest.mark.parametrize("table", [None, {"hang": True}, {"statuses": [500] * 20}])
def test_arff_serves_where_parquet_fails(web, tmp_path, table):
    _describe(web, parquet=True)
    web.serve(DATA, ARFF)
    if table is not None:
        web.serve(TABLE, b"", **table)
    assert _load(tmp_path).n == 5


def test_a_server_error_that_passes_is_asked_again(web, tmp_path):
    _describe(web, statuses=[503])
    web.serve(DATA, ARFF)
    assert _load(tmp_path).n == 5


def _fails(tmp_path, match):
    with pytest.raises(DataUnavailable, match=match) as failed:
        _load(tmp_path)
    assert failed.value.exit_code == 3
    assert "data set openml:1464 cannot be had" in str(failed.value)
    assert not list((tmp_path / "data").rglob("dataset*"))


def test_server_errors_without_end_are_reported(web, tmp_path):
    _describe(web, statuses=[500] * 20)
    _fails(tmp_path, match=module.SERVER)


def test_a_wrong_checksum_is_reported(web, tmp_path):
    _describe(web)
    web.serve(DATA, ARFF + b"6,6,b,1\n")
    _fails(tmp_path, match=rf"{DATA}: not the expected file: expected md5 \w+, got")


def test_a_body_that_breaks_is_completed(web, tmp_path):
    _describe(web)
    web.serve(DATA, ARFF, breaks=[50] * 20)
    assert _load(tmp_path).n == 5


def test_a_truncated_body_is_reported(web, tmp_path):
    _describe(web)
    web.serve(DATA, ARFF, breaks=[50] + [0] * 20, ranges=False)
    _fails(tmp_path, match=rf"{DATA}: the connection broke")


@pytest.mark.parametrize("page", [b"<html>sorry</html>", b"PAR1" + b"x" * 40, ARFF[:100]])
def test_data_that_cannot_be_read_are_passed_over_and_removed(web, tmp_path, page):
    """Nothing vouches for parquet: only reading it tells."""
    _describe(web, parquet=True)
    web.serve(TABLE, page)
    web.serve(DATA, ARFF)
    assert _load(tmp_path).n == 5
    names = {path.name for path in (tmp_path / "data" / "files" / "openml" / "1464").iterdir()}
    assert names == {"description.xml", "description.xml.sha256", "dataset.arff", "dataset.arff.sha256"}


def test_data_that_nobody_can_read_are_not_kept(web, tmp_path):
    _describe(web, md5=hashlib.md5(b"<html>sorry</html>").hexdigest())
    web.serve(DATA, b"<html>sorry</html>")
    _fails(tmp_path, match=rf"{DATA}: not the data set that the catalogue describes: .*dataset.arff")
    assert [path for path in (tmp_path / "data").rglob("*") if path.is_file()] == []


def test_what_the_user_put_there_is_named_and_replaced_by_what_can_be_read(web, tmp_path):
    folder = tmp_path / "data" / "files" / "openml" / "1464"
    folder.mkdir(parents=True)
    (folder / "description.xml").write_text("<html>sorry</html>")
    (folder / "dataset.arff").write_bytes(ARFF)
    _describe(web)
    web.serve(DATA, ARFF)
    assert _load(tmp_path).n == 5
    assert "oml:data_set_description" in (folder / "description.xml").read_text()


@pytest.mark.parametrize("what", ["description", "data"])
def test_a_server_that_hangs_is_given_up(web, tmp_path, what):
    _describe(web, hang=what == "description")
    web.serve(DATA, ARFF, hang=True)
    _fails(tmp_path, match="no byte within 0.3 s")


def test_an_unknown_id_is_reported_with_the_servers_words(web, tmp_path):
    error = b"""<oml:error xmlns:oml="http://openml.org/openml"><oml:code>111</oml:code>
    <oml:message>Unknown dataset</oml:message></oml:error>"""
    web.serve(API, error, status=412)
    _fails(tmp_path, match="Unknown dataset")


def test_garbage_instead_of_a_description_is_reported(web, tmp_path):
    web.serve(API, b"<html>sorry</html>")
    _fails(tmp_path, match=module.SERVER)


@pytest.mark.parametrize("url", ["http://[::1", "file:///etc/passwd", "http://127.0.0.1:99999/x", "nonsense", "//x"])
def test_addresses_in_a_description_that_are_none_are_reported(web, tmp_path, url):
    text = DESCRIPTION.format(url="URL", parquet=f"<oml:parquet_url>{url}</oml:parquet_url>", target=TARGET, md5="0")
    web.serve(API, text.replace("URL/data/v1/download/1586225/blood.arff", url).encode())
    _fails(tmp_path, match="no address that can be asked")


def test_a_description_without_end_is_given_up(web, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_WORDS", 1000)
    web.serve(API, b"<oml:data_set_description>" + b" " * 5000)
    _fails(tmp_path, match="expected at most 1,000 bytes; got more")


def test_without_a_server_the_message_names_it(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "SERVER", "http://no-such-host.invalid/api/v1/xml")
    _fails(tmp_path, match=r"http://no-such-host.invalid/api/v1/xml: the name no-such-host.invalid does not resolve")


def test_a_description_without_target_is_an_error(web, tmp_path):
    _describe(web, target="")
    web.serve(DATA, ARFF)
    with pytest.raises(DataError, match="openml:1464 names no target"):
        _load(tmp_path)


def test_a_damaged_description_is_an_error_that_names_the_file(tmp_path):
    folder = tmp_path / "data" / "files" / "openml" / "1464"
    folder.mkdir(parents=True)
    (folder / "description.xml").write_text("<broken")
    (folder / "dataset.arff").write_bytes(ARFF)
    with pytest.raises(DataError, match=r"description.xml: no OpenML description"):
        _load(tmp_path, offline=True)


@pytest.mark.parametrize("name", ["openml:", "openml:blood", "openml:-1", "openml:1.5", "openml:" + "9" * 5000])
def test_only_numbers_are_ids(name, tmp_path):
    with pytest.raises(UsageError, match="expected openml: and a number"):
        load(name, folder=tmp_path)


def test_a_mirror_serves_openml_too(web, tmp_path):
    _describe(web)
    web.serve(DATA, ARFF)
    first = _load(tmp_path)
    again = load("openml:1464", folder=tmp_path / "other", mirror=str(tmp_path / "data" / "files"), offline=True)
    assert again.checksum == first.checksum
