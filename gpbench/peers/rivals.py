"""The rivals: which settings each has, and what is known about them on this machine.

All start from the same kernel and, where they have inducing inputs, from the same Z. Z is learned unless
``learn_inducing`` says otherwise, and Adam's rate is 0.01, as in the libraries' own examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gpbench.errors import UsageError
from gpbench.peers.environments import PEERS, environment, python_of, versions
from gpbench.peers.scheme import Rival
from gpbench.schemes import settings
from gpbench.schemes.base import setting
from gpbench.schemes.settings import FROM, LEARNING, GPSettings, check_row_limit

if TYPE_CHECKING:
    from gpbench.model.inducing import InducingRule
    from gpbench.model.rows import Array, Rows

__all__ = ["RIVALS", "GPJaxDual", "GPflowSVGP", "GPyTorchPG", "GPyTorchSVGP", "SklearnGPC", "peer_facts"]

STATIONARY = frozenset({"se", "se-ard", "matern32", "matern32-ard"})


@dataclass(frozen=True, kw_only=True)
class SparseRival(Rival, GPSettings):
    """A rival with inducing inputs and mini-batches."""

    batch_size: int = settings.batch_size()
    rate: float = setting(0.01, "rate of Adam", minimum=0.0, maximum=1.0)
    learn_inducing: bool = settings.learn_inducing()

    def inducing_inputs(self, X: Rows, rule: InducingRule) -> Array:
        """Z (M, d) by the rule."""
        return rule.choose(X)


@dataclass(frozen=True, kw_only=True)
class GPflowSVGP(SparseRival):
    """GPflow's SVGP, whitened, its training loop compiled whole."""

    link: str = settings.link("probit", "logit")
    optimizer: str = setting(
        "adam",
        "adam: everything by Adam; natural: q(u) by natural gradients, the rest by Adam",
        choices=("adam", "natural"),
    )
    gamma: float = setting(0.01, "rate of the natural gradient; GPflow breaks down at 0.1", minimum=1e-6, maximum=1.0)

    name: ClassVar[str] = "gpflow-svgp"
    peer: ClassVar[str] = "gpflow"
    kernels: ClassVar[frozenset[str]] = STATIONARY | {"linear-ard"}

    @property
    def floor(self) -> float:
        """GPflow's probit keeps probabilities within [0.001, 0.999], in training and in prediction."""
        return 1e-3 if self.link == "probit" else 0.0


@dataclass(frozen=True, kw_only=True)
class GPyTorchSVGP(SparseRival):
    """GPyTorch's variational GP with a Bernoulli likelihood, whitened, everything by Adam."""

    link: str = settings.link("probit")

    name: ClassVar[str] = "gpytorch-svgp"
    peer: ClassVar[str] = "gpytorch"
    kernels: ClassVar[frozenset[str]] = STATIONARY


@dataclass(frozen=True, kw_only=True)
class GPyTorchPG(SparseRival):
    """GPyTorch's variational GP with Polya-Gamma augmentation: natural gradients for q(u), Adam for the rest."""

    link: str = settings.link("logit")
    natural_rate: float = setting(0.1, "rate of the natural gradient, as in GPyTorch's example", minimum=0, maximum=1)

    name: ClassVar[str] = "gpytorch-pg"
    peer: ClassVar[str] = "gpytorch"
    kernels: ClassVar[frozenset[str]] = STATIONARY


@dataclass(frozen=True, kw_only=True)
class GPJaxDual(SparseRival):
    """GPJax's dual SVGP (Adam et al. 2021): natural gradients of the sites, Adam for the rest."""

    link: str = settings.link("probit")
    natural_rate: float = setting(0.1, "rate of the natural gradient, as GPJax has it", minimum=1e-6, maximum=1.0)

    name: ClassVar[str] = "gpjax-dual"
    peer: ClassVar[str] = "gpjax"
    kernels: ClassVar[frozenset[str]] = STATIONARY

    @property
    def floor(self) -> float:
        """GPJax's probit keeps probabilities within [0.001, 0.999], in training and in prediction."""
        return 1e-3


@dataclass(frozen=True, kw_only=True)
class SklearnGPC(Rival):
    """scikit-learn's GaussianProcessClassifier: Laplace's method on all rows, kernel by L-BFGS."""

    link: str = settings.link("logit")
    hyperparameters: str = setting("learned", LEARNING, choices=("learned", "fixed"), rules=(FROM,))
    max_rows: int = setting(2000, "rows at most: each evaluation costs their cube", minimum=1)

    name: ClassVar[str] = "sklearn-gpc"
    peer: ClassVar[str] = "sklearn"
    kernels: ClassVar[frozenset[str]] = STATIONARY

    def inducing_inputs(self, X: Rows, rule: InducingRule) -> Array:  # noqa: ARG002 - it has none
        """None: all rows are used.

        Raises
        ------
        UsageError
            There are more rows than ``max_rows``.
        """
        check_row_limit(self.name, len(X), max_rows=self.max_rows)
        return np.empty((0, X.shape[1]))


RIVALS: tuple[type[Rival], ...] = (GPflowSVGP, GPJaxDual, GPyTorchSVGP, GPyTorchPG, SklearnGPC)
"""The rivals' schemes; their ``name`` is the method's id."""


def peer_facts() -> list[dict[str, Any]]:
    """Each peer: name, title, methods, the versions wanted and found, where it lies, and what is wrong, or None."""
    found = []
    for peer in PEERS.values():
        try:
            python_of(peer)
            problem = None
        except UsageError as error:
            problem = str(error)
        found.append(
            {
                "name": peer.name,
                "title": peer.title,
                "methods": [rival.name for rival in RIVALS if rival.peer == peer.name],
                "wanted": ", ".join(f"{name} {number}" for name, number in peer.packages.items()) or "as installed",
                "packages": versions(peer),
                "folder": None if peer.own else str(environment(peer.name)),
                "problem": problem,
            }
        )
    return found
