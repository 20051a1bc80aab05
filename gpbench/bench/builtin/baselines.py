"""Methods that are no Gaussian processes, which a Gaussian process must beat."""

from gpbench.bench.method import CLASSES, Checking, Method, Timing

__all__ = ["METHODS"]

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
)
