"""Settings under names that schemes share, so that they start alike, and what two families or more do with them.

Kernel and inducing inputs are fields to inherit, since every Gaussian process scheme reads them. All others are
functions that a scheme calls for exactly what it reads::

    batch_size: int = settings.batch_size()
    max_iterations: int = settings.max_iterations(10_000)
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from scipy.spatial.distance import pdist

from gpbench.errors import NumericalError, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.kernels import Kernel, kernel_from_spec, make_kernel
from gpbench.model.likelihoods import likelihood
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.optimize.scg import SCG
from gpbench.optimize.steps import AdaDelta, SteadyAdam
from gpbench.optimize.training import Checks, HeldOut, Minibatches, hold_out
from gpbench.schemes.base import run_training, setting, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.posterior import Predictor
    from gpbench.model.rows import Labels, Rows
    from gpbench.optimize.steps import Steps
    from gpbench.schemes.base import Fit, OnStep, Training

__all__ = [
    "DIVERGED",
    "FROM",
    "LEARNING",
    "RETRIES",
    "STEP_RATES",
    "BinaryScheme",
    "GPSettings",
    "HeldOutRule",
    "KernelSettings",
    "Learned",
    "SearchSettings",
    "binary_likelihood",
    "check_ep_targets",
    "check_row_limit",
    "ep_likelihood",
    "held_out_batches",
    "held_out_nll",
    "persist",
    "steps_of",
]

DIVERGED = 1e50
"""Parameters of this size have finite squares, but mean nothing."""
RETRIES = 10
"""Times that a failed step is tried again, each time shorter, before the failure is final."""

STEP_RATES = {"adadelta": 0.1, "adam": 0.01}
"""Rules of stochastic steps and their rates."""

FROM = "from:METHOD"
"""The rule by which hyper-parameters are those that another method learned on the same split; then fixed."""

LEARNING = "whether the hyper-parameters are learned; from:METHOD: fixed where METHOD's ended on the same split"


@dataclass(frozen=True, kw_only=True)
class Learned:
    """The hyper-parameters that another method ended with, as JSON can hold them.

    Attributes
    ----------
    kernel, likelihood : mapping
        Their ``spec()``.
    mean : float
        The constant prior mean.
    """

    kernel: Mapping[str, Any]
    likelihood: Mapping[str, Any]
    mean: float = 0.0


@dataclass(frozen=True, kw_only=True)
class KernelSettings:
    """Kernel and its starting values; a scheme without inducing inputs inherits these fields."""

    kernel: str = setting(
        "se-ard", "kernel: se, matern12, matern32 (each also with -ard), linear-ard, quadratic, or sums with +"
    )
    lengthscale: float | str | None = setting(
        None,
        "first length scale; none: the root of the number of inputs; median: the root of the rows' median distance "
        "(villacampa2017's code)",
        kind=float,
        minimum=1e-6,
        maximum=1e6,
        rules=("median",),
    )
    variance: float = setting(1.0, "first prior variance of each part of the kernel", minimum=1e-8, maximum=1e8)
    noise: float = setting(0.05, "first variance of the white noise; 0: the kernel has none", minimum=0.0, maximum=1e8)
    given: Learned | None = field(default=None, repr=False)  # no setting: handed in by who trained the other method

    def initial_kernel(self, X: Rows) -> Kernel:
        """The kernel that training on the rows X, shape (n, d), starts from.

        Raises
        ------
        UsageError
            Unknown kernel, or the one that is given is another.
        """
        if self.given is None:
            return self.kernel_from(X.shape[1], lengthscale=self._first_lengthscale(X))
        kernel, own = kernel_from_spec(self.given.kernel), self.kernel_from(X.shape[1], lengthscale=1.0)
        if kernel.names != own.names:
            raise UsageError(f"the kernel that is given must be {own!r} with other values; got {kernel!r}")
        return kernel

    def kernel_from(self, d: int, *, lengthscale: float) -> Kernel:
        """The kernel for d inputs with this first length scale, and variance and noise as they are set.

        Raises
        ------
        UsageError
            Unknown kernel.
        """
        return make_kernel(self.kernel, d, variance=self.variance, lengthscale=lengthscale, noise=self.noise)

    def _first_lengthscale(self, X: Rows) -> float:
        if isinstance(self.lengthscale, float | int):
            return float(self.lengthscale)
        distance = _median_distance(X) if self.lengthscale == "median" else None
        return math.sqrt(X.shape[1] if distance is None else distance)


@dataclass(frozen=True, kw_only=True)
class GPSettings(KernelSettings):
    """Kernel, its starting values, and inducing inputs; a scheme inherits these fields."""

    hyperparameters: str = setting("learned", LEARNING, choices=("learned", "fixed"), rules=(FROM,))
    inducing: str = setting("100", "number of inducing inputs: 100, 3% of the rows, or all")
    inducing_rule: str = setting(
        InducingRule.rule,
        "how inducing inputs are chosen: k-means centres and k-means++ seeds by halves, centres, or random rows",
        choices=("mixed", "kmeans", "random"),
    )
    kmeans_rows: int = setting(
        InducingRule.rows, "random rows that k-means looks at, since it runs on the clock", minimum=1
    )


def _median_distance(X: Rows, *, rows: int = 1000) -> float | None:
    """Median Euclidean distance of two rows that differ, over at most ``rows`` rows at even steps through X.

    Rows at even steps stand for a file that is sorted, and need no randomness. Pairs of equal rows do not count: among
    many duplicates their distance would be 0, which is no length.

    Returns
    -------
    float or None
        In the units of X; None where all rows that were looked at are equal.
    """
    n = len(X)
    chosen = np.unique(np.linspace(0, n - 1, num=min(n, rows)).round().astype(np.int64))
    distances = pdist(np.asarray(X[chosen], dtype=np.float64))
    apart = distances[distances > 0]
    return float(np.median(apart)) if len(apart) else None


def link(*choices: str) -> Any:
    """The link function of a scheme for two classes; the first choice is the default."""
    return setting(choices[0], "link function", choices=choices)


def max_iterations(default: int, what: str = "iterations at most") -> Any:
    """The limit that the scheme's trainer counts to."""
    return setting(default, what, minimum=1)


def batch_size(default: int = 100) -> Any:
    """Rows in a mini-batch."""
    return setting(default, "rows in a mini-batch", minimum=1)


def block_rows() -> Any:
    """Rows in a block of a walk over all of them."""
    return setting(1024, "rows looked at together; bounds the memory", minimum=1)


def max_rows() -> Any:
    """The limit of a scheme that holds matrices of rows by rows; see :func:`check_row_limit`."""
    return setting(2000, "more rows are refused, as memory grows with their square", minimum=1)


def learn_inducing(*, default: bool = True) -> Any:
    """Whether Z moves."""
    return setting(default, "whether the inducing inputs are optimised")


def prior() -> Any:
    """See :class:`gpbench.model.kernel_prior.KernelPrior`."""
    return setting("weak", "prior of the kernel's logarithms: weak, or none", choices=("weak", "none"))


def conditional() -> Any:
    """What q(f | u) is, where the bound is a quadratic in f; see :mod:`gpbench.schemes.jaakkola.collapsed`."""
    return setting(
        "prior",
        "q(f | u): the prior's, or the tight one, which raises the bound where inducing inputs are few",
        choices=("prior", "tight"),
    )


def step_rule(default: str) -> Any:
    """The rule of stochastic steps; see :func:`steps_of`."""
    return setting(default, "rule of the steps", choices=tuple(STEP_RATES))


def step_rate() -> Any:
    """Their rate; none: that of :data:`STEP_RATES`."""
    return setting(
        None, "rate of the steps (none: 0.1 for AdaDelta, 0.01 for Adam)", kind=float, minimum=1e-9, maximum=100.0
    )


def memory(default: int = 20) -> Any:
    """L-BFGS-B's memory."""
    return setting(default, "L-BFGS-B: pairs that the Hessian is approximated from", minimum=1, maximum=100)


def gradient_tolerance(default: float = 1e-5) -> Any:
    """A search has converged at so small a gradient."""
    return setting(default, "largest gradient at the end (nats)", minimum=0.0, maximum=1e6)


def value_tolerance(default: float = 1e-9) -> Any:
    """A search has converged at so small a rise."""
    return setting(default, "relative rise of the bound at the end", minimum=0.0, maximum=1.0)


def stop() -> Any:
    """The stopping rule of mini-batch training; see :class:`HeldOutRule`."""
    return setting(
        "auto",
        "stopping rule; auto: held-out from 10,000 rows on, else none",
        choices=("auto", "held-out", "none"),
    )


def held_out_tolerance() -> Any:
    """Of the held-out rule."""
    return setting(1e-3, "relative fall of the held-out NLL that counts", minimum=0.0, maximum=1.0)


def validation() -> Any:
    """Of the held-out rule."""
    return setting(2000, "rows held out for the stopping rule, at most a tenth", minimum=1)


EP_LIKELIHOODS = {"binary": "probit", "multiclass": "robust-max"}
"""What expectation propagation has factors for, by task."""


def ep_likelihood(name: str, task: str, n_classes: int) -> Likelihood:
    """The probit for two classes, the largest latent value for more.

    Parameters
    ----------
    name : str
        Of the scheme, for the message.
    task : str
    n_classes : int

    Raises
    ------
    UsageError
        The task is another one.
    """
    if not {"binary": n_classes == 2, "multiclass": n_classes > 2}.get(task, False):
        raise UsageError(f"{name} does classification; got task {task} with {n_classes} classes")
    return likelihood(EP_LIKELIHOODS[task])


def check_ep_targets(name: str, y: Labels, *, needed: str, given: Likelihood, classes: int) -> None:
    """See that expectation propagation can be run.

    Rows of one class alone are fitted like any others. Their evidence does not grow without end: rows of class c need
    f^c to be the largest (f of the right sign) at the first row at least, which has probability 1/C under any prior
    that treats the classes alike, so that log p(y | θ) <= -log C. It rises towards that as length scale and variance
    grow; a search ends where nothing rises any more, or at the bounds of the log hyper-parameters.

    Parameters
    ----------
    name : str
        Of the scheme, for messages.
    y : (n,)
    needed : str
        Name of the scheme's own likelihood.
    given : Likelihood
        The one that it was handed.
    classes : int
        Of the data set.

    Raises
    ------
    UsageError
        The likelihood is not EP's.
    DataError
        A label is none of the classes.
    """
    if given.name != needed or given.spec().get("epsilon", 0.0) != 0.0:
        raise UsageError(f"{name} needs the likelihood {needed}, without label noise; got {given.spec()}")
    given.check_targets(y, classes)


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
        classes: int,
        rng: np.random.Generator,
    ) -> Training:
        """Training at its beginning; arguments as in ``fit``."""

    def likelihood_for(self, task: str, n_classes: int) -> Likelihood:
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
    ) -> Fit:
        """Train; see :class:`gpbench.schemes.base.Scheme`."""
        links = next(each.choices for each in settings_of(type(self)) if each.name == "link")
        if likelihood.name not in links:
            raise UsageError(f"{self.name} needs the likelihood {' or '.join(links)}; got {likelihood.name}")
        likelihood.check_targets(y, classes)
        return run_training(
            self.name,
            lambda: self.start(X, y, inducing=inducing, likelihood=likelihood, classes=classes, rng=rng),
            on_step,
        )


def binary_likelihood(name: str, link: str, *, task: str, n_classes: int) -> Likelihood:
    """The Bernoulli likelihood with a link, for the scheme of that name.

    Raises
    ------
    UsageError
        The task is not binary.
    """
    if task != "binary" or n_classes != 2:
        raise UsageError(f"{name} does binary classification; got task {task} with {n_classes} classes")
    return likelihood(link)


class StoppedByHeldOut(Protocol):
    """A scheme on mini-batches with the settings of the held-out rule."""

    @property
    def stop(self) -> str: ...
    @property
    def validation(self) -> int: ...
    @property
    def tolerance(self) -> float: ...
    @property
    def batch_size(self) -> int: ...


class HeldOutRule:
    """Converged when the NLL of held-out training rows no longer falls: a look at iterations 500, 600, 720 ...

    Parameters
    ----------
    stop : {"auto", "held-out", "none"}
    X, y : (n, d), (n,)
        All training rows.
    validation : int
        Rows held out, at most a tenth.
    tolerance : float
        Relative fall that counts, within four looks, while the iterations double.
    posterior : callable
        Makes the posterior that training has come to.
    rng : numpy.random.Generator
        Draws the rows held out.

    Attributes
    ----------
    rows : (k,) or None
        Row numbers held out, ascending; None where nothing is.
    """

    FROM = 10_000
    """Rows from which on ``auto`` spares some for validation."""
    LEAST_ROWS = 10
    """Rows without which nothing can be held out."""

    def __init__(
        self,
        stop: str,
        X: Rows,
        y: Labels,
        *,
        validation: int,
        tolerance: float,
        posterior: Callable[[], Predictor],
        rng: np.random.Generator,
        first: int = 500,
    ) -> None:
        n = len(X)
        wanted = stop == "held-out" or (stop == "auto" and n >= self.FROM)
        self.rows: npt.NDArray[np.int64] | None = None
        if wanted and n >= self.LEAST_ROWS:
            self.rows = hold_out(n, min(validation, n // 10), rng=rng)
        self._X, self._y, self._posterior = X, y, posterior
        self._rule = HeldOut(tolerance, patience=4)
        self._checks = Checks(first=first, ratio=1.2)

    def converged(self, iteration: int) -> bool:
        """To be asked after each iteration."""
        if self.rows is None or not self._checks.due(iteration):
            return False
        return self._rule.converged(held_out_nll(self._posterior(), self._X, self._y, self.rows))


def held_out_batches(
    training: Training, scheme: StoppedByHeldOut, X: Rows, y: Labels, *, rng: np.random.Generator
) -> Minibatches:
    """Mini-batches of the rows that a scheme's stopping rule leaves; the rule is to end its training.

    Parameters
    ----------
    training : Training
    scheme
        With the settings ``stop``, ``validation``, ``tolerance`` and ``batch_size``.
    X, y : (n, d), (n,)
        All training rows.
    rng : numpy.random.Generator
        Draws the rows held out, then the batches.
    """
    rule = HeldOutRule(
        scheme.stop,
        X,
        y,
        validation=scheme.validation,
        tolerance=scheme.tolerance,
        posterior=training.posterior,
        rng=rng,
    )
    training.trainer.rule = rule
    return Minibatches(len(X), scheme.batch_size, rng=rng, without=rule.rows)


def held_out_nll(posterior: Predictor, X: Rows, y: Labels, rows: npt.NDArray[np.int64]) -> float:
    """Mean negative log predictive probability (nats) of some rows."""
    return -float(posterior.score(X[rows], y[rows]).log_density.mean())


def persist(attempt: Callable[[], None], *, step_back: Callable[[], None], tries: int = RETRIES) -> None:
    """Try a step; after each failure go back, to try a shorter one.

    Parameters
    ----------
    attempt : callable
        The step; overflow in it is no warning, since it is looked at afterwards.
    step_back : callable
        Undoes a failed step and makes the next one shorter.
    tries : int
        At most.

    Raises
    ------
    NumericalError
        Of the last try.
    """
    for _ in range(tries):
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # looked at by the step
                attempt()
        except NumericalError as error:
            failure = error
            step_back()
        else:
            return
    raise failure


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """Which search maximises a batch bound, and when it has converged; a batch scheme inherits these fields."""

    optimizer: str = setting(
        "lbfgsb", "L-BFGS-B or scaled conjugate gradients (hensman2015, figure 2)", choices=("lbfgsb", "scg")
    )
    memory: int = memory()
    gradient_tolerance: float = gradient_tolerance()
    value_tolerance: float = value_tolerance()

    def search(self, *, gradient_error: float = SCG.gradient_error, **changed: Any) -> LBFGSB | SCG:
        """The search, with fields changed, such as ``max_iterations``.

        ``gradient_error`` is what an inner loop leaves in the gradient; see :class:`gpbench.optimize.scg.SCG`.
        """
        ends = {"gradient_tolerance": self.gradient_tolerance, "value_tolerance": self.value_tolerance} | changed
        if self.optimizer == "scg":
            return SCG(gradient_error=gradient_error, **ends)
        return LBFGSB(memory=self.memory, **ends)


def steps_of(rule: str, size: int, *, rate: float, **adadelta: float) -> Steps:
    """Stochastic steps by a rule of :data:`STEP_RATES`.

    Parameters
    ----------
    rule : {"adadelta", "adam"}
    size : int
        Length of the parameter vector.
    rate : float
    **adadelta : float
        Decay, momentum and offset; see :class:`gpbench.optimize.steps.AdaDelta`.
    """
    return SteadyAdam(size, rate=rate) if rule == "adam" else AdaDelta(size, rate=rate, **adadelta)


def check_row_limit(name: str, rows: int, *, max_rows: int) -> None:
    """See that there are no more rows than a scheme's setting ``max_rows`` allows, before memory is taken.

    Raises
    ------
    UsageError
        There are more.
    """
    if rows > max_rows:
        raise UsageError(
            f"{name} needs matrices of rows by rows: expected at most max_rows = {max_rows} rows; got {rows}; "
            f"train on fewer rows, or set max_rows={rows}, where memory grows with the square of the rows and time "
            "with their cube"
        )
