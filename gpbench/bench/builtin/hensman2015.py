"""The methods of hensman2015."""

from gpbench.bench.method import BINARY, Method

__all__ = ["METHODS"]

METHODS = (
    Method(
        id="klsp",
        title="Sparse KL bound under L-BFGS-B, inducing inputs and hyper-parameters optimised",
        tasks=BINARY,
        paper="hensman2015",
        scheme="gpbench.schemes.klsp:KLSp",
    ),
    Method(
        id="klsp-sgd",
        title="Sparse KL bound on mini-batches by AdaDelta or Adam, everything optimised",
        tasks=BINARY,
        paper="hensman2015",
        scheme="gpbench.schemes.klsp_sgd:KLSpSGD",
    ),
)
