import hashlib
import shutil
import socket
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from webserver import Web

from gpbench.data import fetch
from gpbench.data.catalogue import Edition, Entry, File, Part
from gpbench.data.download import Patience
from gpbench.data.fetch import Attempts, Places, accept, cannot_be_had, files_here, offers, record
from gpbench.data.recipe import Recipe
from gpbench.data.web import unreachable
from gpbench.errors import DataError
from gpbench.leases import Lease

BODY = b"1,2,0\n3,4,1\n"
PAGE = b"<html>Sorry, try again</html>\n"
SHA = hashlib.sha256(BODY).hexdigest()
QUICK = Patience(probe=1, connect=1, read=1, attempts=2, pause=0)
PATH = "uci/toy/toy.data"
READ = "# read: rows, columns and class counts are the catalogue's"


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


def _obtain(entry, places, attempts=None):
    """The first set of files whose content is right, as a reader would find it: (edition, {path: where it stood})."""
    attempts = attempts or Attempts()
    with closing(offers(entry, places, attempts)) as found:
        for edition, copies in found:
            wrong = [one for one in copies.values() if one.path.read_bytes() != BODY]
            if wrong:
                assert attempts.refuse(copies.values(), DataError(f"{wrong[0].path.name}, line 1: no numbers"))
                continue
            stood = {path: one.path for path, one in copies.items()}
            accept(copies.values(), places)
            return edition, stood
    return None


def _files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_the_data_folder_comes_first_then_the_mirror_then_the_publisher(tmp_path, web):
    url = web.serve("/toy.data", BODY)
    entry = _entry(_file(url))
    places = Places(tmp_path / "files", str(tmp_path / "mirror"), patience=QUICK)
    _, found = _obtain(entry, places)
    assert found == {PATH: tmp_path / "files" / PATH}
    assert len([path for path, *_ in web.requests if path == "/toy.data"]) == 1
    (tmp_path / "files" / PATH).unlink()
    mirrored = _put(tmp_path / "mirror")
    assert _obtain(entry, places)[1] == {PATH: mirrored}
    here = _put(tmp_path / "files")
    assert _obtain(entry, places)[1] == {PATH: here}
    assert len([path for path, *_ in web.requests if path == "/toy.data"]) == 1


def test_a_mirror_on_the_web_is_asked_before_the_publisher(tmp_path, web, nowhere):
    mirror = web.serve("/mirror/" + PATH, BODY).removesuffix("/" + PATH)
    places = Places(tmp_path, mirror, patience=QUICK)
    _, found = _obtain(_entry(_file(nowhere + "/toy.data")), places)
    assert found[PATH].read_bytes() == BODY
    assert found[PATH] == tmp_path / PATH


def test_a_damaged_copy_is_passed_over_and_kept_until_a_good_one_is_here(tmp_path, web, nowhere):
    _put(tmp_path / "files", b"damaged")
    _put(tmp_path / "mirror", b"damaged too")
    attempts = Attempts()
    places = Places(tmp_path / "files", str(tmp_path / "mirror"), patience=QUICK)
    assert _obtain(_entry(_file(nowhere + "/x")), places, attempts) is None
    assert (tmp_path / "files" / PATH).read_bytes() == b"damaged"
    assert sum("expected sha256" in line for line in attempts.lines) == 2
    _, found = _obtain(_entry(_file(web.serve("/x", BODY))), places)
    assert found[PATH].read_bytes() == BODY


@pytest.mark.parametrize("known", [{}, {"sha256": ()}])
def test_all_addresses_are_tried(tmp_path, web, nowhere, known):
    urls = (nowhere + "/x", web.url + "/none", web.serve("/wrong", b"wrong"), web.serve("/right", BODY))
    assert _obtain(_entry(_file(*urls, **known)), Places(tmp_path, patience=QUICK)) is not None
    assert (tmp_path / PATH).read_bytes() == BODY


def test_an_edition_that_is_here_beats_a_better_one_that_is_not(tmp_path, web):
    better = _file(web.serve("/better", BODY), path="uci/toy/better.data")
    here = _put(tmp_path / "files")
    edition, found = _obtain(_entry(better, _file()), Places(tmp_path / "files", patience=QUICK))
    assert edition.name == "1"
    assert found == {PATH: here}
    assert not web.requests


def test_a_hash_that_cannot_be_kept_leaves_the_one_before(tmp_path, monkeypatch):
    path = _put(tmp_path)
    record(path)
    before = (tmp_path / f"{PATH}.sha256").read_text()
    assert before == f"{SHA}  toy.data\n{READ}\n"

    def full(self, text, **_):
        self.write_bytes(text[:10].encode())
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="the disk is full"):
        record(path)
    assert (tmp_path / f"{PATH}.sha256").read_text() == before
    assert _files(tmp_path) == [PATH, f"{PATH}.sha256"]


def test_the_message_names_the_data_set_each_place_and_the_remedy(tmp_path, nowhere, web):
    entry = _entry(_file(nowhere + "/x", web.url + "/gone"), _file(path="uci/toy/copy.data"))
    places = Places(tmp_path / "files", str(tmp_path / "mirror"), patience=QUICK)
    attempts = Attempts()
    assert _obtain(entry, places, attempts) is None
    message = str(cannot_be_had("toy", attempts, places=places, files=entry.files))
    assert message.startswith("data set toy cannot be had")
    for place in (tmp_path / "files" / PATH, tmp_path / "mirror" / PATH, nowhere + "/x", web.url + "/gone"):
        assert message.count(f"    {place}: ") == 1
    assert "connection refused" in message
    assert "answers 404" in message
    assert "uci/toy/copy.data: no publisher offers this copy" in message
    assert "GPBENCH_MIRROR" in message
    assert f"put the file yourself at {tmp_path / 'files' / PATH}" in message


def test_passwords_in_addresses_are_not_told(tmp_path, nowhere):
    mirror = nowhere.replace("http://", "http://me:secret@")
    attempts = Attempts()
    places = Places(tmp_path / "files", mirror, patience=QUICK)
    assert _obtain(_entry(_file(mirror + "/x")), places, attempts) is None
    assert "refused" in "".join(attempts.lines)
    assert "secret" not in "".join(attempts.lines)


def test_offline_no_publisher_is_asked(tmp_path, web):
    url = web.serve("/x", BODY)
    places = Places(tmp_path, offline=True, patience=QUICK)
    attempts = Attempts()
    assert _obtain(_entry(_file(url)), places, attempts) is None
    assert not web.requests
    assert "with a network" in str(cannot_be_had("toy", attempts, places=places, files=()))


def test_an_unreadable_folder_is_a_place_that_says_so(tmp_path, monkeypatch):
    _put(tmp_path)

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(fetch, "judge", refuse)
    attempts = Attempts()
    assert _obtain(_entry(_file()), Places(tmp_path, offline=True), attempts) is None
    assert any("no permission (Permission denied)" in line for line in attempts.lines)


@pytest.mark.parametrize("known", [{"sha256": ()}, {"sha256": ("0" * 64,), "proven": False}])
def test_a_file_without_known_hash_counts_once_it_has_been_read_and_holds_from_then_on(tmp_path, web, known):
    entry = _entry(_file(web.serve("/x", BODY), **known))
    places = Places(tmp_path, patience=QUICK)
    _, found = _obtain(entry, places)
    assert found == {PATH: tmp_path / f"{PATH}.trial" / "toy.data"}  # there it was read
    assert _files(tmp_path) == [PATH, PATH + ".sha256"]
    assert (tmp_path / (PATH + ".sha256")).read_text() == f"{SHA}  toy.data\n{READ}\n"
    assert _obtain(entry, places)[1] == {PATH: tmp_path / PATH}
    _put(tmp_path, BODY + b"5,6,1\n")
    attempts = Attempts()
    assert _obtain(entry, Places(tmp_path, offline=True), attempts) is None
    (line,) = attempts.lines
    assert f"expected sha256 {SHA}, got " in line
    assert "toy.data.sha256 holds the first" in line


def test_a_later_different_file_is_named_wherever_it_comes_from(tmp_path, web):
    entry = _entry(_file(web.serve("/x", BODY), sha256=()))
    _obtain(entry, Places(tmp_path / "files", patience=QUICK))
    (tmp_path / "files" / PATH).unlink()
    web.serve("/x", BODY + b"5,6,1\n", etag='"two"')
    _put(tmp_path / "mirror", BODY + b"7,8,1\n")
    attempts = Attempts()
    places = Places(tmp_path / "files", str(tmp_path / "mirror"), patience=QUICK)
    assert _obtain(entry, places, attempts) is None
    assert sum(f"expected sha256 {SHA}, got" in line for line in attempts.lines) == 2
    assert sum("toy.data.sha256 holds the first" in line for line in attempts.lines) == 2
    (tmp_path / "files" / (PATH + ".sha256")).unlink()
    web.serve("/x", BODY, etag='"three"')
    shutil.rmtree(tmp_path / "mirror")
    assert _obtain(entry, places) is not None


def test_a_page_in_place_of_the_file_is_refused_removed_and_told(tmp_path, web):
    """Status 200, and no hash to tell: 33 bytes of HTML became the file for ever."""
    attempts = Attempts()
    url = web.serve("/x", PAGE)
    assert _obtain(_entry(_file(url, sha256=())), Places(tmp_path, patience=QUICK), attempts) is None
    assert _files(tmp_path) == []
    assert any(
        line.startswith(f"{url}: not the data set that the catalogue describes: toy.data, line 1")
        for line in attempts.lines
    )
    web.serve("/x", BODY, etag='"two"')
    assert _obtain(_entry(_file(url, sha256=())), Places(tmp_path, patience=QUICK)) is not None


@pytest.mark.parametrize("recorded", [False, True])
def test_a_page_that_became_the_file_earlier_does_not_bar_the_way(tmp_path, web, recorded):
    here = _put(tmp_path, PAGE)
    if recorded:  # as gpbench once did it, without having read the file
        here.with_name("toy.data.sha256").write_text(f"{hashlib.sha256(PAGE).hexdigest()}  toy.data\n")
    attempts = Attempts()
    assert _obtain(_entry(_file(web.serve("/x", BODY), sha256=())), Places(tmp_path, patience=QUICK), attempts)
    assert here.read_bytes() == BODY
    assert any(f"{here}: not the data set" in line for line in attempts.lines)


def test_what_the_user_put_there_is_not_removed(tmp_path, nowhere):
    here = _put(tmp_path, PAGE)
    assert _obtain(_entry(_file(nowhere + "/x", sha256=())), Places(tmp_path, patience=QUICK)) is None
    assert here.read_bytes() == PAGE


def test_a_download_that_was_not_read_is_taken_up_again(tmp_path, web):
    entry = _entry(_file(web.serve("/x", BODY), sha256=()))
    places = Places(tmp_path, patience=QUICK)
    with closing(offers(entry, places, Attempts())) as found:
        next(found)  # and the process is killed while it reads
    assert _files(tmp_path) == [f"{PATH}.trial/toy.data"]
    asked = len(web.requests)
    assert _obtain(entry, places) is not None
    assert len(web.requests) == asked
    assert _files(tmp_path) == [PATH, PATH + ".sha256"]


def test_no_other_process_touches_a_file_that_is_being_read(tmp_path, web):
    with closing(offers(_entry(_file(web.serve("/x", BODY), sha256=())), Places(tmp_path), Attempts())) as found:
        next(found)
        assert Lease.take(tmp_path / PATH) is None
    with Lease.take(tmp_path / PATH) as lease:
        assert lease.held


def test_what_another_process_brought_meanwhile_is_not_downloaded_again(tmp_path, web):
    """As two data sets do that share a file."""
    entry = _entry(_file(web.serve("/x", BODY), sha256=()))
    (tmp_path / PATH).parent.mkdir(parents=True)
    found = []
    waiting = threading.Thread(target=lambda: found.append(_obtain(entry, Places(tmp_path, patience=QUICK))))
    with Lease.take(tmp_path / PATH):
        waiting.start()
        time.sleep(0.1)
        _put(tmp_path)
    waiting.join()
    assert found[0][1] == {PATH: tmp_path / PATH}
    assert not web.requests


def test_a_copy_of_the_catalogue_counts_without_being_read(tmp_path, web):
    entry = _entry(_file(web.serve("/x", BODY), proven=False))
    with closing(offers(entry, Places(tmp_path, patience=QUICK), Attempts())) as found:
        _, copies = next(found)
        assert [one.counts for one in copies.values()] == [True]


def test_files_that_an_error_does_not_name_are_not_suspected(tmp_path, web):
    """Of two, the right one is not asked for again."""
    first = _file(web.serve("/a", PAGE), web.serve("/b", BODY), sha256=(), path="uci/toy/a.data")
    second = _file(web.serve("/c", BODY), sha256=(), path="uci/toy/c.data")
    one = _entry(first)
    edition = Edition("both", (Part(first, "csv"), Part(second, "csv")), Recipe(task="binary"))
    entry = Entry(
        id="toy", title="Toy", task="binary", n=2, d=2, classes=("0", "1"), source="s", licence="l", editions=(edition,)
    )
    assert one.files == (first,)
    assert _obtain(entry, Places(tmp_path, patience=QUICK)) is not None
    assert [path for path, *_ in web.requests] == ["/a", "/c", "/b"]


def test_a_silent_server_is_not_asked_for_the_next_file(tmp_path, web):
    urls = [web.serve(path, BODY, hang=True) for path in ("/a", "/b", "/c")]
    entry = _entry(_file(*urls[:2]), _file(urls[2], path="uci/toy/other.data"))
    attempts = Attempts()
    patience = Patience(probe=1, connect=1, read=0.05, attempts=2, pause=0)
    assert _obtain(entry, Places(tmp_path, patience=patience), attempts) is None
    assert {path for path, *_ in web.requests} == {"/a"}
    assert sum("not asked, since its server was silent or too slow before" in line for line in attempts.lines) == 2


def test_where_every_hash_vouches_nothing_is_refused(tmp_path, web):
    attempts = Attempts()
    with closing(offers(_entry(_file(web.serve("/x", BODY))), Places(tmp_path, patience=QUICK), attempts)) as found:
        _, copies = next(found)
        assert not attempts.refuse(copies.values(), DataError("toy.data: our own mistake"))


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


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1", "http://127.0.0.1:99999", "http://127.0.0.1:-1/", "http://127.0.0.1:port/", "http://", "none",
        "ftp://host/x", "file:///etc/passwd", "http:///x", "http://a..b.invalid/x", "http://" + "a" * 300 + ".invalid",
        "http://\x00/", "http://[v1.x]/", "http://%zz/", "http://host\n/x", "",
    ],
)  # fmt: skip
def test_addresses_that_are_none_are_told_as_such(url):
    (reason,) = unreachable([url], seconds=1).values()
    assert "no address that can be asked" in reason or "resolve" in reason


@pytest.mark.parametrize("proxy", ["http://[::1", "http://127.0.0.1:99999", "nonsense:port", "http://", "://"])
def test_a_proxy_that_is_none_is_told_as_such(monkeypatch, proxy):
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")
    (reason,) = unreachable(["http://host.invalid/x"], seconds=1).values()
    assert "the proxy " in reason


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
    assert unreachable(["http://no-such-host.invalid/x"], seconds=1) == {
        "http://no-such-host.invalid/x": "the proxy 127.0.0.1: connection refused"
    }
