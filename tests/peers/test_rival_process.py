"""The conversation with a rival's process: looks, clocks, endings, and every way in which the process can misbehave."""

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from gpbench.bench.cell import Limits
from gpbench.bench.clock import Clock
from gpbench.bench.trace import Watcher
from gpbench.errors import NumericalError, PeerError, UsageError
from gpbench.model.posterior import load_posterior
from gpbench.peers import process as process_module
from gpbench.peers import scheme as scheme_module
from gpbench.peers.environments import MARK, Peer
from gpbench.schemes.base import StopTraining

HERE = Path(__file__).parent


def test_each_step_is_told_of_where_nobody_says_when_to_look(fake):
    seen = []

    def look(step):
        seen.append((step.iteration, step.bound, step.posterior().latents[0].m_w[0]))
        assert step.elapsed[0] > 0.0

    found = fake(on_step=look, max_iterations=4)
    assert seen == [(t, -1.0 / t, t) for t in (1, 2, 3, 4)] + [(4, None, 4.0)]
    assert found.iterations == 4
    assert found.stopped_by == "iterations"


def test_the_rival_may_end_by_itself(fake):
    found = fake("converges")
    assert (found.iterations, found.stopped_by) == (7, "converged")


def test_start_kernel_inducing_inputs_and_versions_are_handed_over(fake, moons):
    X, y = moons()
    found = fake(X=X, y=y, max_iterations=2, lengthscale=3.0, variance=2.0, noise=0.1)
    (latent,) = found.posterior.latents
    assert found.facts["hyperparameters"] == pytest.approx(
        {"part0.variance": 2.0, "part0.lengthscales[0]": 3.0, "part0.lengthscales[1]": 3.0, "white": 0.1}
    )
    assert len(latent.Z) == 5
    assert {tuple(row) for row in latent.Z} <= {tuple(row) for row in X}
    assert found.facts["peer"]["packages"] == {"numpy": np.__version__}
    assert found.facts["startup_seconds"] > found.facts["compile_seconds"] >= 0.0
    json.dumps(dict(found.facts), allow_nan=False)


def test_the_harness_stops_at_its_iteration_and_keeps_the_rivals_time(fake):
    clock = Clock()
    began = time.perf_counter()
    clock.start()
    watcher = Watcher(clock, lambda q: (float(q.latents[0].m_w[0]), 0.0), limits=Limits(iterations=57))
    found = fake(on_step=watcher, max_iterations=1000)
    clock.stop()
    passed = time.perf_counter() - began
    assert found.iterations == watcher.iteration == 57
    assert watcher.stopped_by == "iterations"
    assert found.stopped_by == "on_step"
    assert watcher.trace.iteration[0] == 1
    assert watcher.trace.nll == watcher.trace.iteration  # each look saw the state of its own step
    assert clock.seconds + found.facts["startup_seconds"] <= passed  # neither holds a part of the other


def test_time_for_choosing_inducing_inputs_counts(fake, monkeypatch):
    ticks = iter([100.0, 107.0])
    monkeypatch.setattr(scheme_module, "perf_counter", lambda: next(ticks, 200.0))
    seconds = []
    fake(on_step=lambda step: seconds.append(step.elapsed[0]), max_iterations=1)
    assert 7.0 < seconds[0] < 8.0


@pytest.mark.parametrize("kind", [StopTraining, KeyboardInterrupt, RuntimeError])
def test_the_process_is_gone_however_training_ends(fake, tmp_path, monkeypatch, kind):
    monkeypatch.setenv("FAKE_PID", str(tmp_path / "pid"))

    def stop(step):
        if step.iteration == 5:
            raise kind

    if kind is StopTraining:
        assert fake(on_step=stop, max_iterations=10**9).iterations == 5
    else:
        with pytest.raises(kind):
            fake(on_step=stop, max_iterations=10**9)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_a_rival_whose_gpbench_was_killed_ends_by_itself(tmp_path):
    driver = textwrap.dedent("""
        import os, sys
        import conftest
        from gpbench.peers import environments
        environments.PEERS["fake"] = environments.Peer("fake", "A fake", {}, conftest.SCRIPT)
        class Never:
            def next_look(self):
                return 1e9, None
            def __call__(self, step):
                raise AssertionError
        os.environ |= {"FAKE_MODE": "good", "FAKE_CHILDREN": str(environments.CHILDREN), "FAKE_PID": sys.argv[1]}
        scheme = conftest.FakeRival(inducing="5", max_iterations=10**12)  # of hours
        conftest.fit(scheme, *conftest.two_moons(), on_step=Never())
    """)
    fifo = tmp_path / "pid"
    os.mkfifo(fifo)
    command = [sys.executable, "-c", driver, str(fifo)]
    with subprocess.Popen(
        command,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
            "TMPDIR": str(tmp_path),
        },
    ) as parent:
        rival = psutil.Process(int(fifo.read_text()))  # waits until the rival trains
        parent.kill()
        _, left = psutil.wait_procs([rival], timeout=30.0)
    training = [each for each in left if each.status() != psutil.STATUS_ZOMBIE]
    for each in training:
        each.kill()
    assert training == [], "it trains on for nobody"


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("crash", r"fake-rival ended by itself with exit code 3; its last words: .*these are my last words"),
        ("killed", r"fake-rival was ended by SIGKILL"),
        ("error", r"ValueError: deliberate"),
        ("rubbish", r"said what is no message: b'no message at all"),
        ("list", r"said what is no message: b'\[1, 2\]"),
        ("endless", r"said what is no message: b'xxx"),
        ("out of turn", r"said what is no message: b'{\"look\""),
        ("half a line", r"ended by itself with exit code 0"),
        ("old protocol", r"expected protocol 2; its script speaks 0"),
        ("another peer", r"expected fake to answer"),
    ],
)
def test_a_process_that_misbehaves(fake, mode, message):
    with pytest.raises(PeerError, match=message):
        fake(mode)


@pytest.mark.parametrize("mode", ["hang", "silent"])
def test_a_process_that_hangs_is_killed(fake, monkeypatch, tmp_path, mode):
    monkeypatch.setenv("FAKE_PID", str(tmp_path / "pid"))

    def lose_patience(_=None):
        monkeypatch.setattr(scheme_module, "PATIENCE", 0.1)

    if mode == "silent":
        lose_patience()
    with pytest.raises(PeerError, match=r"said nothing for 0\.1 seconds"):
        fake(mode, on_step=lose_patience)
    if mode == "hang":
        assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_a_process_that_does_not_leave_when_it_is_told_is_killed(tmp_path, monkeypatch):
    script = "import signal; print('{\"hello\": {}}', flush=True); signal.pause()"
    monkeypatch.setattr(process_module, "GRACE", 0.1)
    command, errors = [sys.executable, "-c", script], tmp_path / "errors.txt"
    with process_module.RivalProcess("deaf", command, environment=dict(os.environ), errors=errors) as rival:
        assert rival.hear("hello", patience=60.0) == ("hello", {})
    assert not psutil.pid_exists(rival.pid)


def test_a_program_that_is_not_there(tmp_path):
    command = [str(tmp_path / "python")]
    with pytest.raises(PeerError, match="cannot be started"):
        process_module.RivalProcess("absent", command, environment={}, errors=tmp_path / "errors.txt")


def test_numbers_that_break_down_are_a_numerical_error(fake):
    with pytest.raises(NumericalError, match="fake-rival: LinAlgError: not positive definite"):
        fake("numerical")
    with pytest.raises(NumericalError, match="fake-rival, iteration 3: m_w of a posterior must be finite"):
        fake("not finite", on_step=lambda step: step.posterior())


def test_versions_that_gpbench_does_not_know_are_refused(fake, monkeypatch, tmp_path, interpreter):
    monkeypatch.setenv("GPBENCH_PEERS", str(tmp_path))
    wanted = Peer("fake", "A fake", {"numpy": "0.1"}, HERE / "fake_rival.py")
    monkeypatch.setitem(scheme_module.PEERS, "fake", wanted)
    with pytest.raises(UsageError, match=r"not installed in .*; run `gpbench peers install fake`"):
        fake()
    interpreter(tmp_path / "fake")
    (tmp_path / "fake" / MARK).write_text(json.dumps({"packages": {"numpy": "0.0.9"}}))
    with pytest.raises(UsageError, match=r"holds numpy 0.0.9 instead of 0.1; run `gpbench peers install fake` again"):
        fake()
    (tmp_path / "fake" / MARK).write_text(json.dumps({"packages": {"numpy": "0.1+local"}}))
    with pytest.raises(PeerError, match=r"expected numpy 0.1; its process has \d"):
        fake()


def test_probabilities_are_clipped_as_the_rival_clips_them(fake, moons, tmp_path):
    X, y = moons()
    clipped, plain = (fake(X=X, y=y, max_iterations=3, clip=clip) for clip in (0.01, 0.0))
    p = plain.posterior.predict(X).probabilities
    assert clipped.posterior.predict(X).probabilities == pytest.approx(0.01 + 0.98 * p)
    score = clipped.posterior.score(X, y)
    assert score.log_density == pytest.approx(np.log(0.01 + 0.98 * p[np.arange(len(y)), y]))
    assert score.values == pytest.approx(0.01 + 0.98 * p)
    clipped.posterior.save(tmp_path / "q.npz")
    assert (load_posterior(tmp_path / "q.npz").score(X, y).log_density == score.log_density).all()


def test_what_a_rival_cannot_do_is_refused_before_its_process_starts(fake):
    with pytest.raises(UsageError, match=r"has the kernels .*; got linear-ard"):
        fake(kernel="se+linear-ard")
    with pytest.raises(UsageError, match="fewer rows than inducing points"):
        fake(inducing="61")
