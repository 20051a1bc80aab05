"""Loading what third-party packages offer: whatever they print or raise meanwhile, the command goes on as it should."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from gpbench.errors import GpbenchError, PluginError, UsageError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.metadata import EntryPoint

__all__ = ["loaded", "unknown"]


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


def unknown(kind: str, name: str, known: Iterable[str], *, problems: Iterable[PluginError]) -> GpbenchError:
    """Error for a name that is not known, where a plug-in that does not load may be why.

    Parameters
    ----------
    kind, name, known
        As for :func:`gpbench.errors.unknown_name`.
    problems : iterable of PluginError
        Plug-ins of that kind that do not load.

    Returns
    -------
    GpbenchError
        A PluginError with the cause where an entry point that does not load has that very name; else a UsageError with
        the nearest names, which also tells of the plug-ins that might have offered it.
    """
    found = list(problems)
    own = [str(each) for each in found if each.plugin == name]
    if own:
        return PluginError(f"there is no {kind} {name!r}: {'; '.join(own)}", plugin=name)
    error = unknown_name(kind, name, known)
    if not found:
        return error
    return UsageError(f"{error} (it may be of a plug-in that does not load: {'; '.join(map(str, found))})")
