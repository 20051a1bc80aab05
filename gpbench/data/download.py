"""Download one file so that a broken connection, a wrong file or a full disk never costs a good copy.

Bytes go to ``NAME.part`` beside the target. A download that breaks goes on from there (HTTP Range), within a call and
in a later one. The part becomes the target, in one step, only when its length and its checksum are right. What the
server said of the file (its ETag) is kept in ``NAME.part.json``, so that halves of two different files are not joined.
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from gpbench.data.locks import alone
from gpbench.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    import requests

__all__ = ["DownloadError", "Expected", "Patience", "Progress", "download", "sha256_of", "why"]

Progress = Callable[[str, int, int | None], None]
"""Called with a label, the bytes done, and the bytes in all where they are known."""

_BLOCK = 1 << 20
_MOST = 100  # attempts in all, where each one does bring some bytes
_AGAIN = {408, 425, 429, 500, 502, 503, 504}


class DownloadError(DataError):
    """A file could not be downloaded from one address; the message says why."""


class _Broken(Exception):
    """The transfer broke; another attempt may go on from the part."""


@dataclass(frozen=True)
class Expected:
    """What is known of a file before it is here.

    Attributes
    ----------
    sha256 : tuple of str
        The hashes that are accepted, in hexadecimal digits; empty where none is known.
    size : int or None
        Bytes.
    md5 : str or None
        What some publishers state instead.
    """

    sha256: tuple[str, ...] = ()
    size: int | None = None
    md5: str | None = None

    def problem(self, path: Path) -> str | None:
        """What is wrong with a file; None when all that is known of it holds."""
        size = path.stat().st_size
        if self.size is not None and size != self.size:
            return f"expected {self.size:,} bytes, got {size:,}"
        for name, wanted in (("sha256", self.sha256), ("md5", (self.md5,) if self.md5 else ())):
            if wanted and (got := _digest(path, name)) not in wanted:
                return f"expected {name} {' or '.join(wanted)}, got {got}"
        return None


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server, and how often to ask again.

    Attributes
    ----------
    probe : float
        Seconds to find out which hosts answer at all. Short: without network the user wants to know soon.
    connect : float
        Seconds to make a connection.
    read : float
        Seconds without a byte before a connection counts as broken.
    attempts : int
        Attempts in a row that bring no new byte before the download fails.
    pause : float
        Seconds before the second attempt; doubles after each.
    """

    probe: float = 1.5
    connect: float = 5.0
    read: float = 30.0
    attempts: int = 4
    pause: float = 0.5


def sha256_of(path: Path) -> str:
    """Hash of a file, in hexadecimal digits."""
    return _digest(path, "sha256")


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


def why(error: OSError) -> str:
    """An operating system's error in words, with what to do where that is plain."""
    if error.errno == errno.ENOSPC:
        return "the disk is full"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"no permission ({error.strerror})"
    return error.strerror or str(error)


def download(
    url: str,
    target: Path,
    *,
    expected: Expected | None = None,
    progress: Progress | None = None,
    patience: Patience | None = None,
) -> None:
    """Download ``url`` to ``target``.

    Parameters
    ----------
    url : str
        http or https.
    target : Path
        Replaced only by a file that is whole and has the expected checksum. Its folder is made where it is missing.
    expected : Expected
        What is known of the file.
    progress : callable
        Told the bytes that are here, after each block.
    patience : Patience
        Waiting and asking again.

    Raises
    ------
    DownloadError
        The server does not answer or has no such file, the file is not the expected one, or it cannot be written.
    """
    expected, patience = expected or Expected(), patience or Patience()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + ".part")
        with alone(part):
            if target.exists() and expected.sha256 and expected.problem(target) is None:
                return  # another process brought it while this one waited
            _Transfer(url, part, expected=expected, progress=progress, patience=patience).run()
            part.replace(target)
            _sidecar(part).unlink(missing_ok=True)
    except OSError as error:
        raise DownloadError(f"{target.parent} cannot be written: {why(error)}") from error


def _sidecar(part: Path) -> Path:
    return part.with_name(part.name + ".json")


class _Transfer:
    """The attempts to fill one part."""

    def __init__(
        self, url: str, part: Path, *, expected: Expected, progress: Progress | None, patience: Patience
    ) -> None:
        self.url = url
        self.part = part
        self.expected = expected
        self.progress = progress
        self.patience = patience
        self.total = expected.size

    def run(self) -> None:
        """Attempt until the part is whole and right."""
        failures = 0
        resumed = self._have() > 0
        for _ in range(_MOST):
            before = self._have()
            try:
                self._attempt()
            except _Broken as error:
                failures = failures + 1 if self._have() <= before else 1
                if failures >= self.patience.attempts:
                    raise DownloadError(f"{self.url}: {error} ({failures} attempts)") from error
                resumed = True
                time.sleep(self.patience.pause * 2 ** (failures - 1))
                continue
            problem = self.expected.problem(self.part)
            if problem is None:
                return
            self._discard()
            if not resumed:
                raise DownloadError(f"{self.url}: not the expected file: {problem}")
            resumed = False  # the halves may not belong together: once more, from the start
        raise DownloadError(f"{self.url}: the connection breaks again and again ({_MOST} attempts)")

    def _have(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _discard(self) -> None:
        self.part.unlink(missing_ok=True)
        _sidecar(self.part).unlink(missing_ok=True)

    def _attempt(self) -> None:
        import requests  # noqa: PLC0415  # a tenth of a second that data which are here need not pay
        import urllib3.exceptions  # noqa: PLC0415  # comes with it

        have, validator = self._resumable()
        headers = {"Accept-Encoding": "identity", "User-Agent": "gpbench"}
        if have:
            headers["Range"] = f"bytes={have}-"
            if validator:
                headers["If-Range"] = validator
        timeout = (self.patience.connect, self.patience.read)
        try:
            with requests.get(self.url, headers=headers, stream=True, timeout=timeout) as answer:
                self._receive(answer, have)
        except urllib3.exceptions.ReadTimeoutError as error:
            raise _Broken(f"no byte within {self.patience.read:g} s after {self._have():,}") from error
        except urllib3.exceptions.HTTPError as error:
            raise _Broken(f"the connection broke after {self._have():,} of {self.total or 0:,} bytes") from error
        except requests.ConnectionError as error:
            reason = getattr(error.args[0], "reason", None) if error.args else None
            if isinstance(reason, urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError):
                raise DownloadError(f"{self.url}: cannot connect: {_plain(reason)}") from error
            raise _Broken(f"the connection broke after {self._have():,} bytes") from error
        except requests.Timeout as error:
            raise _Broken(f"no byte within {self.patience.read:g} s after {self._have():,}") from error
        except requests.RequestException as error:
            raise DownloadError(f"{self.url}: {error}") from error

    def _resumable(self) -> tuple[int, str | None]:
        """Bytes of the part that may be kept, and the validator that they came under."""
        have = self._have()
        if not have:
            return 0, None
        try:
            said: dict[str, Any] = json.loads(_sidecar(self.part).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            said = {}
        validator = said.get("validator") if said.get("url") == self.url else None
        if validator is None and not self.expected.sha256:
            self._discard()  # nothing would tell whether the halves belong together
            return 0, None
        return have, validator

    def _receive(self, answer: requests.Response, have: int) -> None:
        if answer.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and have:
            whole = answer.headers.get("Content-Range", "").rpartition("/")[2]
            if whole == str(have):
                return
            self._discard()
            raise _Broken("the server cannot go on from where the download broke")
        if answer.status_code in _AGAIN:
            raise _Broken(f"the server answers {answer.status_code} {answer.reason}")
        if answer.status_code not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            raise DownloadError(f"{self.url}: the server answers {answer.status_code} {answer.reason}")
        if answer.headers.get("Content-Type", "").startswith("text/html") and not self.url.endswith((".html", ".htm")):
            raise DownloadError(f"{self.url}: the server answers with a web page instead of the file")
        append = answer.status_code == HTTPStatus.PARTIAL_CONTENT
        if append and not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            self._discard()
            raise _Broken("the server sent another part than was asked for")
        length = answer.headers.get("Content-Length", "")
        start = have if append else 0
        if length.isdigit():
            self.total = start + int(length)
        self._check_space(start)
        validator = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
        if validator and not validator.startswith("W/"):
            _sidecar(self.part).write_text(json.dumps({"url": self.url, "validator": validator}), encoding="utf-8")
        done = start
        with self.part.open("ab" if append else "wb") as stream:
            # The bytes as stored: some servers label NAME.gz with Content-Encoding, and requests would unpack it.
            for block in answer.raw.stream(_BLOCK, decode_content=False):
                stream.write(block)
                done += len(block)
                if self.progress is not None:
                    self.progress(self.part.name.removesuffix(".part"), done, self.total)
        if self.total is not None and length.isdigit() and done < self.total:
            raise _Broken(f"the body ends after {done:,} of {self.total:,} bytes")

    def _check_space(self, start: int) -> None:
        if self.total is None:
            return
        free = shutil.disk_usage(self.part.parent).free
        if self.total - start > free:
            raise DownloadError(
                f"{self.url}: the disk is full: {self.total - start:,} more bytes are needed in {self.part.parent}, "
                f"{free:,} are free"
            )


def _plain(reason: Exception) -> str:
    """The cause of a failed connection without the library's object names."""
    import urllib3.exceptions  # noqa: PLC0415  # as above

    if isinstance(reason, urllib3.exceptions.NameResolutionError):
        return "the name does not resolve"
    if not isinstance(reason, urllib3.exceptions.NewConnectionError):
        return "no answer"
    text = str(reason)
    return text.rpartition("] ")[2].lower() if "Errno" in text else text
