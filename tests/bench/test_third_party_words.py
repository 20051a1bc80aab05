"""What a scheme may say and leave behind that is not what it should be: a cell fails alone, the next one is as ever."""

import os
import subprocess
import sys
import threading
import warnings
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from bench_fakes import FAKE, FakePosterior, FakeScheme, task, without_times

from gpbench.bench.methods import Method
from gpbench.bench.runner import run_cell
from gpbench.bench.store import Store
from gpbench.bench.workers import Workers
from gpbench.schemes.base import Fit, Step


class Mute(Exception):
    def __str__(self):
        raise RuntimeError


class Odd(FakePosterior):
    def __init__(self, what):
        super().__init__(np.zeros(3))
        self.what = what

    def score(self, X, y):
        log_density, error, both = super().score(X, y)
        return {
            "some": (log_density[:3], error, both),
            "one": (0.0, 0.0, both),
            "complex": (log_density + 1j, error, both),
            "long": (log_density, error, np.vstack([both, both])),
            "text": (log_density, error, both.astype(str)),
            "nan": (log_density, error, both * np.nan),
            "none": None,
        }.get(self.what, (log_density, error, both))

    def arrays(self):
        return {
            "file": {"file": self.weights}, "number": {1: self.weights}, "taken": {"y_test": self.weights}, "no": None
        }.get(self.what, super().arrays())  # fmt: skip


def a_cycle():
    found = []
    found.append(found)
    return found


FITS = {
    "class": lambda: FakePosterior,
    "text": lambda: "nothing",
    "none": lambda: None,
    "stopped": lambda: Fit(posterior=Odd(""), stopped_by="tired"),
    "object": lambda: Fit(posterior=Odd(""), facts={"a": object()}),
    "keys": lambda: Fit(posterior=Odd(""), facts=[1]),
    "cycle": lambda: Fit(posterior=Odd(""), facts={"a": a_cycle()}),
    "digits": lambda: Fit(posterior=Odd(""), facts={"a": 10**5000}),
    "bytes": lambda: Fit(posterior=Odd(""), facts={"a": "a" * 2**26}),
    **{what: lambda what=what: Fit(posterior=Odd(what)) for what in (
        "some", "one", "complex", "long", "text of predictions", "nan", "nothing", "file", "number", "taken", "no"
    )},
}  # fmt: skip
FITS["text of predictions"] = lambda: Fit(posterior=Odd("text"))
FITS["nothing"] = lambda: Fit(posterior=Odd("none"))


@dataclass(frozen=True)
class Teller(FakeScheme):
    def fit(self, X, y, *, on_step, **others):  # noqa: ARG002
        if self.trouble == "mute":
            raise Mute
        if self.trouble == "long":
            raise ValueError("x" * 10**6)
        if self.trouble == "step":
            on_step(Step("one", bound=None, posterior=lambda: Odd("")))
        if self.trouble == "plain":
            return Fit(posterior=FakePosterior(np.zeros(X.shape[1])), facts={"a": np.arange(3), 1: np.nan, "b": (1,)})
        given = FITS[self.trouble]()
        if isinstance(given, Fit):
            given.posterior.weights = np.zeros(X.shape[1])
        return given


@dataclass(frozen=True)
class Leaver(FakeScheme):
    def fit(self, X, y, *, on_step, **others):  # noqa: ARG002
        if self.trouble == "fork" and os.fork() == 0:
            return FakePosterior(np.zeros(X.shape[1]))
        _leave(self.trouble)
        return FakePosterior(np.zeros(X.shape[1]))


def _leave(trouble):
    if trouble == "folder":
        os.chdir("/")
    if trouble == "errors":
        np.seterr(all="raise")
    if trouble == "warnings":
        warnings.simplefilter("error")
    if trouble == "thread":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    if trouble == "child":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    if trouble == "pipes":
        os.closerange(3, 100)
    if trouble == "words":
        for number in range(3, 20):
            try:
                os.write(number, b"\x05\0\0\0\0\0\0\0 words")
            except OSError:
                continue
    if trouble == "orphan" and os.fork() == 0:  # it holds its parent's pipe, and stays
        threading.Event().wait(5)
        os._exit(0)
    if trouble == "orphan":
        os._exit(9)


TELLER = Method(id="teller", title="Teller", tasks=FAKE.tasks, scheme=Teller)
LEAVER = Method(id="leaver", title="Leaver", tasks=FAKE.tasks, scheme=Leaver)


@pytest.mark.parametrize("trouble", [*FITS, "mute", "long", "step"])
def test_a_cell_fails_with_words_and_is_stored(trouble, tmp_path):
    result = Store(tmp_path).put(run_cell(task(method=TELLER, trouble=trouble)).result)
    assert result.status == "failed"
    assert 0 < len(result.problem.message) < 3000
    assert Store(tmp_path).get(result.key) == result


def test_facts_are_stored_as_plain_ones(tmp_path):
    outcome = run_cell(task(method=TELLER, trouble="plain"))
    result = Store(tmp_path).put(outcome.result, outcome.arrays)
    assert result.provenance["fit"] == {"a": [0, 1, 2], "1": None, "b": [1]}
    assert Store(tmp_path).get(result.key) == result


@pytest.mark.parametrize(
    "trouble", ["fork", "folder", "errors", "warnings", "thread", "child", "pipes", "words", "orphan"]
)
@pytest.mark.skipif(os.name != "posix", reason="forks, and closes what it finds by number")
def test_the_next_cell_finds_a_process_as_it_should_be(trouble, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)
    first, second = task(method=LEAVER, trouble=trouble), task()
    with closing(Workers(1)) as workers:
        before = workers._idle[0].process.pid
        outcomes = list(workers.run([first, second]))
        assert workers._idle[0].process.pid != before or trouble == "fork"
    assert [outcome.result.key for outcome in outcomes] == [first.spec.key, second.spec.key]
    assert without_times(outcomes[1].result) == without_times(run_cell(second).result)
    assert outcomes[0].result.finished == (trouble not in {"pipes", "words", "orphan"})


def test_a_sweep_that_is_asked_to_end_between_two_cells_says_so(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)

    def tasks():
        raise KeyboardInterrupt
        yield

    with closing(Workers(1)) as workers, pytest.raises(KeyboardInterrupt):
        list(workers.run(tasks()))
