"""What the benchmarks repeat: training by a method's id, turns A B A B, processor seconds of one thread, ratios.

Seconds of one run on a busy machine say little, ratios of things that were measured in turn a lot. Whatever is to be
compared is therefore called turn by turn (A B A B ...), each in processor seconds of this thread on one BLAS thread;
each round gives one ratio, and what is printed is the median of the rounds with their quartiles. Schemes are trained
as anybody trains them, by ``fit`` with settings by name, and are measured between calls of ``on_step``.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import contextmanager
from time import thread_time

import numpy as np
from threadpoolctl import threadpool_limits

from gpbench.bench.methods import method
from gpbench.model.inducing import InducingRule
from gpbench.schemes.base import StopTraining

__all__ = ["Iterations", "Report", "fit", "per_iteration", "turns"]

ENDLESS = 1_000_000_000


def fit(name, X, y, *, on_step, M, task="binary", rule="random", **settings):
    """Train the method of an id with settings by name; iterations have no limit but ``on_step``'s unless one is set.

    Parameters
    ----------
    name : str
        ``"x-gpc"``.
    X, y : (n, d), (n,)
        Classes are 0..C-1.
    on_step : callable
        Told of each iteration; raises StopTraining to end.
    M : int
        Inducing inputs, chosen by ``rule``.
    """
    known = method(name)
    scheme = known.build(known.resolve({"max_iterations": ENDLESS, **settings}))
    classes = 0 if task == "count" else int(np.max(y)) + 1
    return scheme.fit(
        X,
        y,
        inducing=InducingRule(rule, count=str(M), seed=0),
        likelihood=scheme.likelihood_for(task, classes),
        classes=classes,
        rng=np.random.default_rng(0),
        on_step=on_step,
    )


class Iterations:
    """An ``on_step`` that measures iterations, and pieces of linear algebra in turn with them; ends the training.

    In each round a few iterations are measured together, then each piece as often; the first iteration after the
    pieces, which finds their data in the cache and not its own, is left out.

    Parameters
    ----------
    pieces : mapping of str to callable
    rounds, calls : int
        Rounds, and calls of everything in one.
    warm : int
        Iterations before the first round.

    Attributes
    ----------
    seconds : list of float
        Of an iteration, a round each.
    pieces : dict of str to list of float
        Of a call of each piece, a round each.
    last : Step
        The last one.
    """

    def __init__(self, pieces, *, rounds, calls=1, warm=3):
        self.seconds, self.pieces = [], {name: [] for name in pieces}
        self._calls, self._rounds, self._count, self._left = pieces, rounds, calls, warm
        self._since = None

    def __call__(self, step):
        """Take a step."""
        now = thread_time()
        self.last = step
        self._left -= 1
        if self._left > 0:
            return
        if self._since is not None:
            self.seconds.append((now - self._since) / self._count)
            for name, call in self._calls.items():
                call()
                self.pieces[name].append(seconds_of(call, self._count))
            if len(self.seconds) == self._rounds:
                raise StopTraining
            self._since, self._left = None, 1
        else:
            self._left = self._count
            self._since = thread_time()


def seconds_of(call, times=1):
    """Processor seconds of a call."""
    start = thread_time()
    for _ in range(times):
        call()
    return (thread_time() - start) / times


def per_iteration(name, X, y, *, iterations, warm=20, **options):
    """Processor seconds of an iteration, as the mean over a fit; ``options`` as for :func:`fit`."""
    measured = Iterations({}, rounds=1, calls=iterations, warm=warm)
    fit(name, X, y, on_step=measured, **options)
    return measured.seconds[0]


def turns(calls, *, rounds):
    """What each of some callables returns (seconds), called turn by turn: dict of str to list of float."""
    found = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            found[name].append(call())
    return found


class Report:
    """Prints ratios and other findings, each with its goal; a limit that is not kept makes the benchmark fail.

    A *goal* is what the code is meant to reach; it is printed, and marked where it is missed. A *limit* is what must
    hold: the benchmark exits with 1 where it does not. Neither is judged in the quick form, where seconds are too few.

    Attributes
    ----------
    options : argparse.Namespace
        From the command line, ``quick`` among them.
    """

    def __init__(self, options):
        self.options = options
        self._failures = []

    @classmethod
    @contextmanager
    def of(cls, doc, add_options=None):
        """Parse the command line, hold BLAS to one thread, and end with exit code 1 where something fails."""
        parser = argparse.ArgumentParser(description=doc.splitlines()[0])
        parser.add_argument("--quick", action="store_true", help="a form of seconds that only shows that it runs")
        if add_options is not None:
            add_options(parser)
        report = cls(parser.parse_args())
        with threadpool_limits(1):
            yield report
        report.end()

    def ratio(self, label, over, under, *, goal=None, limit=None):
        """Print the ratios of two sequences of seconds, a round each."""
        ratios = np.asarray(over, dtype=float) / np.asarray(under, dtype=float)
        low, middle, high = np.percentile(ratios, [25, 50, 75])
        self._require_positive(label, middle)
        self._judge(f"{label:<44} {middle:6.2f}  ({low:.2f} to {high:.2f})", middle, goal=goal, limit=limit)

    def seconds(self, label, values, *, unit="us"):
        """Print the median of some seconds with their quartiles."""
        low, middle, high = np.percentile(values, [25, 50, 75]) * {"us": 1e6, "ms": 1e3, "s": 1.0}[unit]
        self._require_positive(label, middle)
        print(f"  {label:<44} {middle:6.4g} {unit}  ({low:.4g} to {high:.4g})", flush=True)

    def number(self, label, value, unit="", *, goal=None, limit=None):
        """Print a finite number whose smallness is the goal; a difference of times may be below 0 by their noise."""
        self._judge(f"{label:<44} {value:6.4g} {unit}".rstrip(), value, goal=goal, limit=limit)

    def fail(self, message):
        """Make the benchmark fail at its end."""
        self._failures.append(message)

    def end(self):
        """Exit with 1 and the reasons where something failed."""
        if self._failures:
            sys.exit("failed: " + "; ".join(self._failures))

    def _judge(self, text, value, *, goal, limit):
        words = []
        if goal is not None:
            words.append(f"goal {goal:g}" + (", missed" if value > goal and not self.options.quick else ""))
        if limit is not None:
            words.append(f"at most {limit:g}")
            if value > limit and not self.options.quick:
                self.fail(f"{text.strip()} where {limit:g} is allowed")
        print(f"  {text}" + (f"   [{'; '.join(words)}]" if words else ""), flush=True)
        if not np.isfinite(value):
            self.fail(f"{text.strip()}: expected a finite number; got {value}")

    def _require_positive(self, label, value):
        if not (np.isfinite(value) and value > 0.0):
            self.fail(f"{label.strip()}: expected a finite time above 0; got {value}")
