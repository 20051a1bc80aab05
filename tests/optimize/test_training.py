import numpy as np
import pytest

from gpbench.errors import UsageError
from gpbench.optimize import training
from gpbench.optimize.training import Checks, HeldOut, Minibatches, ParameterChange, StopTraining, Trainer, hold_out


class After:
    """A stopping rule that holds from an iteration on."""

    def __init__(self, iteration):
        self.iteration = iteration

    def converged(self, iteration):
        return iteration >= self.iteration


def run(trainer):
    while trainer.running:
        trainer.check()
        trainer.report(-float(trainer.count))
    return trainer.count, trainer.stopped_by


def test_a_trainer_counts_tells_and_ends_by_its_limit():
    told, trainer = [], Trainer(limit=3, posterior=lambda: "where it stands")
    trainer.on_step = lambda step: told.append((step.iteration, step.bound, step.posterior()))
    assert run(trainer) == (3, "iterations")
    assert told == [(t, 1.0 - t, "where it stands") for t in (1, 2, 3)]
    assert trainer.left == 0


@pytest.mark.parametrize("at", [2, 3])
def test_a_rule_that_holds_at_the_limit_is_convergence(at):
    trainer = Trainer(limit=3, posterior=object)
    trainer.rule = After(at)
    assert run(trainer) == (at, "converged")


def test_a_step_that_is_told_to_stop_counts_and_has_not_converged():
    def on_step(step):
        if step.iteration == 2:
            raise StopTraining

    trainer = Trainer(limit=9, posterior=object)
    trainer.on_step, trainer.rule = on_step, After(2)
    with pytest.raises(StopTraining):
        run(trainer)
    assert (trainer.count, trainer.stopped_by) == (2, "on_step")


def test_a_long_step_may_ask_whether_to_end():
    class Impatient:
        def __call__(self, _):
            raise AssertionError("no step was reported")

        def check(self):
            raise StopTraining

    trainer = Trainer(limit=9, posterior=object)
    trainer.check()  # nobody to ask
    trainer.on_step = Impatient()
    with pytest.raises(StopTraining):
        run(trainer)


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
    monkeypatch.setattr(training, "EPOCH_LIMIT", limit)
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


def test_checks_lie_on_a_geometric_grid():
    checks = Checks(first=10, ratio=1.5)
    assert [t for t in range(1, 60) if checks.due(t)] == [10, 15, 23, 35, 53]


def test_parameter_change_is_relative_and_for_one_iteration():
    rule = ParameterChange(1e-3)
    x = np.array([1.0, -100.0])
    assert not rule.converged(100, x)
    assert not rule.converged(110, x * 1.05)  # 5 % in ten iterations
    assert rule.converged(160, x * 1.05 * 1.02)  # 2 % in fifty


def test_parameter_change_takes_zeros():
    rule = ParameterChange(1e-3)
    rule.converged(1, np.zeros(2))
    assert rule.converged(2, np.zeros(2))


def test_held_out_loss_must_fall_within_the_patience():
    rule = HeldOut(0.01, patience=2)
    falling = [rule.converged(loss) for loss in (1.0, 0.9, 0.8, 0.7)]
    assert falling == [False] * 4
    assert [rule.converged(loss) for loss in (0.699, 0.72)] == [False, True]


def test_a_held_out_loss_that_rises_is_converged():
    rule = HeldOut(1e-3, patience=1)
    assert [rule.converged(loss) for loss in (0.5, 0.6)] == [False, True]
