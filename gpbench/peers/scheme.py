"""A rival as a scheme: gpbench chooses Z and the starting kernel, the rival's process trains, gpbench predicts.

Training seconds are those of the rival's own clock, which counts its steps alone, plus the choice of inducing inputs,
as for every other method. Start-up (interpreter, imports, handing the rows over) and compilation are facts of their
own. Looks fall where the harness wants them: it is asked in advance, and the rival trains until then without a word.
"""

from __future__ import annotations

import tempfile
from abc import abstractmethod
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from threadpoolctl import threadpool_info

from gpbench.errors import NumericalError, PeerError, UsageError
from gpbench.model.likelihoods import Likelihood, likelihood
from gpbench.model.posterior import Latent, Posterior
from gpbench.peers.environments import PEERS, python_of
from gpbench.peers.posterior import ClippedPosterior
from gpbench.peers.process import PROTOCOL, RivalProcess, child_environment
from gpbench.schemes.base import Fit, OnStep, Step, StopTraining, setting, settings_of
from gpbench.schemes.settings import KernelSettings

if TYPE_CHECKING:
    from gpbench.model.gaussian import Form
    from gpbench.model.inducing import InducingRule
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.peers.environments import Peer
    from gpbench.schemes.base import StoppedBy

__all__ = ["Rival"]

PATIENCE = 900.0
"""Seconds that a rival may be silent beyond the moment of its next look: imports on a cold disk, compilation, one
evaluation of Laplace's evidence on thousands of rows."""
BLOCK = 65_536
"""Rows handed over at a time."""


@dataclass(frozen=True, kw_only=True)
class Rival(KernelSettings):
    """What all rivals share; a subclass names the peer and declares ``link``."""

    max_iterations: int = setting(10_000, "iterations at most", minimum=1)

    name: ClassVar[str]
    peer: ClassVar[str]
    kernels: ClassVar[frozenset[str]]
    if TYPE_CHECKING:
        link: str

    @property
    def floor(self) -> float:
        """How far the rival keeps probabilities from 0 and 1."""
        return 0.0

    @abstractmethod
    def inducing_inputs(self, X: Rows, rule: InducingRule) -> Array:
        """Z (M, d) that the rival is to use, or (0, d) where it takes all rows.

        Raises
        ------
        UsageError
            The rival cannot do so many rows.
        """

    def likelihood_for(self, task: str, n_classes: int) -> Likelihood:
        """The Bernoulli likelihood with the link of the settings.

        Raises
        ------
        UsageError
            The task is not binary, the rival does not have the kernel, or its environment is not there.
        """
        if task != "binary" or n_classes != 2:
            raise UsageError(f"{self.name} does binary classification; got task {task} with {n_classes} classes")
        for part in self.kernel.split("+"):
            if part.strip() not in self.kernels:
                raise UsageError(f"{self.name} has the kernels {', '.join(sorted(self.kernels))}; got {part.strip()}")
        python_of(PEERS[self.peer])
        return likelihood(self.link)

    def fit(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,
        on_step: OnStep,
    ) -> Fit:
        """Train; see :class:`gpbench.schemes.base.Scheme`. Steps carry the rival's own time.

        Raises
        ------
        UsageError
            The likelihood is not the rival's, or its environment is not there.
        NumericalError
            The rival's numbers broke down.
        PeerError
            Its process failed.
        """
        links = next(each.choices for each in settings_of(type(self)) if each.name == "link")
        if likelihood.name not in links:
            raise UsageError(f"{self.name} needs the likelihood {' or '.join(links)}; got {likelihood.name}")
        likelihood.check_targets(y, classes)
        peer = PEERS[self.peer]
        begin, cpu_begin = perf_counter(), process_time()
        Z = self.inducing_inputs(X, inducing)
        run = _Following(self, peer, likelihood, chosen_in=(perf_counter() - begin, process_time() - cpu_begin))
        command = [str(python_of(peer)), "-E", "-s", str(peer.script)]
        with tempfile.TemporaryDirectory(prefix="gpbench-") as folder:
            run.train(command, Path(folder), X, y, Z=Z, seed=int(rng.integers(2**31)), on_step=on_step)
            return run.result()


class _Report(NamedTuple):
    """What the rival's latest message holds: steps, its clocks, objective, q(u), and whether it has ended."""

    iteration: int
    elapsed: tuple[float, float]
    bound: float | None
    theta: Array
    jitter: float
    state: Path
    ended: str | None


class _Following:
    """One fit, followed from here."""

    def __init__(self, settings: Rival, peer: Peer, likelihood: Likelihood, *, chosen_in: tuple[float, float]) -> None:
        self._settings, self._peer, self._likelihood, self._chosen_in = settings, peer, likelihood, chosen_in
        self._report: _Report | None = None
        self._clock = "processor"
        self._facts: dict[str, Any] = {}
        self._memory: float | None = None

    def train(
        self, command: list[str], folder: Path, X: Rows, y: Labels, *, Z: Array, seed: int, on_step: OnStep
    ) -> None:
        """Hand the rows over and listen until the rival or ``on_step`` ends it."""
        name, threads = self._settings.name, _threads()
        # Whose clock counts is the harness's to say; what it does not time is start-up and compilation.
        self._clock = getattr(on_step, "clock", "processor" if threads == 1 else "wall")
        paused = getattr(on_step, "paused", nullcontext)
        self._kernel = self._settings.initial_kernel(X)
        begin = perf_counter()
        hand_over(folder, X, y, Z=Z)
        errors = folder / "errors.txt"
        with RivalProcess(name, command, environment=child_environment(threads), errors=errors) as process:
            with paused():
                _, hello = process.hear("hello", patience=PATIENCE)
                self._meet(hello)
                process.tell(
                    "start",
                    folder=str(folder),
                    kernel=self._kernel.spec(),
                    settings=asdict(self._settings),
                    seed=seed,
                    threads=threads,
                    clock=self._clock,
                )
                _, ready = process.hear("ready", patience=PATIENCE)
            compiled = float(ready["compile_seconds"])
            self._facts |= {
                "startup_seconds": perf_counter() - begin - compiled,
                "compile_seconds": compiled,
                "peer": {"name": self._peer.name, "python": hello["python"], "packages": hello["packages"]},
            }
            try:
                self._follow(process, folder, on_step)
            except StopTraining:
                return

    def _follow(self, process: RivalProcess, folder: Path, on_step: OnStep) -> None:
        next_look = getattr(on_step, "next_look", lambda: (0.0, None))  # others are told of each step
        chosen, cpu_chosen = self._chosen_in
        counted = 0.0
        while True:
            due, iteration = next_look()
            due = max(0.0, due - (cpu_chosen if self._clock == "processor" else chosen))
            last = None if iteration is None or not np.isfinite(iteration) else int(iteration)
            process.tell("go", seconds=min(due, 1e9), iteration=last)
            _, told = process.hear("look", patience=PATIENCE + max(0.0, min(due, 1e9) - counted))
            wall, cpu = float(told["seconds"]), float(told["cpu_seconds"])
            counted = cpu if self._clock == "processor" else wall
            previous = self._report
            self._memory = told["peak_rss_mb"]
            self._report = _Report(
                int(told["iteration"]),
                (wall + chosen, cpu + cpu_chosen),
                told["bound"],
                np.array(told["theta"], dtype=np.float64),
                float(told["jitter"]),
                folder / Path(str(told["state"])).name,
                told["ended"],
            )
            if previous is not None:
                previous.state.unlink()
            report = self._report
            on_step(Step(report.iteration, bound=report.bound, posterior=self.posterior, elapsed=report.elapsed))
            if report.ended is not None:
                return

    def posterior(self) -> Posterior:
        """The posterior of the rival's latest report."""
        report, name = self._report, self._settings.name
        assert report is not None
        with report.state.open("rb") as stream, np.load(stream, allow_pickle=False) as found:
            state = {key: found[key] for key in ("Z", "m_w", "root", "form")}
        if not np.isfinite(report.theta).all():
            raise NumericalError(
                f"{name}, iteration {report.iteration}: hyper-parameters are not finite: {report.theta}"
            )
        kernel = self._kernel.with_theta(report.theta)
        form: Form = "precision" if str(state["form"]) == "precision" else "covariance"
        try:
            latent = Latent(kernel, state["Z"], m_w=state["m_w"], root=state["root"], form=form, jitter=report.jitter)
        except NumericalError as error:
            raise NumericalError(f"{name}, iteration {report.iteration}: {error}") from error
        if self._settings.floor > 0.0:
            return ClippedPosterior((latent,), self._likelihood, 2, floor=self._settings.floor)
        return Posterior((latent,), self._likelihood, classes=2)

    def result(self) -> Fit:
        """What ``fit`` gives, from the rival's latest report."""
        report, posterior = self._report, self.posterior()
        assert report is not None
        ended: StoppedBy = "on_step"
        if report.ended is not None:
            ended = "converged" if report.ended == "converged" else "iterations"
        peer = self._facts["peer"] | {"peak_rss_mb": self._memory}
        return Fit(
            posterior=posterior,
            stopped_by=ended,
            iterations=report.iteration,
            bound=report.bound,
            jitter=report.jitter,
            facts={**self._facts, "peer": peer, "hyperparameters": posterior.latents[0].kernel.values()},
        )

    def _meet(self, hello: dict[str, Any]) -> None:
        """See that the process is who it should be."""
        spoken = hello.get("protocol")
        if spoken != PROTOCOL:
            raise PeerError(f"rival {self._settings.name}: expected protocol {PROTOCOL}; its script speaks {spoken!r}")
        packages = hello.get("packages")
        if hello.get("peer") != self._peer.name or not isinstance(packages, dict):
            raise PeerError(f"rival {self._settings.name}: expected {self._peer.name} to answer; got {hello!r}")
        for package, wanted in self._peer.packages.items():
            found = str(packages.get(package, "absent"))
            if found.partition("+")[0] != wanted:
                raise PeerError(
                    f"rival {self._settings.name}: expected {package} {wanted}; its process has {found}; "
                    f"run `gpbench peers install {self._peer.name}` again"
                )


def hand_over(folder: Path, X: Rows, y: Labels, *, Z: Array) -> None:
    """Write the rows block by block, and classes and inducing inputs, for the rival to read."""
    n, d = X.shape
    rows = np.lib.format.open_memmap(folder / "X.npy", mode="w+", dtype=np.float64, shape=(n, d))
    for first in range(0, n, BLOCK):
        block = slice(first, min(first + BLOCK, n))
        rows[block] = X[block]
    rows.flush()
    np.savez(folder / "arrays.npz", y=np.asarray(y, dtype=np.int64), Z=Z)


def _threads() -> int:
    """The number of threads that this process's BLAS is held to, which the rival gets as well."""
    return max((int(pool["num_threads"]) for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)
