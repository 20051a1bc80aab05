"""A result: a cell and what became of it, as its stored JSON says; read strictly, since files can hold anything.

::

    {"format": 2, "key": "...", "status": "ok",
     "dataset": ..., "checksum": ..., "method": ..., "version": ..., "settings": {...}, "likelihood": ...,
     "limits": {...}, "scaling": ..., "split": {...}, "seed": 0,
     "source": "...", "changes": "...", "origin": {...},     # where it has them; all this is the cell's description
     "stopped_by": "converged", "clock": "processor",
     "metrics": {"nll": .., "error": .., "train_seconds": .., ...},
     "trace": {"seconds": [], "iteration": [], "nll": [], "error": [], "bound": []},
     "provenance": {...}, "problem": null,
     "arrays_sha256": "...",                 # of KEY.npz
     "digest": "..."}                        # of all the rest

null stands for a number that was not finite, or that there is none of.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

from gpbench.bench.cell import FORMAT, CellSpec, Limits, OriginSpec, SplitSpec, canonical
from gpbench.bench.clock import CLOCKS
from gpbench.errors import StoreError
from gpbench.typed import Table, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["COLUMNS", "ENDS", "LARGEST", "STATUSES", "FormatError", "Problem", "Result", "check_stored_form"]

#: Bytes of a stored result; none comes near, and a file that has more is read by nobody.
LARGEST = 2**26

#: How a cell can end.
STATUSES = ("ok", "failed", "timeout", "interrupted")

#: Why the training of a cell that ended well was over: what a scheme may say of itself
#: (:data:`gpbench.optimize.training.StoppedBy`), and the limit that the harness set in place of its ``on_step``.
ENDS = ("converged", "schedule", "iterations", "seconds", "failed-to-improve", "unknown")

#: Wall and processor seconds of one thread that are further apart than this share are told.
APART = 0.2
#: Seconds between them at least: a page fault of a cell of milliseconds is no busy machine.
APART_SECONDS = 0.01

#: The columns of a trace.
COLUMNS = ("seconds", "iteration", "nll", "error", "bound")

#: Metrics that the result of every cell names.
_METRICS = ("nll", "error", "train_seconds")

#: No float is that large; JSON can hold an integer of hundreds of digits.
_TOO_LARGE = 2**1023

#: Fields beside the description that every stored result has; null where there is nothing to say.
_OUTCOME = ("key", "status", "stopped_by", "metrics", "trace", "provenance", "problem")


#: Parts of the description that are left out where a cell does not have them.
_OPTIONAL = {"source", "changes", "origin"}


class FormatError(StoreError):
    """A result of another format than this one: an earlier or a later gpbench wrote it.

    Attributes
    ----------
    found : str
        The format that it has, in words.
    """

    def __init__(self, found: object) -> None:
        self.found = shortened(found)
        super().__init__(f"its format must be {FORMAT}; got {self.found}")


@dataclass(frozen=True)
class Problem:
    """Why a cell did not end well.

    Attributes
    ----------
    type, message : str
        Of the error.
    iteration : int
        Iterations done until then.
    place : str
        File and line of the method's own code where an error came up that nobody raised on purpose, such as
        ``mymethod.py:31``; empty for others, and in cells that were stored before it was kept.
    """

    type: str
    message: str
    iteration: int = 0
    place: str = ""

    def to_json(self) -> dict[str, Any]:
        """As JSON has it; without a place that is not known, as cells were stored before there was any."""
        return {name: value for name, value in asdict(self).items() if name != "place" or value}

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" + (f" ({self.place})" if self.place else "")


@dataclass(frozen=True, kw_only=True)
class Result(CellSpec):
    """A cell and how it ended.

    Attributes
    ----------
    status : str
        One of :data:`STATUSES`.
    stopped_by : str or None
        Why training ended, one of :data:`ENDS`; None unless the cell ended well.
    clock : str or None
        Which seconds ``train_seconds``, the trace and the limit on seconds count, of
        :data:`~gpbench.bench.clock.CLOCKS`.
    metrics : mapping of str to number or None
        ``nll``, ``error``, ``train_seconds`` and others; what a scheme did not tell is None or absent.
    trace : mapping of str to sequence
        :data:`COLUMNS` of one length; all but seconds and iteration may hold None.
    provenance : mapping
        Where the numbers come from: versions, processor, threads, times, what was found in the data.
    problem : Problem or None
        None where the cell ended well.
    arrays_sha256 : str or None
        Of KEY.npz, which there is where the cell ended well.
    """

    status: str
    stopped_by: str | None = None
    clock: str | None = None
    metrics: Mapping[str, float | None] = field(hash=False)
    trace: Mapping[str, Sequence[Any]] = field(hash=False)
    provenance: Mapping[str, Any] = field(default_factory=dict, hash=False)
    problem: Problem | None = None
    arrays_sha256: str | None = None

    @classmethod
    def of(cls, spec: CellSpec, **outcome: Any) -> Self:
        """The result of a cell.

        Parameters
        ----------
        spec : CellSpec
        **outcome
            The other attributes.
        """
        return cls(**{each.name: getattr(spec, each.name) for each in fields(CellSpec)}, **outcome)

    @property
    def finished(self) -> bool:
        """Whether the cell ended well."""
        return self.status == "ok"

    @property
    def disturbance(self) -> float | None:
        """Wall seconds of training as a multiple of processor seconds, where one thread's are a fifth apart; else None.

        Above one: the machine was busy, or waited for its disk. Below one: more threads ran than were asked for.
        """
        wall, cpu = self.metrics.get("wall_seconds"), self.metrics.get("cpu_seconds")
        if self.clock != "processor" or not wall or not cpu:
            return None
        apart = abs(wall - cpu)
        return wall / cpu if apart > APART * min(wall, cpu) and apart > APART_SECONDS else None

    @property
    def cpu(self) -> str:
        """The processor's model; ``unknown`` where it was not recorded."""
        return str(self.provenance.get("cpu", "unknown"))

    @property
    def threads(self) -> int:
        """Threads that the numerical libraries were held to."""
        return int(self.provenance.get("threads", 1))

    @property
    def jobs(self) -> int:
        """Cells that ran at the same time."""
        return int(self.provenance.get("jobs", 1))

    @property
    def decisions(self) -> list[str]:
        """What preparation decided about the data set by itself."""
        data = self.provenance.get("data")
        found = data.get("decisions") if isinstance(data, dict) else None
        return [str(words) for words in found] if isinstance(found, list) else []

    @property
    def ended(self) -> str:
        """When it ended: UTC, ISO 8601, which sorts by time; empty where it was not recorded."""
        return str(self.provenance.get("end", ""))

    def to_json(self) -> dict[str, Any]:
        """As it is stored, with its digest."""
        description = self.identity().description
        content = {
            "format": description["format"],
            "key": self.key,
            "status": self.status,
            **description,
            "stopped_by": self.stopped_by,
            "clock": self.clock,
            "metrics": dict(self.metrics),
            "trace": {name: list(column) for name, column in self.trace.items()},
            "provenance": dict(self.provenance),
            "problem": None if self.problem is None else self.problem.to_json(),
            "arrays_sha256": self.arrays_sha256,
        }
        return {**content, "digest": _digest(content)}

    @classmethod
    def from_json(cls, content: object) -> Self:
        """Read a stored result.

        Parameters
        ----------
        content : object
            What stands in a file of JSON in a result's place.

        Raises
        ------
        FormatError
            It is of another format.
        StoreError
            It is no result, or not whole; the message says what is wrong, and not where.
        """
        if not isinstance(content, dict):
            raise StoreError(f"expected a result, a table of JSON; got {shortened(content)}")
        number = content.get("format")
        if type(number) is not int or number != FORMAT:
            raise FormatError(number)
        described = {each.name for each in fields(CellSpec)}
        if missing := [name for name in (*_OUTCOME, *described - _OPTIONAL) if name not in content]:
            raise StoreError(f"it lacks {', '.join(sorted(missing))}")
        table = Table({name: value for name, value in content.items() if value is not None}, error=StoreError)
        others = ("clock", "format", "arrays_sha256", "digest")
        table.only((*described, *_OUTCOME, *others), kind=f"field of format {FORMAT}")
        status = table.text("status", among=STATUSES)
        result = cls(
            method=table.text("method"),
            version=table.integer("version"),
            settings=dict(table.table("settings")),
            limits=table.table("limits").build(Limits),
            dataset=table.text("dataset"),
            checksum=table.text("checksum"),
            split=table.table("split").build(SplitSpec),
            seed=table.integer("seed", least=0),
            likelihood=table.text("likelihood"),
            scaling=table.text("scaling"),
            source=table.text("source", None),
            changes=table.text("changes", None),
            origin=table.table("origin").build(OriginSpec) if "origin" in table else None,
            status=status,
            stopped_by=table.text("stopped_by", None, among=ENDS),
            clock=table.text("clock", None, among=CLOCKS),
            metrics=_metrics(table.table("metrics"), finished=status == "ok"),
            trace=_trace(table.table("trace")),
            provenance=_provenance(table.table("provenance")),
            problem=table.table("problem").build(Problem) if "problem" in table else None,
            arrays_sha256=table.text("arrays_sha256", None),
        )
        digest = _digest(content)  # before the key is made: it says what has no place in JSON
        if "digest" in content and content["digest"] != digest:
            raise StoreError("its content does not match its digest")
        if not 0 <= result.split.index < result.split.count:
            raise StoreError(f"split: index must lie in 0..count - 1; got {result.split.index} of {result.split.count}")
        if (result.problem is None) != result.finished:
            raise StoreError(f"a cell has a problem unless its status is ok; got {status} and {result.problem}")
        if result.key != content["key"]:
            raise StoreError(f"its key {shortened(content['key'])} does not belong to its description")
        return result


def check_stored_form(result: Result) -> None:
    """See that a result would be read as it is written, before it goes to the store.

    Raises
    ------
    StoreError
        It would not.
    """
    try:
        text = json.dumps(result.to_json(), ensure_ascii=True, allow_nan=False)
        if len(text) > LARGEST // 2:  # the store writes it with room between its lines
            raise StoreError(f"it has {len(text)} bytes; a result holds {LARGEST // 2} at most")
        content = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"it cannot be written as JSON: {error}") from error
    Result.from_json(content)


def _metrics(table: Table, *, finished: bool) -> dict[str, float | None]:
    """Numbers, or null for one that was not finite; a cell that ended well has the first three."""
    if missing := [name for name in _METRICS if name not in table]:
        raise StoreError(f"metrics lacks {', '.join(missing)}")
    for name, value in table.items():
        if not (value is None or _is_finite(value)):
            raise table.error(f"{name} must be a finite number or null; got {shortened(value)}")
    if finished and None in [table[name] for name in _METRICS]:
        raise StoreError(f"metrics of a cell that ended well must hold the numbers {', '.join(_METRICS)}; got null")
    return dict(table)


def _trace(table: Table) -> dict[str, list[Any]]:
    if set(table) != set(COLUMNS):
        raise table.error(f"expected the lists {', '.join(COLUMNS)}; got {', '.join(map(str, table)) or 'none'}")
    for name, column in table.items():
        if not isinstance(column, list):
            raise table.error(f"{name} must be a list; got {shortened(column)}")
        may_lack = name not in ("seconds", "iteration")
        for value in column:
            if not (_is_finite(value) or (value is None and may_lack)):
                kind = "finite numbers or null" if may_lack else "finite numbers"
                raise table.error(f"{name} must hold {kind}; got {shortened(value)}")
    lengths = {name: len(table[name]) for name in COLUMNS}
    if len(set(lengths.values())) > 1:
        words = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise table.error(f"expected lists of one length; got {words}")
    return dict(table)


def _provenance(table: Table) -> dict[str, Any]:
    """What is relied on is of its type, where it is given; the rest may be anything."""
    for name in ("cpu", "start", "end"):
        table.text(name, "")
    for name in ("threads", "jobs"):
        table.integer(name, None)
    return dict(table)


def _is_finite(value: object) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    return type(value) is int and abs(value) < _TOO_LARGE


def _digest(content: Mapping[str, Any]) -> str:
    """The hash of a result's JSON, its digest left aside. A number that JSON does not know has no canonical text."""
    try:
        text = canonical({name: value for name, value in content.items() if name != "digest"})
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"it cannot be written as JSON: {error}") from error
    return hashlib.sha256(text.encode("ascii")).hexdigest()
