"""Run one cell: load, split, scale, train under the clock, test, and say how it ended.

Whatever happens inside a cell ends in a result, so that a failing cell fails alone.
"""

from __future__ import annotations

import json
import math
import signal
from dataclasses import dataclass, replace
from time import process_time
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt

from gpbench.bench.calibration import GAUGE
from gpbench.bench.clock import Clock, clock_for
from gpbench.bench.division import divide
from gpbench.bench.location import location
from gpbench.bench.provenance import now, provenance
from gpbench.bench.resources import bounded_memory, can_bound_memory, one_pool_size, peak_rss_mb, reset_peak
from gpbench.bench.result import Problem, Result, check_stored_form
from gpbench.bench.signals import Terminated, terminable
from gpbench.bench.sources import Source, opened
from gpbench.bench.store import check_arrays
from gpbench.bench.trace import Trace, Watcher
from gpbench.errors import DataError, NumericalError, StoreError, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.posterior import Posterior
from gpbench.schemes.base import Fit, StoppedBy
from gpbench.typed import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.bench.cell import CellSpec, SplitSpec
    from gpbench.bench.division import Division
    from gpbench.bench.methods import Method
    from gpbench.bench.watchdog import Board
    from gpbench.model.posterior import Predictor
    from gpbench.model.rows import Rows
    from gpbench.schemes.settings import Learned

__all__ = ["Bounds", "Outcome", "Task", "as_fit", "lost", "run_cell"]

Arrays = dict[str, npt.NDArray[Any]]

_MOST_WORDS = 2000
"""Characters of an error's message that are kept."""
APART = ("startup_seconds", "compile_seconds")
"""Facts that stand beside the training seconds: what a rival's process takes before its clock runs."""
_OF_ANY_MACHINE = ("threads", "jobs", "start", "end")
"""Provenance that is known of a cell wherever it ran."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a cell may not exceed, or it is ended; unlike its limits no part of what it is.

    Attributes
    ----------
    hard_seconds : float or None
        Wall seconds of ``fit``, after which its worker is killed.
    memory_mb : float or None
        Address space of its worker, in MB (2**20 bytes).

    Raises
    ------
    UsageError
        A bound is out of range, or cannot be held on this system.
    """

    hard_seconds: float | None = None
    memory_mb: float | None = None

    def __post_init__(self) -> None:
        for value, flag in ((self.hard_seconds, "--hard-limit"), (self.memory_mb, "--memory-limit")):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise UsageError(f"{flag} must be a positive number; got {value}")
        if self.memory_mb is not None and not can_bound_memory():
            raise UsageError("--memory-limit needs Linux, which can bound the address space of a process")


@dataclass(frozen=True, kw_only=True)
class Task:
    """A cell and what is needed to run it; picklable, so that it travels to workers.

    Attributes
    ----------
    spec : CellSpec
    method : Method
    source : Source
    threads : int
        For the numerical libraries.
    jobs : int
        Cells that run at the same time; recorded.
    bounds : Bounds
    origin : Task or None
        The cell that must have ended well before this one can run, see :mod:`gpbench.bench.choices`.
    learned : Learned or None
        What the origin learned, once it has.
    """

    spec: CellSpec
    method: Method
    source: Source
    threads: int = 1
    jobs: int = 1
    bounds: Bounds = Bounds()
    origin: Task | None = None
    learned: Learned | None = None


@dataclass(frozen=True)
class Outcome:
    """How a cell ended.

    Attributes
    ----------
    result : Result
    arrays : dict or None
        For KEY.npz; None unless the cell ended well.
    halted : bool
        The process was asked to end (Ctrl-C, SIGTERM); no further cell should start in it.
    """

    result: Result
    arrays: Arrays | None
    halted: bool = False


def run_cell(task: Task, *, board: Board | None = None) -> Outcome:
    """Run a cell; never raises for what happens inside it.

    Parameters
    ----------
    task : Task
    board : Board, optional
        Where the process that watches this one reads how far it is.
    """
    attempt = _Attempt(task, board)
    reset_peak()
    try:
        with terminable():
            outcome = attempt.run()
    except Terminated:
        outcome = attempt.ended_by("interrupted", kind="Terminated", message="ended from outside by SIGTERM")
    except BaseException as error:  # noqa: BLE001  # a cell fails alone, whatever a plug-in's scheme raises
        status, words = "failed", _words(error, task)
        if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            status, words = "interrupted", "interrupted by the user"
        place = location(error, task.method)
        outcome = attempt.ended_by(status, kind=type(error).__name__, message=words, place=place)
    try:
        check_stored_form(outcome.result)
    except StoreError as error:
        words = f"what its scheme has told cannot be stored: {error}"
        return lost(task, "failed", kind="StoreError", message=words, start=attempt.start, halted=outcome.halted)
    return outcome


def lost(
    task: Task,
    status: str,
    *,
    kind: str,
    message: str,
    start: str | None = None,
    here: bool = True,
    iteration: int = 0,
    place: str = "",
    halted: bool = False,
) -> Outcome:
    """The outcome of a cell whose process gave none.

    Parameters
    ----------
    task : Task
    status : str
        ``failed``, ``timeout`` or ``interrupted``.
    kind, message, place : str
        For the result's ``problem``.
    start : str or None
        When the cell was handed over, see :func:`~gpbench.bench.provenance.now`; None where it was handed to nobody.
    here : bool
        Whether it ran on this machine. Where that is not known, its provenance names neither code nor libraries nor
        processor.
    iteration : int
        The last one that is known of.
    halted : bool
        As in :class:`Outcome`.
    """
    result = _Attempt(task, start=start).ended(status, problem=Problem(kind, message)).result
    unknown = dict.fromkeys(("train_seconds", "wall_seconds", "cpu_seconds", "peak_rss_mb"))
    metrics = {**result.metrics, **unknown, "iterations": iteration}
    problem = Problem(kind, message, iteration, place)
    known = result.provenance if here else {name: result.provenance[name] for name in _OF_ANY_MACHINE}
    return Outcome(replace(result, metrics=metrics, provenance=known, problem=problem), None, halted)


class _Attempt:
    """One cell being run, with what is known of it at any moment."""

    def __init__(self, task: Task, board: Board | None = None, *, start: str | None = None) -> None:
        self.task = task
        self.board = board
        self.start = start or now()
        self.clock = Clock(clock_for(task.threads))
        self.watcher: Watcher | None = None
        self.jitter: float | None = None
        self.look_seconds = 0.0  # processor seconds of all looks, none of which is training
        self.apart: dict[str, Any] = {}
        self.data: dict[str, Any] = {}

    def run(self) -> Outcome:
        spec, task = self.task.spec, self.task
        task.method.ready()  # what is imported may hold threads of its own, which must be there to be held
        with one_pool_size(task.threads), bounded_memory(task.bounds.memory_mb):
            GAUGE.begin()
            if spec.origin is not None and task.learned is None:
                raise UsageError(f"cell {spec.key} expects the hyper-parameters of cell {spec.origin.key}; got none")
            scheme = task.method.build(spec.settings, learned=task.learned)
            dataset = opened(task.source)
            if dataset.checksum != spec.checksum:
                raise DataError(
                    f"data set {spec.dataset} has changed since the sweep began: "
                    f"expected checksum {spec.checksum}, got {dataset.checksum}"
                )
            rows = divide(dataset, spec)
            data = {
                "notes": list(dataset.notes),
                "decisions": [*dataset.decisions, *_never_seen(rows.y, dataset.classes, spec.split)],
                **rows.said(),
                "rows": len(rows.y),
                "test_rows": len(rows.y_test),
            }
            self.data = {"rows": rows.rows, "data": data}
            classes = len(dataset.classes)
            self.watcher = Watcher(
                self.clock,
                lambda q: self._score(q, rows.X_test, rows.y_test)[:2],
                limits=spec.limits,
                gauge=GAUGE,
                board=self.board,
            )
            self.watcher.begin()
            fitted: Any = scheme.fit(
                rows.X,
                rows.y,
                inducing=InducingRule.of(
                    spec.settings, seed=spec.split.inducing_seed(), active=rows.active, targets=rows.y_active
                ),
                likelihood=scheme.likelihood_for(dataset.task, classes),
                classes=classes,
                rng=spec.generator(),
                on_step=self.watcher,
            )
            self.watcher.end()
            return self._finished(as_fit(fitted), rows)

    def _finished(self, fit: Fit, division: Division) -> Outcome:
        X_test, y_test = division.X_test, division.y_test
        watcher, posterior, facts = self.watcher, fit.posterior, fit.facts
        assert watcher is not None
        nll, error, predicted = self._score(posterior, X_test, y_test)
        self.jitter = _number(fit.jitter)
        bound = _number(fit.bound)  # of the posterior; the last step's may be of another state
        if bound is None:
            bound = watcher.bound
        watcher.trace.add(seconds=self.clock.seconds, iteration=watcher.iteration, nll=nll, error=error, bound=bound)
        if not (math.isfinite(nll) and math.isfinite(error)):
            raise NumericalError(f"the test NLL must be finite; got {nll} (test error {error})")
        if not np.isfinite(predicted).all():
            raise NumericalError("the predictions for the test rows must be finite; got some that are not")
        own = {
            "test_mean" if predicted.ndim == 1 else "test_probabilities": predicted,
            "y_test": y_test,
            "preparation": np.array(json.dumps(division.preparation.to_json())),
        }
        arrays = dict(posterior.arrays())
        if taken := sorted(own.keys() & arrays.keys()):
            raise TypeError(f"a posterior's arrays must not be called {', '.join(taken)}, which the harness adds")
        arrays |= own
        check_arrays(arrays)
        if isinstance(posterior, Posterior):  # duplicate rows can make fewer inducing inputs than were asked for
            self.data["data"]["inducing"] = len(posterior.latents[0].Z)
        self.apart = {name: facts[name] for name in APART if name in facts}
        if "peer" in facts:
            self.data["peer"] = _plain(facts["peer"])
        self.data["fit"] = _plain({name: value for name, value in facts.items() if name not in (*APART, "peer")})
        stopped_by = _stopped_by(fit.stopped_by, watcher.stopped_by)
        outcome = self.ended("ok", stopped_by=stopped_by, nll=nll, error=error, bound=bound)
        return Outcome(outcome.result, arrays)

    def _score(self, posterior: Predictor, X: Rows, y: npt.NDArray[Any]) -> tuple[float, float, npt.NDArray[Any]]:
        """NLL, error, and predictions for the test rows."""
        begin = process_time()
        log_density, error, predicted = _checked(posterior.score(X, y), rows=len(y))
        found = -float(np.mean(log_density)), float(np.mean(error)), predicted
        self.look_seconds += process_time() - begin
        return found

    def ended_by(self, status: str, *, kind: str, message: str, place: str = "") -> Outcome:
        """The outcome of a cell that has not ended well; of what a scheme's steps say nothing need make sense."""
        try:
            return self.ended(status, problem=Problem(kind, message, place=place))
        except (TypeError, ValueError, ArithmeticError, AttributeError):
            halted = status == "interrupted"
            return lost(self.task, status, kind=kind, message=message, start=self.start, place=place, halted=halted)

    def ended(
        self,
        status: str,
        *,
        stopped_by: str | None = None,
        nll: float | None = None,
        error: float | None = None,
        bound: float | None = None,
        problem: Problem | None = None,
    ) -> Outcome:
        """The outcome of the cell as things stand."""
        self.clock.stop()
        spec, watcher = self.task.spec, self.watcher
        iterations = 0 if watcher is None else watcher.iteration
        result = Result.of(
            spec,
            status=status,
            stopped_by=stopped_by,
            clock=self.clock.counts,
            metrics={
                "nll": nll,
                "error": error,
                "train_seconds": self.clock.seconds,
                "wall_seconds": self.clock.wall_seconds,
                "cpu_seconds": self.clock.cpu_seconds,
                "iterations": iterations,
                "bound": _number(bound),
                "jitter": self.jitter,
                "peak_rss_mb": peak_rss_mb(),
                **self.apart,
            },
            trace=(watcher.trace if watcher is not None else Trace()).columns(),
            provenance={
                **provenance(threads=self.task.threads, jobs=self.task.jobs, start=self.start, end=now()),
                **({} if self.watcher is None else {"calibration": GAUGE.record(), "look_seconds": self.look_seconds}),
                **self.data,
            },
            problem=None if problem is None else replace(problem, iteration=iterations),
        )
        return Outcome(result, None, halted=status == "interrupted")


def as_fit(fitted: Any) -> Fit:
    """What ``fit`` gave; a bare posterior, which a plug-in's scheme may give, does not say how training ended."""
    if isinstance(fitted, Fit):
        if fitted.stopped_by not in (known := get_args(StoppedBy)):
            raise TypeError(f"stopped_by must be one of {', '.join(known)}; got {shortened(fitted.stopped_by)}")
        return fitted
    if not hasattr(fitted, "score"):
        raise TypeError(f"fit must give a Fit or a posterior; got {shortened(fitted)}")
    return Fit(posterior=fitted, stopped_by="unknown")


def _checked(scores: Any, *, rows: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """What ``score`` gave, if it has the form that is asked of it: a number a test row, not of some rows or of all."""
    try:
        log_density, error, predicted = map(np.asarray, scores)
    except (TypeError, ValueError) as problem:
        raise TypeError(
            f"score must give log densities, errors and predictions, an array each; got {shortened(scores)}"
        ) from problem
    for name, found in (("log densities", log_density), ("errors", error)):
        if found.shape != (rows,) or found.dtype.kind not in "fiub":
            raise TypeError(f"score must give {rows} {name}, real numbers; got {found.dtype} of shape {found.shape}")
    if predicted.ndim not in {1, 2} or len(predicted) != rows or predicted.dtype.kind not in "fiu":
        raise TypeError(
            f"score must give predictions for {rows} rows, real numbers; "
            f"got {predicted.dtype} of shape {predicted.shape}"
        )
    return log_density, error, predicted


def _plain(value: Any) -> Any:
    """A fact as JSON holds it: numpy's numbers and arrays as plain ones, None for a number that is not finite."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return _number(value)
    return value


def _never_seen(y: npt.NDArray[Any], classes: Sequence[str], split: SplitSpec) -> list[str]:
    """Classes of which no training row is: what is said of them rests on nothing, and a reader is told."""
    if not classes:
        return []
    counts = np.bincount(y, minlength=len(classes))
    where = f"split {split.index + 1} of {split.count}"
    return [f"{where} has no training row of class {name}" for name, n in zip(classes, counts, strict=True) if n == 0]


def _words(error: BaseException, task: Task) -> str:
    """An error's message, cut where it is very long; that memory was used up says what it was bounded to."""
    try:
        words = str(error)
    except BaseException:  # noqa: BLE001  # a third party's error may fail at this, too
        words = "its message cannot be had"
    if len(words) > _MOST_WORDS:
        words = f"{words[:_MOST_WORDS]} ... ({len(words)} characters)"
    if isinstance(error, MemoryError) and task.bounds.memory_mb is not None:
        bound = f"its address space was bounded to {task.bounds.memory_mb:g} MB"
        return f"{words}; {bound}" if words else f"memory was used up; {bound}"
    return words


def _stopped_by(own: StoppedBy, watchers: str | None) -> str:
    """Why training ended: the scheme's own reason where it had ended by itself, else the limit that the harness set."""
    return own if own not in {"on_step", "unknown"} else watchers or "unknown"


def _number(value: Any) -> float | None:
    """A fact as a plain float that JSON takes; None where it is absent or not finite."""
    return None if value is None or not math.isfinite(value) else float(value)
