"""What is asked of servers, whoever they are: how long they may take, how much they may send, whether they answer.

:mod:`gpbench.data.request` asks them. It stands apart, since its libraries take a tenth of a second to import, which
data that are here need not pay.
"""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from gpbench.errors import DataError
from gpbench.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["WORDS", "BrokenError", "DownloadError", "Patience", "shown", "unreachable"]

WORDS = 200
"""Characters of a server's or a library's words in a message."""


class DownloadError(DataError):
    """A file could not be downloaded from one address; the message says why.

    Attributes
    ----------
    stuck : bool
        The server was silent or too slow, and would be for another file.
    """

    def __init__(self, words: str, *, stuck: bool = False) -> None:
        super().__init__(words)
        self.stuck = stuck


class BrokenError(Exception):
    """The transfer broke; another attempt may do.

    Attributes
    ----------
    wait : float or None
        Seconds after which the server asks to be asked again.
    silent : bool
        The server sent nothing for too long.
    slow : bool
        The server is too slow: the bytes that came are no reason to try again and again.
    """

    def __init__(self, words: str, *, wait: float | None = None, silent: bool = False, slow: bool = False) -> None:
        super().__init__(words)
        self.wait = wait
        self.silent = silent
        self.slow = slow


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server, how much to take from it, and how often to ask again.

    Attributes
    ----------
    probe : float
        Seconds to find out which hosts answer at all. Short: without network the user wants to know soon.
    connect : float
        Seconds to make a connection.
    read : float
        Seconds without a byte before a connection counts as broken. A header must come, after all redirections,
        within ``connect + read`` seconds.
    attempts : int
        Attempts in a row that bring no new byte, or bring them too slowly, before the download fails.
    pause : float
        Seconds before the second attempt; doubles after each.
    wait : float
        The most seconds that a server may ask to wait (``Retry-After``).
    rate : float
        Bytes in a second that must come on average over a ``window``.
    window : float
        Seconds.
    total : float
        The most seconds for one file from one address, all attempts together. A small file gets less, see
        :meth:`seconds_for`.
    most : int
        Bytes at which a download is refused where nothing is known of the file's size.
    """

    probe: float = 1.5
    connect: float = 5.0
    read: float = 20.0
    attempts: int = 3
    pause: float = 0.5
    wait: float = 30.0
    rate: float = 5_000.0
    window: float = 20.0
    total: float = 12 * 3600.0
    most: int = 4 << 30

    def seconds_for(self, size: int) -> float:
        """The most seconds for a file of so many bytes: at the least rate, and each attempt may wait in vain once.

        With the defaults 96.5 s and a second for every 5,000 bytes, but not more than twelve hours.
        """
        idle = self.attempts * (self.connect + self.read + self.pause) + self.window
        return min(self.total, idle + size / self.rate)


def shown(url: str) -> str:
    """An address for messages: without the password that it may hold."""
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return printable(f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}")


def unreachable(urls: Iterable[str], *, seconds: float) -> dict[str, str]:
    """Find the addresses whose hosts do not answer, all at once: one after another adds up to minutes.

    Parameters
    ----------
    urls : iterable of str
        Addresses with http or https; where a proxy is set for one, the proxy is asked instead.
    seconds : float
        How long to wait for all of them together.

    Returns
    -------
    dict
        Address -> why it cannot be reached; addresses that can be reached are absent.
    """
    reasons: dict[str, str] = {}
    wanted: dict[str, _Endpoint] = {}
    for url in urls:
        try:
            wanted[url] = _endpoint(url)
        except ValueError as error:
            reasons[url] = f"no address that can be asked: {printable(str(error))[:WORDS]}"
    answers: dict[_Endpoint, str] = {}

    def ask(endpoint: _Endpoint) -> None:
        answers[endpoint] = _why_not(endpoint, seconds=seconds)

    threads = [threading.Thread(target=ask, args=(one,), daemon=True) for one in set(wanted.values())]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    silent = f"no answer within {seconds:g} s"
    heard = dict(answers)  # threads that are still waiting write into the other one
    for url, endpoint in wanted.items():
        if why := heard.get(endpoint, silent):
            reasons[url] = f"the proxy {printable(endpoint.host)}: {why}" if endpoint.proxy else why
    return reasons


class _Endpoint(NamedTuple):
    """What a request connects to first."""

    host: str
    port: int
    proxy: bool


def _endpoint(url: str) -> _Endpoint:
    """What a request for ``url`` connects to first: its own host, or the proxy that is set.

    Raises
    ------
    ValueError
        It is no address that can be asked.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"expected http:// or https:// and a host (a folder is named by its path); got {shown(url)!r}")
    port = parts.port  # which raises where it is none
    import requests.utils  # noqa: PLC0415  # as above: a tenth of a second

    proxy = requests.utils.select_proxy(url, requests.utils.get_environ_proxies(url))
    if proxy:
        try:
            parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            port = parts.port
            if not parts.hostname:
                raise ValueError("it names no host")  # noqa: TRY301  # told like the others
        except ValueError as error:
            raise ValueError(f"the proxy {shown(proxy)!r} that the environment names: {error}") from error
    default = 443 if parts.scheme == "https" else 80
    return _Endpoint(str(parts.hostname), port or default, bool(proxy))


def _why_not(endpoint: _Endpoint, *, seconds: float) -> str:
    """Reason why a host does not answer; empty when it does."""
    try:
        socket.create_connection(endpoint[:2], timeout=seconds).close()
    except socket.gaierror:
        return f"the name {endpoint.host} does not resolve"
    except TimeoutError:
        return f"no answer within {seconds:g} s"
    except OSError as error:
        return error.strerror.lower() if error.strerror else str(error)
    except (ValueError, OverflowError) as error:  # a name or a port that no host can have
        return f"no address that can be asked: {printable(str(error))[:WORDS]}"
    return ""
