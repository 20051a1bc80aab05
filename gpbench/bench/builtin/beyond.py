"""Methods that are no paper's: what came of reading them side by side."""

from gpbench.bench.method import Checking, Method, Timing

__all__ = ["METHODS"]

METHODS = (
    Method(
        id="pep",
        title="Sparse power expectation propagation, a site for each row, inducing inputs learned",
        objective="evidence",
        tasks=frozenset({"binary", "multiclass", "count", "ordinal"}),
        timing=Timing(steps=64, steps_fixed=20, overhead=2e-3, load=1.5),
        scheme="gpbench.schemes.pep.pep:PEP",
        version=5,
        versions={"count": 6, "multiclass": 6},
        checking=Checking(
            short={"precision": "double"},
            settled={"precision": "double"},
            acts_with={"stages": {"stages": "3x10,40xall"}, "batch_size": {"stages": "2x10,5xtail", "batch_size": 20}},
        ),
    ),
)
