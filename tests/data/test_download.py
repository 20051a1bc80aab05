import errno
import hashlib
import json
import socket
import threading
from dataclasses import replace

import hostile_server as hostile
import pytest
from webserver import Web

from gpbench.data import download as module
from gpbench.data.download import DownloadError, Expected, Patience, download, sha256_of

BODY = bytes(range(256)) * 4096  # one megabyte
SHA = hashlib.sha256(BODY).hexdigest()
QUICK = Patience(probe=1, connect=1, read=0.3, attempts=3, pause=0)


@pytest.fixture
def web():
    server = Web()
    yield server
    server.close()


def _get(url, target, **known):
    expected = Expected(**known) if known else Expected((SHA,), len(BODY))
    download(url, target, expected=expected, patience=QUICK)


def _only(target):
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    assert target.read_bytes() == BODY


def test_a_file_comes_whole_and_leaves_nothing_beside_it(web, tmp_path):
    seen = []
    url = web.serve("/a", BODY)
    download(
        url,
        tmp_path / "deep" / "a",
        expected=Expected((SHA,)),
        progress=lambda *what: seen.append(what),
        patience=QUICK,
    )
    _only(tmp_path / "deep" / "a")
    assert seen[-1] == ("a", len(BODY), len(BODY))


def test_it_goes_on_after_a_break_from_where_it_broke(web, tmp_path):
    url = web.serve("/a", BODY, breaks=[400_000, 300_000])
    _get(url, tmp_path / "a")
    _only(tmp_path / "a")
    assert web.requests[0][1] is None
    starts = [int(wanted.removeprefix("bytes=").rstrip("-")) for _, wanted, _ in web.requests[1:]]
    assert len(starts) == 2
    assert 0 < starts[0] < starts[1] < len(BODY)


def test_a_later_call_goes_on_where_an_earlier_one_stopped(web, tmp_path):
    url = web.serve("/a", BODY, breaks=[500_000, 0, 0])
    with pytest.raises(DownloadError, match="the connection broke"):
        _get(url, tmp_path / "a")
    assert not (tmp_path / "a").exists()
    assert (tmp_path / "a.part").stat().st_size > 0
    del web.requests[:]
    _get(url, tmp_path / "a")
    _only(tmp_path / "a")
    assert len(web.requests) == 1
    assert web.requests[0][1].startswith("bytes=")


def test_a_server_without_ranges_sends_the_whole_again(web, tmp_path):
    url = web.serve("/a", BODY, breaks=[400_000], ranges=False)
    _get(url, tmp_path / "a")
    _only(tmp_path / "a")


def test_halves_of_two_versions_are_not_joined(web, tmp_path):
    url = web.serve("/a", b"x" * len(BODY), breaks=[300_000, 0, 0, 0])
    with pytest.raises(DownloadError):
        _get(url, tmp_path / "a", size=len(BODY))
    web.serve("/a", BODY, etag='"two"')
    _get(url, tmp_path / "a", size=len(BODY))
    _only(tmp_path / "a")


def test_a_part_from_elsewhere_that_does_not_fit_is_thrown_away(web, tmp_path):
    (tmp_path / "a.part").write_bytes(b"y" * 1000)
    url = web.serve("/a", BODY)
    _get(url, tmp_path / "a")
    _only(tmp_path / "a")
    assert [wanted for _, wanted, _ in web.requests] == ["bytes=1000-", None]


def test_a_part_that_nothing_can_vouch_for_is_not_continued(web, tmp_path):
    (tmp_path / "a.part").write_bytes(b"y" * 1000)
    download(web.serve("/a", BODY), tmp_path / "a", patience=QUICK)
    _only(tmp_path / "a")


def test_a_part_that_is_already_whole_is_taken(web, tmp_path):
    url = web.serve("/a", BODY)
    (tmp_path / "a.part").write_bytes(BODY)
    (tmp_path / "a.part.json").write_text(json.dumps({"url": url, "validator": '"one"'}))
    _get(url, tmp_path / "a")
    _only(tmp_path / "a")


@pytest.mark.parametrize("known", [{"sha256": ("0" * 64,)}, {"md5": "0" * 32}, {"size": 17}])
def test_a_wrong_file_never_replaces_a_good_one(web, tmp_path, known):
    (tmp_path / "a").write_bytes(b"good")
    with pytest.raises(DownloadError, match=r"not the expected file: expected .*, got "):
        _get(web.serve("/a", BODY), tmp_path / "a", **known)
    assert (tmp_path / "a").read_bytes() == b"good"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_truncated_body_fails_and_leaves_the_target_alone(web, tmp_path):
    (tmp_path / "a").write_bytes(b"good")
    url = web.serve("/a", BODY, breaks=[1000, 0, 0, 0, 0])
    with pytest.raises(DownloadError, match="the connection broke, after 1,000 bytes"):
        _get(url, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"good"


def test_a_truncated_body_without_length_is_caught_by_the_checksum(web, tmp_path):
    url = web.serve("/a", BODY[:1000], length=False)
    with pytest.raises(DownloadError, match="not the expected file"):
        _get(url, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_missing_file_is_not_asked_for_twice(web, tmp_path):
    with pytest.raises(DownloadError, match="the server answers 404"):
        _get(web.url + "/none", tmp_path / "a")
    assert len(web.requests) == 1


def test_server_errors_are_asked_again(web, tmp_path):
    _get(web.serve("/a", BODY, statuses=[500, 503]), tmp_path / "a")
    _only(tmp_path / "a")


def test_server_errors_without_end_are_given_up(web, tmp_path):
    with pytest.raises(DownloadError, match=r"the server answers 503 .*\(3 attempts\)"):
        _get(web.serve("/a", BODY, statuses=[503] * 9), tmp_path / "a")
    assert len(web.requests) == 3


def test_a_silent_server_is_given_up(web, tmp_path):
    with pytest.raises(DownloadError, match="no byte within"):
        download(
            web.serve("/a", BODY, hang=True),
            tmp_path / "a",
            patience=Patience(connect=1, read=0.05, attempts=2, pause=0),
        )


def test_a_refused_connection_is_not_repeated(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/a"
    with pytest.raises(DownloadError, match=r"cannot connect: .*refused"):
        _get(url, tmp_path / "a")


def test_a_web_page_is_no_data_file(web, tmp_path):
    with pytest.raises(DownloadError, match="a web page instead of the file"):
        download(web.serve("/a", BODY, headers={"Content-Type": "text/html"}), tmp_path / "a", patience=QUICK)


def test_files_labelled_as_compressed_are_kept_as_they_are(web, tmp_path):
    _get(web.serve("/a.gz", BODY, headers={"Content-Encoding": "gzip"}), tmp_path / "a")
    _only(tmp_path / "a")


def test_a_full_disk_is_foreseen(web, tmp_path, monkeypatch):
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(DownloadError, match="the disk is full: 1,048,576 more bytes are needed"):
        _get(web.serve("/a", BODY), tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_disk_that_fills_up_is_an_error_that_says_so(web, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "a").write_bytes(b"good")
    monkeypatch.setattr(module._Transfer, "_receive", full)
    with pytest.raises(DownloadError, match="cannot be written: the disk is full"):
        _get(web.serve("/a", BODY), tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"good"


def test_a_folder_that_cannot_be_made_is_an_error_that_says_so(web, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DownloadError, match=r"cannot be written: (Not a directory|File exists)"):
        _get(web.serve("/a", BODY), tmp_path / "file" / "a")


def test_two_downloads_of_one_file_at_once_take_turns(web, tmp_path):
    url = web.serve("/a", BODY)
    threads = [threading.Thread(target=_get, args=(url, tmp_path / "a")) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _only(tmp_path / "a")
    assert len(web.requests) == 1


def test_any_of_several_hashes_is_accepted(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(BODY)
    assert Expected(("0" * 64, SHA)).problem(path) is None
    assert "got " + SHA in Expected(("0" * 64,)).problem(path)
    assert sha256_of(path) == SHA


@pytest.fixture
def server():
    running = hostile.Hostile()
    yield running
    running.close()


def _hostile(server, script, target, *, patience=QUICK, **known):
    """What the message says, and the most bytes that stood in the part."""
    server.script = hostile.FAULTS.get(script, script)
    seen = [0]
    with pytest.raises(DownloadError) as failed:
        download(
            server.url + "/a",
            target,
            expected=Expected(**known),
            progress=lambda _, done, __: seen.append(done),
            patience=patience,
        )
    return str(failed.value), max(seen)


@pytest.mark.parametrize("name", ["without_end", "without_end_in_chunks"])
@pytest.mark.parametrize(
    ("known", "words"),
    [({"size": 5000}, "expected 5,000 bytes, got more"), ({"most": 70_000}, "expected at most 70,000 bytes, got more")],
)
def test_a_body_without_end_is_cut_where_the_file_ends(server, tmp_path, name, known, words):
    said, seen = _hostile(server, name, tmp_path / "a", **known)
    assert said.endswith(f"not the expected file: {words}")
    assert seen <= next(iter(known.values()))
    assert list(tmp_path.iterdir()) == []
    assert server.requests == 1


def test_where_nothing_is_known_the_limit_is_patience(server, tmp_path):
    said, _ = _hostile(server, "without_end", tmp_path / "a", patience=replace(QUICK, most=100_000))
    assert "expected at most 100,000 bytes, got more" in said


@pytest.mark.parametrize("length", [len(hostile.GOOD) - 1, len(hostile.GOOD) + 1, 10**18])
def test_a_length_that_is_not_the_files_is_refused_before_a_byte_is_read(server, tmp_path, length):
    def announce(request):
        request.answer(length=length)
        request.hang()

    said, _ = _hostile(server, announce, tmp_path / "a", size=len(hostile.GOOD))
    assert f"expected {len(hostile.GOOD):,} bytes, got {length:,}, as the server announces" in said


SLOW = replace(QUICK, read=0.3, window=0.3, rate=10_000, attempts=2)


def test_a_server_that_trickles_is_given_up(server, tmp_path):
    said, _ = _hostile(server, lambda request: _trickle(request, 0.02), tmp_path / "a", patience=SLOW, most=10_000_000)
    assert "too slow: " in said
    assert "expected 10,000 a second" in said
    assert not list(tmp_path.glob("*.lease"))


def _trickle(request, pause):
    """A megabyte, a byte at a time: minutes or hours for one that waits for it."""
    request.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    request.endless(b"x", pause)


def test_the_time_for_a_file_is_bounded_however_fast_it_comes(server, tmp_path):
    patience = replace(QUICK, total=0.4, rate=1e-6)
    said, _ = _hostile(server, lambda request: _trickle(request, 0.001), tmp_path / "a", patience=patience)
    assert "the time for this file is over" in said


def test_a_small_file_gets_less_time():
    patience = Patience()
    assert patience.seconds_for(233_798) < 150
    assert patience.seconds_for(2_816_407_858) == patience.total
    assert patience.seconds_for(0) > patience.attempts * patience.read


def test_a_server_that_asks_to_wait_a_little_is_waited_for(server, tmp_path, monkeypatch):
    waited = []
    monkeypatch.setattr(module.time, "sleep", waited.append)

    def busy(request):
        if request.number:
            hostile.good(request)
        else:
            request.answer(status="429 Too Many Requests", Retry_After="1")

    server.script = busy
    download(server.url + "/a", tmp_path / "a", patience=QUICK)
    assert waited == [1.0]


@pytest.mark.parametrize("name", ["busy_for_an_hour", "busy_for_ages", "busy_until_next_century"])
def test_a_server_that_asks_to_wait_long_is_not(server, tmp_path, name):
    said, _ = _hostile(server, name, tmp_path / "a")
    assert "it asks to wait " in said
    assert "try again later" in said
    assert server.requests == 1


@pytest.mark.parametrize(
    ("name", "known", "kept"),
    [
        ("cut_at_the_same_place_each_time", {}, True),  # under an ETag
        ("cut_and_never_again", {}, False),  # nothing would tell whether the rest belongs to it
        ("cut_and_never_again", {"sha256": (SHA,)}, True),  # the hash will tell
        ("cut", {"sha256": (SHA,)}, False),  # the server cannot send the rest
        ("the_whole_comes_and_is_cut_again", {"sha256": (SHA,)}, False),  # nor this one
        ("nothing", {}, False),
        ("closes_after_the_request", {"sha256": (SHA,)}, False),
        ("a_page", {"sha256": (SHA,)}, False),
    ],
)
def test_a_part_is_kept_where_it_can_be_continued(server, tmp_path, name, known, kept):
    _hostile(server, name, tmp_path / "a", **known)
    assert (tmp_path / "a.part").exists() == kept
    assert (tmp_path / "a.part.json").exists() <= kept


def test_ctrl_c_leaves_a_part_that_can_be_continued_and_no_lease(server, tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    server.script = lambda request: request.answer(b"x" * 200_000, ETag='"x"')
    with pytest.raises(KeyboardInterrupt):
        download(server.url + "/a", tmp_path / "a", progress=interrupt, patience=QUICK)
    assert {path.name for path in tmp_path.iterdir()} == {"a.part", "a.part.json"}


@pytest.mark.parametrize(
    "content", ["[" * 100_000, "[]", '{"url": 1}', "\xff", '{"url": "URL", "validator": "a\\r\\nX: y"}']
)
def test_what_stands_in_place_of_the_parts_description_is_not_believed(web, tmp_path, content):
    url = web.serve("/a", BODY)
    (tmp_path / "a.part").write_bytes(b"y" * 1000)
    (tmp_path / "a.part.json").write_text(content.replace("URL", url), encoding="latin-1")
    download(url, tmp_path / "a", patience=QUICK)
    _only(tmp_path / "a")


def test_whether_a_file_was_put_together_is_told(web, tmp_path):
    assert not download(web.serve("/a", BODY), tmp_path / "a", patience=QUICK)
    assert download(web.serve("/b", BODY, breaks=[400_000]), tmp_path / "b", patience=QUICK)
