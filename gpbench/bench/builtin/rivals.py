"""Rivals from other libraries, each in an environment of its own (``gpbench peers install``)."""

from gpbench.bench.method import BINARY, Method, Timing

__all__ = ["METHODS"]

_TIMING = Timing(overhead=3e-3, load=2.0)

METHODS = (
    Method(
        id="gpflow-svgp",
        title="GPflow's SVGP: Adam, or natural gradients for q(u); an environment of its own",
        tasks=BINARY,
        timing=_TIMING,
        scheme="gpbench.peers.rivals:GPflowSVGP",
        version=2,
    ),
    Method(
        id="gpytorch-svgp",
        title="GPyTorch's variational GP by Adam; an environment of its own",
        tasks=BINARY,
        timing=_TIMING,
        scheme="gpbench.peers.rivals:GPyTorchSVGP",
        version=2,
    ),
    Method(
        id="gpytorch-pg",
        title="GPyTorch's variational GP with Polya-Gamma augmentation; an environment of its own",
        tasks=BINARY,
        timing=_TIMING,
        scheme="gpbench.peers.rivals:GPyTorchPG",
        version=2,
    ),
    Method(
        id="sklearn-gpc",
        title="scikit-learn's GaussianProcessClassifier: Laplace's method on all rows",
        tasks=BINARY,
        timing=Timing(steps=30, load=2.0),
        scheme="gpbench.peers.rivals:SklearnGPC",
    ),
)
