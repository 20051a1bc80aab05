"""Download one file so that a broken connection, a wrong file or a full disk never costs a good copy.

Bytes go to ``NAME.part`` beside the target. A download that breaks goes on from there (HTTP Range), within a call and
in a later one. The part becomes the target, in one step, only when its length and its checksum are right. What the
server said of the file (its ETag) is kept in ``NAME.part.json``, so that halves of two different files are not joined.
A part that is refused, or that could not be continued, is removed.
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

from gpbench.data.web import BrokenError, DownloadError, Patience, shown
from gpbench.leases import alone, remove_unfinished

if TYPE_CHECKING:
    from pathlib import Path

    from gpbench.data.request import Answer

__all__ = ["DownloadError", "Expected", "Patience", "Progress", "download", "sha256_of", "unwritable", "why"]

Progress = Callable[[str, int, int | None], None]
"""Called with a label, the bytes done, and the bytes in all where they are known."""

_MOST = 100  # attempts in all, where each one does bring some bytes
_AGAIN = {408, 425, 429, 500, 502, 503, 504}


class _UnexpectedError(Exception):
    """What came, or is announced, is not the expected file."""


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
    most : int or None
        Bytes that are too many, where the size is not known.
    """

    sha256: tuple[str, ...] = ()
    size: int | None = None
    md5: str | None = None
    most: int | None = None

    def problem(self, path: Path) -> str | None:
        """What is wrong with a file; None when all that is known of it holds.

        Raises
        ------
        OSError
            It cannot be read.
        """
        size = path.stat().st_size
        if self.size is not None and size != self.size:
            return f"expected {self.size:,} bytes, got {size:,}"
        if not size:
            return "expected a file; it is empty"
        for name, wanted in (("sha256", self.sha256), ("md5", (self.md5,) if self.md5 else ())):
            if wanted and (got := _digest(path, name)) not in wanted:
                return f"expected {name} {' or '.join(wanted)}, got {got}"
        return None


def sha256_of(path: Path) -> str:
    """Hash of a file, in hexadecimal digits."""
    return _digest(path, "sha256")


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


def why(error: OSError) -> str:
    """An operating system's error in words, with what to do where that is plain."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"no permission ({error.strerror})"
    return error.strerror or str(error)


def unwritable(folder: Path, error: OSError) -> str:
    """That the data folder cannot be written, why, and what to do."""
    return f"{folder} cannot be written: {why(error)}; the variable GPBENCH_DATA can name another data folder"


def download(
    url: str,
    target: Path,
    *,
    expected: Expected | None = None,
    progress: Progress | None = None,
    patience: Patience | None = None,
) -> bool:
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

    Returns
    -------
    bool
        Whether the file was put together from several answers; the server may have lied of what belongs together.

    Raises
    ------
    DownloadError
        The server does not answer, is too slow or has no such file, the file is not the expected one, or it cannot be
        written.
    """
    expected, patience = expected or Expected(), patience or Patience()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + ".part")
        remove_unfinished(target.parent)
        with alone(part):
            if target.exists() and expected.sha256 and expected.problem(target) is None:
                return False  # another process brought it while this one waited
            transfer = _Transfer(url, part, expected=expected, progress=progress, patience=patience)
            try:
                transfer.run()
            finally:
                transfer.keep_what_is_of_use()
            part.replace(target)
            _sidecar(part).unlink(missing_ok=True)
            return transfer.joined
    except OSError as error:
        raise DownloadError(unwritable(target.parent, error)) from error


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
        self.most = expected.size or expected.most or patience.most
        self.total = expected.size
        self.deadline = time.monotonic() + patience.seconds_for(self.most)
        self.ranges = True  # as long as the server has not shown that it cannot send the rest of a file
        self.whole = False
        self.joined = False

    def run(self) -> None:
        """Attempt until the part is whole and right."""
        failures = 0
        resumed = self._have() > 0
        for _ in range(_MOST):
            before = self._have()
            try:
                self._attempt()
                if (problem := self.expected.problem(self.part)) is not None:
                    raise _UnexpectedError(problem)  # noqa: TRY301  # as where it is seen earlier
            except BrokenError as error:
                failures = failures + 1 if error.slow or self._have() <= before else 1
                self._pause(error, failures)
                resumed = True
            except _UnexpectedError as error:
                self._discard()
                if not resumed:
                    raise DownloadError(f"{shown(self.url)}: not the expected file: {error}") from error
                resumed = False  # the halves may not belong together: once more, from the start
            else:
                self.whole = True
                return
        raise DownloadError(f"{shown(self.url)}: the connection breaks again and again ({_MOST} attempts)")

    def keep_what_is_of_use(self) -> None:
        """Remove a part that no later attempt could go on from, or could not know that it may."""
        if self.whole:
            return
        vouched = self.expected.sha256 or self.expected.md5 or self._validator()
        if not (self._have() and vouched and self.ranges):
            self._discard()

    def _pause(self, error: BrokenError, failures: int) -> None:
        """Wait for the next attempt, if there is to be one.

        Raises
        ------
        DownloadError
            There is none.
        """
        have = self._have()
        words = f"{shown(self.url)}: {error}{f', after {have:,} bytes' if have else ''}"
        if failures >= self.patience.attempts:
            raise DownloadError(f"{words} ({failures} attempts)", stuck=error.silent or error.slow) from error
        pause = self.patience.pause * 2 ** (failures - 1)
        if error.wait is not None:
            if error.wait > self.patience.wait:
                asked = f"it asks to wait {error.wait:,.0f} s, more than {self.patience.wait:g} s; try again later"
                raise DownloadError(f"{words}; {asked}") from error
            pause = max(pause, error.wait)
        if time.monotonic() + pause >= self.deadline:
            raise DownloadError(f"{words}; the time for this file is over", stuck=True) from error
        time.sleep(pause)

    def _have(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _discard(self) -> None:
        self.part.unlink(missing_ok=True)
        _sidecar(self.part).unlink(missing_ok=True)

    def _attempt(self) -> None:
        from gpbench.data.request import request  # noqa: PLC0415  # a tenth of a second

        have, validator = self._resumable()
        headers = {"Accept-Encoding": "identity", "User-Agent": "gpbench"}
        if have:
            headers["Range"] = f"bytes={have}-"
            if validator:
                headers["If-Range"] = validator
        with request(self.url, patience=self.patience, headers=headers, deadline=self.deadline) as answer:
            self._receive(answer, have, validator)

    def _validator(self) -> str | None:
        """What the server said of the file that the part is a piece of."""
        try:
            said: Any = json.loads(_sidecar(self.part).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(said, dict) or said.get("url") != self.url:
            return None
        validator = said.get("validator")
        return validator if isinstance(validator, str) and validator.isprintable() and validator.isascii() else None

    def _resumable(self) -> tuple[int, str | None]:
        """Bytes of the part that may be kept, and the validator that they came under."""
        have, validator = self._have(), self._validator()
        if have and validator is None and not self.expected.sha256 and not self.expected.md5:
            self._discard()  # nothing would tell whether the halves belong together
            have = 0
        return have, validator if have else None

    def _receive(self, answer: Answer, have: int, validator: str | None) -> None:
        if (
            answer.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and have
        ):  # no such range: all is here, or another file is there
            if answer.headers.get("Content-Range", "").rpartition("/")[2] == str(have):
                return
            self._discard()
            raise BrokenError("the server cannot go on from where the download broke")
        if answer.status in _AGAIN:
            raise BrokenError(answer.words, wait=answer.wait)
        if answer.status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            raise DownloadError(f"{shown(self.url)}: {answer.words}")
        if answer.headers.get("Content-Type", "").startswith("text/html") and not self.url.endswith((".html", ".htm")):
            raise DownloadError(f"{shown(self.url)}: the server answers with a web page instead of the file")
        append = answer.status == HTTPStatus.PARTIAL_CONTENT
        found = _strong(answer.headers)
        if append and not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            self._discard()
            raise BrokenError("the server sent another part than was asked for")
        if append and validator and found and found != validator:
            self._discard()
            raise BrokenError("the file has changed since its first part came")
        self.ranges = append or (not have and answer.headers.get("Accept-Ranges", "").lower() != "none")
        self.joined = append
        start = have if append else 0
        announced = _number(answer.headers.get("Content-Length", ""))
        whole = _number(answer.headers.get("Content-Range", "").rpartition("/")[2]) if append else None
        if whole is None and announced is not None:
            whole = start + announced
        self.total = self.expected.size if whole is None else whole
        self._check_announced(start)
        if found:
            _sidecar(self.part).write_text(json.dumps({"url": self.url, "validator": found}), encoding="utf-8")
        elif not append:
            _sidecar(self.part).unlink(missing_ok=True)  # it spoke of what is overwritten now
        done = start
        with self.part.open("ab" if append else "wb") as stream:
            for block in answer.blocks():
                stream.write(block[: self.most - done + 1])
                done += len(block)
                if done > self.most:
                    raise _UnexpectedError(f"{self._bound()}, got more")
                if self.progress is not None:
                    self.progress(self.part.name.removesuffix(".part"), done, self.total)
        if whole is not None and done < whole:
            raise BrokenError(f"the body ends after {done:,} of {whole:,} bytes")

    def _bound(self) -> str:
        exactly = self.expected.size is not None
        return f"expected {self.most:,} bytes" if exactly else f"expected at most {self.most:,} bytes"

    def _check_announced(self, start: int) -> None:
        """Refuse before it is here what cannot be the file, or has no room.

        Raises
        ------
        _UnexpectedError, DownloadError
        """
        if self.total is None:
            return
        if self.total > self.most or (self.expected.size is not None and self.total != self.expected.size):
            raise _UnexpectedError(f"{self._bound()}, got {self.total:,}, as the server announces")
        free = shutil.disk_usage(self.part.parent).free
        if self.total - start > free:
            raise DownloadError(
                f"{shown(self.url)}: the disk is full: {self.total - start:,} more bytes are needed in "
                f"{self.part.parent}, {free:,} are free"
            )


def _number(text: str) -> int | None:
    return int(text[:20]) if text.isascii() and text.isdigit() else None


def _strong(headers: Any) -> str | None:
    """What identifies the bytes of the file: its strong ETag, or the time of its last change."""
    tag = headers.get("ETag", "")
    if tag and not tag.startswith("W/"):
        return str(tag)
    return headers.get("Last-Modified") or None
