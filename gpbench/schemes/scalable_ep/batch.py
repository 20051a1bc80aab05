"""Training by scalable EP on all rows: sites and hyper-parameters move together, from one evaluation of the state.

========  ===================================================================================  ===========
symbol    meaning                                                                              shape
========  ===================================================================================  ===========
x         sites of all rows                                                                    (2R, n, F)
p         log hyper-parameters θ and inducing inputs Z of each latent function in turn, in      (k,)
          their units; what is fixed is left out
ε         damping of the site updates
========  ===================================================================================  ===========

An evaluation (:mod:`gpbench.schemes.scalable_ep.evidence`) gives the sites that match moments, log Z and its gradient;
sites take a damped step, p one of ascent. The paper's code updates sites, forms q(u) again and takes the gradient
there; moving both at once, as the paper words it, spares a third of an iteration, and they end at the same place. Under
``outer`` EP runs to its fixed point before each step.

Damping is halved where updates oscillate. Where a step leads to something that cannot be factorised, both are taken
back, and taken again at half the damping and half of every rate.

The paper's code lets rates grow by 2 % an iteration and damping fall by 1 %. Rates that grow by 10 % and damping that
stays reach the evidence of its 250 iterations in 80 (vehicle and vowel, M = 10 %), so that they are the default here.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gpbench.model.kernel_prior import KernelPrior
from gpbench.model.posterior import Posterior
from gpbench.optimize.fixed_point import FixedPointSearch, Proposal
from gpbench.optimize.maximise import LOG_BOUND
from gpbench.optimize.unknowns import Part, Unknowns
from gpbench.schemes.base import Training
from gpbench.schemes.scalable_ep.evidence import ScalableEP
from gpbench.schemes.scalable_ep.factors import BinaryFactors, PairFactors
from gpbench.schemes.settings import persist

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpbench.model.inducing import InducingRule
    from gpbench.model.kernels import Kernel
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.posterior import Latent
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.training import Index, StoppedBy
    from gpbench.schemes.scalable_ep.evidence import Evaluation, Gradient
    from gpbench.schemes.scalable_ep.factors import Factors
    from gpbench.schemes.scalable_ep.mgpc import EPGPC, MGPCScheme

__all__ = [
    "BatchTraining",
    "Damping",
    "EvidenceRule",
    "Hyperparameters",
    "MGPCTraining",
    "Problem",
    "SettledRule",
    "SignRates",
]

FIRST_DAMPING = 0.5
"""ε of updates of all rows, as in the code of villacampa2017."""
TURNS = -0.5
"""Cosine of two residuals in turn below which updates oscillate."""
WINDOW = 25
"""Iterations over which evidence must change."""
SETTLED = 1e-6
"""Without hyper-parameters to learn, training ends when no site changes by more, in the posterior's units."""


class Hyperparameters:
    """Hyper-parameters and inducing inputs of all latent functions, and where they stand in p.

    The unit of a log length scale is a half, since ascent is in log ℓ² (villacampa2017's code); that of an entry of Z
    the standard deviation of its column, which makes ascent indifferent to the units of X; that of all else is 1.

    Parameters
    ----------
    kernel : Kernel
        What each latent function begins with.
    Z : sequence of (M, d)
        First inducing inputs; numbers may differ.
    theta, inducing : bool
        Whether each is learned.
    prior : callable, optional
        Log density of a kernel's θ and its slope, which joins log Z for each latent function.

    Attributes
    ----------
    p : (k,)
        Where it begins; empty where nothing is learned.
    parts : list of slice
        The part of each latent function in p.
    lengthscales : list of (l,)
        Where the length scales of each latent function stand in p; empty where they are fixed.
    """

    def __init__(
        self, kernel: Kernel, Z: Sequence[Array], *, theta: bool, inducing: bool, prior: KernelPrior | None = None
    ) -> None:
        scales = np.array([0.5 if "lengthscales" in name else 1.0 for name in kernel.names])
        spread = np.concatenate(Z).std(axis=0)
        spread[spread == 0] = 1.0
        self._kernel, self._prior, self._names = kernel, prior, [(f"theta{c}", f"Z{c}") for c in range(len(Z))]
        parts: dict[str, Part] = {}
        for (own_theta, own_Z), each in zip(self._names, Z, strict=True):
            parts[own_theta] = Part(value=kernel.theta, free=theta, low=-LOG_BOUND, high=LOG_BOUND, unit=scales)
            parts[own_Z] = Part(value=each, free=inducing, unit=spread)
        self._unknowns = Unknowns(**parts)
        low, high = self._unknowns.bounds
        places = [self._unknowns.place(own_theta) for own_theta, _ in self._names]
        self._bounded = [(at, low[at], high[at]) for at in places]  # the rest, as long as Z, has no bounds
        self.p = self._unknowns.x
        which = np.array(["lengthscales" in name for name in kernel.names])
        self.lengthscales = [at.start + np.flatnonzero(which[: at.stop - at.start]) for at in places]
        sizes = [theta * kernel.theta.size + inducing * each.size for each in Z]
        self.parts = [slice(end - size, end) for size, end in zip(sizes, np.cumsum(sizes).tolist(), strict=True)]

    def at(self, p: Array) -> tuple[list[Kernel], list[Array]]:
        """Kernel and Z of each latent function."""
        values = self._unknowns.values(p)
        kernels = [self._kernel.with_theta(values[theta]) for theta, _ in self._names]
        return kernels, [values[Z] for _, Z in self._names]

    def ascent(self, p: Array, gradient: Gradient) -> Array:
        """Gradient at p (k,) of log Z and the log prior, from those of log Z for each latent function."""
        parts: dict[str, Array] = {}
        for names, both in zip(self._names, gradient, strict=True):
            parts.update(zip(names, both, strict=True))
        if self._prior is not None:
            values = self._unknowns.values(p)
            for theta, _ in self._names:
                parts[theta] = parts[theta] + self._prior(values[theta])[1]
        return self._unknowns.gradient(parts)

    def bounded(self, p: Array) -> Array:
        """Keep log hyper-parameters within their bounds, in place: the length scale of an idle input has none."""
        for at, low, high in self._bounded:
            np.clip(p[at], low, high, out=p[at])
        return p


@dataclass(frozen=True)
class Problem:
    """What training begins with.

    Attributes
    ----------
    X, y : (n, d), (n,)
    Z : list of (M, d)
        First inducing inputs of each latent function.
    likelihood : Likelihood
    classes : int
    rng : numpy.random.Generator
    """

    X: Rows
    y: Labels
    Z: list[Array]
    likelihood: Likelihood
    classes: int
    rng: np.random.Generator

    @classmethod
    def of(
        cls,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,
    ) -> Self:
        """With inducing inputs by a rule, drawn for each latent function."""
        Z = [inducing.for_latent(c).choose(X) for c in range(1 if classes == 2 else classes)]
        return cls(X, np.asarray(y), Z, likelihood, classes, rng)

    def factors(self, rows: Index | slice) -> Factors:
        """The factors of some rows, scalable EP's for two classes or for more."""
        y = np.asarray(self.y[rows])
        return BinaryFactors(y) if self.classes == 2 else PairFactors(y, self.classes)


class MGPCTraining(Training):
    """What training by scalable EP has in common, whatever the sites are.

    Parameters
    ----------
    scheme : MGPCScheme
    problem : Problem
    all_rows : bool
        Whether each iteration sees all rows.
    """

    def __init__(self, scheme: MGPCScheme, problem: Problem, *, all_rows: bool) -> None:
        super().__init__(limit=scheme.iterations(all_rows=all_rows))
        self.problem = problem
        kernel = scheme.initial_kernel(problem.X)
        self.hyper = Hyperparameters(
            kernel,
            problem.Z,
            theta=scheme.hyperparameters == "learned",
            inducing=scheme.learn_inducing,
            prior=KernelPrior(kernel, scheme.kernel, problem.X.shape[1], weak=True) if scheme.has_prior() else None,
        )
        self.p = self.hyper.p
        self.learns = self.p.size > 0
        self.damping = Damping.of(scheme.damping, all_rows=all_rows, decay=scheme.damping_decay)
        self.retries = 0

    @abstractmethod
    def latents(self) -> tuple[Latent, ...]:
        """The latent functions that training has come to."""

    def posterior(self) -> Posterior:
        """The posterior that training has come to."""
        return Posterior(self.latents(), self.problem.likelihood, classes=self.problem.classes)

    def facts(self) -> dict[str, Any]:
        """Oscillations that were damped, and steps that were taken back."""
        return {"oscillations": self.damping.turned, "retries": self.retries}


class BatchTraining(MGPCTraining):
    """Training of ep-mgpc on all rows."""

    def __init__(self, scheme: EPGPC, problem: Problem) -> None:
        super().__init__(scheme, problem, all_rows=True)
        self._scheme = scheme
        self._factors = problem.factors(slice(None))
        self._search: FixedPointSearch | None = None
        if scheme.training == "outer":
            self._search = FixedPointSearch(
                damping=self.damping.value, tolerance=scheme.ep_tolerance, limit=scheme.ep_iterations
            )
        self._restarts = 0
        self._rates = SignRates.of(scheme, self.hyper)
        self._x = self._factors.start()
        self._ep = self._ep_at(self.p)
        self._now: Evaluation | None = None
        if self.learns:
            self.trainer.rule = EvidenceRule(self.bound, tolerance=scheme.value_tolerance)
        else:
            self.trainer.rule = SettledRule(
                self._change, tolerance=SETTLED if self._search is None else scheme.ep_tolerance
            )

    def train(self) -> StoppedBy:
        """Iterate until the iterations are used up, or the rule says that nothing moves."""
        now = self._evaluate(self._x, self.p)
        while True:
            self.trainer.report(now.log_z)
            if not self.trainer.running:
                return self.trainer.stopped_by
            now = self._advance(now)

    def latents(self) -> tuple[Latent, ...]:
        """The latent functions at the last evaluation; before it, the prior."""
        return self._ep.latents()

    def bound(self) -> float | None:
        """Log Z at the last evaluation."""
        return None if self._now is None else self._now.log_z

    def facts(self) -> dict[str, Any]:
        """Oscillations that were damped, and steps that were taken back."""
        return super().facts() | {"oscillations": self.damping.turned + self._restarts}

    def _advance(self, now: Evaluation) -> Evaluation:
        """Sites and hyper-parameters to the next state, and an evaluation there.

        Raises
        ------
        NumericalError
            A step failed past every remedy.
        """
        x, p = self._x, self.p
        step = self._rates.step(self.hyper.ascent(p, now.gradient)) if self.learns else p
        found = now

        def attempt() -> None:
            nonlocal found
            moved = x + self.damping.value * (now.target - x) if self._search is None else x
            found = self._evaluate(moved, self.hyper.bounded(p + step))

        def step_back() -> None:
            nonlocal step
            self.retries += 1
            self.damping.halve()
            step = self._rates.shorter()

        persist(attempt, step_back=step_back)
        self.damping.next(found.weights * (found.target - self._x) if self._search is None else None)
        return found

    def _evaluate(self, x: Array, p: Array) -> Evaluation:
        """Evaluate sites and hyper-parameters and, if that succeeds, stand there; under ``outer`` x settles first."""
        ep = self._ep_at(p)
        if self._search is not None:

            def update(flat: Array) -> Proposal:
                at = ep.evaluate(flat.reshape(x.shape), gradient=False)
                return Proposal(at.target.reshape(-1), at.weights.reshape(-1))

            outcome = self._search.settle(update, x.reshape(-1))
            x = outcome.x.reshape(x.shape)
            self._restarts += outcome.restarts
        now = ep.evaluate(x, gradient=self.learns, exact=self._scheme.training == "inner-exact")
        ep.release()
        self._x, self.p, self._ep, self._now = x, p, ep, now
        return now

    def _change(self) -> float:
        """Largest change that an undamped update would make, in the posterior's units."""
        assert self._now is not None, "asked after an evaluation"
        return float(np.max(self._now.weights * np.abs(self._now.target - self._x), initial=0.0))

    def _ep_at(self, p: Array) -> ScalableEP:
        kernels, inducing = self.hyper.at(p)
        return ScalableEP(
            kernels,
            inducing,
            self.problem.X,
            self._factors,
            block_rows=self._scheme.block_rows,
            check=self.trainer.check,
        )


class SignRates:
    """Gradient ascent with a rate for each parameter, which grows while its gradient keeps its sign (villacampa2017).

    The rule of the supplementary material: a rate starts at ``first``; it grows by a ratio (there 1.02), up to 1, when
    the gradient has the sign that it had the time before, and is halved when it has not. It multiplies the gradient: a
    step knows more than its sign. ``longest`` bounds a single step, which the rule itself does not: at the first
    iteration a gradient is as large as the number of rows.

    Parameters
    ----------
    size : int
        Number of parameters.
    first : float
        First rate of each.
    growth : float
        Ratio by which a rate grows.
    longest : float
        Largest absolute step of a parameter.
    summed : sequence of (l,), optional
        Parameters whose last gradients are compared with the sum of their gradients, together for each entry, instead
        of each with its own: what the authors' released code does with the length scales of a class, so that the rates
        of those that move against the sum are halved at each iteration.
    """

    SHRINK, MOST = 0.5, 1.0

    def __init__(
        self,
        size: int,
        *,
        first: float = 0.01,
        growth: float = 1.02,
        longest: float = np.inf,
        summed: Sequence[Index] = (),
    ) -> None:
        self.rates = np.full(size, first)
        self._growth, self._longest, self._summed = growth, longest, summed
        self._last = np.zeros(size)

    @classmethod
    def of(cls, scheme: MGPCScheme, hyper: Hyperparameters) -> Self:
        """As the settings have them."""
        return cls(
            hyper.p.size,
            first=scheme.rate,
            growth=scheme.growth,
            longest=scheme.longest_step,
            summed=hyper.lengthscales if scheme.lengthscale_rates == "summed" else (),
        )

    def step(self, gradient: Array) -> Array:
        """What to add to the parameters, shape (size,), given the ascent gradient there."""
        agree = gradient * self._last
        for at in self._summed:
            agree[at] = gradient[at].sum() * self._last[at]
        self.rates[agree > 0] *= self._growth
        self.rates[agree < 0] *= self.SHRINK
        np.minimum(self.rates, self.MOST, out=self.rates)
        self._last = np.array(gradient)
        return self._step()

    def shorter(self) -> Array:
        """The last step again, at half of every rate."""
        self.rates *= self.SHRINK
        return self._step()

    def _step(self) -> Array:
        return np.clip(self.rates * self._last, -self._longest, self._longest)


class Damping:
    """ε of the next update, halved where updates oscillate.

    Undamped updates of all sites at once overshoot, and residuals (undamped update minus present sites) turn round from
    one iteration to the next. Where the cosine of two in turn is below -½, damping is halved.

    Attributes
    ----------
    value : float
    turned : int
        Oscillations that were damped.
    """

    def __init__(self, value: float, *, decay: float = 1.0) -> None:
        self.value, self.turned = value, 0
        self._decay = decay
        self._before: Array | None = None

    @classmethod
    def of(cls, setting: float | None, *, all_rows: bool, decay: float) -> Self:
        """From settings: None is 0.5 where all rows are updated at once, 1 on mini-batches, where nothing decays."""
        first = setting if setting is not None else FIRST_DAMPING if all_rows else 1.0
        return cls(first, decay=decay if all_rows else 1.0)

    def next(self, residual: Array | None) -> None:
        """Go on to the next iteration; residuals that are None are not watched."""
        self.value *= self._decay
        if residual is None:
            return
        before, self._before = self._before, residual
        if before is None:
            return
        size = math.sqrt(float(np.vdot(residual, residual)) * float(np.vdot(before, before)))
        if size > 0 and float(np.vdot(residual, before)) < TURNS * size:
            self.halve()
            self.turned += 1
            self._before = None

    def halve(self) -> None:
        """Half of it from now on."""
        self.value *= 0.5


class EvidenceRule:
    """Converged when log Z no longer moves: its median over the last 25 iterations against that over the 25 before.

    Medians, and not the best values: while sites are far from matching moments, log Z is no bound, and can stand far
    above what EP settles at for an iteration or two. A large fall is such an unsettled time as well, and no end.

    Parameters
    ----------
    log_z : callable
        Gives log Z of the last iteration.
    tolerance : float
        Relative change that counts; 0: never converged.
    """

    def __init__(self, log_z: Callable[[], float | None], *, tolerance: float) -> None:
        self._log_z, self._tolerance = log_z, tolerance
        self._values: list[float] = []

    def converged(self, iteration: int) -> bool:  # noqa: ARG002 - whenever it is
        """To be asked after each iteration."""
        log_z = self._log_z()
        assert log_z is not None, "asked after an iteration on all rows"
        self._values.append(log_z)
        if self._tolerance == 0 or len(self._values) < 2 * WINDOW:
            return False
        before = float(np.median(self._values[-2 * WINDOW : -WINDOW]))
        last = float(np.median(self._values[-WINDOW:]))
        return abs(last - before) <= self._tolerance * abs(before)


class SettledRule:
    """Converged when EP is at its fixed point; where there is nothing else to learn.

    Parameters
    ----------
    change : callable
        Gives the largest change that an undamped update would make, in the posterior's units.
    tolerance : float
        Settled when it is not above this.
    """

    def __init__(self, change: Callable[[], float], *, tolerance: float) -> None:
        self._change, self._tolerance = change, tolerance

    def converged(self, iteration: int) -> bool:  # noqa: ARG002 - whenever it is
        """To be asked after each iteration."""
        return self._change() <= self._tolerance
