"""The methods that come with gpbench, one file for each paper, and rivals from other libraries."""

from gpbench.bench.builtin import (
    baselines,
    beyond,
    hensman2015,
    izmailov2016,
    rivals,
    sheth2015,
    villacampa2017,
    wenzel2019,
)

__all__ = ["BUILT_IN"]

BUILT_IN = (
    *wenzel2019.METHODS,
    *beyond.METHODS,
    *baselines.METHODS,
    *hensman2015.METHODS,
    *izmailov2016.METHODS,
    *sheth2015.METHODS,
    *villacampa2017.METHODS,
    *rivals.METHODS,
)
"""Every built-in method, in the order in which they are listed."""
