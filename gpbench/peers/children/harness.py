"""The rival's side of the conversation with gpbench, and the clock that its training is measured with.

One JSON object a line, over standard input and output (what a library prints goes to standard error instead):

==========================================================  =======================================================
rival says                                                  gpbench says
==========================================================  =======================================================
``hello``: protocol, peer, python, packages                 ``start``: folder, kernel, settings, seed, threads, clock
``ready``: compile_seconds                                  ``go``: seconds, iteration (of the next look)
``look``: iteration, seconds, cpu_seconds, bound, state,    ``go`` again, or ``stop``
theta, peak_rss_mb, ended (null while training goes on)
``error``: type, message, numerical
==========================================================  =======================================================

The clocks run from ``go`` to the next ``look`` and count training steps alone; ``clock`` (processor or wall) says
which of them the seconds of ``go`` are of. ``state`` names an npz file in the
folder. Numpy is all that is needed here, since this file runs in the rival's environment.
"""

from __future__ import annotations

import json
import os
import platform
import select
import sys
import threading
from importlib.metadata import version
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["PROTOCOL", "Pace", "Stop", "converse"]

PROTOCOL = 2
STRIDE = 1.0
"""Seconds of training at most in one go, so that a step whose time was misjudged does little harm."""


class Stop(Exception):
    """gpbench wants no more."""


class Channel:
    """The two pipes to gpbench."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)  # what a library prints must not be taken for a message
        sys.stdout = sys.stderr
        threading.Thread(target=_leave_with_gpbench, daemon=True).start()

    def say(self, kind: str, **content: Any) -> None:
        """Send a message."""
        self._out.write(json.dumps({kind: content}) + "\n")
        self._out.flush()

    def hear(self, *kinds: str) -> tuple[str, dict[str, Any]]:
        """Wait for a message of one of these kinds.

        Raises
        ------
        Stop
            gpbench wants no more, or is gone.
        """
        line = sys.stdin.readline()
        if not line:
            raise Stop
        ((kind, content),) = json.loads(line).items()
        if kind == "stop":
            raise Stop
        if kind not in kinds:
            raise RuntimeError(f"expected a message {' or '.join(kinds)}; got {kind}")
        return kind, content


class Pace:
    """Says how many steps may run before the next look, counts them, and looks when it is time.

    Attributes
    ----------
    iteration : int
        Steps done.
    """

    def __init__(
        self, channel: Channel, folder: str, state: Callable[[], dict[str, Any]], *, clock: str = "processor"
    ) -> None:
        self.iteration = 0
        self._counts_wall = clock == "wall"
        self._channel, self._folder, self._state = channel, folder, state
        self._seconds = self._cpu = 0.0
        self._looks, self._stride = 0, 1
        self._per_step = 0.0
        self._wait()

    def allowance(self, most: int) -> int:
        """Steps to run in one go, 1 to ``most``: few enough not to pass the next look by much."""
        now = self._now()
        left = most if self._due_iteration is None else min(most, self._due_iteration - self.iteration)
        if self._per_step > 0.0:
            room = min(STRIDE, 0.7 * (self._due - now)) / self._per_step
            left = min(left, int(min(room, 4.0 * self._stride)))
        else:
            left = 1
        self._stride = max(1, left)
        return self._stride

    def ran(self, steps: int, *, bound: float | None = None) -> None:
        """Count steps; look if it is time.

        Raises
        ------
        Stop
            gpbench wants no more.
        """
        self.iteration += steps
        now = self._now()
        self._per_step = now / self.iteration
        if now >= self._due or (self._due_iteration is not None and self.iteration >= self._due_iteration):
            self._look(bound, ended=None)

    def end(self, why: str, *, bound: float | None = None) -> NoReturn:
        """Tell that training ended by itself: ``converged`` or ``iterations``."""
        self._look(bound, ended=why)
        raise Stop

    def _now(self) -> float:
        """Training seconds, on the clock that counts."""
        if self._counts_wall:
            return self._seconds + perf_counter() - self._since
        return self._cpu + process_time() - self._cpu_since

    def _look(self, bound: float | None, *, ended: str | None) -> None:
        self._seconds += perf_counter() - self._since
        self._cpu += process_time() - self._cpu_since
        state = self._state()
        self._looks += 1
        name = f"state-{self._looks}.npz"
        theta = [float(value) for value in state.pop("theta")]
        jitter = float(state.pop("jitter"))
        np.savez(os.path.join(self._folder, name), **state)  # noqa: PTH118 - plain
        self._channel.say(
            "look",
            iteration=self.iteration,
            seconds=self._seconds,
            cpu_seconds=self._cpu,
            bound=None if bound is None or not np.isfinite(bound) else float(bound),
            state=name,
            theta=theta,
            jitter=jitter,
            peak_rss_mb=_peak_rss_mb(),
            ended=ended,
        )
        if ended is None:
            self._wait()

    def _wait(self) -> None:
        _, content = self._channel.hear("go")
        self._due = float(content["seconds"])
        self._due_iteration: int | None = content["iteration"]
        self._cpu_since = process_time()
        self._since = perf_counter()


def converse(
    peer: str,
    packages: tuple[str, ...],
    make: Callable[[Mapping[str, Any], Mapping[str, Any]], Any],
    *,
    numerical: Callable[[], tuple[type[BaseException], ...]],
) -> None:
    """Run a rival from hello to stop.

    Parameters
    ----------
    peer : str
        Its name.
    packages : tuple of str
        Whose versions are told.
    make : callable
        (what ``start`` says, arrays X, y, Z) -> a trainer with ``prepare()``, which compiles and leaves the state as it
        was; ``train(pace)``; and ``state()``, a dict with theta, jitter, Z, m_w, root, form.
    numerical : callable
        The exceptions that mean that the numbers broke down.
    """
    channel = Channel()
    try:
        channel.say(
            "hello",
            protocol=PROTOCOL,
            peer=peer,
            python=platform.python_version(),
            packages={name: version(name) for name in packages},
        )
        _, start = channel.hear("start")
        folder = start["folder"]
        arrays = {"X": np.load(os.path.join(folder, "X.npy"), mmap_mode="r")}  # noqa: PTH118 - plain
        with np.load(os.path.join(folder, "arrays.npz"), allow_pickle=False) as found:  # noqa: PTH118 - plain
            arrays.update(found)
        trainer = make(start, arrays)
        begin = perf_counter()
        trainer.prepare()
        channel.say("ready", compile_seconds=perf_counter() - begin)
        trainer.train(Pace(channel, folder, trainer.state, clock=start["clock"]))
    except (Stop, BrokenPipeError):
        return
    except Exception as error:
        broke = isinstance(error, (np.linalg.LinAlgError, FloatingPointError, *numerical()))
        message = " ".join(str(error).split())[:2000]
        try:
            channel.say("error", type=type(error).__name__, message=message, numerical=broke)
        except BrokenPipeError:
            return
        if not broke:
            raise


def _leave_with_gpbench() -> None:
    """End at once when gpbench is gone: a rival that trains on would disturb the clocks of what follows."""
    if hasattr(select, "poll"):  # not on Windows, where the next look finds out
        pipe = select.poll()
        pipe.register(0, 0)  # wakes for nothing but the other end's closing: costs the clock nothing
        pipe.poll()
        os._exit(0)


def _peak_rss_mb() -> float | None:
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
