import numpy as np
import pytest

from gpbench.errors import UsageError
from gpbench.optimize import training as minibatch
from gpbench.optimize.training import Minibatches, hold_out


def test_an_epoch_visits_each_row_once():
    batches = Minibatches(60, 20, rng=np.random.default_rng(0))
    first = np.concatenate([batches.draw() for _ in range(3)])
    second = np.concatenate([batches.draw() for _ in range(3)])
    assert sorted(first) == sorted(second) == list(range(60))
    assert (first != second).any()


def test_scale_makes_a_batch_stand_for_all_rows():
    assert Minibatches(60, 20, rng=np.random.default_rng(0)).scale == 3.0


def test_fewer_rows_than_a_batch_are_one_batch():
    batches = Minibatches(7, 100, rng=np.random.default_rng(0))
    assert sorted(batches.draw()) == list(range(7))
    assert (batches.size, batches.scale) == (7, 1.0)


@pytest.mark.parametrize("limit", [10, 1000])
def test_held_out_rows_are_never_drawn_and_all_others_are(monkeypatch, limit):
    monkeypatch.setattr(minibatch, "EPOCH_LIMIT", limit)
    out = hold_out(50, 20, rng=np.random.default_rng(1))
    assert len(set(out)) == 20
    assert (np.diff(out) > 0).all()
    batches = Minibatches(50, 7, rng=np.random.default_rng(0), without=out)
    drawn = [batches.draw() for _ in range(60)]
    assert all(len(set(rows)) == 7 for rows in drawn)
    assert set(np.concatenate(drawn)) == set(range(50)) - set(out)


def test_batches_of_many_rows_need_no_work_that_grows_with_them():
    batches = Minibatches(10**12, 100, rng=np.random.default_rng(0))
    rows = batches.draw()
    assert len(set(rows)) == 100
    assert rows.max() > 10**11


def test_no_rows_are_refused():
    with pytest.raises(UsageError, match="at least one row"):
        Minibatches(3, 2, rng=np.random.default_rng(0), without=np.arange(3))
