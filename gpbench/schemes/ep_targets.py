"""What expectation propagation asks of targets: the likelihood of a task, and labels of more than one class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpbench.errors import DataError, UsageError
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
        All labels are the same: the evidence then grows without end as the function does.
    """
    if given.name != needed.name or given.spec().get("epsilon", 0.0) != 0.0:
        raise UsageError(f"{name} needs the likelihood {needed.name}, without label noise; got {given.spec()}")
    given.check_targets(y, classes)
    present = np.flatnonzero(np.bincount(np.asarray(y), minlength=classes))
    if len(present) < 2:
        raise DataError(f"{name} needs rows of two classes or more; got {len(y)} rows of {present.tolist()}")
