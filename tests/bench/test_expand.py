import pytest
from bench_fakes import FAKE, POINTS, FakeSource

from gpbench.bench.choices import Choice
from gpbench.bench.expand import Request, expand
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
    with pytest.raises(UsageError, match="method points on few: fewer rows than inducing points"):
        expand(request(POINTS, source=few, split="folds:2"))
    assert len(expand(request(POINTS, source=few, split="active:1/2"))) == 2
