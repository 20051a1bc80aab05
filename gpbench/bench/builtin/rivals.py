"""Rivals from other libraries, each in an environment of its own (``gpbench peers install``)."""

from gpbench.bench.method import BINARY, Method

__all__ = ["METHODS"]

METHODS = (
    Method(
        id="gpflow-svgp",
        title="GPflow's SVGP: Adam, or natural gradients for q(u); an environment of its own",
        tasks=BINARY,
        scheme="gpbench.peers.rivals:GPflowSVGP",
        version=2,
    ),
    Method(
        id="gpytorch-svgp",
        title="GPyTorch's variational GP by Adam; an environment of its own",
        tasks=BINARY,
        scheme="gpbench.peers.rivals:GPyTorchSVGP",
        version=2,
    ),
    Method(
        id="gpytorch-pg",
        title="GPyTorch's variational GP with Polya-Gamma augmentation; an environment of its own",
        tasks=BINARY,
        scheme="gpbench.peers.rivals:GPyTorchPG",
        version=2,
    ),
    Method(
        id="sklearn-gpc",
        title="scikit-learn's GaussianProcessClassifier: Laplace's method on all rows",
        tasks=BINARY,
        scheme="gpbench.peers.rivals:SklearnGPC",
    ),
)
