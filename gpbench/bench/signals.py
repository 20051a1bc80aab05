"""SIGTERM, by which schedulers and ``timeout`` end a process, as an exception: the cell is then `interrupted`."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["Terminated", "terminable"]


class Terminated(BaseException):
    """The process was asked to end. Not an Exception, so that no scheme's handler swallows it."""


@contextmanager
def terminable() -> Iterator[None]:
    """Turn SIGTERM into :class:`Terminated` within the block; does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _raise(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the signature of a handler
    raise Terminated
