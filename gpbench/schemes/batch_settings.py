"""Settings and book-keeping that schemes under L-BFGS-B share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.optimize.scg import SCG
from gpbench.schemes.base import Step, setting
from gpbench.schemes.binary import BinaryScheme

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpbench.model.posterior import Predictor
    from gpbench.schemes.base import OnStep

__all__ = ["LOG_BOUND", "BatchSettings", "Evaluations", "OptimizerChoice", "SearchSettings", "Tolerances"]

LOG_BOUND = 25.0
"""Largest absolute log hyper-parameter under L-BFGS-B: the length scale of an idle input would grow for ever."""


@dataclass(frozen=True, kw_only=True)
class Tolerances:
    """When L-BFGS-B ends, whatever the task."""

    memory: int = setting(20, "L-BFGS-B: pairs that the Hessian is approximated from", minimum=1, maximum=100)
    gradient_tolerance: float = setting(1e-5, "largest gradient at the end (nats)", minimum=0.0, maximum=1e6)
    value_tolerance: float = setting(1e-9, "relative rise of the bound at the end", minimum=0.0, maximum=1.0)

    def search(self) -> LBFGSB:
        """L-BFGS-B with these settings."""
        return LBFGSB(
            memory=self.memory, gradient_tolerance=self.gradient_tolerance, value_tolerance=self.value_tolerance
        )


@dataclass(frozen=True, kw_only=True)
class SearchSettings(Tolerances):
    """Of L-BFGS-B on all rows, whatever the task."""

    block_rows: int = setting(1024, "rows looked at together; bounds the memory", minimum=1)


@dataclass(frozen=True, kw_only=True)
class OptimizerChoice(Tolerances):
    """L-BFGS-B, or scaled conjugate gradients in its place."""

    optimizer: str = setting(
        "lbfgsb", "L-BFGS-B or scaled conjugate gradients (hensman2015, figure 2)", choices=("lbfgsb", "scg")
    )

    def climber(self, **changed: Any) -> LBFGSB | SCG:
        """The search with these settings, some of them changed."""
        search = self.search()
        if self.optimizer == "lbfgsb":
            return replace(search, **changed)
        scg = SCG(gradient_tolerance=search.gradient_tolerance, value_tolerance=search.value_tolerance)
        return replace(scg, **changed)


@dataclass(frozen=True, kw_only=True)
class BatchSettings(SearchSettings, BinaryScheme):
    """What a scheme for two classes that looks at all rows at each evaluation can be told."""

    max_iterations: int = setting(1000, "evaluations of the bound at most", minimum=1)


class Evaluations:
    """Counts evaluations of the bound over all stages of a fit, and reports each as a step.

    Parameters
    ----------
    limit : int
        Evaluations at most.
    posterior : callable
        Makes the posterior of the best state so far.

    Attributes
    ----------
    count : int
    on_step : callable or None
        Told of each evaluation, once training has begun.
    """

    def __init__(self, limit: int, *, posterior: Callable[[], Predictor]) -> None:
        self.count = 0
        self.on_step: OnStep | None = None
        self._limit, self._posterior = limit, posterior

    @property
    def left(self) -> int:
        """Evaluations not yet used."""
        return self._limit - self.count

    def report(self, bound: float | None) -> None:
        """Count one evaluation; ``bound`` is that of the best state so far, if it is known.

        Raises
        ------
        StopTraining
            From ``on_step``.
        """
        self.count += 1
        if self.on_step is not None:
            self.on_step(Step(self.count, bound=bound, posterior=self._posterior))
