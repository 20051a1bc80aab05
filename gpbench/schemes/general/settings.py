"""Settings and ``fit`` of the schemes for any likelihood (sheth2015): counts, two classes, ordinal categories, numbers.

A method trains on all rows, with an active set as inducing inputs, or on the active set's own rows alone (``rows``
subset: the paper's subset of data). Where it starts from, and what is learned besides q, is the same for both.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gpbench.errors import UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.likelihoods import Gaussian, Likelihood, Logit, Ordinal, Poisson, Probit, likelihood_from_spec
from gpbench.schemes.base import setting
from gpbench.schemes.binary import trained
from gpbench.schemes.general.observation import Observation
from gpbench.schemes.row_limit import check_row_limit
from gpbench.schemes.settings import FROM, GPSettings

if TYPE_CHECKING:
    from gpbench.model.posterior import Posterior
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.schemes.base import OnStep
    from gpbench.schemes.binary import TrainingRun

__all__ = ["ActiveSet", "GeneralScheme"]

BY_TASK = {"binary": "logit", "count": "poisson", "ordinal": "ordinal"}
"""The likelihood of a task unless another is named."""

_WITHOUT_PARAMETERS = frozenset({"logit", "probit"})
"""Likelihoods of which nothing is learned, the constant mean included."""


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
class GeneralScheme(GPSettings):
    """A scheme for any likelihood; a subclass says in ``start`` how training begins."""

    link: str = setting(
        "auto",
        "likelihood; auto: logit for two classes, poisson for counts, ordinal for ordered categories",
        choices=("auto", "logit", "probit", "poisson", "ordinal", "gaussian"),
    )
    hyperparameters: str = setting(
        "learned",
        "whether kernel, constant mean and likelihood are learned; active-laplace: estimated by Laplace's marginal "
        "likelihood on the active set (on as many random rows where it holds centres), then fixed; from:METHOD: fixed "
        "where METHOD's ended on the same split",
        choices=("learned", "fixed", "active-laplace"),
        rules=(FROM,),
    )
    rows: str = setting(
        "all", "rows to train on: all with an active set, or the active set alone", choices=("all", "subset")
    )
    max_rows: int = setting(2000, "rows of a subset at most, since it needs matrices of their square", minimum=1)
    mean: float | None = setting(
        None, "counts, numbers: first constant mean of f; none: by the mean target", kind=float, minimum=-50, maximum=50
    )
    edges: str | None = setting(
        None, "ordinal: first edges, such as -1,0,1; none: by the shares of the categories", kind=str
    )
    slope: float = setting(1.0, "ordinal: first slope of the link", minimum=1e-3, maximum=1e3)
    learn_slope: bool = setting(False, "ordinal: whether the slope is learned; the prior variance plays the same part")
    nodes: int = setting(20, "Gauss-Hermite nodes where there is no closed form", minimum=2, maximum=1000)
    max_iterations: int = setting(5000, "iterations at most, over all settings of the hyper-parameters", minimum=1)
    block_rows: int = setting(1024, "rows looked at together; bounds the memory", minimum=1)

    name: ClassVar[str]
    likelihoods: ClassVar[frozenset[str]] = frozenset({"logit", "probit", "poisson", "ordinal", "gaussian"})

    def __post_init__(self) -> None:
        if self.rows == "subset" and self.inducing_rule != "random":
            raise UsageError(f"rows=subset trains on rows: it needs inducing_rule=random; got {self.inducing_rule}")

    @abstractmethod
    def start(
        self, X: Rows, y: Labels, *, active: ActiveSet, observation: Observation, classes: int, rng: np.random.Generator
    ) -> TrainingRun:
        """A training run at its beginning."""

    @property
    def title(self) -> str:
        """Its name in messages: that of the method on all rows, or on the subset."""
        return self.name if self.rows == "all" else self.name.replace("gvi-", "sod-")

    def likelihood(self, task: str, n_classes: int) -> Likelihood:
        """The likelihood of the settings, or of the task.

        Raises
        ------
        UsageError
            There is none for the task, or the scheme or the likelihood cannot do it.
        """
        name = BY_TASK.get(task) if self.link == "auto" else self.link
        if name is None or (task == "binary" and n_classes != 2):
            raise UsageError(f"{self.title} does two classes, counts and ordinal categories; got task {task}")
        if name not in self.likelihoods:
            known = ", ".join(sorted(self.likelihoods))
            raise UsageError(f"{self.title} does the likelihoods {known}; got {name} for task {task}")
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
    ) -> Posterior:
        """Train; see :class:`gpbench.schemes.base.Scheme`."""
        if likelihood.name not in self.likelihoods:
            known = ", ".join(sorted(self.likelihoods))
            raise UsageError(f"{self.title} does the likelihoods {known}; got {likelihood.name}")
        likelihood.check_targets(y, classes)

        def start() -> TrainingRun:
            active = ActiveSet.choose(inducing, X, y)
            if self.rows == "subset":
                self._check_subset(active)
            of_active = self.rows == "subset" or self.hyperparameters == "active-laplace"
            observation = self.observation(likelihood, active.targets if of_active else y, classes)
            return self.start(X, y, active=active, observation=observation, classes=classes, rng=rng)

        return trained(self.title, start, on_step)

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

    def _check_subset(self, active: ActiveSet) -> None:
        if active.y is None:
            raise UsageError(f"{self.title} trains on the active set, whose targets are not known")
        check_row_limit(self.title, len(active.Z), max_rows=self.max_rows)
