from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from bench_fakes import FAKE, POINTS, FakeSource

from gpbench.bench.cell import Limits
from gpbench.bench.choices import Choice
from gpbench.bench.division import divide
from gpbench.bench.expand import Request, expand
from gpbench.bench.methods import methods
from gpbench.bench.sources import CatalogueSource
from gpbench.data.splits import Protocol
from gpbench.errors import UsageError


def request(method=FAKE, *, source=None, **options):
    return Request(choices=[Choice(method, method.resolve({}))], sources=[source or FakeSource()], **options)


def test_only_the_splits_that_are_asked_for():
    tasks = expand(request(split="folds:3", indices=[2, 0]))
    assert [task.spec.split.index for task in tasks] == [2, 0]


@pytest.mark.parametrize("index", [-1, 3])
def test_a_split_that_there_is_not(index):
    with pytest.raises(UsageError, match=rf"split folds:3 of made-up has the indices 0..2; got {index}"):
        expand(request(split="folds:3", indices=[0, index]))


def test_inducing_points_are_counted_where_the_split_does_not_give_them():
    few = FakeSource(name="few", n=3)  # `points` asks for four inducing points
    message = "method points on few, folds:2: fewer training rows than inducing points: 1 training rows, 4"
    with pytest.raises(UsageError, match=message):
        expand(request(POINTS, source=few, split="folds:2"))
    assert len(expand(request(POINTS, source=few, split="active:1/2"))) == 2


@pytest.mark.parametrize(
    ("split", "limits", "rows"),
    [
        ("folds:10", Limits(), 94),  # 48 and 57 rows of the classes: one fold has five of the one and six of the other
        ("contiguous:10", Limits(), 94),
        ("holdout:0.5*2", Limits(), 53),
        ("holdout:95*1", Limits(), 10),
        ("folds:10", Limits(train_rows=25), 25),
    ],
)
def test_inducing_points_are_no_more_than_the_training_rows_of_a_split(split, limits, rows):
    source = FakeSource(name="rows", n=105)

    def asked(inducing):
        choice = Choice(POINTS, POINTS.resolve({"inducing": inducing}))
        return expand(Request(choices=[choice], sources=[source], split=split, limits=limits))

    parts = [(task.spec.split.index, Protocol.parse(split)) for task in asked(str(rows))]
    splits = [part.split(source.load(), index, seed=0, train_rows=limits.train_rows) for index, part in parts]
    assert min(len(each.train) for each in splits) == rows
    assert asked("all")
    with pytest.raises(UsageError) as caught:
        asked(str(rows + 1))
    said = str(caught.value)
    assert f"{rows} training rows, {rows + 1} inducing points; --inducing {rows // 10 * 10} fits" in said


def test_draws_are_of_generated_data_and_every_cell_opens_all_of_them(tmp_path):
    source = CatalogueSource("waveform3:40", tmp_path, None)
    choice = methods()["linear"]
    tasks = expand(
        Request(choices=[Choice(choice, choice.resolve({}))], sources=[source], split="draws:3", indices=[2])
    )
    (task,) = tasks
    assert (task.spec.dataset, task.spec.split.count, task.source.draws) == ("waveform3:40", 3, 3)
    assert task.source.load().n == 120
    with pytest.raises(UsageError, match=r"split draws:3 is of generated data sets .*; got wine"):
        expand(request(source=CatalogueSource("wine", tmp_path, None), split="draws:3"))


def test_a_cell_on_a_draw_trains_on_rows_of_its_own(tmp_path):
    source = CatalogueSource("waveform3:40", tmp_path, None)
    choice = methods()["linear"]
    tasks = expand(Request(choices=[Choice(choice, choice.resolve({}))], sources=[source], split="draws:3"))
    seen = [divide(task.source.load(), task.spec) for task in tasks]
    assert [len(each.y) for each in seen] == [36] * 3
    plain = divide(source.load(), replace(tasks[0].spec, split=replace(tasks[0].spec.split, protocol="holdout:0.1*3")))
    assert len(plain.y) == 36
    assert not any(np.array_equal(one.y, other.y) for one, other in combinations(seen, 2))
