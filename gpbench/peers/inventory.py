"""What is known about the rivals on this machine, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpbench.errors import UsageError
from gpbench.peers.environments import PEERS, environment, python_of, versions
from gpbench.peers.rivals import GPflowSVGP, GPJaxDual, GPyTorchPG, GPyTorchSVGP, SklearnGPC

if TYPE_CHECKING:
    from gpbench.peers.scheme import Rival

__all__ = ["RIVALS", "peer_facts"]

RIVALS: tuple[type[Rival], ...] = (GPflowSVGP, GPJaxDual, GPyTorchSVGP, GPyTorchPG, SklearnGPC)
"""The rivals' schemes; their ``name`` is the method's id."""


def peer_facts() -> list[dict[str, Any]]:
    """Each peer: name, title, methods, the versions wanted and found, where it lies, and what is wrong, or None."""
    found = []
    for peer in PEERS.values():
        try:
            python_of(peer)
            problem = None
        except UsageError as error:
            problem = str(error)
        found.append(
            {
                "name": peer.name,
                "title": peer.title,
                "methods": [rival.name for rival in RIVALS if rival.peer == peer.name],
                "wanted": ", ".join(f"{name} {number}" for name, number in peer.packages.items()) or "as installed",
                "packages": versions(peer),
                "folder": None if peer.own else str(environment(peer.name)),
                "problem": problem,
            }
        )
    return found
