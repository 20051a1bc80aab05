"""The methods of hensman2015."""

from gpbench.bench.method import BINARY, CLASSES, Checking, Method, Timing

__all__ = ["METHODS"]

METHODS = (
    Method(
        id="klsp",
        title="Sparse KL bound under L-BFGS-B, inducing inputs and hyper-parameters optimised",
        tasks=BINARY,
        paper="hensman2015",
        timing=Timing(steps=900, overhead=1.5e-3, per_input=5e-7),
        scheme="gpbench.schemes.klsp:KLSp",
        version=3,
    ),
    Method(
        id="mfsp",
        title="Sparse mean-field bound, its inner loop solved at each evaluation, under L-BFGS-B",
        tasks=BINARY,
        paper="hensman2015",
        timing=Timing(steps=500, overhead=3e-3, per_input=1e-6),
        scheme="gpbench.schemes.nested.mfsp:MFSp",
        version=4,
    ),
    Method(
        id="mfsp-joint",
        title="Sparse mean-field bound without an inner optimum, all unknowns under one search",
        tasks=BINARY,
        paper="hensman2015",
        timing=Timing(steps=500, overhead=3e-3, per_input=1e-6),
        scheme="gpbench.schemes.nested.mfsp_joint:MFSpJoint",
    ),
    Method(
        id="klsp-sgd",
        title="Sparse KL bound on mini-batches by AdaDelta or Adam, everything optimised",
        tasks=BINARY,
        paper="hensman2015",
        scheme="gpbench.schemes.klsp_sgd:KLSpSGD",
        version=2,
        checking=Checking(
            acts_with={
                "tolerance": {"stop": "held-out", "max_iterations": 1300, "hyperparameters": "fixed"},
                "grid_iterations": {"rate_grid": 3},
            },
            exempt={"rows permuted": "mini-batches are drawn by row numbers"},
        ),
    ),
    Method(
        id="sparse-map",
        title="The bound that the paper abandons: q(u) at the mode, its covariance blind to the labels",
        tasks=BINARY,
        paper="hensman2015",
        timing=Timing(steps=400, overhead=3e-3, per_input=1e-6),
        scheme="gpbench.schemes.nested.sparse_map:SparseMAPScheme",
        version=4,
    ),
    Method(
        id="kl",
        title="Full variational Gaussian approximation in 2n unknowns, hyper-parameters by its bound",
        tasks=BINARY,
        paper="hensman2015",
        timing=Timing(steps=12, overhead=1e-2, load=2.0),
        scheme="gpbench.schemes.nested.kl:KL",
        version=3,
    ),
    Method(
        id="ep",
        title="Full expectation propagation, hyper-parameters by the log evidence",
        objective="evidence",
        tasks=BINARY,
        paper="hensman2015",
        timing=Timing(steps=12, overhead=1e-2, load=2.0),
        scheme="gpbench.schemes.ep.full:EP",
        version=4,
    ),
    Method(
        id="gfitc",
        title="Expectation propagation under FITC priors, inducing inputs and hyper-parameters by the log evidence",
        objective="evidence",
        tasks=CLASSES,
        paper="hensman2015",
        timing=Timing(steps=90, overhead=7e-3, load=1.5),
        scheme="gpbench.schemes.ep.gfitc:GFITC",
        version=3,
    ),
)
