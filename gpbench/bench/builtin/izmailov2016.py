"""The methods of izmailov2016."""

from gpbench.bench.method import BINARY, Checking, Method, Timing

__all__ = ["METHODS"]

_TIMING = Timing(steps=700, overhead=5e-4, per_input=2e-8, load=0.8)

METHODS = (
    Method(
        id="klsp-batch-z-fixed",
        title="Sparse KL bound under L-BFGS-B, inducing inputs fixed, unwhitened",
        tasks=BINARY,
        paper="izmailov2016",
        timing=Timing(steps=900, load=0.8),
        scheme="gpbench.schemes.klsp:KLSp",
        version=3,
        preset={"link": "logit", "whiten": False, "learn_inducing": False, "freeze_iterations": 0},
    ),
    Method(
        id="svi-adadelta",
        title="Sparse KL bound on mini-batches by AdaDelta, inducing inputs fixed, rate from a grid",
        tasks=BINARY,
        paper="izmailov2016",
        timing=Timing(overhead=7e-4),
        scheme="gpbench.schemes.klsp_sgd:KLSpSGD",
        version=2,
        preset={
            "link": "logit",
            "whiten": False,
            "learn_inducing": False,
            "freeze_iterations": 0,
            "batch_size": 50,
            "objective": "batch",
            "rate_grid": 10,
        },
        checking=Checking(
            short={"rate_grid": 3, "grid_iterations": 5},
            acts_with={
                "rate": {"rate_grid": 0},
                "tolerance": {"stop": "held-out", "max_iterations": 1300, "hyperparameters": "fixed"},
            },
            exempt={"rows permuted": "mini-batches are drawn by row numbers"},
        ),
    ),
    Method(
        id="vi-jj",
        title="Jaakkola-Jordan bound of the logit at its best tangents, under L-BFGS-B over hyper-parameters",
        tasks=BINARY,
        paper="izmailov2016",
        timing=_TIMING,
        scheme="gpbench.schemes.jaakkola.vijj:VIJJ",
        preset={"variant": "profile", "tolerance": 1e-7},
        version=5,
        checking=Checking(
            acts_with={"updates": {"variant": "alternate"}, "stage_evaluations": {"variant": "alternate"}},
        ),
    ),
    Method(
        id="vi-taylor",
        title="Second-order expansion of the logit, q(u) by Newton's method",
        tasks=BINARY,
        paper="izmailov2016",
        timing=_TIMING,
        scheme="gpbench.schemes.jaakkola.vijj:VIJJ",
        preset={"bound": "taylor"},
        version=5,
    ),
    Method(
        id="vi-jj-full",
        title="Jaakkola-Jordan bound, tangents and hyper-parameters under one L-BFGS-B",
        tasks=BINARY,
        paper="izmailov2016",
        timing=_TIMING,
        scheme="gpbench.schemes.jaakkola.vijj:VIJJFull",
        version=2,
    ),
    Method(
        id="vi-jj-hybrid",
        title="Jaakkola-Jordan bound, tangents in closed form and then with the hyper-parameters",
        tasks=BINARY,
        paper="izmailov2016",
        timing=_TIMING,
        scheme="gpbench.schemes.jaakkola.vijj:VIJJ",
        preset={"variant": "hybrid"},
        version=4,
    ),
)
