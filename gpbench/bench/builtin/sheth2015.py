"""The methods of sheth2015."""

from gpbench.bench.method import Checking, Method, Timing

__all__ = ["METHODS"]

_ANY = frozenset({"binary", "count", "ordinal"})
_DUAL = frozenset({"binary", "count"})
_ALL_ROWS = Timing(steps=300, steps_fixed=60, overhead=3e-3, load=0.4)
_FEW_ROWS = Timing(steps=300, steps_fixed=100, overhead=5e-3, load=1.2)

_EDGES = {"edges": {"edges": "-1,1"}}
_OF_FEW = "the subset is all that it sees of the rows, and the check makes it one of few"
_SUBSET = {"balanced duplicates": _OF_FEW, "shares": _OF_FEW}
_UNEQUAL = {"labels swapped": "the surrogate of two classes' bound treats them unequally"}

METHODS = (
    Method(
        id="gvi-fixed-point",
        title="Sparse bound for any likelihood: Newton in the mean, a fixed point in the covariance",
        tasks=_ANY,
        paper="sheth2015",
        timing=_ALL_ROWS,
        scheme="gpbench.schemes.general.gvi_fixed_point:GVIFixedPoint",
        version=4,
        checking=Checking(acts_with=_EDGES),
    ),
    Method(
        id="gvi-gradient",
        title="Sparse bound for any likelihood: Newton in the mean, L-BFGS in the covariance's factor",
        tasks=_ANY,
        paper="sheth2015",
        timing=_ALL_ROWS,
        scheme="gpbench.schemes.general.gvi_gradient:GVIGradient",
        version=4,
        checking=Checking(acts_with=_EDGES),
    ),
    Method(
        id="gvi-dual",
        title="Dual of the sparse bound (counts), or of a surrogate of it (two classes), by L-BFGS-B",
        tasks=_DUAL,
        paper="sheth2015",
        version=5,
        timing=_ALL_ROWS,
        scheme="gpbench.schemes.general.gvi_dual:GVIDual",
        checking=Checking(exempt=_UNEQUAL),
    ),
    Method(
        id="gvi-sgd",
        title="Sparse bound for any likelihood on mini-batches by Adam or AdaDelta",
        tasks=_ANY,
        paper="sheth2015",
        scheme="gpbench.schemes.general.gvi_sgd:GVISGD",
        version=5,
        checking=Checking(
            acts_with={
                **_EDGES,
                "tolerance": {"stop": "held-out", "max_iterations": 1300, "hyperparameters": "fixed"},
            }
        ),
    ),
    Method(
        id="sod-laplace",
        title="Subset of data, Laplace's approximation",
        objective="evidence",
        tasks=_ANY,
        paper="sheth2015",
        timing=_FEW_ROWS,
        scheme="gpbench.schemes.general.sod_laplace:SoDLaplace",
        version=4,
        checking=Checking(acts_with=_EDGES, exempt=_SUBSET),
    ),
    Method(
        id="sod-fixed-point",
        title="Subset of data, variational: Newton in the mean, a fixed point in the covariance",
        tasks=_ANY,
        paper="sheth2015",
        timing=_FEW_ROWS,
        scheme="gpbench.schemes.general.gvi_fixed_point:SoDFixedPoint",
        version=4,
        checking=Checking(acts_with=_EDGES, exempt=_SUBSET),
    ),
    Method(
        id="sod-gradient",
        title="Subset of data, variational: Newton in the mean, L-BFGS in the covariance's factor",
        tasks=_ANY,
        paper="sheth2015",
        timing=_FEW_ROWS,
        scheme="gpbench.schemes.general.gvi_gradient:SoDGradient",
        version=4,
        checking=Checking(acts_with=_EDGES, exempt=_SUBSET),
    ),
    Method(
        id="sod-dual",
        title="Subset of data, dual of the bound (counts), or of a surrogate of it (two classes)",
        tasks=_DUAL,
        paper="sheth2015",
        version=5,
        timing=_FEW_ROWS,
        scheme="gpbench.schemes.general.gvi_dual:SoDDual",
        checking=Checking(exempt={**_SUBSET, **_UNEQUAL}),
    ),
)
