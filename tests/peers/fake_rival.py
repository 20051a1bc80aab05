"""A tiny rival: a trainer whose m_w is its number of steps, and the ways in which a process can misbehave."""

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, os.environ["FAKE_CHILDREN"])
import harness
import numpy as np

MODE = os.environ["FAKE_MODE"]
AT = 3  # the step at which things go wrong


class Trainer:
    def __init__(self, start, arrays):
        assert arrays["X"].dtype == np.float64
        assert len(arrays["X"]) == len(arrays["y"])
        self.start, self.Z, self.count = start, arrays["Z"], 0
        self.theta = np.concatenate([part["theta"] for part in start["kernel"]["parts"]])

    def prepare(self):
        sys.stdout.write("a library's banner\n")
        os.write(1, b"and one from C\n")

    def train(self, pace):
        if "FAKE_PID" in os.environ:
            Path(os.environ["FAKE_PID"]).write_text(f"{os.getpid()}\n")
        while pace.iteration < self.start["settings"]["max_iterations"]:
            steps = pace.allowance(1000)
            self.count += steps
            if self.count >= AT:
                misbehave()
            if MODE == "converges" and self.count == 7:
                pace.iteration += steps
                pace.end("converged", bound=-7.0)
            pace.ran(steps, bound=-1.0 / self.count)
        pace.end("iterations")

    def state(self):
        M = len(self.Z)
        m_w = np.full(M, float(self.count))
        if MODE == "not finite" and self.count >= AT:
            m_w[0] = np.nan
        root = 0.5 * np.eye(M)
        return {
            "theta": self.theta,
            "jitter": 1e-6,
            "Z": self.Z,
            "m_w": m_w,
            "root": root,
            "form": np.array("covariance"),
        }


def misbehave():
    if MODE == "crash":
        sys.stderr.write("these are my last words\n")
        sys.stderr.flush()
        os._exit(3)
    if MODE == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if MODE == "numerical":
        raise np.linalg.LinAlgError("not positive\ndefinite")
    if MODE == "error":
        raise ValueError("deliberate")
    if MODE == "hang":
        signal.pause()


def raw(text):
    os.write(1, text)
    sys.stdin.readline()


if MODE == "rubbish":
    raw(b"no message at all\n")
elif MODE == "list":
    raw(b"[1, 2]\n")
elif MODE == "endless":
    raw(b"x" * (1 << 21))
elif MODE == "out of turn":
    raw(b'{"look": {}}\n')
elif MODE == "half a line":
    os.write(1, b'{"hello": ')
elif MODE == "old protocol":
    raw(json.dumps({"hello": {"protocol": 0, "peer": "fake", "packages": {}}}).encode() + b"\n")
elif MODE == "another peer":
    raw(json.dumps({"hello": {"protocol": 2, "peer": "other", "packages": {}}}).encode() + b"\n")
elif MODE == "silent":
    signal.pause()
else:
    harness.converse("fake", ("numpy",), Trainer, numerical=lambda: (ZeroDivisionError,))
