import io

import pytest
from bench_fakes import FAKE, POINTS, task

from gpbench.bench.cell import Limits
from gpbench.bench.progress import Progress
from gpbench.bench.result import Problem, Result
from gpbench.bench.sweep import Event


class Terminal(io.StringIO):
    def isatty(self):
        return True


def begin(tasks, stored=0):
    return Event("begin", len(tasks) + stored, stored, to_do=tuple(tasks))


def play(progress, times, tasks, took, *, status="ok", total=5, stored=0):
    """Tell of each task's start and end."""
    for one, seconds in zip(tasks, took, strict=True):
        progress(Event("start", total, stored, one.spec.label, task=one))
        times[0] += seconds
        problem = None if status == "ok" else Problem("ValueError", "no\x1b[31m good")
        result = Result.of(one.spec, status=status, metrics={"nll": 0.25}, trace={}, problem=problem)
        progress(Event("end", total, stored, one.spec.label, result, one))


def a_progress(stream):
    times = [0.0]
    return times, Progress(stream, clock=lambda: times[0])


def test_time_left_is_what_cells_of_their_kind_took():
    times, progress = a_progress(Terminal())
    slow = [task(POINTS, index=index) for index in range(3)]
    quick = [task(FAKE, index=index) for index in range(3)]
    progress(begin([*slow, *quick]))
    assert progress.left(1) is None
    play(progress, times, [slow[0]], [100.0])
    assert progress.left(1) == pytest.approx(5 * 100.0)
    play(progress, times, [quick[0]], [2.0])
    assert progress.left(1) == pytest.approx(2 * 100 + 2 * 2)
    assert progress.left(2) == pytest.approx(102)


def test_before_the_first_cell_has_ended_the_limit_is_the_estimate():
    _, progress = a_progress(Terminal())
    progress(begin([task(index=index, limits=Limits(seconds=60)) for index in range(3)]))
    assert progress.left(1) == 180


def test_a_terminal_gets_one_line_that_is_cleared_at_the_end(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    stream = Terminal()
    times, progress = a_progress(stream)
    tasks = [task(index=index) for index in range(3)]
    progress(begin(tasks, stored=2))
    play(progress, times, tasks[:2], [90.0, 90.0], stored=2)
    text = stream.getvalue()
    assert text.startswith("gpbench: 2 of 5 cells are stored already\n\r[2/5] fake on made-up, folds:3 1/3")
    assert "[3/5] fake on made-up, folds:3 1/3: NLL 0.2500; about 3:00 left" in text
    assert "about 1:30 left" in text.rsplit("\r", 1)[-1]
    progress.close()
    assert stream.getvalue().rstrip(" \r") != stream.getvalue()
    assert stream.getvalue().endswith("\r")


def test_the_line_fits_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    times, progress = a_progress(stream)
    progress(begin([task()]))
    play(progress, times, [task()], [1.0], total=1)
    assert stream.getvalue() == "\r[0/1] fake on made-" + "\r[1/1] fake on made-"


def test_elsewhere_than_on_a_terminal_only_bad_news_is_written():
    stream = io.StringIO()
    times, progress = a_progress(stream)
    tasks = [task(index=index) for index in range(2)]
    progress(begin(tasks, stored=2))
    play(progress, times, tasks[:1], [1.0])
    assert stream.getvalue() == ""
    progress(Event("damaged", 2, 0, "a file is damaged"))
    play(progress, times, tasks[1:], [1.0], status="failed")
    progress.close()
    assert stream.getvalue() == (
        "gpbench: a file is damaged\ngpbench: fake on made-up, folds:3 2/3: failed: ValueError: no\ufffd[31m good\n"
    )


@pytest.mark.parametrize("kind", ["damaged", "otherwise"])
def test_what_a_user_must_know_is_written_without_a_terminal_too(kind):
    stream = io.StringIO()
    Progress(stream)(Event(kind, 3, 1, "attention"))
    assert stream.getvalue() == "gpbench: attention\n"
