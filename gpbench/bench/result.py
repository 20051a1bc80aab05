"""A result: a cell and what became of it, as its stored JSON says; read strictly, since files can hold anything.

::

    {"format": 1, "key": "...", "status": "ok",
     "dataset": ..., "checksum": ..., "method": ..., "version": ..., "settings": {...}, "likelihood": ...,
     "limits": {...}, "scaling": ..., "split": {...}, "seed": 0, "origin": {...},     # the cell's description
     "stopped_by": "converged",
     "metrics": {"nll": .., "error": .., "train_seconds": .., ...},
     "trace": {"seconds": [], "iteration": [], "nll": [], "error": [], "bound": []},
     "provenance": {...}, "problem": null,
     "arrays_sha256": "...",                 # of KEY.npz
     "digest": "..."}                        # of all the rest

null stands for a number that was not finite, or that there is none of.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

from gpbench.bench.cell import FORMAT, CellSpec, Limits, SplitSpec, canonical
from gpbench.errors import StoreError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["COLUMNS", "STATUSES", "Problem", "Result"]

#: How a cell can end.
STATUSES = ("ok", "failed", "timeout", "interrupted")

#: The columns of a trace.
COLUMNS = ("seconds", "iteration", "nll", "error", "bound")

#: Metrics that the result of every cell names.
_METRICS = ("nll", "error", "train_seconds")

#: Fields beside the description that every stored result has.
_OUTCOME = ("key", "status", "stopped_by", "metrics", "trace", "provenance", "problem")

#: Parts of the provenance that are relied on, where they are given: name -> kind.
_PROVENANCE = {"cpu": str, "threads": int, "jobs": int, "start": str, "end": str}


@dataclass(frozen=True)
class Problem:
    """Why a cell did not end well.

    Attributes
    ----------
    type, message : str
        Of the error.
    iteration : int
        Iterations done until then.
    """

    type: str
    message: str
    iteration: int = 0


@dataclass(frozen=True, kw_only=True)
class Result(CellSpec):
    """A cell and how it ended.

    Attributes
    ----------
    status : str
        One of :data:`STATUSES`.
    stopped_by : str or None
        Why training ended; None unless the cell ended well.
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
            "metrics": dict(self.metrics),
            "trace": {name: list(column) for name, column in self.trace.items()},
            "provenance": dict(self.provenance),
            "problem": None if self.problem is None else asdict(self.problem),
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
        StoreError
            It is none of this format, or not whole; the message says what is wrong, and not where.
        """
        if not isinstance(content, dict):
            raise StoreError(f"expected a result, a table of JSON; got {_shown(content)}")
        if type(content.get("format")) is not int or content["format"] != FORMAT:
            raise StoreError(f"its format must be {FORMAT}; got {_shown(content.get('format'))}")
        description = [each.name for each in fields(CellSpec) if each.name != "origin"]
        if missing := [name for name in (*_OUTCOME, *description) if name not in content]:
            raise StoreError(f"it lacks {', '.join(missing)}")
        known = {"format", "digest", "arrays_sha256", "origin", *description, *_OUTCOME}
        if strange := [str(name) for name in content if name not in known]:
            raise StoreError(f"it holds {', '.join(strange)}, which format {FORMAT} does not know")
        read = _Reader(content)
        status = read.one_of("status", STATUSES)
        result = cls(
            method=read.text("method"),
            version=read.integer("version"),
            settings=read.table("settings"),
            limits=_limits(read.table("limits")),
            dataset=read.text("dataset"),
            checksum=read.text("checksum"),
            split=_split(read.table("split")),
            seed=read.integer("seed"),
            likelihood=read.text("likelihood"),
            scaling=read.text("scaling"),
            origin=_origin(read.table("origin")) if content.get("origin") is not None else None,
            status=status,
            stopped_by=read.optional("stopped_by", read.text),
            metrics=_metrics(read.table("metrics"), finished=status == "ok"),
            trace=_trace(read.table("trace")),
            provenance=_provenance(read.table("provenance")),
            problem=_problem(read.table("problem")) if content["problem"] is not None else None,
            arrays_sha256=read.optional("arrays_sha256", read.text) if "arrays_sha256" in content else None,
        )
        digest = _digest(content)  # before the key is made: it says what has no place in JSON
        if "digest" in content and content["digest"] != digest:
            raise StoreError("its content does not match its digest")
        if (result.problem is None) != result.finished:
            raise StoreError(f"a cell has a problem unless its status is ok; got {status} and {result.problem}")
        if result.key != content["key"]:
            raise StoreError(f"its key {_shown(content['key'])} does not belong to its description")
        return result


class _Reader:
    """Typed fields of a table of JSON; errors say what was expected and what was got."""

    def __init__(self, body: Mapping[str, Any], within: str = "") -> None:
        self._body = body
        self._within = f"{within}." if within else ""

    def text(self, name: str) -> str:
        value = self._body.get(name)
        if not isinstance(value, str):
            raise self._error(name, "a text")
        return value

    def integer(self, name: str) -> int:
        value = self._body.get(name)
        if type(value) is not int:
            raise self._error(name, "an integer")
        return value

    def number(self, name: str) -> float | None:
        value = self._body.get(name)
        if value is not None and not _is_number(value):
            raise self._error(name, "a finite number or null")
        return value

    def table(self, name: str) -> dict[str, Any]:
        value = self._body.get(name)
        if not isinstance(value, dict):
            raise self._error(name, "a table")
        return value

    def one_of(self, name: str, allowed: Sequence[str]) -> str:
        value = self._body.get(name)
        if not isinstance(value, str) or value not in allowed:
            raise self._error(name, f"one of {', '.join(allowed)}")
        return value

    def optional(self, name: str, read: Callable[[str], str]) -> str | None:
        return None if self._body.get(name) is None else read(name)

    def _error(self, name: str, expected: str) -> StoreError:
        return StoreError(f"{self._within}{name} must be {expected}; got {_shown(self._body.get(name))}")


def _limits(body: Mapping[str, Any]) -> Limits:
    known = [each.name for each in fields(Limits)]
    if strange := [name for name in body if name not in known]:
        raise StoreError(f"limits must be among {', '.join(known)}; got {', '.join(strange)}")
    try:
        return Limits(**body)
    except UsageError as error:
        raise StoreError(str(error)) from None


def _split(body: Mapping[str, Any]) -> SplitSpec:
    read = _Reader(body, "split")
    found = SplitSpec(
        protocol=read.text("protocol"),
        index=read.integer("index"),
        count=read.integer("count"),
        seed=read.integer("seed"),
    )
    if not 0 <= found.index < found.count:
        raise StoreError(f"split.index must lie in 0..count - 1; got {found.index} of {found.count}")
    return found


def _origin(body: dict[str, Any]) -> dict[str, Any]:
    read = _Reader(body, "origin")
    read.text("key"), read.text("method"), read.integer("version"), read.table("settings")
    return body


def _metrics(body: Mapping[str, Any], *, finished: bool) -> dict[str, float | None]:
    read = _Reader(body, "metrics")
    if missing := [name for name in _METRICS if name not in body]:
        raise StoreError(f"metrics lacks {', '.join(missing)}")
    found = {name: read.number(name) for name in body}
    if finished and None in (found["nll"], found["error"], found["train_seconds"]):
        raise StoreError(f"metrics of a cell that ended well must hold the numbers {', '.join(_METRICS)}; got null")
    return found


def _trace(body: Mapping[str, Any]) -> dict[str, list[Any]]:
    if set(body) != set(COLUMNS):
        raise StoreError(f"trace must hold the lists {', '.join(COLUMNS)}; got {', '.join(map(str, body)) or 'none'}")
    for name in COLUMNS:
        column = body[name]
        if not isinstance(column, list):
            raise StoreError(f"trace.{name} must be a list; got {_shown(column)}")
        may_lack = name not in ("seconds", "iteration")
        for value in column:
            if not (_is_number(value) or (value is None and may_lack)):
                kind = "finite numbers or null" if may_lack else "finite numbers"
                raise StoreError(f"trace.{name} must hold {kind}; got {_shown(value)}")
    lengths = {name: len(body[name]) for name in COLUMNS}
    if len(set(lengths.values())) > 1:
        words = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise StoreError(f"the lists of trace must be equally long; got {words}")
    return dict(body)


def _provenance(body: dict[str, Any]) -> dict[str, Any]:
    for name, kind in _PROVENANCE.items():
        if name in body and type(body[name]) is not kind:
            word = "a text" if kind is str else "an integer"
            raise StoreError(f"provenance.{name} must be {word}; got {_shown(body[name])}")
    return body


def _problem(body: Mapping[str, Any]) -> Problem:
    read = _Reader(body, "problem")
    return Problem(read.text("type"), read.text("message"), read.integer("iteration"))


def _is_number(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        return False


def _shown(value: object) -> str:
    """A value for a message, cut short."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _digest(content: Mapping[str, Any]) -> str:
    """The hash of a result's JSON, its digest left aside. A number that JSON does not know has no canonical text."""
    try:
        text = canonical({name: value for name, value in content.items() if name != "digest"})
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"it cannot be written as JSON: {error}") from error
    return hashlib.sha256(text.encode("ascii")).hexdigest()
