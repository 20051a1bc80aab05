"""The methods of villacampa2017."""

from gpbench.bench.method import CLASSES, Checking, Method, Timing

__all__ = ["METHODS"]

_TIMING = Timing(steps=250, overhead=4e-3)
_LINEAR_IN_P = (
    "E log p(y | f) is linear in the probability that a label is the largest: the bound sides with the majority"
)
_ROBUST_MAX = Checking(
    short={"hold_epsilon": 2, "max_iterations": 8, "nodes": 20},
    acts_with={
        "hold_epsilon": {"learn_epsilon": True},
        "rate": {"mode": "stochastic"},
        "batch_size": {"mode": "stochastic"},
        "stop": {"mode": "stochastic"},
        "tolerance": {"mode": "stochastic", "stop": "held-out", "max_iterations": 1300, "hyperparameters": "fixed"},
        "validation": {"mode": "stochastic", "stop": "held-out"},
    },
    exempt={"shares": _LINEAR_IN_P},
)

METHODS = (
    Method(
        id="ep-mgpc",
        title="Scalable expectation propagation, a site for each pair of classes; sites and hyper-parameters together",
        tasks=CLASSES,
        paper="villacampa2017",
        timing=_TIMING,
        scheme="gpbench.schemes.scalable_ep.mgpc:EPMGPC",
        version=3,
    ),
    Method(
        id="sep-mgpc",
        title="Stochastic expectation propagation: tied factors, memory that does not grow with the rows",
        tasks=CLASSES,
        paper="villacampa2017",
        timing=_TIMING,
        scheme="gpbench.schemes.scalable_ep.mgpc:SEPMGPC",
        version=3,
    ),
    Method(
        id="vi-mgpc",
        title="Robust-max variational bound under L-BFGS-B or Adam, label noise fixed at 0.001 as printed",
        tasks=CLASSES,
        paper="villacampa2017",
        timing=_TIMING,
        scheme="gpbench.schemes.robust_max.vi_mgpc:VIMGPC",
        version=2,
        checking=_ROBUST_MAX,
    ),
    Method(
        id="vi-mgpc-learned",
        title="Robust-max variational bound, label noise learned with the hyper-parameters",
        tasks=CLASSES,
        paper="villacampa2017",
        timing=_TIMING,
        scheme="gpbench.schemes.robust_max.vi_mgpc:VIMGPC",
        version=2,
        checking=_ROBUST_MAX,
        preset={"learn_epsilon": True},
    ),
)
