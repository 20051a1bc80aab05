"""What schemes for two classes share: the link, and ``fit`` around a training run."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from gpbench.errors import NumericalError, UsageError
from gpbench.model.likelihoods import Likelihood, likelihood
from gpbench.model.posterior import Posterior
from gpbench.schemes.base import StopTraining, settings_of
from gpbench.schemes.settings import GPSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from gpbench.model.inducing import InducingRule
    from gpbench.model.posterior import Predictor
    from gpbench.model.rows import Labels, Rows
    from gpbench.schemes.base import OnStep

__all__ = ["BinaryScheme", "Run", "TrainingRun", "binary_likelihood", "trained"]


P_co = TypeVar("P_co", bound="Predictor", covariant=True)
P = TypeVar("P", bound="Predictor")


class Run(Protocol[P_co]):
    """Training of one model, of whatever kind."""

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

    def posterior(self) -> P_co:
        """The posterior of this moment."""


class TrainingRun(Run[Posterior], Protocol):
    """Training of one Gaussian posterior."""


def binary_likelihood(name: str, link: str, *, task: str, n_classes: int) -> Likelihood:
    """The Bernoulli likelihood with a link, for a scheme of two classes.

    Parameters
    ----------
    name, link : str
        Of the scheme, for the message; of the link function.
    task : str
    n_classes : int

    Raises
    ------
    UsageError
        The task is not binary.
    """
    if task != "binary" or n_classes != 2:
        raise UsageError(f"{name} does binary classification; got task {task} with {n_classes} classes")
    return likelihood(link)


def trained(name: str, start: Callable[[], Run[P]], on_step: OnStep) -> P:
    """Train to the end, or until ``on_step`` raises StopTraining, and give the posterior of that moment.

    Raises
    ------
    NumericalError
        Past every remedy; the message names the scheme and how far it came.
    """
    moment = "start"
    try:
        run = start()
        try:
            run.train(on_step)
        except StopTraining:
            pass
        finally:
            moment = run.moment
        return run.posterior()
    except NumericalError as error:
        raise NumericalError(f"{name}, {moment}: {error}") from error


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
    ) -> Run[Predictor]:
        """A training run at its beginning; arguments as in ``fit``."""

    def likelihood(self, task: str, n_classes: int) -> Likelihood:
        """The Bernoulli likelihood with the link of the settings.

        Raises
        ------
        UsageError
            The task is not binary.
        """
        return binary_likelihood(self.name, self.link, task=task, n_classes=n_classes)

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
    ) -> Predictor:
        """Train; see :class:`gpbench.schemes.base.Scheme`."""
        links = next(each.choices for each in settings_of(type(self)) if each.name == "link")
        if likelihood.name not in links:
            raise UsageError(f"{self.name} needs the likelihood {' or '.join(links)}; got {likelihood.name}")
        likelihood.check_targets(y, classes)
        return trained(
            self.name,
            lambda: self.start(X, y, inducing=inducing, likelihood=likelihood, rng=rng),
            on_step,
        )
