"""gpbench: how fast and how well sparse Gaussian process classifiers learn.

The one door: what the author of a scheme, a notebook or a script needs stands here, ``import gpbench`` and no more.
Names are loaded when they are first asked for, so that the import itself costs nothing.

To write a scheme, five concepts:

================  ==============================================================================================
BinaryScheme      a frozen dataclass whose fields are settings, with a ``start`` that gives a Training; for other
                  targets than two classes GPSettings or KernelSettings, with a ``likelihood_for`` and a ``fit``
Training          what moves: ``train``, ``posterior``, and a ``trainer`` that counts, limits and tells of steps
Basis             a kernel at inducing inputs Z: whitened features of rows, and the pullback of their adjoints
GaussianQ         q(v) over whitened inducing values: from sites, natural parameters or a root; KL and marginals
Posterior         the Latent functions (a Basis with a GaussianQ) and the likelihood: prediction is written there
================  ==============================================================================================

A Method names a scheme; a package offers it through the entry point ``gpbench.methods``, and ``gpbench check`` says
whether it holds what every scheme must.

- Settings: ``setting`` declares one, ``settings`` has those under shared names (``settings.max_iterations()``).
- A fit: ``run_training`` gives a ``Fit``, and tells ``on_step`` of each ``Step`` until ``StopTraining``.
- Rows to start from: ``InducingRule``; ``make_kernel`` and ``likelihood`` by name; ``load_posterior`` of a saved fit.
- Searches: ``maximise`` with ``LBFGSB`` or ``SCG``, over ``Unknowns`` made of named ``Part`` arrays.
- Results: ``load_results()``, every cell as a row of a DataFrame.
- Errors: all are a ``GpbenchError``.
- To use a method from scikit-learn: ``GPClassifier(method="x-gpc")``, ``GPOrdinal``, ``GPCounts``.

    import gpbench

    scheme = gpbench.method("x-gpc").build({"inducing": "20"})
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; at run time the table below says the same
    from gpbench.bench.method import BINARY, CLASSES, Method
    from gpbench.bench.methods import method, methods
    from gpbench.errors import DataError, GpbenchError, NumericalError, UsageError
    from gpbench.estimators import GPClassifier, GPCounts, GPOrdinal
    from gpbench.model.basis import Basis
    from gpbench.model.gaussian import GaussianQ
    from gpbench.model.inducing import InducingRule
    from gpbench.model.kernels import Kernel, make_kernel
    from gpbench.model.likelihoods import Likelihood, likelihood
    from gpbench.model.posterior import Latent, Posterior, Predictor, load_posterior, register_posterior
    from gpbench.optimize.lbfgsb import LBFGSB
    from gpbench.optimize.maximise import Maximum, Point, maximise
    from gpbench.optimize.scg import SCG
    from gpbench.optimize.training import OnStep, Step, StopTraining, Trainer
    from gpbench.optimize.unknowns import Part, Unknowns
    from gpbench.report.results import load_results
    from gpbench.schemes import settings
    from gpbench.schemes.base import Fit, Scheme, Training, run_training, setting
    from gpbench.schemes.settings import BinaryScheme, GPSettings, KernelSettings, Learned

__version__ = "0.1.0"

__all__ = [
    "BINARY",
    "CLASSES",
    "LBFGSB",
    "SCG",
    "Basis",
    "BinaryScheme",
    "DataError",
    "Fit",
    "GPClassifier",
    "GPCounts",
    "GPOrdinal",
    "GPSettings",
    "GaussianQ",
    "GpbenchError",
    "InducingRule",
    "Kernel",
    "KernelSettings",
    "Latent",
    "Learned",
    "Likelihood",
    "Maximum",
    "Method",
    "NumericalError",
    "OnStep",
    "Part",
    "Point",
    "Posterior",
    "Predictor",
    "Scheme",
    "Step",
    "StopTraining",
    "Trainer",
    "Training",
    "Unknowns",
    "UsageError",
    "likelihood",
    "load_posterior",
    "load_results",
    "make_kernel",
    "maximise",
    "method",
    "methods",
    "register_posterior",
    "run_training",
    "setting",
    "settings",
]

_OFFERED = {
    "gpbench.bench.method": ("BINARY", "CLASSES", "Method"),
    "gpbench.bench.methods": ("method", "methods"),
    "gpbench.errors": ("DataError", "GpbenchError", "NumericalError", "UsageError"),
    "gpbench.estimators": ("GPClassifier", "GPCounts", "GPOrdinal"),
    "gpbench.model.basis": ("Basis",),
    "gpbench.model.gaussian": ("GaussianQ",),
    "gpbench.model.inducing": ("InducingRule",),
    "gpbench.model.kernels": ("Kernel", "make_kernel"),
    "gpbench.model.likelihoods": ("Likelihood", "likelihood"),
    "gpbench.model.posterior": ("Latent", "Posterior", "Predictor", "load_posterior", "register_posterior"),
    "gpbench.optimize.lbfgsb": ("LBFGSB",),
    "gpbench.optimize.maximise": ("Maximum", "Point", "maximise"),
    "gpbench.optimize.scg": ("SCG",),
    "gpbench.optimize.training": ("OnStep", "Step", "StopTraining", "Trainer"),
    "gpbench.optimize.unknowns": ("Part", "Unknowns"),
    "gpbench.report.results": ("load_results",),
    "gpbench.schemes": ("settings",),
    "gpbench.schemes.base": ("Fit", "Scheme", "Training", "run_training", "setting"),
    "gpbench.schemes.settings": ("BinaryScheme", "GPSettings", "KernelSettings", "Learned"),
}
_MODULE = {name: module for module, names in _OFFERED.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module 'gpbench' has no attribute {name!r}")
    module = import_module(_MODULE[name])
    # a module among the names is imported under its own path; `gpbench.schemes` alone does not hold it
    found = getattr(module, name, None) or import_module(f"{_MODULE[name]}.{name}")
    globals()[name] = found  # asked for once
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
