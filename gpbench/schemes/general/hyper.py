"""Settings of the search for hyper-parameters around schemes for any likelihood, its states, and what is searched for.

The search itself is :mod:`gpbench.schemes.general.climb`; φ is the constant mean and the likelihood's parameters (k,).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from gpbench.schemes.base import setting
from gpbench.schemes.batch_settings import LOG_BOUND
from gpbench.schemes.general.settings import GeneralScheme

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpbench.model.basis_old import Basis
    from gpbench.model.rows import Array, Labels
    from gpbench.schemes.general.bound import GaussianV
    from gpbench.schemes.general.observation import Observation

__all__ = ["HyperSettings", "State", "Trial", "free_box"]

_MEAN_BOUND = 50.0
_GAP_BOUND = 14.0
"""Of log gaps: edges never meet."""


@dataclass(frozen=True, kw_only=True)
class HyperSettings(GeneralScheme):
    """Stopping rules of the search for q, which are the paper's, and of that for hyper-parameters."""

    gradient_tolerance: float = setting(1e-5, "largest gradient in q at the end (nats)", minimum=0.0, maximum=1e6)
    value_tolerance: float = setting(
        1e-9,
        "rise of the bound that ends the search for q (nats); 0: gradients alone do",
        minimum=0.0,
        maximum=1.0,
    )
    hyper_gradient_tolerance: float = setting(
        1e-3, "largest gradient in the hyper-parameters at the end (nats)", minimum=0.0, maximum=1e6
    )
    hyper_value_tolerance: float = setting(
        1e-7, "relative rise of the bound at the end of the search for them", minimum=0.0, maximum=1.0
    )
    memory: int = setting(100, "L-BFGS-B: pairs that a Hessian is approximated from", minimum=1, maximum=100)

    def settled(self, gradient: float, rise: float) -> bool:
        """Whether the search for q has converged, by the paper's rules (its footnote 3)."""
        return gradient <= self.gradient_tolerance or rise <= (self.value_tolerance or -np.inf)


class State(NamedTuple):
    """What a posterior is made of, and what is known of it: ``surrogate`` where that and no bound was maximised."""

    basis: Basis
    observation: Observation
    q: GaussianV
    bound: float | None = None
    gradient: float | None = None
    surrogate: float | None = None


class Trial(NamedTuple):
    """An evaluation of F: the state, its value, and a function that gives its gradient in θ and φ, (P + k,)."""

    state: State
    value: float
    gradient: Callable[[], Array]


def free_box(observation: Observation, y: Labels, *, learn_slope: bool) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    """Least and largest values of φ, and which of them are learned from targets y (n,), each of shape (k,)."""
    names = observation.free_names
    far = np.full(len(names), LOG_BOUND)
    moves = observation.likelihood.identified_by(y)
    if observation.has_mean:
        moves = np.concatenate([[True], moves])
    for place, name in enumerate(names):
        if name == "mean" or name.endswith(".edge"):
            far[place] = _MEAN_BOUND
        elif ".log_gaps" in name:
            far[place] = _GAP_BOUND
        elif name.endswith(".log_slope"):
            moves[place] &= learn_slope
    if observation.likelihood.name == "gaussian":  # the mean of numbers may be anything
        far[0] = np.inf
    return -far, far, moves
