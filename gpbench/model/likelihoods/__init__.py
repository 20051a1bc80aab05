"""Likelihoods, by name."""

from collections.abc import Mapping
from typing import Any

from gpbench.errors import UsageError, unknown_name
from gpbench.model.likelihoods.base import Likelihood, Prediction, Score
from gpbench.model.likelihoods.bernoulli import Bernoulli, Logit, Probit
from gpbench.model.likelihoods.gaussian import Gaussian
from gpbench.model.likelihoods.multiclass import RobustMax
from gpbench.model.likelihoods.ordinal import Ordinal
from gpbench.model.likelihoods.poisson import Poisson
from gpbench.model.likelihoods.softmax import Softmax

__all__ = [
    "LIKELIHOODS",
    "Bernoulli",
    "Gaussian",
    "Likelihood",
    "Logit",
    "Ordinal",
    "Poisson",
    "Prediction",
    "Probit",
    "RobustMax",
    "Score",
    "Softmax",
    "likelihood",
    "likelihood_from_spec",
]

LIKELIHOODS: dict[str, type[Likelihood]] = {
    kind.name: kind for kind in (Logit, Probit, Poisson, Ordinal, Gaussian, RobustMax, Softmax)
}
"""Likelihood classes by name."""


def likelihood(name: str) -> Likelihood:
    """Likelihood by name, with its default parameters; an ordinal one has none, see :meth:`Ordinal.of_counts`.

    Raises
    ------
    UsageError
        Unknown name.
    """
    return likelihood_from_spec({"name": name})


def likelihood_from_spec(spec: Mapping[str, Any]) -> Likelihood:
    """Likelihood from the description that its ``spec()`` gave.

    Raises
    ------
    UsageError
        Unknown name, or parameters that the likelihood does not have.
    """
    name = str(spec.get("name"))
    kind = LIKELIHOODS.get(name)
    if kind is None:
        raise unknown_name("likelihood", name, LIKELIHOODS)
    parameters = {key: value for key, value in spec.items() if key != "name"}
    try:
        return kind(**parameters)
    except TypeError as error:
        raise UsageError(f"likelihood {name} does not take {parameters}: {error}") from None
