"""Leases: one process at a time makes a thing, on every file system; the lock of a download and of a cell.

``flock`` fails on many NFS and Lustre mounts, so nothing here asks for it. A lease on ``PATH`` is the file
``PATH.lease``, which the system creates for exactly one of those who try (a link, else ``O_EXCL``). It says who holds
it, and the holder renews it by touching it every now and then. It ends when it is released, and it has expired

- at once, where its holder ran on this machine and is gone, however it ended: no process of that number, or one that
  started at another time, or one that is dead and waits to be reaped;
- after :attr:`Timing.stale` seconds without a touch, where its holder runs elsewhere or cannot be read.

Who finds an expired lease removes it and tries again. Two may find it so, and the slower one must not remove the lease
that the faster one has taken meanwhile: removal needs a lease on the lease, taken in just the same way
(``PATH.lease.lease``), under which the file is looked at once more. Times are compared on the clock of the file system,
since those of two machines differ.

A process that was held up for longer than ``stale`` seconds (a laptop that slept, with its folder on a server) may have
lost its lease without knowing. What is made under a lease must therefore be harmless when it is made twice: written
beside its place, under a name that says whose it is (:func:`unfinished`), and renamed.

::

    with alone(path):                        # wait for it
        with replacing(path) as partial:
            ...
    if (lease := Lease.take(path)):          # or go on with something else
        with lease:
            ...
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import shutil
import socket
import threading
import time
import uuid
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Holder", "Lease", "Timing", "alone", "holder_of", "remove_unfinished", "replacing", "unfinished"]

_SUFFIX = ".lease"
_PARTIAL = re.compile(r"\.[0-9a-f]{32}\.(?P<system>\w+)-(?P<pid>\d{1,9})\.partial")
_FORSAKEN = 86_400.0  # seconds without a write after which nobody of another system is writing any more
_LONGEST = 200  # bytes of a name that may still grow by a suffix or two; systems take 255
_SAME_START = 2.0  # seconds by which a process's start may seem to move when the system's clock is set
_FIRST_PAUSE = 0.01  # seconds
_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.EXDEV})
"""What systems say that know no hard links."""


@dataclass(frozen=True)
class Timing:
    """When leases are touched, looked at and given up.

    Attributes
    ----------
    touch : float
        Seconds between two touches of a lease that is held.
    stale : float
        Seconds without a touch after which a lease from elsewhere has expired. Many times ``touch``, and more than the
        minute for which NFS may show old times.
    look : float
        The most seconds between two looks at a lease that is waited for.
    """

    touch: float = 15.0
    stale: float = 180.0
    look: float = 0.5


@dataclass(frozen=True)
class Holder:
    """Who holds a lease, as its file says.

    Attributes
    ----------
    host : str
        Name of the machine.
    system : str
        One boot of one machine and one table of processes: where two leases say the same, numbers of processes mean
        the same. Containers that share a name and a folder differ in it.
    pid : int
        Number of the process.
    started : float
        When the process began, seconds of the epoch; a later process of the same number has another.
    since : float
        When the lease was made, seconds of the epoch.
    token : str
        Of this lease alone.
    """

    host: str
    system: str
    pid: int
    started: float
    since: float
    token: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class _Seen(NamedTuple):
    """A lease's file at one moment; any difference means that it is another one, or that its holder lives."""

    content: bytes
    inode: int
    touched: int  # nanoseconds


class Lease:
    """A lease that is held; made by :meth:`take`, ended by :meth:`release` or at the end of a ``with`` block.

    While it is held, its file is touched.
    """

    def __init__(self, place: Path, *, content: bytes, timing: Timing) -> None:
        self._place = place
        self._content = content
        self._ended = False
        _KEEPER.keep(self, every=timing.touch)

    @classmethod
    def take(cls, path: Path, *, timing: Timing | None = None) -> Lease | None:
        """Lease a place, without waiting.

        Parameters
        ----------
        path : Path
            What is to be made; its folder exists.
        timing : Timing, optional
            When leases are touched and given up; the same for all who share the folder.

        Returns
        -------
        Lease or None
            None: another process or thread holds it; :func:`holder_of` says who.

        Raises
        ------
        OSError
            The folder cannot be read or written.
        """
        timing = timing or Timing()
        place = _place(path)
        while True:
            content = json.dumps(asdict(_myself())).encode("ascii")
            if _create(place, content):
                return cls(place, content=content, timing=timing)
            seen = _look(place)
            if seen is not None and not (_expired(seen, place, timing) and _remove(place, seen, timing)):
                return None

    @property
    def held(self) -> bool:
        """Whether the lease is still ours; False after its release, or where it expired and was removed."""
        return not self._ended and self._ours()

    def release(self) -> None:
        """End the lease. Does nothing where it has ended."""
        self._ended = True
        _KEEPER.leave(self)
        # A file that cannot be removed has expired as soon as this process has ended.
        with contextlib.suppress(OSError):
            if self._ours():
                self._place.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _ours(self) -> bool:
        seen = _look(self._place)
        return seen is not None and seen.content == self._content

    def touch(self) -> bool:
        """Renew it; False where it has ended, or another one stands in its place."""
        with contextlib.suppress(OSError):  # a server that is away for a moment; the next touch may do
            if not self.held:
                return False
            os.utime(self._place)
        return True


class _Keeper:
    """One thread for all leases of this process, which touches those that are held for long.

    A thread a lease would cost a short one, such as a cell's, more than everything else.
    """

    def __init__(self) -> None:
        self._due: dict[Lease, tuple[float, float]] = {}  # the next touch, and seconds between two
        self._change = threading.Condition()
        self._wakes = math.inf
        self._thread: threading.Thread | None = None

    def keep(self, lease: Lease, *, every: float) -> None:
        with self._change:
            due = time.monotonic() + every
            self._due[lease] = (due, every)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="leases", daemon=True)
                self._thread.start()
            elif due < self._wakes:
                self._change.notify()

    def leave(self, lease: Lease) -> None:
        with self._change:
            self._due.pop(lease, None)

    def _run(self) -> None:
        while True:
            with self._change:
                now = time.monotonic()
                ripe = [lease for lease, (due, _) in self._due.items() if due <= now]
                if not ripe:
                    self._wakes = min((due for due, _ in self._due.values()), default=math.inf)
                    self._change.wait(None if self._wakes == math.inf else self._wakes - now)
                    continue
            for lease in ripe:  # without the lock: a server may take its time
                kept = lease.touch()
                with self._change:
                    if lease in self._due:
                        every = self._due[lease][1]
                        self._due[lease] = (time.monotonic() + every, every)
                        if not kept:
                            del self._due[lease]


_KEEPER = _Keeper()


def _forked() -> None:
    """A forked process holds none of its parent's leases, nor the lock that another thread may have held."""
    global _KEEPER  # noqa: PLW0603
    _KEEPER = _Keeper()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@contextlib.contextmanager
def alone(
    path: Path, *, timing: Timing | None = None, waiting: Callable[[Holder | None], None] | None = None
) -> Iterator[Lease]:
    """Hold a place against other processes and threads that ask for it in the same way; wait for those that came first.

    Parameters
    ----------
    path : Path
        What is to be made; its folder exists.
    timing : Timing, optional
        As for :meth:`Lease.take`.
    waiting : callable, optional
        Told once, before waiting, who holds the place; None where its file does not say.

    Raises
    ------
    OSError
        The folder cannot be read or written.
    """
    timing = timing or Timing()
    pause = _FIRST_PAUSE
    while (lease := Lease.take(path, timing=timing)) is None:
        if waiting is not None:
            waiting(holder_of(path))
            waiting = None
        time.sleep(pause)
        pause = min(1.5 * pause, timing.look)
    with lease:
        yield lease


def holder_of(path: Path) -> Holder | None:
    """Who holds the lease on a place, or held it last; None where there is no lease, or its file does not say.

    Parameters
    ----------
    path : Path
        As for :meth:`Lease.take`.

    Raises
    ------
    OSError
        The folder cannot be read.
    """
    seen = _look(_place(path))
    return None if seen is None else _said(seen)


def unfinished(path: Path) -> Path:
    """A name beside a path for a file or folder that this process writes and renames: ``.ID.SYSTEM-PID.partial``."""
    return path.with_name(f".{uuid.uuid4().hex}.{_mark()}-{os.getpid()}.partial")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name of :func:`unfinished` for a new file: put in the path's place if the block ends well, removed if not.

    Raises
    ------
    OSError
        The file cannot be put there.
    """
    partial = unfinished(path)
    try:
        yield partial
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def remove_unfinished(folder: Path) -> None:
    """Remove what was left half-written in a folder, files and folders under names of :func:`unfinished`.

    That is what a process of this system wrote which is gone; and what one of another system wrote (a machine, a
    container, or this machine before it was started anew), whose numbers say nothing here, if nothing in it was written
    for a day.

    Raises
    ------
    OSError
        The folder cannot be read.
    """
    for path in folder.iterdir():
        if (said := _PARTIAL.fullmatch(path.name)) is None:
            continue
        gone = not psutil.pid_exists(int(said["pid"])) if said["system"] == _mark() else _forsaken(path)
        if gone and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif gone:
            with contextlib.suppress(OSError):  # another user's
                path.unlink()


def _forsaken(path: Path) -> bool:
    """Whether nothing of a file, or in a folder, was written for long."""
    try:
        return _now(path) - max(each.stat().st_mtime for each in (path, *path.rglob("*"))) > _FORSAKEN
    except OSError:  # it is being renamed or removed
        return False


def _mark() -> str:
    """The system, short enough for a name."""
    return hashlib.sha256(_system().encode()).hexdigest()[:12]


def _place(path: Path) -> Path:
    """The lease's file; a name that is too long for a suffix is replaced by its hash."""
    name = path.name
    if len(os.fsencode(name)) > _LONGEST:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return path.with_name(name + _SUFFIX)


def _create(place: Path, content: bytes) -> bool:
    """Make the file with its content at once, if none is there: by a link, which others see whole or not at all.

    Who was killed between making a file and writing it would leave a lease that says nothing, and bars the way for
    :attr:`Timing.stale` seconds.
    """
    beside = unfinished(place)
    try:
        _written(beside, content)
        os.link(beside, place)
    except FileExistsError:
        return beside.stat().st_nlink == 2  # the answer to a link was lost on its way, and the question put again
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _written(place, content)
    finally:
        beside.unlink(missing_ok=True)
    return True


def _written(place: Path, content: bytes) -> bool:
    """Make a file, if none is there. One call writes it, so that it is empty for no longer than need be."""
    try:
        number = os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    except FileExistsError:
        return False
    except PermissionError:
        if os.name == "nt" and place.parent.is_dir():  # a file that is being removed is there and cannot be opened
            return False
        raise
    try:
        os.write(number, content)
    except OSError:  # a full disk: an empty lease would bar the way
        os.close(number)
        place.unlink(missing_ok=True)
        raise
    os.close(number)
    return True


def _look(place: Path) -> _Seen | None:
    """The file as it stands; None where there is none. One that others may not read has no content."""
    try:
        status = place.stat()
        try:
            content = place.read_bytes()
        except PermissionError:
            content = b""
    except FileNotFoundError:
        return None
    return _Seen(content, status.st_ino, status.st_mtime_ns)


def _said(seen: _Seen) -> Holder | None:
    try:
        said = json.loads(seen.content)
        return Holder(
            host=str(said["host"]),
            system=str(said["system"]),
            pid=int(said["pid"]),
            started=float(said["started"]),
            since=float(said["since"]),
            token=str(said["token"]),
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def _expired(seen: _Seen, place: Path, timing: Timing) -> bool:
    holder = _said(seen)
    if holder is not None and holder.system == _system():
        return not _alive(holder)
    return _now(place) - seen.touched / 1e9 > timing.stale


def _alive(holder: Holder) -> bool:
    try:
        process = psutil.Process(holder.pid)
        same = abs(process.create_time() - holder.started) <= _SAME_START
        return same and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, ValueError, OverflowError):  # or no number that a process can have
        return False
    except psutil.AccessDenied:
        return True


def _now(place: Path) -> float:
    """Seconds of the epoch on the clock of the file system that holds the lease."""
    probe = unfinished(place)
    try:
        probe.touch()
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def _remove(place: Path, seen: _Seen, timing: Timing) -> bool:
    """Remove an expired lease; False where somebody else is about to."""
    guard = Lease.take(place, timing=timing)
    if guard is None:
        return False
    with guard:
        if _look(place) == seen:
            place.unlink(missing_ok=True)
    return True


def _myself() -> Holder:
    """The holder of a lease that this process takes now."""
    number = os.getpid()
    return Holder(socket.gethostname(), _system(), number, _started(number), time.time(), uuid.uuid4().hex)


@cache
def _started(number: int) -> float:
    return psutil.Process(number).create_time()


@cache
def _system() -> str:
    """One boot of one machine, and one table of processes on it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # no Linux: no containers that share a machine's name
        return f"{socket.gethostname()} {uuid.getnode():x}"
