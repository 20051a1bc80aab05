"""Ctrl-C, once and several times: exit code 130, and words that are true of the command."""

import os
import signal
import subprocess
import sys
import time

import pytest

from gpbench.cli import COMMANDS
from gpbench.cli.interrupts import heed_the_first, is_kept

SLOW_END = """
import sys, time
from gpbench.cli import main
import gpbench.cli.{module} as module

def callback(**_):
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        time.sleep(0.4)  # as the store and the workers take their time
        print("ended", flush=True)

module.command.callback = callback
main()
"""


@pytest.fixture
def own_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["fit", "rows.csv"], "interrupted; no model was written"),
        (["compare", "x-gpc", "svgpc"], "interrupted"),
        (["fetch", "wine"], "interrupted; what has arrived is kept, and the same command goes on from there"),
    ],
)
def test_an_impatient_hand_ends_a_command_as_one_ctrl_c_does(tmp_path, command, words):
    program = [sys.executable, "-c", SLOW_END.format(module=command[0]), *command]
    with subprocess.Popen(
        program, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        assert running.stdout.readline() == "ready\n"
        while running.poll() is None:  # to the last moment of Python's own end
            os.kill(running.pid, signal.SIGINT)
            time.sleep(0.02)
        stdout, stderr = running.communicate()
    assert (running.returncode, stdout, stderr) == (130, "ended\n", f"\ngpbench: {words}\n")


def test_an_end_that_hangs_can_be_interrupted(own_handler, monkeypatch):
    now = [10.0]
    monkeypatch.setattr("gpbench.cli.interrupts.monotonic", lambda: now[0])
    heed_the_first()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    now[0] += 2.9
    signal.raise_signal(signal.SIGINT)
    now[0] += 0.2
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_signal_that_is_ignored_stays_so(own_handler):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    heed_the_first()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_only_commands_that_resume_say_that_they_do():
    resumed = {name for name in COMMANDS if "the same command goes on" in is_kept(name)}
    assert resumed == {"run", "reproduce", "fetch"}
    assert is_kept(None) == ""
