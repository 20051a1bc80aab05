"""A tiny scheme, posterior, data source and executor for tests of the harness; importable by worker processes."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from threadpoolctl import threadpool_info

from gpbench.bench.cell import CellSpec, Limits, SplitSpec
from gpbench.bench.methods import Method
from gpbench.bench.runner import Bounds, Task, run_cell
from gpbench.data.dataset import dataset_from_arrays
from gpbench.schemes.base import Fit, Step, StopTraining, setting

CALLS = []  # fits in this process: (inputs, inducing rule, thread counts)


class FakePosterior:
    def __init__(self, weights, *, broken=False):
        self.weights = weights
        self.broken = broken

    def score(self, X, y):
        p = 1 / (1 + np.exp(-(X[:] @ self.weights)))
        p = np.clip(p, 1e-9, 1 - 1e-9)
        if self.broken:
            p = np.zeros_like(p)
        both = np.column_stack([1 - p, p])
        with np.errstate(divide="ignore"):
            log_density = np.log(both[np.arange(len(y)), y])
        return log_density, (both.argmax(axis=1) != y).astype(float), both

    def arrays(self):
        return {"kind": np.array("fake"), "weights": self.weights}


@dataclass(frozen=True)
class FakeScheme:
    steps: int = setting(5, "Iterations.", minimum=0)
    rate: float = setting(0.1, "Step size.", minimum=0, maximum=1)
    kernel: str = setting("se", "Kernel.", choices=("se", "linear"))
    trouble: str = setting("none", "What goes wrong at the third iteration.")
    likelihood: str = setting("fake", "Likelihood.", choices=("fake", "probit"))
    max_iterations: int = setting(100, "Iterations.", minimum=1)
    width: float | None = setting(None, "Optional.", kind=float)

    def likelihood_for(self, task, n_classes):  # noqa: ARG002
        return SimpleNamespace(name=self.likelihood, tasks=frozenset({task}))

    def fit(self, X, y, *, inducing, likelihood, classes, rng, on_step):  # noqa: ARG002
        CALLS.append((X, inducing, [pool["num_threads"] for pool in threadpool_info()]))
        weights = np.zeros(X.shape[1])
        broken, stopped_by = self.trouble == "infinite", "iterations"
        try:
            for iteration in range(1, min(self.steps, self.max_iterations) + 1):
                rows = rng.integers(len(y), size=8)
                batch = X[rows]
                p = 1 / (1 + np.exp(-(batch @ weights)))
                weights = weights + self.rate * batch.T @ (y[rows] - p)
                if iteration == 3:
                    _misbehave(self.trouble)
                posterior = FakePosterior(weights, broken=broken)
                on_step(Step(iteration, bound=-float(iteration), posterior=lambda q=posterior: q))
        except StopTraining:
            if self.trouble != "late":  # as a scheme that was done when it reported its step
                stopped_by = "on_step"
        posterior = FakePosterior(weights, broken=broken)
        if self.trouble == "elsewhere":  # as a scheme whose last step told the bound of the state before
            return Fit(posterior=posterior, stopped_by=stopped_by, bound=-0.5, jitter=1e-6)
        if self.trouble == "silent":  # as a plug-in's scheme that gives a bare posterior
            return posterior
        return Fit(posterior=posterior, stopped_by=stopped_by, jitter=1e-6)


@dataclass(frozen=True)
class FakeInducing(FakeScheme):
    inducing: str = setting("4", "Inducing points.")
    inducing_rule: str = setting("random", "Rule.")
    kmeans_rows: int = setting(50, "Rows.")


class Odd(BaseException):
    """What no handler of exceptions catches."""


def _misbehave(trouble):
    if trouble == "error":
        raise ValueError("deliberate")
    if trouble == "exit":
        sys.exit(7)
    if trouble == "interrupt":
        raise KeyboardInterrupt
    if trouble in {"SIGTERM", "SIGKILL"}:
        os.kill(os.getpid(), getattr(signal, trouble))
    if trouble == "segv":
        ctypes.string_at(0)
    if trouble == "_exit":
        os._exit(9)
    if trouble == "generator":
        raise GeneratorExit
    if trouble == "base":
        raise Odd("deliberate")
    if trouble == "print":
        sys.stdout.write("printed by Python\n")
        os.write(1, b"printed by C\n")
        subprocess.run(["echo", "printed by a child"], check=True)
    if trouble == "memory":
        hoard = []
        while True:
            hoard.append(np.zeros(2**24))  # address space, which nobody touches
    if trouble == "sleep":
        time.sleep(10_000)
    if trouble == "spin":
        while True:
            pass
    if trouble.startswith("signal:"):
        heard = []
        signal.signal(signal.SIGUSR1, lambda *_: heard.append(True))
        Path(trouble.removeprefix("signal:")).write_text(str(os.getpid()))
        while not heard:
            time.sleep(0.01)
    if trouble.startswith("fork:"):
        with subprocess.Popen(["sleep", "10000"]) as child:
            Path(trouble.removeprefix("fork:")).write_text(str(child.pid))
    if trouble.startswith("wait:"):
        Path(trouble.removeprefix("wait:")).write_text(str(os.getpid()))
        signal.pause()


FAKE = Method(id="fake", title="A fake", tasks=frozenset({"binary"}), scheme="bench_fakes:FakeScheme", preset={})
POINTS = Method(id="points", title="With inducing points", tasks=frozenset({"binary"}), scheme=FakeInducing)


@dataclass(frozen=True)
class FakeSource:
    name: str = "made-up"
    n: int = 60
    seed: int = 1
    loads: list = field(default_factory=list, compare=False)

    def load(self, progress=None):  # noqa: ARG002
        return made_up(self.name, self.n, self.seed)


@lru_cache
def made_up(name, n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 5.0, 0.1] + 2
    y = (X[:, 0] + 0.3 * rng.normal(size=n) > 2).astype(np.int64)
    return dataset_from_arrays(X, y, id=name, title="Made up", task="binary", classes=("no", "yes"))


def spec(
    method=FAKE,
    *,
    source=None,
    index=0,
    limits=None,
    seed=0,
    scaling="standard",
    checksum=None,
    protocol="folds:3",
    likelihood="fake",
    **settings,
):
    place = source or FakeSource()
    named = {"likelihood": likelihood} if "likelihood" in method.settings() else {}
    return CellSpec(
        method=method.id,
        version=method.version,
        settings=method.resolve(named | settings),
        limits=limits or Limits(),
        dataset=place.name,
        checksum=checksum or place.load().checksum,
        split=SplitSpec(protocol=protocol, index=index, count=3, seed=seed),
        seed=seed,
        likelihood=likelihood,
        scaling=scaling,
    )


def task(method=FAKE, *, source=None, bounds=None, threads=1, **options):
    place = source or FakeSource()
    known = spec(method, source=place, **options)
    return Task(spec=known, method=method, source=place, bounds=bounds or Bounds(), threads=threads)


class Serial:
    """One cell after another in this very process, where a test can count what is called, and replace it.

    Nothing stands between a cell and the sweep: one that crashes or hangs takes the sweep with it.
    """

    def run(self, tasks):
        for each in tasks:
            outcome = run_cell(each)
            yield outcome
            if outcome.halted:
                return

    def close(self):
        """Nothing is held."""


def without_times(result):
    """A result less what a clock or a machine decides."""
    result = result.to_json()
    trace, metrics = result["trace"], result["metrics"]
    kept = {name: value for name, value in result.items() if name not in {"trace", "metrics", "provenance", "digest"}}
    kept["metrics"] = {k: v for k, v in metrics.items() if not k.endswith("_seconds") and k != "peak_rss_mb"}
    kept["last"] = {name: trace[name][-1:] for name in ("iteration", "nll", "error", "bound")}
    return kept
