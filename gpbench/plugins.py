"""Loading what third-party packages offer: whatever they print or raise meanwhile, the command goes on as it should."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from gpbench.errors import PluginError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["loaded"]


def loaded(entry: EntryPoint) -> Any:
    """What an entry point names. What its module prints goes to standard error, since standard output may be JSON.

    Raises
    ------
    PluginError
        It does not load.
    """
    try:
        with redirect_stdout(sys.stderr):
            return entry.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a third party's module can raise anything
        try:
            words = f"{type(error).__name__}: {error}"
        except Exception:  # noqa: BLE001  # its words, too
            words = type(error).__name__
        raise PluginError(words) from error
