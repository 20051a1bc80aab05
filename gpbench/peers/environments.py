"""Environments for rivals: which packages each one needs, where they are installed, and how.

GPflow needs another NumPy than gpbench, so each rival has a virtual environment of its own, made by ``gpbench peers
install NAME`` in the folder of ``GPBENCH_PEERS`` (the user's data folder by default). A file ``peer.json`` is written
last: without it an environment counts as unfinished, which is as good as absent. scikit-learn's classifier is part of
gpbench's own environment.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from gpbench.errors import GpbenchError, UsageError, reason, unknown_name
from gpbench.leases import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["PEERS", "Peer", "environment", "folder", "install", "python_of", "versions"]

CHILDREN = Path(__file__).parent / "children"
MARK = "peer.json"


@dataclass(frozen=True)
class Peer:
    """A library that rivals come from.

    Attributes
    ----------
    name, title : str
    packages : mapping
        Package -> the version whose numbers are reported; empty for gpbench's own environment.
    script : Path
        What its interpreter runs.
    """

    name: str
    title: str
    packages: Mapping[str, str]
    script: Path

    @property
    def own(self) -> bool:
        """Whether it lives in gpbench's own environment."""
        return not self.packages


PEERS: dict[str, Peer] = {
    each.name: each
    for each in (
        Peer(
            "gpflow",
            "GPflow on TensorFlow",
            {"gpflow": "2.11.2", "tensorflow": "2.21.0", "tensorflow-probability": "0.25.0"},
            CHILDREN / "run_gpflow.py",
        ),
        Peer("gpjax", "GPJax on JAX", {"gpjax": "1.0.0", "jax": "0.10.2"}, CHILDREN / "run_gpjax.py"),
        Peer(
            "gpytorch", "GPyTorch on PyTorch", {"gpytorch": "1.15.2", "torch": "2.13.0"}, CHILDREN / "run_gpytorch.py"
        ),
        Peer("sklearn", "scikit-learn's GaussianProcessClassifier", {}, CHILDREN / "run_sklearn.py"),
    )
}
"""The rivals' libraries by name."""


def folder() -> Path:
    """Where environments lie."""
    given = os.environ.get("GPBENCH_PEERS", "").strip()
    if given:
        return Path(given).expanduser().absolute()
    import platformdirs  # noqa: PLC0415  # not needed where the folder is given

    return Path(platformdirs.user_data_dir("gpbench", appauthor=False)) / "peers"


def environment(name: str) -> Path:
    """The folder of a rival's environment, whether it is there or not."""
    return folder() / name


def python_of(peer: Peer) -> Path:
    """The interpreter of a rival.

    Raises
    ------
    UsageError
        Its environment is not there, or holds other versions than gpbench knows; the message says what to install.
    """
    if peer.own:
        return Path(sys.executable)
    home = environment(peer.name)
    found = versions(peer)
    if found is None:
        raise UsageError(f"{peer.title} is not installed in {home}; run `gpbench peers install {peer.name}`")
    differing = [
        f"{package} {found.get(package, 'absent')} instead of {wanted}"
        for package, wanted in peer.packages.items()
        if _plain(found.get(package)) != wanted
    ]
    if differing:
        raise UsageError(f"{home} holds {', '.join(differing)}; run `gpbench peers install {peer.name}` again")
    return _interpreter(home)


def versions(peer: Peer) -> dict[str, str] | None:
    """Installed packages with their versions; None where the environment is absent or unfinished."""
    if peer.own:
        return {"scikit-learn": version("scikit-learn")}
    home = environment(peer.name)
    try:
        content = json.loads((home / MARK).read_text(encoding="utf-8"))
        found = {str(name): str(number) for name, number in content["packages"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # not there, or not what ``install`` writes
        return None
    return found if _interpreter(home).exists() else None


def install(name: str, *, say: Callable[[str], None]) -> Path:
    """Make the environment of a rival anew.

    Parameters
    ----------
    name : str
    say : callable
        Told of each stage, a line each; pip writes to standard error.

    Returns
    -------
    Path
        Its folder.

    Raises
    ------
    UsageError
        An unknown name.
    GpbenchError
        The folder cannot be written, or pip failed.
    """
    if name not in PEERS:
        raise unknown_name("rival", name, PEERS)
    peer, home = PEERS[name], environment(name)
    if peer.own:
        say(f"{peer.title} is part of gpbench's own environment: nothing to install")
        return Path(sys.prefix)
    wanted = [f"{package}=={number}" for package, number in peer.packages.items()]
    try:
        (home / MARK).unlink(missing_ok=True)  # from here on it is unfinished
        if home.exists():
            shutil.rmtree(home)
        say(f"making {home}")
        venv.create(home, with_pip=True, symlinks=os.name != "nt")
    except OSError as error:
        raise GpbenchError(f"cannot make an environment in {home}: {reason(error)}") from error
    except subprocess.CalledProcessError as error:
        raise GpbenchError(f"cannot make an environment in {home}: pip could not be put there ({error})") from error
    say(f"installing {', '.join(wanted)}; this can take minutes and gigabytes")
    python = _interpreter(home)
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet", *wanted]
    done = subprocess.run(command, stdout=sys.stderr, check=False)  # noqa: S603  # no shell; our own words
    if done.returncode != 0:
        raise GpbenchError(f"pip could not install {', '.join(wanted)} into {home} (exit code {done.returncode})")
    listed = subprocess.run(  # noqa: S603  # no shell; our own words
        [str(python), "-m", "pip", "list", "--disable-pip-version-check", "--format", "json"],
        stdout=subprocess.PIPE,
        check=False,
    )
    if listed.returncode != 0:
        raise GpbenchError(f"pip could not list {home} (exit code {listed.returncode})")
    packages = {each["name"].lower().replace("_", "-"): each["version"] for each in json.loads(listed.stdout)}
    try:
        with replacing(home / MARK) as partial:
            partial.write_text(json.dumps({"packages": packages}, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise GpbenchError(f"{home / MARK} cannot be written: {reason(error)}") from error
    return home


def _interpreter(home: Path) -> Path:
    return home / "Scripts" / "python.exe" if os.name == "nt" else home / "bin" / "python"


def _plain(number: str | None) -> str | None:
    """A version without its local part: ``2.13.0`` for ``2.13.0+cpu``."""
    return None if number is None else number.partition("+")[0]
