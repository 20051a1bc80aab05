"""Opponents: what a Gaussian process must beat, and what every reader of a table asks for."""

from gpbench.bench.method import CLASSES, Checking, Method, Timing

__all__ = ["METHODS"]

_CHOICE = {"candidates": 3}
_SPLITS = {"shares": "trees part the rows of one spot by the thousandths in which they differ"}

METHODS = (
    Method(
        id="linear",
        title="Logistic regression (scikit-learn), the baseline that a Gaussian process must beat",
        tasks=CLASSES,
        scheme="gpbench.schemes.linear:Linear",
        checking=Checking(
            exempt={
                "steps": "scikit-learn tells nothing while it trains: one step, at the end",
                "stopped": "the one step is told when training has ended by itself",
            }
        ),
    ),
    Method(
        id="class-frequencies",
        title="The training rows' class frequencies: what can be had without the inputs",
        tasks=CLASSES,
        scheme="gpbench.schemes.linear:ClassFrequencies",
        timing=Timing(steps=1, overhead=0.0),
        checking=Checking(
            exempt={
                "shares": "it knows no inputs, by which classes differ",
                "steps": "it counts once: one step, at the end",
                "stopped": "the one step is told when training has ended by itself",
            }
        ),
    ),
    Method(
        id="hgb",
        title="Histogram gradient boosting (scikit-learn) with its own defaults",
        tasks=CLASSES,
        scheme="gpbench.schemes.hgb:HGB",
        timing=Timing(overhead=0.15, load=100.0),
        checking=Checking(
            short={"min_samples_leaf": 3, "max_iter": 5},
            settled={"min_samples_leaf": 13},
            acts_with={"validation_rows": _CHOICE, "early_stopping": {"max_iter": 60, "min_samples_leaf": 2}},
            exempt=_SPLITS,
        ),
    ),
    Method(
        id="hgb-tuned",
        title="The same, best of 12 settings on a fifth of the training rows",
        tasks=CLASSES,
        scheme="gpbench.schemes.hgb:HGB",
        preset={"candidates": 12, "max_iter": 500},
        timing=Timing(overhead=5.0, load=5000.0),
        checking=Checking(
            short={"candidates": 2, "max_iter": 5, "min_samples_leaf": 3},
            settled={"candidates": 1, "max_iter": 100, "min_samples_leaf": 13},
            acts_with={"early_stopping": {"candidates": 1, "max_iter": 60, "min_samples_leaf": 2}},
            exempt=_SPLITS,
        ),
    ),
    Method(
        id="rff",
        title="500 random Fourier features and logistic regression; scale and variance on a fifth of the rows",
        tasks=CLASSES,
        scheme="gpbench.schemes.rff:RFF",
        timing=Timing(overhead=0.15, load=300.0),
        checking=Checking(
            short={"features": 20},
            settled={"features": 400, "lengthscale": 1.0, "variance": 10.0},
            acts_with={"max_rows": {"lengthscale": 1.0, "variance": 10.0}},
        ),
    ),
    Method(
        id="dirichlet-gpc",
        title="Regression to Dirichlet targets in closed form, hyper-parameters by L-BFGS-B (Milios et al. 2018)",
        tasks=CLASSES,
        scheme="gpbench.schemes.dirichlet:DirichletGPC",
        timing=Timing(steps=60, load=0.25),
        checking=Checking(
            short={"alpha_epsilon": 0.01},
            settled={"alpha_epsilon": 0.01},
            exempt={
                "shares": "the mean of lognormal targets of equal rows is no logarithm of their shares: off by .12"
            },
        ),
    ),
)
