from dataclasses import replace

import numpy as np
import pytest
from bench_fakes import FAKE, spec

from gpbench.bench.cell import CellSpec, Limits, SplitSpec, canonical
from gpbench.errors import UsageError


def test_key_of_a_known_cell_never_changes():
    # A change here makes every stored result unknown: raise FORMAT and say so in the changelog.
    known = CellSpec(
        method="x-gpc",
        version=1,
        settings={"rate": 0.5, "inducing": "100", "lengthscale": None, "batch_size": 100},
        limits=Limits(iterations=10),
        dataset="known",
        checksum="0" * 64,
        split=SplitSpec(protocol="folds:10", index=3, count=10, seed=0),
        seed=0,
        likelihood="logit",
    )
    assert known.key == "2dba90ad444ac6970a83"


def test_order_of_settings_plays_no_part():
    one = spec()
    other = replace(one, settings=dict(reversed(list(one.settings.items()))))
    assert list(other.settings) != list(one.settings)
    assert other.key == one.key


@pytest.mark.parametrize(
    "change",
    [
        {"method": "other"},
        {"version": 2},
        {"settings": {**FAKE.resolve({}), "rate": 0.2}},
        {"limits": Limits(seconds=1)},
        {"limits": Limits(iterations=1)},
        {"limits": Limits(test_rows=1)},
        {"limits": Limits(train_rows=1)},
        {"dataset": "other"},
        {"checksum": "1"},
        {"split": replace(spec().split, protocol="contiguous:3")},
        {"split": replace(spec().split, index=1)},
        {"split": replace(spec().split, seed=1)},
        {"seed": 1},
        {"likelihood": "probit"},
        {"scaling": "none"},
        {"source": "a"},
        {"changes": "a"},
    ],
    ids=str,
)
def test_everything_that_a_number_depends_on_is_in_the_key(change):
    assert replace(spec(), **change).key != spec().key


def test_whole_seconds_are_one_limit_however_written():
    assert spec(limits=Limits(seconds=5)).key == spec(limits=Limits(seconds=5.0)).key


def test_randomness_is_of_seed_and_split_alone():
    draws = {
        (seed, index): spec(seed=seed, index=index).generator().integers(2**62, size=3).tolist()
        for seed in (0, 1)
        for index in (0, 1)
    }
    assert len({tuple(values) for values in draws.values()}) == 4
    again = replace(spec(seed=1, index=1), method="other", dataset="other").generator()
    assert again.integers(2**62, size=3).tolist() == draws[1, 1]


def test_methods_share_the_seed_of_their_inducing_inputs_but_splits_do_not():
    base = spec()
    assert replace(base, method="other", seed=5).split.inducing_seed() == base.split.inducing_seed()
    seeds = {replace(base.split, index=i, seed=s).inducing_seed() for i in range(5) for s in range(5)}
    assert len(seeds) == 25
    assert all(np.random.default_rng(seed) for seed in seeds)


def test_canonical_json_knows_no_nan():
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"x": float("nan")})


@pytest.mark.parametrize(
    "bad",
    [{"seconds": 0}, {"seconds": -1}, {"seconds": float("nan")}, {"seconds": float("inf")}, {"iterations": 0},
     {"iterations": 1.5}, {"iterations": True}, {"test_rows": 0}, {"train_rows": 0}],
    ids=str,
)  # fmt: skip
def test_limits_out_of_range_are_refused(bad):
    with pytest.raises(UsageError, match=f"limit on {next(iter(bad))}.*{next(iter(bad.values()))}"):
        Limits(**bad)
