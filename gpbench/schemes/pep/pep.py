"""pep: sparse power expectation propagation with free inducing inputs (after Bui, Yan and Turner 2017).

=========  ==================================================================================  ==========
symbol     meaning                                                                             shape
=========  ==================================================================================  ==========
n, D, M    rows, inputs, inducing inputs
a          power: 0 the sparse KL bound, 1 EP under FITC; between them stable and good at both  scalar
θ, ℓ, v    log hyper-parameters; length scales and variances among them                        (P,)
Z          inducing inputs                                                                     (M, D)
φ          constant mean and the likelihood's own parameters, where it has any                 (k,)
c, d       sites, one for each row                                                             (n,)
E          the energy, power EP's log evidence                                                 scalar
=========  ==================================================================================  ==========

The whole algorithm:

1. Start: ℓ = √D, v = e; Z by k-means++ and one of Lloyd's steps on 2,000 rows; sites as Laplace's method sets them at
   f = 0 (logit: d = 1/4, c = y/2).
2. L-BFGS-B climbs E(θ, Z, φ) + log p(θ). Each evaluation takes the sites of the best one so far, updates all of them
   once in parallel (:mod:`gpbench.schemes.pep.rows`), and gives E and its gradient at the sites that came of it
   (:mod:`gpbench.schemes.pep.energy`). The gradient is exact at any sites, so that they need not settle. Where E no
   longer rises, another search begins there with updates half as long, until one brings less than .1 %: sites that
   swing between two states give a high E that no step can better (image ended there after 26 evaluations, NLL .070
   instead of .062).
3. Stages: first a few evaluations on some rows, then on more, then on all; the rows of a stage are among those of the
   next. A stage begins with the sites of one update in which q itself is the cavity. Stages end by their count, not by
   convergence: what has converged on few rows is a bad start (ring: .15 to .21 instead of .06).
4. From 10,000 to 50,000 rows a tenth is held out, 2,000 at most; at the end of a = 1/2 a few evaluations at a = .9 are
   tried: they are kept where they lower the NLL of the rows held out, which then come back for the last evaluations.
   Near 1 many rows are explained better (electricity .405, then .396), few and noisy ones worse (german .528, .590).
   With three classes or more it is the other way about, at any number of rows: a = 1 first, and a = 1/2 is tried.
   There the latent functions' noise 1 is taken as part of the cavity, so that at a < 1 rows that say nothing cost up
   to 1/a times their share, and noise is fitted (ten noisy classes: 2.29, and 1.84 at a = 1), while clean rows gain
   (vowel .153, and .227 at a = 1).
5. Beyond 50,000 rows a tail of mini-batches takes the place of all rows (:mod:`gpbench.schemes.pep.tail`).

The prior on θ is weak (:mod:`gpbench.model.kernel_prior`). Without it a few hundred noisy rows are learned by heart
(breast-cancer .083 instead of .068).

Beyond the paper: the gradient at any sites, stages, prior, the tail, and float32 blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from gpbench.errors import NumericalError, UsageError
from gpbench.model.basis import Basis
from gpbench.model.gaussian import GaussianQ
from gpbench.model.kernel_prior import PRIOR_VARIANCE, KernelPrior
from gpbench.model.likelihoods import Gaussian, Likelihood, Ordinal, Poisson, RobustMax, likelihood_from_spec
from gpbench.model.likelihoods import likelihood as likelihood_named
from gpbench.model.posterior import Latent, Posterior
from gpbench.model.rows import ChosenRows
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.optimize.maximise import LOG_BOUND, Point, maximise
from gpbench.optimize.training import Minibatches
from gpbench.optimize.unknowns import Part, Unknowns
from gpbench.schemes import settings
from gpbench.schemes.base import Training, run_training, setting
from gpbench.schemes.pep.energy import JITTER, Energy, Evaluation, Sites
from gpbench.schemes.pep.rows import first_sites
from gpbench.schemes.pep.stages import HELD_OUT_SHARE, held_out, parse_stages
from gpbench.schemes.pep.tail import Tail
from gpbench.schemes.settings import GPSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpbench.model.inducing import InducingRule
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.training import OnStep, StoppedBy
    from gpbench.schemes.base import Fit
    from gpbench.schemes.pep.stages import Stage

__all__ = ["PEP"]

USUAL_POWER = 0.5
LOOKBACK = 4
"""Evaluations over which E must rise, or a search is over."""
RISE = 1e-3
"""Relative rise of E over a whole search, another one than the first, below which training has converged."""
SHORTER = 0.5
"""Factor of the updates' length, from one search to the next."""
LENGTH_BOUNDS, VARIANCE_BOUNDS = (-5.0, 7.0), (-7.0, 9.0)
"""Of log ℓ and log v."""
LARGEST_JITTER = 1e-3
FIXED_TOLERANCE = {"single": 1e-6, "double": 1e-9}
"""Relative change of E at which the sites of a fixed kernel have settled; they are then within its root."""
CLASSES_RATE, FIRST_UPDATES = 0.7, 5
"""Length of the first updates of the sites of several classes, whose likelihood does not change when all latent
functions move together: updates of length 1 in all of them at once overshoot by up to 2. And the updates at the first
evaluation, which begins from none.
"""
COUNTS_IN_SINGLE = 1e5
"""Sum of counts up to which float32 will do."""
NODES_OF_BOUND = 24
LATENT_NOISE = 1.0
"""Of each class's latent function: robust-max knows no scale. With epsilon = 0 that is the multinomial probit."""
EDGE_BOUND, GAP_BOUND = 50.0, 14.0
"""Of edges and log gaps of ordered categories."""

CHOICES = ("logit", "probit", "robust-max", "poisson", "gaussian", "ordinal")
LIKELIHOODS = {"binary": "logit", "multiclass": "robust-max", "count": "poisson", "ordinal": "ordinal"}
"""The likelihood of a task unless another is named."""


@dataclass(frozen=True, kw_only=True)
class PEP(GPSettings):
    """Sparse power EP under L-BFGS-B, a site for each row, everything learned."""

    likelihood: str = setting(
        "auto",
        "likelihood; auto: logit for two classes, robust-max for more, poisson for counts, ordinal for ordered "
        "categories",
        choices=("auto", *CHOICES),
    )
    epsilon: float = setting(
        1e-3, "several classes: share of labels that are drawn at random", minimum=0.0, maximum=0.5
    )
    variance: float = setting(PRIOR_VARIANCE, "first prior variance of each part of the kernel", minimum=1e-8)
    noise: float = setting(0.0, "first variance of the white noise; 0: the kernel has none", minimum=0.0, maximum=1e8)
    inducing_rule: str = setting(
        "kmeans",
        "how inducing inputs are chosen to begin with: k-means centres and k-means++ seeds by halves, centres, or "
        "random rows",
        choices=("kmeans", "mixed", "random"),
    )
    kmeans_rows: int = setting(2000, "random rows that k-means looks at, since it runs on the clock", minimum=1)
    kmeans_steps: int = setting(1, "of Lloyd's steps at most; the inducing inputs move anyway", minimum=1)
    learn_inducing: bool = settings.learn_inducing()
    power: float = setting(
        USUAL_POWER, "0: the sparse KL bound, 1: EP under FITC, whose sites may run away", minimum=0.0, maximum=1.0
    )
    prior: str = settings.prior()
    stages: str | None = setting(
        None,
        "evaluations x rows, such as 8x2000,40xall; most: all but a tenth, so that another power can be tried, as in "
        "40xmost,20xmost@0.9,8xall; tail: mini-batches, as in 12x8000,1000xtail; none: by the number of rows, with "
        "@0.9 beyond 10,000 where the power is 0.5; several classes then begin at power 1 and try 0.5",
        kind=str,
    )
    batch_size: int = settings.batch_size(1000)
    max_iterations: int = settings.max_iterations(10_000, "evaluations and steps of the tail at most, all together")
    memory: int = settings.memory()
    tolerance: float = setting(
        1e-4, "relative rise of the energy within four evaluations that is still progress", minimum=0.0, maximum=1.0
    )
    precision: str = setting(
        "single",
        "of the blocks of rows (double for counts of 1e5 in all); sums and all else are double",
        choices=("single", "double"),
    )

    name: ClassVar[str] = "pep"

    def __post_init__(self) -> None:
        parse_stages(self.stages, 1)

    def likelihood_for(self, task: str, n_classes: int) -> Likelihood:
        """The likelihood of the settings, or of the task.

        Raises
        ------
        UsageError
            There is none for the task, or the likelihood cannot do it.
        """
        name = LIKELIHOODS.get(task) if self.likelihood == "auto" else self.likelihood
        if name is None or (task == "binary" and n_classes != 2):
            raise UsageError(f"{self.name} does classes, counts and ordered categories; got task {task}")
        found: Likelihood
        if name == "ordinal":
            found = Ordinal.of_counts([1] * max(n_classes, 2))
        elif name == "robust-max":
            found = RobustMax(epsilon=self.epsilon, rule="hermite", nodes=NODES_OF_BOUND, noise=LATENT_NOISE)
        else:
            found = likelihood_named(name)
        if task not in found.tasks:
            raise UsageError(f"likelihood {name} is for {', '.join(sorted(found.tasks))} targets; got task {task}")
        stages = parse_stages(self.stages, HELD_OUT_SHARE, tail=found.n_latent(n_classes) == 1)
        if isinstance(found, RobustMax) and found.epsilon == 0.0 and 0.0 in {self.power, *(s.power for s in stages)}:
            raise UsageError("at power 0 robust-max needs epsilon > 0, since a wrong class has no logarithm; got 0")
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
        """Train; see :class:`gpbench.schemes.base.Scheme`.

        Raises
        ------
        UsageError
            The likelihood is none that the scheme does.
        """
        if likelihood.name not in CHOICES:
            raise UsageError(f"{self.name} does the likelihoods {', '.join(CHOICES)}; got {likelihood.name}")
        likelihood.check_targets(y, classes)
        return run_training(
            self.name,
            lambda: PEPTraining(self, X, y, inducing=inducing, likelihood=likelihood, classes=classes, rng=rng),
            on_step,
        )

    def differentiable(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,
    ) -> tuple[Callable[[Array], tuple[float, Array]], Array]:
        """The objective, as a function of all that is learned, with its gradient, and where training begins."""
        training = PEPTraining(self, X, y, inducing=inducing, likelihood=likelihood, classes=classes, rng=rng)
        return training.differentiable()

    def observed(self, likelihood: Likelihood, y: Labels, classes: int) -> tuple[Likelihood, float]:
        """The likelihood and constant mean that training starts from, by the targets y (n,) or as they are given.

        Raises
        ------
        UsageError
            What is given is of another likelihood.
        """
        if self.given is not None and likelihood.free_names + ("mean",) * has_mean(likelihood):
            found = likelihood_from_spec(self.given.likelihood)
            if found.name != likelihood.name:
                raise UsageError(f"the hyper-parameters that are given must be of {likelihood.name}; got {found.name}")
            return found, self.given.mean
        if isinstance(likelihood, Ordinal):
            return Ordinal.of_counts(np.bincount(np.asarray(y), minlength=classes).tolist()), 0.0
        values = np.asarray(y, dtype=np.float64)
        if isinstance(likelihood, Poisson):
            return likelihood, math.log(max(float(values.mean()), 0.5 / len(y)))  # half an event where there is none
        if isinstance(likelihood, Gaussian):
            return Gaussian(max(float(values.var()), 1e-6)), float(values.mean())
        return likelihood, 0.0


class _State(NamedTuple):
    """A point of a search, evaluated."""

    values: dict[str, Array]
    likelihood: Likelihood
    mean: float
    at: Evaluation


class _Shown(NamedTuple):
    """What a posterior is made of."""

    bases: tuple[Basis, ...]
    qs: tuple[GaussianQ, ...]
    likelihood: Likelihood
    mean: float


class _Trial(NamedTuple):
    """What another power has to beat: the posterior before it, of which power, and its NLL on the rows held out."""

    shown: _Shown
    power: float
    nll: float


class _Settled(Exception):
    """The energy no longer rises."""


class PEPTraining(Training):
    """The stages, and the best state so far."""

    unit = "evaluation"

    def __init__(
        self,
        scheme: PEP,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(limit=scheme.max_iterations)
        self._scheme, self._X, self._y, self._classes, self._rng = scheme, X, np.asarray(y), classes, rng
        self._kernel = scheme.initial_kernel(X)
        self._likelihood, self._mean = scheme.observed(likelihood, y, classes)
        one, learns = likelihood.n_latent(classes) == 1, scheme.hyperparameters == "learned" or scheme.learn_inducing
        tries = learns and scheme.power == USUAL_POWER and (one or classes > 2)
        self._stages = parse_stages(scheme.stages, len(X), tail=one, tries=tries)
        self._prior = KernelPrior(self._kernel, scheme.kernel, X.shape[1], weak=scheme.prior == "weak")
        most = max((stage.rows for stage in self._stages if stage.rows is not None), default=0)
        self._order = rng.choice(len(X), size=most, replace=False) if most else np.empty(0, dtype=np.int64)
        held = held_out(self._stages, len(X))
        self._held = np.sort(rng.choice(len(X), size=held, replace=False)) if held else np.empty(0, dtype=np.int64)
        self._power = 1.0 if tries and not one and scheme.stages is None else scheme.power
        self._F = self._likelihood.n_latent(classes)
        self._usual_rate = 1.0 if self._F == 1 else CLASSES_RATE
        self._values: dict[str, Array] = {}
        for k in range(self._F):
            self._values |= {f"theta{k}": self._kernel.theta, f"Z{k}": inducing.for_latent(k).choose(X)}
        if has_mean(self._likelihood):
            self._values["mean"] = np.array([self._mean])
        if len(self._likelihood.free):
            self._values["free"] = self._likelihood.free
        self._jitter, self._evaluations, self._clipped, self._least_left = JITTER, 0, 0, 1.0
        self._bound: float | None = None
        self._last_rows = len(X)
        bases = self._bases(self._values)
        qs = tuple(GaussianQ.prior(len(basis.Z)) for basis in bases)
        self._shown = _Shown(bases, qs, self._likelihood, self._mean)
        self._trial: _Trial | None = None
        self._instead: _Shown | None = None  # of what is tried, while it is no better

    def train(self) -> StoppedBy:
        """All stages, one after the other."""
        ended: StoppedBy = "schedule"
        for stage in self._stages:
            if self.trainer.left <= 0:
                return "iterations"
            if stage.tail:
                self._tail(stage.steps)
                ended = "schedule"
            elif stage.power is None:
                ended = self._climb(stage)
            elif self._try(stage, stage.power):
                ended = "schedule"
        return "iterations" if ended == "schedule" and self.trainer.left <= 0 else ended

    def posterior(self) -> Posterior:
        """The posterior of the best state of the last search, or where the tail has come to."""
        return self._posterior(self._instead or self._shown)

    def bound(self) -> float | None:
        """The energy on all rows, where it is known."""
        return self._bound

    def facts(self) -> dict[str, Any]:
        """Evaluations of the energy, rows whose sites were clipped at them, least u, jitter, and power at the end."""
        return {
            "evaluations": self._evaluations,
            "clipped": self._clipped,
            "least_left": self._least_left,
            "relative_jitter": self._jitter,
            "power": self._power if self._trial is None or self._instead is None else self._trial.power,
        }

    def _climb(self, stage: Stage) -> StoppedBy:
        """Searches on the rows of a stage, the first from the best so far, each other from where the one before ended.

        Returns
        -------
        str
            ``converged``: E no longer rises. ``schedule``: the evaluations of the stage are used up.
            ``failed-to-improve``: a search found no better point though its gradient is not small.
        """
        scheme, trainer = self._scheme, self.trainer
        X, y = self._X, self._y
        if stage.rows is not None:
            chosen = np.sort(self._order[: stage.rows])
            X, y = X[chosen], y[chosen]
        elif stage.most:
            chosen = np.setdiff1d(np.arange(len(y)), self._held)
            X, y = ChosenRows(X, chosen), y[chosen]
        whole = len(y) == len(self._y)
        energy = self._energy(X, y)
        sites = self._first_sites(energy)
        last = trainer.count + min(stage.steps, trainer.left)
        unknowns, scale, rate = self._unknowns(), 100.0 / len(y), self._usual_rate
        if not unknowns.size:
            return self._settle(energy, sites, last=last, whole=whole)
        seen: list[float] = []

        def begin(x: Array) -> None:
            self._jitter = JITTER
            self._bases(unknowns.values(x))

        def objective(x: Array) -> Point[_State]:
            values = {name: np.array(value) for name, value in unknowns.values(x).items()}
            state = self._evaluate(energy, values, sites, rate=rate)
            value, gradient = self._with_prior(state)
            return Point(scale * value, scale * unknowns.gradient(gradient), state)

        def evaluated(best: _State, value: float) -> None:
            nonlocal sites
            self._show(best, whole=whole)
            sites = best.at.sites
            seen.append(value)
            trainer.report(self._bound)
            before = seen[-1 - LOOKBACK] if len(seen) > LOOKBACK else -math.inf
            if stage.rows is None and value - before < scheme.tolerance * abs(value):
                raise _Settled

        def search() -> StoppedBy:
            try:
                return maximise(
                    objective,
                    unknowns.x,
                    search=LBFGSB(memory=scheme.memory),
                    evaluations=lambda: last - trainer.count,
                    bounds=unknowns.bounds,
                    begin=begin,
                    on_evaluation=evaluated,
                ).stopped_by
            except _Settled:
                return "converged"

        search()
        while trainer.count < last:
            rate *= SHORTER
            unknowns, seen = self._unknowns(), []
            try:
                ended = search()
            except NumericalError:
                if seen:
                    raise
                return "failed-to-improve"  # there is no value where the search before ended
            if trainer.count < last and seen[-1] - seen[0] < RISE * abs(seen[-1]):
                return ended
        return "schedule"

    def _settle(self, energy: Energy, sites: Sites, *, last: int, whole: bool) -> StoppedBy:
        """Updates of the sites alone, where nothing is learned; half as long once E has fallen."""
        rate, before, tolerance = self._usual_rate, -math.inf, FIXED_TOLERANCE[self._scheme.precision]
        while self.trainer.count < last:
            state = self._evaluate(energy, self._values, sites, rate=rate)
            sites, value = state.at.sites, state.at.value
            self._show(state, whole=whole)
            self.trainer.report(self._bound)
            if abs(value - before) <= tolerance * abs(value):
                return "converged"
            if value < before:
                rate = SHORTER * self._usual_rate
            before = value
        return "schedule"

    def _try(self, stage: Stage, power: float) -> bool:
        """A stage at another power, kept, and shown, only where it lowers the NLL of the rows held out: whether so."""
        values, shown, rows, usual, bound = self._values, self._shown, self._last_rows, self._power, self._bound
        self._trial = _Trial(shown, usual, self._held_out_nll(shown))
        self._power, self._instead = power, shown
        try:
            self._climb(stage)
            better = self._instead is None
        except NumericalError:
            better = False
        self._instead = self._trial = None
        if not better:
            self._values, self._shown, self._last_rows, self._power, self._bound = values, shown, rows, usual, bound
        return better

    def _held_out_nll(self, shown: _Shown) -> float:
        score = self._posterior(shown).score(self._X[self._held], self._y[self._held])
        return -float(np.mean(score.log_density))

    def _posterior(self, shown: _Shown) -> Posterior:
        bases, qs, likelihood, mean = shown
        latents = tuple(Latent.of(basis, q, mean=mean) for basis, q in zip(bases, qs, strict=True))
        return Posterior(latents, likelihood, classes=self._classes)

    def differentiable(self) -> tuple[Callable[[Array], tuple[float, Array]], Array]:
        """The objective on all rows and its gradient with the first sites held, and where it begins."""
        energy, unknowns = self._energy(self._X, self._y), self._unknowns()
        sites = self._first_sites(energy)

        def objective(x: Array) -> tuple[float, Array]:
            state = self._evaluate(energy, dict(unknowns.values(x)), sites, rate=self._usual_rate, updates=0)
            value, gradient = self._with_prior(state)
            return value, unknowns.gradient(gradient)

        return objective, unknowns.x

    def _energy(self, X: Rows, y: Labels) -> Energy:
        return Energy(X, y, power=self._power, single=self._single(y), check=self.trainer.check)

    def _single(self, y: Labels) -> bool:
        """Whether blocks are float32: beside the sites of many counts, as precise as the counts, it loses the prior."""
        many = isinstance(self._likelihood, Poisson) and float(np.sum(y)) > COUNTS_IN_SINGLE
        return self._scheme.precision == "single" and not many

    def _evaluate(
        self, energy: Energy, values: dict[str, Array], sites: Sites, *, rate: float, updates: int | None = None
    ) -> _State:
        """The energy at some values, the sites updated by so much, once or as is said."""
        likelihood, mean = self._observed(values)
        if updates is None:
            updates = 1 if self._evaluations or self._F == 1 else FIRST_UPDATES
        at = energy.at(
            [self._kernel.with_theta(values[f"theta{k}"]) for k in range(self._F)],
            [values[f"Z{k}"] for k in range(self._F)],
            likelihood=likelihood,
            mean=mean,
            sites=sites,
            jitter=self._jitter,
            updates=updates,
            rate=rate,
        )
        self._evaluations += 1
        self._clipped += at.clipped
        self._least_left = min(self._least_left, at.least_left)
        return _State(values, likelihood, mean, at)

    def _with_prior(self, state: _State) -> tuple[float, dict[str, Array]]:
        """E + log p(θ) and its gradient."""
        value, gradient = state.at.value, dict(state.at.gradient)
        for k in range(self._F):
            own, slope = self._prior(state.values[f"theta{k}"])
            value += own
            gradient[f"theta{k}"] = gradient[f"theta{k}"] + slope
        return value, gradient

    def _tail(self, steps: int) -> None:
        """Mini-batches from where the stages have come to."""
        scheme, trainer = self._scheme, self.trainer
        (basis,), (q,), likelihood, mean = self._shown
        tail = Tail(
            basis,
            q,
            likelihood,
            grown=len(self._X) / self._last_rows,
            mean=mean,
            jitter=self._jitter,
            unknowns=self._unknowns(),
            prior=self._prior,
            power=self._power,
            single=self._single(self._y),
        )
        batches = Minibatches(len(self._X), scheme.batch_size, rng=self._rng)
        self._bound = None
        for _ in range(min(steps, trainer.left)):
            rows = batches.draw()
            tail.step(self._X[rows], self._y[rows], scale=batches.scale)
            self._shown = _Shown((tail.basis,), (tail.q,), tail.likelihood, tail.mean)
            trainer.report()

    def _first_sites(self, energy: Energy) -> Sites:
        bases, qs, likelihood, mean = self._shown
        if self._evaluations:
            return energy.sites_of(bases, qs, likelihood=likelihood, mean=mean)
        if self._F > 1:
            none = np.zeros((self._F, len(energy.y)))
            return Sites(none, none)
        c, d = first_sites(likelihood, energy.y, mean)
        return Sites(c[None], d[None])

    def _show(self, state: _State, *, whole: bool) -> None:
        shown = _Shown(state.at.bases, state.at.qs, state.likelihood, state.mean)
        if self._trial is not None:
            self._instead = None if self._held_out_nll(shown) < self._trial.nll else self._trial.shown
        self._values, self._shown = state.values, shown
        self._bound = state.at.value if whole else None
        self._last_rows = state.at.sites.c.shape[1]

    def _observed(self, values: Mapping[str, Array]) -> tuple[Likelihood, float]:
        likelihood = self._likelihood.with_free(values["free"]) if "free" in values else self._likelihood
        return likelihood, float(values["mean"][0]) if "mean" in values else self._mean

    def _bases(self, values: Mapping[str, Array]) -> tuple[Basis, ...]:
        """The bases of some values, with as little jitter as is needed."""
        while True:
            try:
                return tuple(self._basis(values[f"theta{k}"], values[f"Z{k}"]) for k in range(self._F))
            except NumericalError:
                if 10.0 * self._jitter > LARGEST_JITTER:
                    raise
                self._jitter *= 10.0

    def _basis(self, theta: Array, Z: Array) -> Basis:
        kernel, own = self._kernel.with_theta(theta), np.array(Z)
        return Basis(kernel, own, jitter=self._jitter * float(kernel.diag(own).mean()))

    def _unknowns(self) -> Unknowns:
        """What moves, Z in units of the length scales that it has now."""
        scheme, learns = self._scheme, self._scheme.hyperparameters == "learned"
        names = self._kernel.names
        low, high = np.full(len(names), -LOG_BOUND), np.full(len(names), LOG_BOUND)
        for i, name in enumerate(names):
            if "log_lengthscale" in name:
                low[i], high[i] = LENGTH_BOUNDS
            elif "log_variance" in name:
                low[i], high[i] = VARIANCE_BOUNDS
        lengths = [i for i, name in enumerate(names) if name.startswith("part0.log_lengthscale")]
        parts: dict[str, Part] = {}
        for k in range(self._F):
            theta = np.clip(self._values[f"theta{k}"], low, high)
            unit: Array | float = np.exp(theta[lengths]) if lengths else 1.0
            parts[f"theta{k}"] = Part(value=theta, free=learns, low=low, high=high)
            parts[f"Z{k}"] = Part(value=self._values[f"Z{k}"], free=scheme.learn_inducing, unit=unit)
        if "mean" in self._values:
            parts["mean"] = Part(value=self._values["mean"], free=learns)
        if "free" in self._values:
            parts["free"] = self._own_part(self._values["free"], learns=learns)
        return Unknowns(**parts)

    def _own_part(self, free: Array, *, learns: bool) -> Part:
        """The likelihood's own parameters; what the targets do not identify stays, and so does an ordinal slope."""
        names = self._likelihood.free_names
        far = np.array([GAP_BOUND if "log" in name else EDGE_BOUND for name in names])
        moves = self._likelihood.identified_by(self._y) & np.array([name != "log_slope" for name in names])
        return Part(value=free, free=learns, low=np.where(moves, -far, free), high=np.where(moves, far, free))


def has_mean(likelihood: Likelihood) -> bool:
    """Whether a constant mean of f is learned with it."""
    return isinstance(likelihood, Poisson | Gaussian)
