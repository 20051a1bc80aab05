"""The methods of wenzel2019."""

from gpbench.bench.builtin.villacampa2017 import SCALABLE_EP
from gpbench.bench.method import BINARY, Checking, Method, Timing

__all__ = ["METHODS"]

_X_GPC = Checking(
    acts_with={
        "tolerance": {
            "stop": "parameters",
            "max_iterations": 3000,
            "hyperparameters": "fixed",
            "learn_inducing": False,
        },
        "inducing_rate": {"learn_inducing": True},
    },
    exempt={"rows permuted": "mini-batches are drawn by row numbers"},
)

METHODS = (
    Method(
        id="x-gpc",
        title="Conjugate augmentation with Polya-Gamma variables, natural-gradient mini-batches",
        tasks=BINARY,
        paper="wenzel2019",
        timing=Timing(steps=5000, overhead=2e-4, load=0.35),
        scheme="gpbench.schemes.xgpc:XGPC",
        version=3,
        checking=_X_GPC,
    ),
    Method(
        id="x-gpc-z",
        title="x-gpc with inducing inputs that move, by Adam with the hyper-parameters",
        tasks=BINARY,
        paper="wenzel2019",
        timing=Timing(steps=5000, overhead=2e-4, load=0.35),
        scheme="gpbench.schemes.xgpc:XGPC",
        preset={"learn_inducing": True},
        checking=_X_GPC,
    ),
    Method(
        id="svgpc",
        title="Sparse KL bound by natural gradients for q(u) and Adam for hyper-parameters",
        tasks=BINARY,
        paper="wenzel2019",
        timing=Timing(steps=2300, load=0.6),
        scheme="gpbench.schemes.svgpc:SVGPC",
        version=3,
        checking=Checking(
            acts_with={"tolerance": {"stop": "held-out", "max_iterations": 1300, "hyperparameters": "fixed"}},
            exempt={"rows permuted": "mini-batches are drawn by row numbers"},
        ),
    ),
    Method(
        id="svgpc-adam",
        title="Sparse KL bound on mini-batches by plain Adam on q(u) and hyper-parameters, inducing inputs fixed",
        tasks=BINARY,
        paper="wenzel2019",
        timing=Timing(overhead=7e-4),
        scheme="gpbench.schemes.klsp_sgd:KLSpSGD",
        preset={"optimizer": "adam", "rate": 0.01, "learn_inducing": False, "freeze_iterations": 0},
        checking=Checking(
            acts_with={
                "tolerance": {"stop": "held-out", "max_iterations": 1300, "hyperparameters": "fixed"},
                "grid_iterations": {"rate_grid": 3},
            },
            exempt={"rows permuted": "mini-batches are drawn by row numbers"},
        ),
    ),
    Method(
        id="epgpc",
        title="Scalable expectation propagation on mini-batches, Adam for hyper-parameters, inducing inputs fixed",
        objective="evidence",
        tasks=BINARY,
        paper="wenzel2019",
        timing=Timing(steps=7000, load=0.9),
        scheme="gpbench.schemes.scalable_ep.mgpc:EPGPC",
        version=2,
        preset={"mode": "stochastic", "batch_size": 100, "learn_inducing": False, "beyond": "tied"},
        checking=SCALABLE_EP,
    ),
    Method(
        id="gibbs",
        title="Polya-Gamma Gibbs sampler on all rows, kernel fixed: the exact posterior",
        tasks=BINARY,
        paper="wenzel2019",
        timing=Timing(load=0.05),
        scheme="gpbench.schemes.gibbs:Gibbs",
        extra="gibbs",
        checking=Checking(
            short={"burn_in": 2, "samples": 8},
            settled={"burn_in": 100, "samples": 1000},
            exempt={
                "labels swapped": "draws follow the generator, whose noise does not change sign with the labels",
                "rows permuted": "each row's draws come from its place in the generator's stream",
            },
        ),
    ),
)
