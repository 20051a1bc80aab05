"""A server on 127.0.0.1 that does whatever a fault says, byte by byte; no library keeps it from doing wrong."""

import contextlib
import gzip
import io
import socket
import struct
import tarfile
import threading
import time
import zipfile

GOOD = b"x,y\n1,a\n2,b\n3,a\n4,b\n5,b\n"
"""The file that every address should give."""

PAGE = b"<html><body>Sorry, try again later</body></html>\n"


class Request:
    """One request: what was asked, and how to answer."""

    def __init__(self, connection, number, stopped):
        self.connection = connection
        self.number = number
        self.stopped = stopped
        head = b""
        while b"\r\n\r\n" not in head:
            block = connection.recv(4096)
            if not block:
                break
            head += block
        self.head = head.decode("latin-1")
        self.path = self.head.partition(" ")[2].partition(" ")[0].partition("?")[0]
        fields = dict(line.split(": ", 1) for line in self.head.split("\r\n")[1:] if ": " in line)
        wanted = fields.get("Range", "")
        self.start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else None

    def send(self, *parts):
        for part in parts:
            self.connection.sendall(part if isinstance(part, bytes) else part.encode("latin-1"))

    def answer(self, body=b"", *, status="200 OK", length=True, **headers):
        """A whole answer; ``length`` may be another text than the body's length, or False."""
        lines = [f"HTTP/1.1 {status}", "Connection: close"]
        if length is not False:
            lines.append(f"Content-Length: {len(body) if length is True else length}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.send("\r\n".join(lines) + "\r\n\r\n", body)

    def part(self, body, *, start=None, whole=None, **headers):
        start = self.start if start is None else start
        whole = len(body) if whole is None else whole
        self.answer(
            body[start:],
            status="206 Partial Content",
            Content_Range=f"bytes {start}-{len(body) - 1}/{whole}",
            **headers,
        )

    def hang(self, seconds=20):
        self.stopped.wait(seconds)

    def endless(self, block, pause=0.0):
        while not self.stopped.wait(pause):
            self.send(block)

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


class Hostile:
    """The server; ``script`` is called with each :class:`Request`."""

    def __init__(self):
        self.script = good
        self.requests = 0
        self.stopped = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with contextlib.suppress(OSError), connection:
            connection.settimeout(20)
            if self.script in BEFORE_REQUESTS:
                self.script(connection)
                return
            request = Request(connection, self.requests, self.stopped)
            if not request.head:  # a probe that found out that the host answers
                return
            self.requests += 1
            self.script(request)
            with contextlib.suppress(OSError):  # let the client read it all before the connection ends
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1 << 16)

    def close(self):
        self.stopped.set()
        self.listener.close()


def good(request):
    """What a right server does, ranges and all."""
    if request.start is None:
        request.answer(GOOD, ETag='"good"')
    elif request.start >= len(GOOD):
        request.answer(status="416 Range Not Satisfiable", Content_Range=f"bytes */{len(GOOD)}")
    else:
        request.part(GOOD, ETag='"good"')


FAULTS = {}
"""Name -> script."""

BEFORE_REQUESTS = set()
"""Scripts that get the connection before a request has come."""


def fault(function):
    FAULTS[function.__name__] = function
    return function


def early(function):
    BEFORE_REQUESTS.add(function)
    return fault(function)


# Connections


@early
def closes_at_once(connection):
    connection.close()


@early
def speaks_another_protocol(connection):
    connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n\x00\x01\x02")


@fault
def closes_after_the_request(request):
    request.connection.close()


@fault
def resets_after_the_request(request):
    request.reset()


@fault
def resets_within_the_body(request):
    request.send("HTTP/1.1 200 OK\r\nContent-Length: 26\r\n\r\n", GOOD[:9])
    time.sleep(0.02)
    request.reset()


# Headers


@fault
def hangs_before_the_header(request):
    request.hang()


@fault
def trickles_the_status_line(request):
    for mark in "HTTP/1.1 200 OK\r\n" * 100:
        request.send(mark)
        time.sleep(0.05)


@fault
def trickles_header_lines(request):
    request.send("HTTP/1.1 200 OK\r\n")
    request.endless("X: y\r\n", 0.05)


@fault
def header_lines_without_end(request):
    request.send("HTTP/1.1 200 OK\r\n")
    request.endless("X-Filler: yes\r\n" * 100)


@fault
def one_header_line_without_end(request):
    request.send("HTTP/1.1 200 OK\r\nX: ")
    request.endless("y" * 65536)


@fault
def continues_without_end(request):
    request.endless("HTTP/1.1 100 Continue\r\n\r\n" * 100)


@fault
def status_line_of_garbage(request):
    request.send(bytes(range(128, 256)) * 4, "\r\n\r\n")


@fault
def body_without_header(request):
    request.send(GOOD)


@fault
def status_that_does_not_exist(request):
    request.answer(GOOD, status="99999 Fine")


@fault
def status_of_minus_one(request):
    request.answer(GOOD, status="-1 Fine")


@fault
def header_of_garbage(request):
    request.send("HTTP/1.1 404 Not\x00Found\r\n\xff\xfe: \x00\r\n: \r\nno colon\r\n\r\n")


@fault
def reason_with_escape_sequences(request):
    request.answer(status="403 \x1b[2J\x1b]0;owned\x07no")


@fault
def reason_without_end(request):
    request.answer(status="404 " + "no " * 20_000)


# Refusals


@fault
def not_found(request):
    request.answer(PAGE, status="404 Not Found")


@fault
def gone_with_a_body_without_end(request):
    request.send("HTTP/1.1 410 Gone\r\n\r\n")
    request.endless(b"x" * 65536)


@fault
def broken_for_ever(request):
    request.answer(PAGE, status="500 Internal Server Error")


@fault
def busy_for_an_hour(request):
    request.answer(status="503 Service Unavailable", Retry_After="3600")


@fault
def busy_for_ages(request):
    request.answer(status="429 Too Many Requests", Retry_After="9" * 400)


@fault
def busy_until_next_century(request):
    request.answer(status="429 Too Many Requests", Retry_After="Fri, 01 Jan 2100 00:00:00 GMT")


@fault
def busy_in_other_words(request):
    request.answer(
        status="429 Too Many Requests", Retry_After=["-5", "soon", "1e9", "", "Fri, 99 Foo 99999"][request.number % 5]
    )


# Bodies


@fault
def a_page(request):
    request.answer(PAGE, Content_Type="text/html; charset=utf-8")


@fault
def a_page_that_says_it_is_data(request):
    request.answer(PAGE, Content_Type="application/octet-stream")


@fault
def a_page_of_the_right_length(request):
    request.answer(PAGE[: len(GOOD)])


@fault
def a_page_in_two_bytes_a_letter(request):
    request.answer(PAGE.decode().encode("utf-16"))


@fault
def nothing(request):
    request.answer(b"")


@fault
def a_zero_byte(request):
    request.answer(b"\0")


@fault
def other_numbers(request):
    request.answer(GOOD.replace(b"5,b", b"5,a"))


@fault
def one_row_less(request):
    request.answer(GOOD[:-4])


@fault
def one_column_more(request):
    request.answer(b"".join(b"7," + line for line in GOOD.splitlines(keepends=True)))


@fault
def rows_without_end_of_a_known_length(request):
    request.answer(GOOD + b"6,a\n" * 4000)


@fault
def cut(request):
    request.answer(GOOD[:9], length=len(GOOD), Accept_Ranges="none")


@fault
def cut_at_the_same_place_each_time(request):
    if request.start is None:
        request.answer(GOOD[:9], length=len(GOOD), ETag='"good"')
    else:
        request.part(GOOD[: request.start], start=request.start, whole=len(GOOD), ETag='"good"')


@fault
def cut_and_never_again(request):
    if request.start is None:
        request.answer(GOOD[:9], length=len(GOOD))


@fault
def cut_without_a_length(request):
    request.answer(GOOD[:9], length=False)


@fault
def shorter_than_it_says(request):
    request.answer(GOOD, length=len(GOOD) + 1000)


@fault
def longer_than_it_says(request):
    request.answer(GOOD, length=7)


@fault
def of_a_length_beyond_all_disks(request):
    request.answer(GOOD, length="9" * 18)


@fault
def of_a_length_beyond_all_numbers(request):
    request.answer(GOOD[:9], length="9" * 5000)


@fault
def of_a_negative_length(request):
    request.answer(GOOD[:9], length="-7")


@fault
def of_two_lengths(request):
    request.send(f"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nContent-Length: {len(GOOD)}\r\n\r\n", GOOD[:9])


@fault
def without_end(request):
    request.send("HTTP/1.1 200 OK\r\n\r\n", GOOD)
    request.endless(b"6,a\n" * 4096)


@fault
def without_end_in_chunks(request):
    request.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    request.endless(b"4\r\n6,a\n\r\n" * 1024)


@fault
def a_byte_now_and_then(request):
    request.send(f"HTTP/1.1 200 OK\r\nContent-Length: {len(GOOD)}\r\n\r\n")
    for byte in GOOD:
        request.send(bytes([byte]))
        time.sleep(0.1)


@fault
def a_chunk_size_now_and_then(request):
    request.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    request.endless(b"0", 0.05)


@fault
def a_chunk_size_without_end(request):
    request.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;")
    request.endless(b"x" * 65536)


@fault
def a_chunk_size_of_garbage(request):
    request.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", GOOD)


@fault
def a_chunk_larger_than_memory(request):
    request.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + "f" * 15 + "\r\n", GOOD)


@fault
def trailers_without_end(request):
    request.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n", GOOD[:9], "\r\n0\r\n")
    request.endless("X: y\r\n" * 100)


@fault
def a_page_that_says_it_is_compressed(request):
    request.answer(PAGE, Content_Encoding="gzip")


@fault
def a_compressed_page(request):
    request.answer(gzip.compress(PAGE), Content_Encoding="gzip")


@fault
def half_a_compressed_file(request):
    request.answer(gzip.compress(GOOD)[:-12], Content_Encoding="gzip")


@fault
def a_bomb_of_rows(request):
    request.answer(gzip.compress(GOOD + b"6,a\n" * 1_000_000))


@fault
def a_bomb_of_zeros(request):
    request.answer(gzip.compress(b"\0" * 30_000_000))


def _zipped(*members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return packed.getvalue()


@fault
def an_archive_with_other_files(request):
    request.answer(_zipped(("../../../evil.csv", GOOD), ("/tmp/evil.csv", GOOD)))


@fault
def an_archive_of_links(request):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            info = tarfile.TarInfo("../evil.csv")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    request.answer(packed.getvalue())


# Redirections


def _redirect(target, *, status="302 Found"):
    def script(request):
        request.answer(status=status, Location=target)

    return script


for name, target in {
    "to_an_address_that_is_none": "http://[::1",
    "to_a_port_that_is_none": "http://127.0.0.1:99999/x",
    "to_a_host_that_is_none": "http://a..b/x",
    "to_a_file": "file:///etc/passwd",
    "to_data": "data:text/plain,1,2",
    "to_ftp": "ftp://127.0.0.1/x",
    "to_a_script": "javascript:alert(1)",
    "to_nowhere": "",
    "to_garbage": "\x80\xff http://\x01 ",
    "to_itself": "?again",
    "to_the_folder_above": "../../../../../etc/passwd",
    "to_a_closed_port": "http://127.0.0.1:1/x",
    "to_a_name_that_is_too_long": "http://" + "a" * 70 + ".invalid/" + "b" * 5000,
}.items():
    FAULTS["redirects_" + name] = _redirect(target)
FAULTS["redirects_for_good_to_itself"] = _redirect("?again", status="308 Permanent Redirect")


@fault
def redirects_without_saying_where(request):
    request.answer(status="301 Moved Permanently")


@fault
def redirects_on_and_on(request):
    request.answer(status="302 Found", Location=f"/step{request.number}")


@fault
def redirects_with_a_body_without_end(request):
    request.send("HTTP/1.1 302 Found\r\nLocation: ?again\r\n\r\n")
    request.endless(b"x" * 65536)


@fault
def redirects_slowly_on_and_on(request):
    time.sleep(0.15)
    request.answer(status="302 Found", Location=f"/step{request.number}")


# Ranges: the first answer is cut, and then


def _after_a_cut(function):
    def script(request):
        if request.start is None:
            request.answer(GOOD[:9], length=len(GOOD), ETag='"good"')
        else:
            function(request)

    script.__name__ = function.__name__
    return fault(script)


@_after_a_cut
def the_rest_begins_elsewhere(request):
    request.part(GOOD, start=3, ETag='"good"')


@_after_a_cut
def the_rest_is_of_another_file(request):
    request.part(GOOD[:9] + b"9,9,9,9,9,9,9\n\n\n", ETag='"other"')


@_after_a_cut
def the_rest_is_of_another_file_without_a_word(request):
    request.part(GOOD[:9] + b"9,9,9,9,9,9,9\n\n\n", ETag='"good"')


@_after_a_cut
def the_rest_has_no_range(request):
    request.answer(GOOD[request.start :], status="206 Partial Content")


@_after_a_cut
def there_is_no_rest(request):
    request.answer(status="416 Range Not Satisfiable", Content_Range="bytes */5")


@_after_a_cut
def all_is_said_to_be_here(request):
    request.answer(status="416 Range Not Satisfiable", Content_Range=f"bytes */{request.start}")


@_after_a_cut
def the_whole_comes_and_is_cut_again(request):
    request.answer(GOOD[:9], length=len(GOOD), ETag='"good"')


@_after_a_cut
def the_rest_is_larger_than_all(request):
    request.send(f"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {request.start}-99/100\r\n\r\n")
    request.endless(b"6,a\n" * 4096)


@fault
def a_byte_for_each_request(request):
    start = request.start or 0
    length = 10_000 - start
    request.send(
        f"HTTP/1.1 {'206 Partial Content' if start else '200 OK'}\r\nContent-Range: bytes {start}-9999/10000\r\n"
        f'Content-Length: {length}\r\nETag: "good"\r\n\r\nx'
    )


@fault
def another_etag_each_time(request):
    request.answer(GOOD[:9], length=len(GOOD), ETag=f'"{request.number}"')


@fault
def a_part_without_a_question(request):
    request.part(GOOD, start=7)


@fault
def an_etag_of_garbage(request):
    request.answer(GOOD[:9], length=len(GOOD), ETag="\x1b\xff\x00")
