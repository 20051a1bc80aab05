import hashlib
import socket
import threading

import pytest
import requests
from webserver import Web

from gpbench.data import doi, fetch
from gpbench.data.catalogue import Edition, Entry, File, Part
from gpbench.data.download import DownloadError, Patience
from gpbench.data.fetch import Attempts, Places, cannot_be_had, files_here, obtain
from gpbench.data.reach import unreachable
from gpbench.data.recipe import Recipe

BODY = b"1,2,0\n3,4,1\n"
SHA = hashlib.sha256(BODY).hexdigest()
QUICK = Patience(probe=1, connect=1, read=1, attempts=2, pause=0)
PATH = "uci/toy/toy.data"


@pytest.fixture
def web():
    server = Web()
    yield server
    server.close()


@pytest.fixture
def nowhere():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def _entry(*files):
    editions = tuple(
        Edition(name=str(i), parts=(Part(file, "csv"),), recipe=Recipe(task="binary")) for i, file in enumerate(files)
    )
    return Entry(
        id="toy", title="Toy", task="binary", n=2, d=2, classes=("0", "1"), source="s", licence="l", editions=editions
    )


def _file(*urls, sha256=(SHA,), path=PATH, **how):
    return File(path, urls=urls, sha256=sha256, **how)


def _put(folder, body=BODY, path=PATH):
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(body)
    return folder / path


def test_the_data_folder_comes_first_then_the_mirror_then_the_publisher(tmp_path, web):
    url = web.serve("/toy.data", BODY)
    entry = _entry(_file(url))
    places = Places(tmp_path / "files", str(tmp_path / "mirror"), patience=QUICK)
    _, found = obtain(entry, places, Attempts())
    assert found == {PATH: tmp_path / "files" / PATH}
    assert len([path for path, *_ in web.requests if path == "/toy.data"]) == 1
    (tmp_path / "files" / PATH).unlink()
    mirrored = _put(tmp_path / "mirror")
    assert obtain(entry, places, Attempts())[1] == {PATH: mirrored}
    here = _put(tmp_path / "files")
    assert obtain(entry, places, Attempts())[1] == {PATH: here}
    assert len([path for path, *_ in web.requests if path == "/toy.data"]) == 1


def test_a_mirror_on_the_web_is_asked_before_the_publisher(tmp_path, web, nowhere):
    mirror = web.serve("/mirror/" + PATH, BODY).removesuffix("/" + PATH)
    places = Places(tmp_path, mirror, patience=QUICK)
    _, found = obtain(_entry(_file(nowhere + "/toy.data")), places, Attempts())
    assert found[PATH].read_bytes() == BODY
    assert found[PATH] == tmp_path / PATH


def test_a_damaged_copy_is_passed_over_and_kept_until_a_good_one_is_here(tmp_path, web, nowhere):
    _put(tmp_path / "files", b"damaged")
    _put(tmp_path / "mirror", b"damaged too")
    attempts = Attempts()
    places = Places(tmp_path / "files", str(tmp_path / "mirror"), patience=QUICK)
    assert obtain(_entry(_file(nowhere + "/x")), places, attempts) is None
    assert (tmp_path / "files" / PATH).read_bytes() == b"damaged"
    assert sum("expected sha256" in line for line in attempts.lines) == 2
    _, found = obtain(_entry(_file(web.serve("/x", BODY))), places, Attempts())
    assert found[PATH].read_bytes() == BODY


def test_all_addresses_are_tried(tmp_path, web, nowhere):
    urls = (nowhere + "/x", web.url + "/none", web.serve("/wrong", b"wrong"), web.serve("/right", BODY))
    _, found = obtain(_entry(_file(*urls)), Places(tmp_path, patience=QUICK), Attempts())
    assert found[PATH].read_bytes() == BODY


def test_an_edition_that_is_here_beats_a_better_one_that_is_not(tmp_path, web):
    better = _file(web.serve("/better", BODY), path="uci/toy/better.data")
    here = _put(tmp_path / "files")
    edition, found = obtain(_entry(better, _file()), Places(tmp_path / "files", patience=QUICK), Attempts())
    assert edition.name == "1"
    assert found == {PATH: here}
    assert not web.requests


def test_the_message_names_the_data_set_each_place_and_the_remedy(tmp_path, nowhere, web):
    entry = _entry(_file(nowhere + "/x", web.url + "/gone"), _file(path="uci/toy/copy.data"))
    places = Places(tmp_path / "files", str(tmp_path / "mirror"), patience=QUICK)
    attempts = Attempts()
    assert obtain(entry, places, attempts) is None
    message = str(cannot_be_had("toy", attempts, places=places, files=entry.files))
    assert message.startswith("data set toy cannot be had")
    for place in (tmp_path / "files" / PATH, tmp_path / "mirror" / PATH, nowhere + "/x", web.url + "/gone"):
        assert message.count(f"    {place}: ") == 1
    assert "connection refused" in message
    assert "answers 404" in message
    assert "uci/toy/copy.data: no publisher offers this copy" in message
    assert "GPBENCH_MIRROR" in message
    assert f"put the file yourself at {tmp_path / 'files' / PATH}" in message


def test_offline_no_publisher_is_asked(tmp_path, web):
    url = web.serve("/x", BODY)
    places = Places(tmp_path, offline=True, patience=QUICK)
    attempts = Attempts()
    assert obtain(_entry(_file(url)), places, attempts) is None
    assert not web.requests
    assert "with a network" in str(cannot_be_had("toy", attempts, places=places, files=()))


def test_an_unreadable_folder_is_a_place_that_says_so(tmp_path, monkeypatch):
    _put(tmp_path)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(fetch, "known_bytes", refuse)
    attempts = Attempts()
    assert obtain(_entry(_file()), Places(tmp_path, offline=True), attempts) is None
    assert any("no permission (Permission denied)" in line for line in attempts.lines)


def test_an_unknown_hash_is_recorded_at_the_first_download_and_holds_from_then_on(tmp_path, web):
    entry = _entry(_file(web.serve("/x", BODY), sha256=()))
    places = Places(tmp_path, patience=QUICK)
    _, found = obtain(entry, places, Attempts())
    recorded = found[PATH].with_name("toy.data.sha256")
    assert recorded.read_text() == f"{SHA}  toy.data\n"
    found[PATH].write_bytes(BODY + b"5,6,1\n")
    attempts = Attempts()
    assert obtain(entry, Places(tmp_path, offline=True), attempts) is None
    assert any("expected sha256" in line for line in attempts.lines)


def test_bytes_other_than_a_copy_of_unproven_origin_are_accepted(tmp_path, web):
    entry = _entry(_file(web.serve("/x", BODY), sha256=("0" * 64,), size=None, proven=False))
    _, found = obtain(entry, Places(tmp_path, patience=QUICK), Attempts())
    assert found[PATH].read_bytes() == BODY


def test_files_here_looks_at_names_alone(tmp_path):
    places = Places(tmp_path / "files", str(tmp_path / "mirror"))
    assert not files_here([_file()], places)
    _put(tmp_path / "mirror", b"whatever")
    assert files_here([_file()], places)


def test_hosts_are_asked_together_and_within_the_bound(nowhere, web):
    silent = unreachable([nowhere, web.url, "http://no-such-host.invalid/x"], seconds=1)
    assert silent[nowhere] == "connection refused"
    assert "does not resolve" in silent["http://no-such-host.invalid/x"]
    assert web.url not in silent


def test_a_host_that_never_answers_is_given_up(monkeypatch):
    never = threading.Event()

    def hang(*_, **__):
        never.wait(20)
        raise OSError(110, "Too late")

    monkeypatch.setattr("socket.create_connection", hang)
    assert unreachable(["http://a.example", "http://b.example"], seconds=0.05) == {
        "http://a.example": "no answer within 0.05 s",
        "http://b.example": "no answer within 0.05 s",
    }
    never.set()


def test_a_proxy_is_asked_instead_of_the_host(nowhere, web, monkeypatch):
    monkeypatch.setenv("http_proxy", web.url)
    monkeypatch.setenv("no_proxy", "")
    assert unreachable(["http://no-such-host.invalid/x"], seconds=1) == {}
    monkeypatch.setenv("http_proxy", nowhere)
    assert set(unreachable(["http://no-such-host.invalid/x"], seconds=1)) == {"http://no-such-host.invalid/x"}


class _Dataverse:
    def __init__(self, registry):
        self.registry = registry

    def populate_registry(self, pup):
        pup.registry.update(self.registry)

    def download_url(self, name):
        return f"https://dataverse/{name}"


def test_a_doi_gives_the_address_and_the_checksum_of_a_file(monkeypatch):
    held = _Dataverse({"2008.csv.bz2": "md5:abc", "plane-data.tab": "md5:def"})
    monkeypatch.setattr(
        "pooch.downloaders.doi_to_repository", lambda name, **_: held if name == "10.7910/DVN/X" else None
    )
    assert doi.resolve("doi:10.7910/DVN/X/2008.csv.bz2", patience=QUICK) == ("https://dataverse/2008.csv.bz2", "abc")
    assert doi.resolve("doi:10.7910/DVN/X/plane-data.csv", patience=QUICK) == (
        "https://dataverse/plane-data.tab?format=original",
        None,
    )
    with pytest.raises(DownloadError, match=r"no file 2007.csv.bz2; it has 2008.csv.bz2, plane-data.tab"):
        doi.resolve("doi:10.7910/DVN/X/2007.csv.bz2", patience=QUICK)


def test_a_doi_service_that_does_not_answer_is_a_failed_download(monkeypatch):
    def fail(*_, **__):
        raise requests.ConnectionError("no")

    monkeypatch.setattr("pooch.downloaders.doi_to_repository", fail)
    with pytest.raises(DownloadError, match="the repository does not answer: ConnectionError"):
        doi.resolve("doi:10.7910/DVN/X/a", patience=QUICK)


def test_a_file_named_by_a_doi_is_checked_against_the_stated_md5(tmp_path, web, monkeypatch):
    url = web.serve("/x", BODY)
    monkeypatch.setattr(fetch, "resolve", lambda *_, **__: (url, hashlib.md5(BODY).hexdigest()))
    monkeypatch.setattr(fetch, "unreachable", lambda *_, **__: {})
    entry = _entry(_file("doi:10.1/X/x", sha256=()))
    assert obtain(entry, Places(tmp_path / "a", patience=QUICK), Attempts())[1][PATH].read_bytes() == BODY
    monkeypatch.setattr(fetch, "resolve", lambda *_, **__: (url, "0" * 32))
    attempts = Attempts()
    assert obtain(entry, Places(tmp_path / "b", patience=QUICK), attempts) is None
    assert any("expected md5" in line for line in attempts.lines)
