"""How long a cell trains, from sizes alone: seconds a step times the steps that schemes of its family usually take.

===========  ==================================================================================================
symbol       meaning
===========  ==================================================================================================
n, d         training rows and inputs
b            rows of a step: the mini-batch, the subset that a scheme trains on, or all
M            inducing inputs; n where a scheme has none
F            latent functions
===========  ==================================================================================================

For each latent function a step takes 10 b M² + 4 b M d + 5 M³ floating point operations (3 n³ where n x n matrices
are factored), of which a core does 4e9 in a second. Each family has measured numbers beside: what share of that its
steps took (``load``), what they took beyond it (``least``, and ``inputs`` for each input of each row), and after how
many steps its cells had usually converged (``usual``). They come from 634 cells on hensman2015's, wenzel2019's,
izmailov2016's, villacampa2017's and sheth2015's data (one thread, a busy AMD EPYC Zen 3), of which half were within a
factor of 1.8 of the estimate, nine in ten within 4.5, and all of them together within 1.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Size", "training_seconds"]

_RATE = 4e9
#: Steps of a scheme that says neither how many it makes at most nor how many it usually makes.
_STEPS = 1000
#: Steps where there are no inducing inputs to move: as many rows as inducing inputs, few hyper-parameters.
_FEW = 15


@dataclass(frozen=True, kw_only=True)
class Size:
    """What the work depends on.

    Attributes
    ----------
    n, d : int
        Training rows and inputs.
    M : int
        Inducing inputs.
    latents : int
        Latent functions.
    """

    n: int
    d: int
    M: int
    latents: int


@dataclass(frozen=True, kw_only=True)
class _Family:
    """Measured numbers, see the module; ``usual`` is None where the limit on steps is usually what ends training.

    Attributes
    ----------
    settled : int or None
        Usual steps where the hyper-parameters are not learned; None: as many.
    """

    usual: int | None = None
    settled: int | None = None
    least: float = 1e-3
    inputs: float = 0.0
    load: float = 1.0


_BATCH = _Family(usual=900, least=1.5e-3, inputs=5e-7)
_JJ = _Family(usual=700, least=5e-4, inputs=2e-8, load=0.8)
_FULL = _Family(usual=12, least=1e-2, load=2.0)
_GENERAL = _Family(usual=300, settled=60, least=3e-3, load=0.4)
_SUBSET = _Family(usual=300, settled=100, least=5e-3, load=1.2)
_CLASSES = _Family(usual=250, least=4e-3)
_PEER = _Family(least=3e-3, load=2.0)

#: Method -> its family; a method that is not here (a plug-in's) has what ``_Family()`` says.
_FAMILIES = {
    "klsp": _BATCH,
    "klsp-batch-z-fixed": _Family(usual=900, least=1e-3, load=0.8),
    "mfsp": _Family(usual=500, least=3e-3, inputs=1e-6),
    "sparse-map": _Family(usual=400, least=3e-3, inputs=1e-6),
    "gfitc": _Family(usual=90, least=7e-3, load=1.5),
    "kl": _FULL,
    "ep": _FULL,
    "sklearn-gpc": _Family(usual=30, load=2.0),
    "gibbs": _Family(load=0.05),
    "klsp-sgd": _Family(),
    "x-gpc": _Family(usual=5000, least=2e-4, load=0.35),
    "svgpc": _Family(usual=2300, load=0.6),
    "epgpc": _Family(usual=7000, load=0.9),
    "svi-adadelta": _Family(least=7e-4),
    "vi-jj": _JJ,
    "vi-taylor": _JJ,
    "vi-jj-full": _JJ,
    "vi-jj-hybrid": _JJ,
    "gvi-sgd": _Family(least=1e-3),
    **dict.fromkeys(("gvi-fixed-point", "gvi-gradient", "gvi-dual"), _GENERAL),
    **dict.fromkeys(("sod-laplace", "sod-fixed-point", "sod-gradient", "sod-dual"), _SUBSET),
    **dict.fromkeys(("ep-mgpc", "sep-mgpc", "vi-mgpc", "vi-mgpc-learned"), _CLASSES),
    **dict.fromkeys(("gpflow-svgp", "gpytorch-svgp", "gpytorch-pg"), _PEER),
}


def training_seconds(method: str, settings: Mapping[str, Any], size: Size, *, iterations: int | None = None) -> float:
    """Seconds that a cell trains, without any limit on them.

    Parameters
    ----------
    method : str
        Id.
    settings : mapping
        Every setting with its value.
    size : Size
    iterations : int or None
        The limit on them.
    """
    family = _FAMILIES.get(method, _Family())
    if "kernel" not in settings:  # no Gaussian process: a few passes over the rows
        return 100.0 * size.n * size.d / _RATE
    b = _rows(settings, size)
    if "inducing" in settings:
        M = min(size.M, size.n)
        work = 10.0 * b * M**2 + 4.0 * b * M * size.d + 5.0 * float(M) ** 3
    else:
        b = M = min(size.n, int(settings.get("max_rows") or size.n))
        work = 3.0 * float(M) ** 3
    step = size.latents * (family.least + family.load * work / _RATE) + family.inputs * b * size.d
    return _steps(family, settings, iterations, full=size.n == M and "batch_size" not in settings) * step


def _rows(settings: Mapping[str, Any], size: Size) -> int:
    """Rows that a step looks at."""
    if "inducing" in settings and "max_rows" in settings:  # a subset of the rows, which is its own inducing inputs
        return min(size.n, size.M)
    return min(size.n, int(settings["batch_size"])) if settings.get("batch_size") else size.n


def _steps(family: _Family, settings: Mapping[str, Any], iterations: int | None, *, full: bool) -> int:
    """Steps until a scheme usually converges, or until the limit."""
    if "samples" in settings:
        most = int(settings["samples"]) + int(settings.get("burn_in") or 0)
    else:
        most = int(settings.get("max_iterations") or iterations or family.usual or _STEPS)
    most = min(most, iterations or most)
    usual = family.usual
    if family.settled is not None and settings.get("hyperparameters", "learned") != "learned":
        usual = family.settled
    if usual is None:
        return most
    if settings.get("stop") == "none":  # it runs to its limit
        return most
    return min(most, usual, _FEW) if full else min(most, usual)
