"""The methods of wenzel2019."""

from gpbench.bench.method import BINARY, Method

__all__ = ["METHODS"]

METHODS = (
    Method(
        id="x-gpc",
        title="Conjugate augmentation with Polya-Gamma variables, natural-gradient mini-batches",
        tasks=BINARY,
        paper="wenzel2019",
        scheme="gpbench.schemes.xgpc:XGPC",
    ),
    Method(
        id="svgpc",
        title="Sparse KL bound by natural gradients for q(u) and Adam for hyper-parameters",
        tasks=BINARY,
        paper="wenzel2019",
        scheme="gpbench.schemes.svgpc:SVGPC",
    ),
    Method(
        id="epgpc",
        title="Scalable expectation propagation on mini-batches, Adam for hyper-parameters, inducing inputs fixed",
        tasks=BINARY,
        paper="wenzel2019",
        scheme="gpbench.schemes.scalable_ep.mgpc:EPMGPC",
        preset={"mode": "stochastic", "batch_size": 100, "learn_inducing": False, "beyond": "tied"},
    ),
    Method(
        id="gibbs",
        title="Polya-Gamma Gibbs sampler on all rows, kernel fixed: the exact posterior",
        tasks=BINARY,
        paper="wenzel2019",
        scheme="gpbench.schemes.gibbs:Gibbs",
        extra="gibbs",
    ),
)
