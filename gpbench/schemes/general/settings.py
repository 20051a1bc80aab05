"""Settings of the schemes for any likelihood (sheth2015), how rows are observed, and the active set.

Counts, two classes, ordinal categories, numbers. A method trains on all rows, with an active set as inducing inputs, or
on the active set's own rows alone (``sod-``: the paper's subset of data). Where it starts from, and what is learned
besides q, is the same for both. Inside, everything works with f - c, whose prior mean is 0.

=========  ===================================================================================  ========
symbol     meaning                                                                              shape
=========  ===================================================================================  ========
f          latent function, of constant prior mean c                                            (n,)
ℓ          log p(y | f) of each row                                                             (n,)
φ          c, where it is a parameter, and the likelihood's own parameters                      (k,)
Z, M       active set: inducing inputs, and how many
=========  ===================================================================================  ========
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from gpbench.errors import UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.likelihoods import Gaussian, Likelihood, Logit, Ordinal, Poisson, Probit, likelihood_from_spec
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.optimize.maximise import LOG_BOUND
from gpbench.optimize.unknowns import Part
from gpbench.schemes import settings
from gpbench.schemes.base import run_training, setting, settings_of
from gpbench.schemes.settings import FROM, KernelSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.schemes.base import Fit, OnStep, Training

__all__ = [
    "ActiveSet",
    "GeneralScheme",
    "Observation",
    "edges",
    "gradient_tolerance",
    "learn_slope",
    "likelihood",
    "nodes",
    "settled",
    "slope",
    "value_tolerance",
]

BY_TASK = {"binary": "logit", "count": "poisson", "ordinal": "ordinal"}
"""The likelihood of a task unless another is named."""

_WITHOUT_PARAMETERS = frozenset({"logit", "probit"})
"""Likelihoods of which nothing is learned, the constant mean included."""

_MEAN_BOUND = 50.0
_GAP_BOUND = 14.0
"""Of log gaps: edges never meet."""


def likelihood(*choices: str) -> Any:
    """Which likelihood, of those that a scheme can do."""
    return setting(
        "auto",
        "likelihood; auto: logit for two classes, poisson for counts, ordinal for ordered categories",
        choices=("auto", *choices),
    )


def edges() -> Any:
    """Where the edges of ordinal categories begin."""
    return setting(None, "ordinal: first edges, such as -1,0,1; none: by the shares of the categories", kind=str)


def slope() -> Any:
    """Where the slope of an ordinal likelihood begins."""
    return setting(1.0, "ordinal: first slope of the likelihood", minimum=1e-3, maximum=1e3)


def learn_slope() -> Any:
    """Whether the slope moves."""
    return setting(False, "ordinal: whether the slope is learned; the prior variance plays the same part")


def nodes() -> Any:
    """Of expectations under a normal law."""
    return setting(20, "Gauss-Hermite nodes where there is no closed form", minimum=2, maximum=1000)


def gradient_tolerance() -> Any:
    """Of the search for q, as in the paper (its footnote 3)."""
    return setting(1e-5, "largest gradient in q at the end (nats)", minimum=0.0, maximum=1e6)


def value_tolerance() -> Any:
    """Of the search for q, as in the paper (its footnote 3)."""
    return setting(
        1e-9, "rise of the bound that ends the search for q (nats); 0: gradients alone do", minimum=0.0, maximum=1.0
    )


class Tolerances(Protocol):
    """Settings of a search for q."""

    @property
    def gradient_tolerance(self) -> float:
        """See the setting."""

    @property
    def value_tolerance(self) -> float:
        """See the setting."""


def settled(tolerances: Tolerances, gradient: float, *, increase: float) -> bool:
    """Whether a search for q has converged, by the paper's rules (its footnote 3).

    Parameters
    ----------
    tolerances : Tolerances
        The scheme.
    gradient, increase : float
        Largest entry of the gradient in q, and how much the bound has risen since the last iteration (nats).
    """
    return gradient <= tolerances.gradient_tolerance or increase <= (tolerances.value_tolerance or -np.inf)


@dataclass(frozen=True)
class Observation:
    """How rows are observed: p(y | f) with f = c + f₀, f₀ of prior mean 0.

    Parameters
    ----------
    likelihood : Likelihood
    mean : float
        c.
    has_mean : bool
        Whether c is a parameter; else it stays.
    """

    likelihood: Likelihood
    mean: float = 0.0
    has_mean: bool = False

    @property
    def free(self) -> Array:
        """φ: c if it is a parameter, then the likelihood's own, shape (k,)."""
        own = self.likelihood.free
        return np.concatenate([[self.mean], own]) if self.has_mean else own

    @property
    def free_names(self) -> tuple[str, ...]:
        """One name for each entry of φ."""
        own = tuple(f"{self.likelihood.name}.{name}" for name in self.likelihood.free_names)
        return ("mean", *own) if self.has_mean else own

    def with_free(self, values: Array) -> Observation:
        """The same with other parameters φ, shape (k,)."""
        if not self.has_mean:
            return replace(self, likelihood=self.likelihood.with_free(values))
        return replace(self, mean=float(values[0]), likelihood=self.likelihood.with_free(values[1:]))

    def values(self) -> dict[str, float]:
        """φ by name."""
        return dict(zip(self.free_names, self.free.tolist(), strict=True))

    def parts(self, y: Labels, *, learn_slope: bool) -> dict[str, Part]:
        """The entries of φ that targets y (n,) tell anything about, by name, each of shape (1,), for a search."""
        moves = self.likelihood.identified_by(y)
        if self.has_mean:
            moves = np.concatenate([[True], moves])
        found = {}
        for name, value, moving in zip(self.free_names, self.free, moves, strict=True):
            far = LOG_BOUND
            if name == "mean" and isinstance(self.likelihood, Gaussian):  # the mean of numbers may be anything
                far = np.inf
            elif name == "mean" or name.endswith(".edge"):
                far = _MEAN_BOUND
            elif ".log_gaps" in name:
                far = _GAP_BOUND
            if moving and (learn_slope or not name.endswith(".log_slope")):
                found[name] = Part(value=np.array([value]), low=-far, high=far)
        return found

    def moved(self, values: Mapping[str, Array]) -> Observation:
        """The same with other values of those entries of φ that are named, each of shape (1,)."""
        own = zip(self.free_names, self.free, strict=True)
        return self.with_free(np.array([values[name][0] if name in values else value for name, value in own]))

    def named(self, free: Array) -> dict[str, Array]:
        """Something of φ's shape (k,) by name, each entry of shape (1,)."""
        return {name: free[i : i + 1] for i, name in enumerate(self.free_names)}

    def expectations(self, y: Labels, mu: Array, s: Array) -> tuple[Array, Array, Array]:
        """E ℓ for f₀ ~ N(mu, s), and its derivatives in mu and s, each of shape (n,)."""
        return self.likelihood.expectations(y, mu + self.mean, s)

    def gradient(self, *, by_mean: float, own: Array) -> Array:
        """The gradient in φ (k,), from those in c and in the likelihood's own parameters."""
        return np.concatenate([[by_mean], own]) if self.has_mean else own


@dataclass(frozen=True, eq=False)
class ActiveSet:
    """Inducing inputs, and rows to estimate hyper-parameters from.

    Attributes
    ----------
    Z : (M, d)
        Inducing inputs.
    y : (M,) or None
        Their targets, where they are rows.
    rows, targets : (M, d), (M,)
        Z and y, or as many random rows where Z holds centres.
    """

    Z: Array
    y: Labels | None
    rows: Array
    targets: Labels

    @classmethod
    def choose(cls, rule: InducingRule, X: Rows, y: Labels) -> ActiveSet:
        """By the rule, from the training rows."""
        Z, targets = rule.active_set(X, y)
        if targets is not None:
            return cls(Z, targets, Z, targets)
        rows, others = InducingRule("random", count=min(len(Z), len(X)), seed=rule.seed).active_set(X, y)
        assert others is not None
        return cls(Z, None, rows, others)


@dataclass(frozen=True, kw_only=True)
class GeneralScheme(KernelSettings):
    """A scheme for any likelihood, with the settings that all of them read.

    A subclass says in ``start`` how training begins. Where it does the ordinal likelihood it declares ``edges``,
    ``slope`` and ``learn_slope``; where it takes expectations, ``nodes``.
    """

    link: str = likelihood("logit", "probit", "poisson", "ordinal", "gaussian")
    hyperparameters: str = setting(
        "learned",
        "whether kernel, constant mean and likelihood are learned; active-laplace: estimated by Laplace's marginal "
        "likelihood on the active set (on as many random rows where it holds centres), then fixed; from:METHOD: fixed "
        "where METHOD's ended on the same split",
        choices=("learned", "fixed", "active-laplace"),
        rules=(FROM,),
    )
    mean: float | None = setting(
        None, "counts, numbers: first constant mean of f; none: by the mean target", kind=float, minimum=-50, maximum=50
    )
    hyper_gradient_tolerance: float = setting(
        1e-3, "largest gradient in the hyper-parameters at the end (nats)", minimum=0.0, maximum=1e6
    )
    hyper_value_tolerance: float = setting(
        1e-7, "relative rise of the bound at the end of the search for them", minimum=0.0, maximum=1.0
    )
    memory: int = settings.memory(100)

    name: ClassVar[str]
    if TYPE_CHECKING:
        edges: str | None
        slope: float
        learn_slope: bool

    @property
    def nodes(self) -> int:
        """Gauss-Hermite nodes; a scheme that takes expectations has them as a setting."""
        return 20

    @abstractmethod
    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,
    ) -> Training:
        """Training at its beginning; arguments as in ``fit``."""

    def likelihood(self, task: str, n_classes: int) -> Likelihood:
        """The likelihood of the settings, or of the task.

        Raises
        ------
        UsageError
            There is none for the task, or the scheme or the likelihood cannot do it.
        """
        name = BY_TASK.get(task) if self.link == "auto" else self.link
        if name is None or (task == "binary" and n_classes != 2):
            raise UsageError(f"{self.name} does two classes, counts and ordinal categories; got task {task}")
        self._check_known(name, f" for task {task}")
        found = self._named(name, n_classes)
        if task not in found.tasks:
            raise UsageError(f"likelihood {name} is for {', '.join(sorted(found.tasks))} targets; got task {task}")
        return found

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
        """Train; see :class:`gpbench.schemes.base.Scheme`."""
        self._check_known(likelihood.name, "")
        likelihood.check_targets(y, classes)
        return run_training(
            self.name,
            lambda: self.start(X, y, inducing=inducing, likelihood=likelihood, classes=classes, rng=rng),
            on_step,
        )

    def observation(self, likelihood: Likelihood, y: Labels, classes: int) -> Observation:
        """The likelihood and constant mean that training starts from, by the targets y (n,) that it sees.

        Raises
        ------
        UsageError
            The edges are none, or not as many as the categories need; what is given is of another likelihood.
        """
        if self.given is not None and likelihood.name not in _WITHOUT_PARAMETERS:
            found = likelihood_from_spec(self.given.likelihood)
            if found.name != likelihood.name:
                raise UsageError(f"the hyper-parameters that are given must be of {likelihood.name}; got {found.name}")
            found.n_latent(classes)
            return Observation(found, self.given.mean, has_mean=not isinstance(found, Ordinal))
        if isinstance(likelihood, Ordinal):
            if self.edges is None:
                counts = np.bincount(np.asarray(y), minlength=classes).tolist()
                likelihood = Ordinal.of_counts(counts, slope=self.slope, nodes=self.nodes)
            likelihood.n_latent(classes)
        if isinstance(likelihood, Poisson):
            least = 0.5 / len(y)  # half an event in all where there is none
            first = math.log(max(float(np.mean(y)), least)) if self.mean is None else self.mean
            return Observation(likelihood, first, has_mean=True)
        if isinstance(likelihood, Gaussian):
            values = np.asarray(y, dtype=np.float64)
            spread = max(float(values.var()), 1e-6)
            first = float(values.mean()) if self.mean is None else self.mean
            return Observation(Gaussian(spread), first, has_mean=True)
        return Observation(likelihood)

    def parts(self, observation: Observation, y: Labels) -> dict[str, Part]:
        """What of an observation is learned from targets y (n,)."""
        learn_slope = isinstance(observation.likelihood, Ordinal) and self.learn_slope
        return observation.parts(y, learn_slope=learn_slope)

    def hyper_search(self) -> LBFGSB:
        """The search for hyper-parameters; sheth2015 (figure 4) has L-BFGS."""
        return LBFGSB(
            memory=self.memory,
            gradient_tolerance=self.hyper_gradient_tolerance,
            value_tolerance=self.hyper_value_tolerance,
        )

    def _check_known(self, name: str, where: str) -> None:
        choices = next(each.choices for each in settings_of(type(self)) if each.name == "link")
        known = sorted(set(choices) - {"auto"})
        if name not in known:
            raise UsageError(f"{self.name} does the likelihoods {', '.join(known)}; got {name}{where}")

    def _named(self, name: str, classes: int) -> Likelihood:
        if name == "logit":
            return Logit(self.nodes)
        if name == "probit":
            return Probit(self.nodes)
        if name == "poisson":
            return Poisson()
        if name == "gaussian":
            return Gaussian()
        if self.edges is None:
            return Ordinal.of_counts([1] * classes, slope=self.slope, nodes=self.nodes)
        try:
            edges = tuple(float(part) for part in self.edges.split(","))
        except ValueError:
            raise UsageError(f"edges must be numbers with commas between, such as -1,0,1; got {self.edges!r}") from None
        return Ordinal(edges, slope=self.slope, nodes=self.nodes)
