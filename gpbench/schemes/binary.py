"""What schemes for two classes share: the link, and ``fit`` around a training run."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from gpbench.errors import NumericalError, UsageError
from gpbench.model.likelihoods import Likelihood, likelihood
from gpbench.schemes.base import StopTraining, settings_of
from gpbench.schemes.settings import GPSettings

if TYPE_CHECKING:
    import numpy as np

    from gpbench.model.inducing import InducingRule
    from gpbench.model.posterior import Posterior
    from gpbench.model.rows import Labels, Rows
    from gpbench.schemes.base import OnStep

__all__ = ["BinaryScheme", "TrainingRun"]


class TrainingRun(Protocol):
    """Training of one posterior."""

    @property
    def moment(self) -> str:
        """Where it stands, for messages: ``"iteration 12"``."""

    def train(self, on_step: OnStep) -> None:
        """Train to the end, or until ``on_step`` raises StopTraining.

        Raises
        ------
        NumericalError
            Past every remedy.
        StopTraining
            From ``on_step``.
        """

    def posterior(self) -> Posterior:
        """The posterior of this moment."""


@dataclass(frozen=True, kw_only=True)
class BinaryScheme(GPSettings):
    """A scheme for two classes; a subclass declares the setting ``link``, and says in ``start`` how training begins."""

    name: ClassVar[str]
    if TYPE_CHECKING:
        link: str

    @abstractmethod
    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        rng: np.random.Generator,
    ) -> TrainingRun:
        """A training run at its beginning; arguments as in ``fit``."""

    def likelihood(self, task: str, n_classes: int) -> Likelihood:
        """The Bernoulli likelihood with the link of the settings.

        Raises
        ------
        UsageError
            The task is not binary.
        """
        if task != "binary" or n_classes != 2:
            raise UsageError(f"{self.name} does binary classification; got task {task} with {n_classes} classes")
        return likelihood(self.link)

    def fit(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,
        on_step: OnStep,
    ) -> Posterior:
        """Train; see :class:`gpbench.schemes.base.Scheme`."""
        links = next(each.choices for each in settings_of(type(self)) if each.name == "link")
        if likelihood.name not in links:
            raise UsageError(f"{self.name} needs the likelihood {' or '.join(links)}; got {likelihood.name}")
        likelihood.check_targets(y, classes)
        moment = "start"
        try:
            run = self.start(X, y, inducing=inducing, likelihood=likelihood, rng=rng)
            try:
                run.train(on_step)
            except StopTraining:
                pass
            finally:
                moment = run.moment
            return run.posterior()
        except NumericalError as error:
            raise NumericalError(f"{self.name}, {moment}: {error}") from error
