"""What every scheme must hold, tried on generated data of each of its tasks, in seconds: ``gpbench check METHOD``.

===================  ================================================================================================
check                what it shows
===================  ================================================================================================
same bits            the same seed gives the same posterior
steps                ``on_step`` sees iterations 1, 2, 3 ..., as many as fit counts; bounds that are told are finite
looking              making the posterior at each step and predicting from it changes nothing
stopped              StopTraining at the first and any later step gives a Fit of so many iterations, stopped by on_step,
                     whose predictions are finite
limit                training that a limit of iterations cuts does not say converged
predict and score    a target's log density is the logarithm of its predicted probability; the densities of counts sum
                     to 1 and have the mean that is predicted
save and load        a posterior that was saved predicts the same bits
labels swapped       two classes, fixed kernel: 1 - p
rows permuted        fixed kernel: the same predictions
balanced duplicates  each row once with each label, fixed kernel: 1/C for each class
shares               many equal rows: their shares of the labels are predicted, or the rate of counts
gradient             by central differences, where the scheme offers ``differentiable``
setting NAME         some value changes the posterior's bits, the iterations, or whether there is a fit
===================  ================================================================================================

A scheme offers ``differentiable(X, y, *, inducing, likelihood, classes, rng)`` if it wishes: a function from x (k,) to
its objective and the gradient (k,), and an x.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpbench.bench.check.behaviour import BEHAVIOUR
from gpbench.bench.check.settings import is_read
from gpbench.bench.check.trial import TASKS, Exempt, Finding, Trial, finding
from gpbench.bench.resources import one_pool_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpbench.bench.method import Method

__all__ = ["Finding", "check"]


def check(method: Method, *, tasks: Sequence[str] = ()) -> Iterator[Finding]:
    """Try what every scheme must hold.

    Parameters
    ----------
    method : Method
    tasks : sequence of str
        All that the method does, where none is named. Settings that act in none of these are tried in its others.

    Yields
    ------
    Finding
        One for each check of each task, then one for each setting, as they are made.

    Raises
    ------
    UsageError
        A task that the method does not do, or an optional dependency is missing.
    PluginError
        The scheme cannot be loaded.
    """
    for task in tasks:
        method.check_task(task, f"generated data of task {task}")
    known = [task for task in TASKS if task in method.tasks]
    wanted = [task for task in known if task in tasks or not tasks]
    trials = {task: Trial(method, task) for task in sorted(known, key=lambda task: task not in wanted)}
    return _findings(method, wanted, trials)


def _findings(method: Method, wanted: Sequence[str], trials: dict[str, Trial]) -> Iterator[Finding]:
    for task in wanted:
        for name, one in BEHAVIOUR.items():
            yield _held(method, task, name, _unless_exempt(method, name, partial(one, trials[task])))
    everywhere = list(trials.values())
    for name in method.settings():
        title = f"setting {name}"
        yield _held(method, "", title, _unless_exempt(method, title, partial(is_read, name, everywhere)))


def _held(method: Method, task: str, name: str, one: Callable[[], str]) -> Finding:
    """On one thread, as cells run: more of them disturb one another where rows are few."""
    with one_pool_size(1):
        return finding(task, name, one, method=method)


def _unless_exempt(method: Method, name: str, one: Callable[[], str]) -> Callable[[], str]:
    def exempt() -> str:
        raise Exempt(method.checking.exempt[name])

    return exempt if name in method.checking.exempt else one
