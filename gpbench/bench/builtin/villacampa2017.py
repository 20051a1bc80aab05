"""The methods of villacampa2017."""

from gpbench.bench.method import CLASSES, Checking, Method, Timing

__all__ = ["METHODS", "SCALABLE_EP"]

_TIMING = Timing(steps=250, overhead=4e-3)
_LINEAR_IN_P = (
    "E log p(y | f) is linear in the probability that a label is the largest: the bound sides with the majority"
)
_STOCHASTIC = {"mode": "stochastic"}
_HELD_OUT = {**_STOCHASTIC, "stop": "held-out"}
# From far off, by slow steps, the held-out NLL falls at each look, so that the tolerance decides at any rounding.
_STILL_FALLING = {**_HELD_OUT, "tolerance": 1.0, "max_iterations": 1060, "lengthscale": 0.1, "rate": 5e-4}
_ROBUST_MAX = Checking(
    short={"hold_hyperparameters": 2, "hold_epsilon": 2, "max_iterations": 8, "nodes": 20},
    acts_with={
        "hold_epsilon": {"learn_epsilon": True},
        "rate": _STOCHASTIC,
        "batch_size": _STOCHASTIC,
        "stop": _STOCHASTIC,
        "tolerance": _STILL_FALLING,
        "validation": _HELD_OUT,
    },
    exempt={"shares": _LINEAR_IN_P},
)
_TIED_EP = Checking(
    acts_with={
        "lengthscale_rates": {"mode": "batch", "max_iterations": 100, "growth": 2.0},
        "rate": _STOCHASTIC,
        "batch_size": _STOCHASTIC,
        "stop": _STOCHASTIC,
        "tolerance": _STILL_FALLING,
        "validation": _HELD_OUT,
        "value_tolerance": {"mode": "batch", "max_iterations": 60},
    },
)
SCALABLE_EP = Checking(
    acts_with={
        **_TIED_EP.acts_with,
        "ep_tolerance": {"mode": "batch", "training": "outer"},
        "ep_iterations": {"mode": "batch", "training": "outer"},
        "beyond": {**_STOCHASTIC, "stored_mb": 0.0},
    },
)
"""Where the settings of stored sites act: wenzel2019's rival is the same scheme."""

METHODS = (
    Method(
        id="ep-mgpc",
        title="Scalable expectation propagation, a site for each pair of classes; sites and hyper-parameters together",
        objective="evidence",
        tasks=CLASSES,
        paper="villacampa2017",
        timing=_TIMING,
        scheme="gpbench.schemes.scalable_ep.mgpc:EPMGPC",
        version=4,
        checking=SCALABLE_EP,
    ),
    Method(
        id="sep-mgpc",
        title="Stochastic expectation propagation: tied factors, memory that does not grow with the rows",
        objective="evidence",
        tasks=CLASSES,
        paper="villacampa2017",
        timing=_TIMING,
        scheme="gpbench.schemes.scalable_ep.mgpc:SEPMGPC",
        version=4,
        checking=_TIED_EP,
    ),
    Method(
        id="vi-mgpc",
        title="Robust-max variational bound under L-BFGS-B or Adam, label noise fixed at 0.001 as printed",
        tasks=CLASSES,
        paper="villacampa2017",
        timing=_TIMING,
        scheme="gpbench.schemes.robust_max.vi_mgpc:VIMGPC",
        version=3,
        checking=_ROBUST_MAX,
    ),
    Method(
        id="vi-mgpc-learned",
        title="Robust-max variational bound, label noise learned with the hyper-parameters",
        tasks=CLASSES,
        paper="villacampa2017",
        timing=_TIMING,
        scheme="gpbench.schemes.robust_max.vi_mgpc:VIMGPC",
        version=3,
        checking=_ROBUST_MAX,
        preset={"learn_epsilon": True},
    ),
)
