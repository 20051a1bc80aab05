"""What a scheme is to the rest of gpbench: settings, a ``fit``, and the steps that it reports.

A scheme is a frozen dataclass. Its fields are the settings of the method; ``setting`` gives each one a line of help and
a range, so that the command line, the store and the documentation read them from one place. ``fit`` trains and returns
a :class:`Fit`; it calls ``on_step`` after each iteration and returns what it has when that raises
:class:`StopTraining`. :class:`Training` and :func:`run_training` do what is alike in every ``fit``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from gpbench.errors import NumericalError, UsageError
from gpbench.optimize.training import OnStep, Step, StoppedBy, StopTraining, Trainer

if TYPE_CHECKING:  # the command line reads settings without loading the numerics
    from collections.abc import Callable, Mapping

    import numpy as np

    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.posterior import Predictor
    from gpbench.model.rows import Labels, Rows

__all__ = [
    "Fit",
    "OnStep",
    "Scheme",
    "Setting",
    "Step",
    "StopTraining",
    "StoppedBy",
    "Training",
    "run_training",
    "setting",
    "settings_of",
]


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """What ``fit`` gives: the posterior, and what is to be recorded about how it came about.

    Attributes
    ----------
    posterior : Predictor
    stopped_by : {"converged", "schedule", "iterations", "on_step", "failed-to-improve", "unknown"}
        ``converged`` only where the scheme's own stated criterion holds at the end.
    iterations : int
        That were taken; 0 where the scheme counts none.
    bound : float or None
        The objective of the posterior on all training rows (nats).
    jitter : float or None
        The largest absolute jitter of a kernel matrix.
    facts : mapping
        Whatever else is worth recording, as JSON can hold it: hyper-parameters, inner iterations.
    """

    posterior: Predictor
    stopped_by: StoppedBy = "unknown"
    iterations: int = 0
    bound: float | None = None
    jitter: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


class Training(ABC):
    """One fit in progress: what moves, and the engine that counts its steps.

    Parameters
    ----------
    limit : int
        Iterations at most.

    Attributes
    ----------
    trainer : Trainer
    """

    unit: ClassVar[str] = "iteration"
    """What the trainer counts, for messages."""

    def __init__(self, *, limit: int) -> None:
        self.trainer = Trainer(limit=limit, posterior=self.posterior)

    def begin(self) -> None:
        """Do what is long before the first step, with ``on_step`` known.

        It may ask ``trainer.check``; where that raises StopTraining it leaves what :meth:`posterior` needs.

        Raises
        ------
        StopTraining
            From ``on_step``.
        """
        return

    @abstractmethod
    def train(self) -> StoppedBy:
        """Train to the end, or until the trainer's ``report`` or ``check`` raises StopTraining; says why it ended.

        Raises
        ------
        NumericalError
            Past every remedy.
        StopTraining
            From ``on_step``.
        """

    @abstractmethod
    def posterior(self) -> Predictor:
        """The posterior that training has come to."""

    def bound(self) -> float | None:
        """The objective of that posterior on all rows (nats), where it is known."""
        return None

    def facts(self) -> dict[str, Any]:
        """What else is to be recorded, as JSON can hold it."""
        return {}

    def result(self, stopped_by: StoppedBy) -> Fit:
        """What ``fit`` gives, the hyper-parameters among its facts."""
        posterior = self.posterior()
        latents = getattr(posterior, "latents", ())
        kernels = [latent.kernel.values() for latent in latents]
        learned = {"hyperparameters": kernels[0] if len(kernels) == 1 else kernels} if kernels else {}
        return Fit(
            posterior=posterior,
            stopped_by=stopped_by,
            iterations=self.trainer.count,
            bound=self.bound(),
            jitter=max((latent.jitter for latent in latents), default=None),
            facts={**learned, **self.facts()},
        )


def run_training(name: str, start: Callable[[], Training], on_step: OnStep) -> Fit:
    """Train to the end, or until ``on_step`` raises StopTraining, and give what has come of it.

    Parameters
    ----------
    name : str
        Of the scheme, for messages.
    start : callable
        Makes the training at its beginning.
    on_step : callable

    Raises
    ------
    NumericalError
        Past every remedy; the message names the scheme and how far it came.
    """
    reached = "start"
    try:
        training = start()
        training.trainer.on_step = on_step
        try:
            training.begin()
            try:
                stopped_by = training.train()
            finally:
                reached = f"{training.unit} {training.trainer.count}"
        except StopTraining:
            stopped_by = training.trainer.stopped_by
        return training.result(stopped_by)
    except NumericalError as error:
        raise NumericalError(f"{name}, {reached}: {error}") from error


class Scheme(Protocol):
    """An algorithm that finds q(u) and the hyper-parameters."""

    def likelihood_for(self, task: str, n_classes: int) -> Likelihood:
        """The likelihood that this scheme uses for a task unless the user names another.

        Raises
        ------
        UsageError
            The scheme cannot do the task.
        """

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
    ) -> Fit:
        """Train.

        Parameters
        ----------
        X : (n, d)
            Inputs, scaled; an array, or rows that are read when they are asked for.
        y : (n,)
            Integers 0..classes-1, counts, ordinal categories 0..classes-1, or real numbers.
        inducing : InducingRule
            Chooses Z from X; called inside ``fit``, since the choice is on the clock.
        likelihood : Likelihood
            p(y | f).
        classes : int
            The number of classes of the data set (not of this split); 0 where there are none.
        rng : numpy.random.Generator
            The only source of randomness.
        on_step : callable
            Called after each iteration; may raise :class:`StopTraining`.

        Raises
        ------
        NumericalError
            Past every remedy.
        """


@dataclass(frozen=True)
class Setting:
    """One setting of a method, as the command line shows and checks it.

    Attributes
    ----------
    name, kind, default, help
        ``kind`` is the Python type: bool, int, float or str.
    choices : tuple
        The values allowed, or empty.
    minimum, maximum : float or None
        The closed range allowed.
    optional : bool
        Whether ``none`` is a value (the scheme then chooses, as ``help`` says).
    rules : tuple
        Words that may stand in place of a value: rules by which it is found. One that ends in a word after a colon
        (``from:METHOD``) stands for every text that begins as it does.
    """

    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    optional: bool = False
    rules: tuple[str, ...] = ()

    def parse(self, text: str) -> Any:
        """Value from its text form (``--set name=text``, a plan, an environment variable).

        Raises
        ------
        UsageError
            The text is no value of this setting; the message names what is.
        """
        if self.optional and text.lower() in {"none", "auto"}:
            return None
        if self._is_rule(text):
            return text
        try:
            value = _PARSERS[self.kind](text)
        except ValueError:
            raise self._error(text) from None
        return self.check(value)

    def check(self, value: Any) -> Any:
        """The value itself, if it is allowed (integers serve as floats).

        Raises
        ------
        UsageError
            Wrong type or out of range.
        """
        if (value is None and self.optional) or self._is_rule(value):
            return value
        if self.kind is float and type(value) is int:
            value = float(value)
        if type(value) is not self.kind:
            raise self._error(value)
        if self.choices and value not in self.choices:
            raise self._error(value)
        number: Any = value
        if self.kind is float and not math.isfinite(number):  # results are JSON, which knows neither NaN nor infinity
            raise self._error(value)
        low_enough = self.minimum is None or number >= self.minimum
        high_enough = self.maximum is None or number <= self.maximum
        if not (low_enough and high_enough):
            raise self._error(value)
        return value

    def describe(self) -> str:
        """The values allowed, in words: ``"a float in [0, 1]"``."""
        if self.choices:
            words = "one of " + ", ".join(self.choices)
        else:
            words = {bool: "true or false", int: "an integer", float: "a number", str: "a text"}[self.kind]
            if self.minimum is not None and self.maximum is not None:
                words += f" in [{self.minimum:g}, {self.maximum:g}]"
            elif self.minimum is not None:
                words += f" >= {self.minimum:g}"
            elif self.maximum is not None:
                words += f" <= {self.maximum:g}"
        return " or ".join([words, *self.rules, *(["none"] if self.optional else [])])

    def _is_rule(self, value: Any) -> bool:
        if not isinstance(value, str):
            return False
        begins = tuple(rule.partition(":")[0] + ":" for rule in self.rules if ":" in rule)
        return value in self.rules or (value.startswith(begins) and not value.endswith(":"))

    def _error(self, value: Any) -> UsageError:
        return UsageError(f"setting {self.name} must be {self.describe()}; got {value!r}")


def _parse_bool(text: str) -> bool:
    known = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if text.lower() not in known:
        raise ValueError(text)
    return known[text.lower()]


_PARSERS: dict[type, Callable[[str], Any]] = {bool: _parse_bool, int: int, float: float, str: str}


def setting(
    default: Any,
    about: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    kind: type | None = None,
    rules: tuple[str, ...] = (),
) -> Any:
    """Declare a field of a scheme's dataclass as a setting.

    ``kind`` is needed only where the default is None, which makes the setting optional.
    """
    real_kind = kind if kind is not None else type(default)
    options = {
        "kind": real_kind,
        "help": about,
        "choices": choices,
        "minimum": minimum,
        "maximum": maximum,
        "optional": default is None,
        "rules": rules,
    }
    return field(default=default, metadata={"setting": options})


def settings_of(scheme: type, /) -> tuple[Setting, ...]:
    """The settings that a scheme's dataclass declares, in the order of its fields."""
    found = []
    for item in fields(scheme):
        if "setting" in item.metadata:
            assert item.default is not MISSING
            found.append(Setting(name=item.name, default=item.default, **item.metadata["setting"]))
    return tuple(found)
