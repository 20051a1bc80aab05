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
        version=3,
    ),
    Method(
        id="gpjax-dual",
        title="GPJax's dual SVGP: natural gradients of the sites; an environment of its own",
        tasks=BINARY,
        timing=_TIMING,
        scheme="gpbench.peers.rivals:GPJaxDual",
    ),
    Method(
        id="gpytorch-svgp",
        title="GPyTorch's variational GP by Adam; an environment of its own",
        tasks=BINARY,
        timing=_TIMING,
        scheme="gpbench.peers.rivals:GPyTorchSVGP",
        version=3,
    ),
    Method(
        id="gpytorch-pg",
        title="GPyTorch's variational GP with Polya-Gamma augmentation; an environment of its own",
        tasks=BINARY,
        timing=_TIMING,
        scheme="gpbench.peers.rivals:GPyTorchPG",
        version=3,
    ),
    Method(
        id="sklearn-gpc",
        title="scikit-learn's GaussianProcessClassifier: Laplace's method on all rows",
        tasks=BINARY,
        timing=Timing(steps=30, load=2.0),
        scheme="gpbench.peers.rivals:SklearnGPC",
    ),
)
