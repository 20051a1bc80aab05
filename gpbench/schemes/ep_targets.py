"""What expectation propagation asks of targets: the likelihood of a task, and labels that fit it.

Rows of one class alone are fitted like any others. Their evidence does not grow without end: rows of class c need
f^c to be the largest (f of the right sign) at the first row at least, which has probability 1/C under any prior that
treats the classes alike, so that log p(y | θ) <= -log C. It rises towards that as length scale and variance grow; the
search ends where nothing rises any more, or at the bounds of the log hyper-parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpbench.errors import UsageError
from gpbench.model.likelihoods import Likelihood, likelihood

if TYPE_CHECKING:
    from gpbench.model.rows import Labels

__all__ = ["check_ep_targets", "ep_likelihood"]


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
    if task == "binary" and n_classes == 2:
        return likelihood("probit")
    if task == "multiclass" and n_classes > 2:
        return likelihood("robust-max")
    raise UsageError(f"{name} does classification; got task {task} with {n_classes} classes")


def check_ep_targets(name: str, y: Labels, *, needed: Likelihood, given: Likelihood, classes: int) -> None:
    """See that EP can be run.

    Parameters
    ----------
    name : str
        Of the scheme, for messages.
    y : (n,)
    needed, given : Likelihood
        The scheme's own, and the one that it was handed.
    classes : int
        Of the data set.

    Raises
    ------
    UsageError
        The likelihood is not EP's.
    DataError
        A label is none of the classes.
    """
    if given.name != needed.name or given.spec().get("epsilon", 0.0) != 0.0:
        raise UsageError(f"{name} needs the likelihood {needed.name}, without label noise; got {given.spec()}")
    given.check_targets(y, classes)
