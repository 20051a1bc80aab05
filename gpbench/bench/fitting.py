"""One model on all rows, for whoever wants to predict: no splits, no test rows, no store.

What is random comes from the same generators as in the cell of split 0 and that seed, so that the same rows, scaled the
same way, give the same model as there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpbench.bench.cell import Limits, SplitSpec, generator
from gpbench.bench.choices import check_likelihoods, learned_of
from gpbench.bench.clock import Clock, clock_for
from gpbench.bench.runner import as_fit
from gpbench.bench.trace import Watcher
from gpbench.data.splits import check_seed
from gpbench.errors import NumericalError, UsageError
from gpbench.model.inducing import InducingRule

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from gpbench.bench.choices import Choice
    from gpbench.model.rows import Rows
    from gpbench.schemes.base import Fit

__all__ = ["check_finite", "fit_rows"]

_NAMED = 4


def fit_rows(
    choice: Choice,
    X: Rows,
    y: npt.NDArray[Any],
    *,
    task: str,
    classes: int,
    seed: int,
    seconds: float | None = None,
    threads: int | None = 1,
) -> Fit:
    """Train a method on rows.

    Parameters
    ----------
    choice : Choice
        Where its hyper-parameters are to be those that another method learns, that one is trained first.
    X, y : (n, d), (n,)
        Scaled inputs, and targets as a scheme takes them.
    task : str
    classes : int
        0 for counts.
    seed : int
    seconds : float or None
        Training seconds at most, counted as those of a cell are: of a rival in its own process, and without its
        start-up.
    threads : int or None
        Of BLAS, as the caller holds them; None: as many as there are. Seconds are the processor's for one, and on the
        wall for more.

    Raises
    ------
    UsageError
        The method cannot do the task, there are fewer rows than inducing points, or seed or seconds are none.
    GpbenchError
        From the scheme.
    """
    check_seed(seed)
    watcher = Watcher(Clock(clock_for(threads)), None, limits=Limits(seconds=seconds))
    choice.method.check_task(task, "these rows")
    choice.method.ready()
    scheme = choice.method.build(choice.settings)
    likelihood = scheme.likelihood_for(task, classes)
    if choice.origin is not None:
        origin = choice.origin.method.build(choice.origin.settings)
        check_likelihoods(
            choice, likelihood, origin.likelihood_for(task, classes), dataset="these rows", task=task, classes=classes
        )
        first = fit_rows(choice.origin, X, y, task=task, classes=classes, seed=seed, seconds=seconds, threads=threads)
        scheme = choice.method.build(choice.settings, learned=learned_of(first.posterior.arrays(), what="the origin"))
    split = SplitSpec(protocol="all", index=0, count=1, seed=seed)
    rule = InducingRule.of(choice.settings, seed=split.inducing_seed())
    if "inducing" in choice.settings:
        try:
            rule.number(len(y))  # before anything is computed
        except UsageError as error:
            raise UsageError(f"method {choice.method.id}: {error}") from None
    watcher.begin()
    fitted: Any = scheme.fit(
        X,
        y,
        inducing=rule,
        likelihood=likelihood,
        classes=classes,
        rng=generator(seed, index=0),
        on_step=watcher,
    )
    watcher.end()
    return as_fit(fitted)


def check_finite(*predicted: npt.NDArray[Any], row: Callable[[int], str]) -> None:
    """See that what a model says of new rows are numbers, as those of a cell's test rows must be.

    Parameters
    ----------
    *predicted : (n,) or (n, k)
        Probabilities or means; mean and variance of latent functions.
    row : callable
        Names the row of a number, for the message.

    Raises
    ------
    NumericalError
        Some are not finite; the message names the first row of them.
    """
    for values in predicted:
        fits = np.isfinite(values).reshape(len(values), -1).all(axis=1)
        if not fits.all():
            first = int(np.argmin(fits))
            got = ", ".join(f"{value:g}" for value in np.ravel(values[first])[:_NAMED])
            raise NumericalError(
                f"the predictions must be finite; got {got} for {row(first)}, whose inputs may be too large "
                f"({int((~fits).sum())} of {len(values)} rows are not)"
            )
