"""One request to a server that may do anything, within limits of time and size.

``requests`` bounds the time to connect and the time between two bytes. It does not bound the time to resolve a name, to
shake hands or to send a header, and a server that sends one byte a second is never too slow for it. So a request runs
in a thread of its own, whose sockets are shut down when the limits of :class:`~gpbench.data.web.Patience` are reached.
Redirections are followed here, since ``requests`` would read all that comes with them.
"""

from __future__ import annotations

import email.utils
import queue
import socket
import threading
import time
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import requests
import requests.adapters
import urllib3.exceptions

from gpbench.data.web import WORDS, BrokenError, DownloadError, Patience, shown
from gpbench.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Answer", "request"]

_BLOCK = 1 << 16
_AHEAD = 16  # blocks that are received before they are asked for
_REDIRECTIONS = 10


class Answer:
    """What a server answers.

    Attributes
    ----------
    status : int
        Of HTTP.
    headers : mapping
        Names are found in any case.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        headers: Mapping[str, str],
        *,
        take: Callable[[float], bytes],
        patience: Patience,
    ) -> None:
        self.status = status
        self.headers = headers
        self._reason = reason
        self._take = take
        self._patience = patience

    @property
    def words(self) -> str:
        """Status and reason, for messages."""
        reason = printable(self._reason)[:WORDS]
        if not reason:
            with suppress(ValueError):
                reason = HTTPStatus(self.status).phrase
        return f"the server answers {self.status} {reason}".rstrip()

    @property
    def wait(self) -> float | None:
        """Seconds after which the server asks to be asked again; None where it does not say, or makes no sense."""
        said = self.headers.get("Retry-After", "").strip()
        if said.isascii() and said.isdigit():
            return float(said[:9])
        with suppress(ValueError, TypeError, OverflowError):
            return max(0.0, email.utils.parsedate_to_datetime(said).timestamp() - time.time())
        return None

    def blocks(self) -> Iterator[bytes]:
        """The body as it is sent, also where the server calls it compressed: some say so of every ``.gz``.

        Raises
        ------
        BrokenError
            The connection breaks, or bytes come too slowly.
        """
        patience = self._patience
        since, got = time.monotonic(), 0
        while block := self._take(patience.read):
            got += len(block)
            now = time.monotonic()
            if now - since >= patience.window:
                if got < patience.rate * (now - since):
                    raise BrokenError(
                        f"too slow: {got:,} bytes in {now - since:.3g} s; expected {patience.rate:,g} a second",
                        slow=True,
                    )
                since, got = now, 0
            yield block


@contextmanager
def request(
    url: str, *, patience: Patience, headers: Mapping[str, str] | None = None, deadline: float | None = None
) -> Iterator[Answer]:
    """Ask a server; the answer's body is read by :meth:`Answer.blocks`.

    Parameters
    ----------
    url : str
        http or https; redirections are followed.
    patience : Patience
        Limits of time.
    headers : mapping, optional
        Of the request.
    deadline : float, optional
        On ``time.monotonic``; past it the answer is broken off, whatever it does.

    Raises
    ------
    DownloadError
        There is no such address or no server, or a redirection leads nowhere: another attempt would not help.
    BrokenError
        The server does not answer in time, or the connection breaks.
    """
    running = _Request(url, dict(headers or {}), patience)

    def take(seconds: float) -> Any:
        left = float("inf") if deadline is None else deadline - time.monotonic()
        over = BrokenError("the time for this file is over", slow=True)
        if left <= 0:  # also where bytes are waiting: those of an endless body always are
            raise over
        try:
            item = running.items.get(timeout=min(seconds, left))
        except queue.Empty:
            raise (over if left <= seconds else BrokenError(f"no byte within {seconds:g} s", silent=True)) from None
        if isinstance(item, BaseException):
            raise _failure(item, url, patience) from item
        return item

    try:
        answer = take(patience.connect + patience.read)
        yield Answer(answer.status_code, str(answer.reason or ""), answer.headers, take=take, patience=patience)
    finally:
        running.abort()


class _Request:
    """A request in a thread of its own, which puts into a queue: the response, the blocks of its body, and ``b""``.

    Or the exception that it ended in, in place of what would have come.
    """

    def __init__(self, url: str, headers: dict[str, str], patience: Patience) -> None:
        self.items: queue.Queue[requests.Response | bytes | BaseException] = queue.Queue(_AHEAD)
        self._url = url
        self._headers = headers
        self._patience = patience
        self._ended = threading.Event()
        self._connections: list[Any] = []
        self._sockets: list[Any] = []
        self._adapter = _Adapter(self._made)
        threading.Thread(target=self._run, name=f"GET {url[:80]}", daemon=True).start()

    def abort(self) -> None:
        """Let the thread end, whatever it waits for."""
        self._ended.set()
        # A connection knows its socket while it shakes hands, and forgets it when it gives it to the response.
        for one in [*self._sockets, *(connection.sock for connection in self._connections)]:
            with suppress(OSError, AttributeError):  # closed, or not connected yet
                one.shutdown(socket.SHUT_RDWR)

    def _made(self, connection: Any) -> None:
        """Take notice of a connection that will be opened."""
        connect = connection.connect

        def opened() -> None:
            connect()
            self._sockets.append(connection.sock)

        connection.connect = opened
        self._connections.append(connection)
        if self._ended.is_set():
            raise _AbortedError

    def _run(self) -> None:
        try:
            with _Session() as session:
                for scheme in ("http://", "https://"):
                    session.mount(scheme, self._adapter)
                with self._redirected(session) as response:
                    self._put(response)
                    while block := response.raw.read1(_BLOCK, decode_content=False):
                        self._put(block)
            self._put(b"")
        except Exception as error:  # noqa: BLE001  # the caller's thread decides what it means
            with suppress(_AbortedError):
                self._put(error)

    def _redirected(self, session: _Session) -> requests.Response:
        """The response at the end of all redirections, with its body unread."""
        url = self._url
        for _ in range(_REDIRECTIONS + 1):
            response = session.get(
                url,
                headers=self._headers,
                stream=True,
                allow_redirects=False,
                timeout=(self._patience.connect, self._patience.read),
            )
            target = requests.Session.get_redirect_target(session, response)
            if target is None:
                return response
            response.close()
            if self._ended.is_set():
                raise _AbortedError
            url = urljoin(url, target)
        raise requests.TooManyRedirects(f"more than {_REDIRECTIONS} redirections")

    def _put(self, item: requests.Response | bytes | BaseException) -> None:
        while not self._ended.is_set():
            with suppress(queue.Full):
                self.items.put(item, timeout=0.1)
                return
        raise _AbortedError


class _AbortedError(Exception):
    """Nobody waits for the request any more."""


class _Session(requests.Session):
    """Sees no redirection: ``requests`` would read all that comes with one, even where it is told not to follow it."""

    def get_redirect_target(self, resp: requests.Response) -> None:  # noqa: ARG002  # its signature
        return None


class _Adapter(requests.adapters.HTTPAdapter):
    """Tells of each connection before it is opened, so that it can be broken off from another thread."""

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self._tell = tell
        super().__init__()

    def get_connection_with_tls_context(self, *args: Any, **options: Any) -> Any:
        pool: Any = super().get_connection_with_tls_context(*args, **options)
        make = pool.ConnectionCls

        def told(*given: Any, **how: Any) -> Any:
            connection = make(*given, **how)
            self._tell(connection)
            return connection

        pool.ConnectionCls = told
        return pool


def _failure(error: BaseException, url: str, patience: Patience) -> DownloadError | BrokenError:
    """What the libraries' dozen unrelated types mean for another attempt."""
    text = printable(str(error))[:WORDS]
    if isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError) and not isinstance(
        error, requests.ConnectTimeout
    ):
        return BrokenError(f"no byte within {patience.read:g} s", silent=True)
    if isinstance(error, requests.exceptions.ProxyError):
        return DownloadError(f"{shown(url)}: the proxy does not answer: {_cause(error)}")
    if isinstance(error, requests.exceptions.SSLError):
        return DownloadError(f"{shown(url)}: no secure connection: {text}")
    if isinstance(error, requests.ConnectionError):
        reason = getattr(error.args[0], "reason", None) if error.args else None
        if isinstance(reason, urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError):
            return DownloadError(f"{shown(url)}: cannot connect: {_cause(error)}")
        return BrokenError("the connection broke")
    if isinstance(error, urllib3.exceptions.LocationValueError):
        return DownloadError(f"{shown(url)}: no address that can be asked: {text}")
    if isinstance(error, urllib3.exceptions.HTTPError | ConnectionError):
        return BrokenError("the connection broke")
    if isinstance(error, requests.RequestException | ValueError):  # no URL, no such scheme, redirections without end
        return DownloadError(f"{shown(url)}: no address that can be asked, or it leads nowhere: {text}")
    return DownloadError(f"{shown(url)}: {type(error).__name__}: {text}")


def _cause(error: requests.ConnectionError) -> str:
    """The cause of a failed connection without the library's object names."""
    reason = getattr(error.args[0], "reason", None) if error.args else None
    reason = getattr(reason, "original_error", reason)
    if isinstance(reason, urllib3.exceptions.NameResolutionError):
        return "the name does not resolve"
    if isinstance(reason, urllib3.exceptions.ConnectTimeoutError) and not isinstance(
        reason, urllib3.exceptions.NewConnectionError
    ):
        return "no answer"
    text = printable(str(reason))[:WORDS]
    return text.rpartition("] ")[2].lower() if "Errno" in text else text
