"""Whether hosts answer, asked of all at once and within a bound, so that a machine without network says so quickly.

``requests`` bounds the time to connect, but not the time to resolve a name, and one host after another adds up: four
files with three addresses each could keep the user waiting for a minute. Here each host gets a thread of its own.
"""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["unreachable"]


def unreachable(urls: Iterable[str], *, seconds: float) -> dict[str, str]:
    """Find the addresses whose hosts do not answer.

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
    wanted = {url: _endpoint(url) for url in urls}
    reasons: dict[tuple[str, int], str] = {}

    def ask(endpoint: tuple[str, int]) -> None:
        reasons[endpoint] = _why_not(endpoint, seconds=seconds)

    threads = [threading.Thread(target=ask, args=(one,), daemon=True) for one in set(wanted.values())]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    silent = f"no answer within {seconds:g} s"
    answers = dict(reasons)  # threads that are still waiting write into the other one
    return {url: why for url, endpoint in wanted.items() if (why := answers.get(endpoint, silent))}


def _endpoint(url: str) -> tuple[str, int]:
    """Host and port that a request for ``url`` connects to first: its own, or those of the proxy that is set."""
    import requests.utils  # noqa: PLC0415  # as in download

    proxy = requests.utils.select_proxy(url, requests.utils.get_environ_proxies(url))
    parts = urlsplit(proxy or url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _why_not(endpoint: tuple[str, int], *, seconds: float) -> str:
    """Reason why a host does not answer; empty when it does."""
    try:
        socket.create_connection(endpoint, timeout=seconds).close()
    except socket.gaierror:
        return f"the name {endpoint[0]} does not resolve"
    except TimeoutError:
        return f"no answer within {seconds:g} s"
    except OSError as error:
        return error.strerror.lower() if error.strerror else str(error)
    return ""
