"""A rival's process, and the conversation with it (see :mod:`gpbench.peers.children.harness` for the messages).

The process is started with ``subprocess``, since workers of a sweep may not have children of multiprocessing. It has a
session of its own, so that Ctrl-C reaches gpbench alone, which then ends it; when gpbench is killed, the rival finds
its pipe closed and ends by itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import psutil

from gpbench.errors import NumericalError, PeerError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import IO, Self

__all__ = ["PROTOCOL", "Message", "RivalProcess", "child_environment"]

PROTOCOL = 2
"""Version of the conversation; a script that speaks another is refused."""
LONGEST = 1 << 20
"""Bytes of a message at most."""
GRACE = 10.0
"""Seconds that a process has for leaving once it was told to stop."""
SHARE = 0.01
"""Of a core that a process uses at least while it works."""
LAST_WORDS = 600
"""Characters of a process's standard error that are told when it fails."""

Message = tuple[str, dict[str, Any]]


class RivalProcess:
    """A process to talk with; a context manager that always ends it.

    Parameters
    ----------
    name : str
        For messages.
    command : sequence of str
    environment : mapping
    errors : Path
        Where its standard error goes.
    """

    def __init__(self, name: str, command: Sequence[str], *, environment: dict[str, str], errors: Path) -> None:
        self._name, self._errors = name, errors
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        with errors.open("wb") as stream:
            try:
                self._process = subprocess.Popen(  # noqa: S603  # no shell; our own words
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stream,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as error:
                raise PeerError(f"rival {name} cannot be started: {command[0]}: {error.strerror}") from error
        assert self._process.stdout is not None
        reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(grace=GRACE if kind is None else 0.0)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def tell(self, kind: str, **content: Any) -> None:
        """Send a message.

        Raises
        ------
        PeerError
            The process is gone.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({kind: content}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._death() from None

    def hear(self, *kinds: str, patience: float) -> Message:
        """Wait for a message of one of these kinds.

        Parameters
        ----------
        *kinds : str
        patience : float
            Seconds of silence after which the process is taken for hung, unless it worked meanwhile: on a busy machine
            its seconds are long.

        Raises
        ------
        NumericalError
            The rival tells that its numbers broke down.
        PeerError
            It tells of another error, is dead, is silent, or says what is no message.
        """
        line = self._line(patience)
        if not line.endswith(b"\n"):  # the pipe ended, or the line is endless
            raise self._death() if len(line) < LONGEST else self._rubbish(line)
        try:
            message = json.loads(line)
            ((kind, content),) = message.items()
        except (ValueError, AttributeError):
            raise self._rubbish(line) from None
        if kind == "error" and isinstance(content, dict):
            words = f"rival {self._name}: {content.get('type')}: {content.get('message')}"
            raise NumericalError(words) if content.get("numerical") else PeerError(words + self._last_words())
        if kind not in kinds or not isinstance(content, dict):
            raise self._rubbish(line)
        return kind, content

    def _line(self, patience: float) -> bytes:
        used = self._used()
        while True:
            try:
                return self._lines.get(timeout=patience)
            except queue.Empty:
                before, used = used, self._used()
                if used - before < SHARE * patience:
                    words = f"rival {self._name} said nothing for {patience:g} seconds and was ended"
                    raise PeerError(words) from None

    def _used(self) -> float:
        """Processor seconds of the process so far."""
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(self._process.pid).cpu_times()
            return float(times.user + times.system)
        return 0.0

    def end(self, *, grace: float) -> None:
        """End the process: it may leave by itself within ``grace`` seconds, and is killed then."""
        if grace > 0.0:
            with contextlib.suppress(PeerError):
                self.tell("stop")
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # what was not flushed has no reader
            self._process.stdin.close()
        try:
            self._process.wait(timeout=grace)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()

    def _kill(self) -> None:
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # with whatever it has started
        else:
            self._process.kill()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            while True:
                line = stream.readline(LONGEST)
                self._lines.put(line)
                if not line.endswith(b"\n"):
                    return

    def _death(self) -> PeerError:
        try:
            code = self._process.wait(timeout=GRACE)  # its pipe ends a moment before it does
        except subprocess.TimeoutExpired:
            self._kill()
            code = self._process.wait()
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended by itself with exit code {code}"
        return PeerError(f"the process of rival {self._name} {how}{self._last_words()}")

    def _rubbish(self, line: bytes) -> PeerError:
        return PeerError(f"rival {self._name} said what is no message: {line[:80]!r}{self._last_words()}")

    def _last_words(self) -> str:
        words = " ".join(self._errors.read_text(encoding="utf-8", errors="replace").split())
        return f"; its last words: {words[-LAST_WORDS:]}" if words else ""


def child_environment(threads: int) -> dict[str, str]:
    """Environment variables for a rival: gpbench's own, less what would lead Python astray, with so many threads."""
    astray = {"VIRTUAL_ENV", "__PYVENV_LAUNCHER__"}
    kept = {name: value for name, value in os.environ.items() if name not in astray}
    pools = ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM", "NUMEXPR")
    kept |= {f"{pool}_NUM_THREADS": str(threads) for pool in pools}
    return kept | {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2", "GPBENCH_PEER_THREADS": str(threads)}
