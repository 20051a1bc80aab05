"""gpbench: how fast and how well sparse Gaussian process classifiers learn."""

__version__ = "0.1.0"
