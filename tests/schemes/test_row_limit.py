"""Schemes with matrices of rows by rows refuse too many rows, all in the same words."""

import numpy as np
import pytest

from gpbench.bench.methods import method, methods
from gpbench.errors import UsageError
from gpbench.model.inducing import InducingRule
from gpbench.schemes.settings import check_row_limit

#: They draw that many rows instead of refusing more.
DRAWING = {"linear", "hgb", "hgb-tuned", "rff"}
#: sklearn-gpc is asked without its environment.
LIMITED = [name for name in methods() if "max_rows" in method(name).settings() and name not in DRAWING]
SUBSETS = [name for name in LIMITED if name.startswith("sod-")]
ALL_ROWS = ["ep", "gibbs", "kl", "sklearn-gpc"]


def test_the_limit_itself_is_allowed():
    check_row_limit("ep", 40, max_rows=40)
    with pytest.raises(UsageError) as caught:
        check_row_limit("ep", 41, max_rows=40)
    assert str(caught.value) == (
        "ep needs matrices of rows by rows: expected at most max_rows = 40 rows; got 41; train on fewer rows, or set "
        "max_rows=41, where memory grows with the square of the rows and time with their cube"
    )


def test_the_limited_methods_are_those_that_are_tested_here():
    assert set(LIMITED) == {*ALL_ROWS, *SUBSETS}
    assert len(SUBSETS) == 4


@pytest.mark.parametrize("name", ALL_ROWS + SUBSETS)
def test_more_rows_are_refused(name):
    one = method(name)
    scheme = one.build(one.resolve({"max_rows": 11}))
    X = np.random.default_rng(0).normal(size=(12, 2))
    with pytest.raises(UsageError) as caught:
        fit(scheme, X)
    with pytest.raises(UsageError) as expected:
        check_row_limit(name, 12, max_rows=11)
    assert str(caught.value) == str(expected.value)


@pytest.mark.parametrize("name", SUBSETS)
def test_rows_outside_a_subset_do_not_count(name):
    one = method(name)
    scheme = one.build(one.resolve({"max_rows": 11, "hyperparameters": "fixed"}))
    X = np.random.default_rng(0).normal(size=(30, 2))
    assert len(fit(scheme, X, M=11).posterior.latents[0].Z) == 11
    with pytest.raises(UsageError, match="got 12"):
        fit(scheme, X, M=12)


def fit(scheme, X, *, M=12):
    return scheme.fit(
        X,
        (X[:, 0] > 0).astype(int),
        inducing=InducingRule("random", count=M, seed=1),
        likelihood=scheme.likelihood_for("binary", 2),
        classes=2,
        rng=np.random.default_rng(0),
        on_step=lambda _: None,
    )
