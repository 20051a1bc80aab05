"""The limits of a cell: how long it may train, and on how many rows it is trained and tested."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from gpbench.errors import UsageError

__all__ = ["Limits"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits that are part of a cell's description. Reaching one is no failure.

    Attributes
    ----------
    seconds : float or None
        Training seconds after which the harness stops a scheme.
    iterations : int or None
        Iterations after which the harness stops a scheme.
    test_rows : int or None
        At most so many rows are held out for testing.
    train_rows : int or None
        At most so many of the split's training rows are trained on.
    """

    seconds: float | None = None
    iterations: int | None = None
    test_rows: int | None = None
    train_rows: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None:
            if not (math.isfinite(self.seconds) and self.seconds > 0):
                raise UsageError(f"the limit on seconds must be a positive number; got {self.seconds!r}")
            object.__setattr__(self, "seconds", float(self.seconds))
        for name in ("iterations", "test_rows", "train_rows"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise UsageError(f"the limit on {name} must be a positive integer; got {value!r}")

    def description(self) -> dict[str, Any]:
        """The limits that are set; absent ones are left out, so that a new kind of limit leaves old keys alone."""
        return {name: value for name, value in asdict(self).items() if value is not None}
