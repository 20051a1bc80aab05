"""Methods that are no Gaussian processes, which a Gaussian process must beat."""

from gpbench.bench.method import CLASSES, Method

__all__ = ["METHODS"]

METHODS = (
    Method(
        id="linear",
        title="Logistic regression (scikit-learn), the baseline that a Gaussian process must beat",
        tasks=CLASSES,
        scheme="gpbench.schemes.linear:Linear",
    ),
)
