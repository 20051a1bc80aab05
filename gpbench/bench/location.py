"""Where in a method's own code an error came up: its innermost file and line, for whoever must mend it."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from gpbench.errors import GpbenchError

if TYPE_CHECKING:
    from gpbench.bench.method import Method

__all__ = ["location"]


def location(error: BaseException, method: Method) -> str:
    """File and line, counted from the scheme's outermost package: ``mymethod.py:31``, ``mypackage/bounds.py:7``.

    Parameters
    ----------
    error : BaseException
        As it was caught.
    method : Method
        Its own code is what the outermost package or module of its scheme holds; numpy's, or gpbench's where the scheme
        is a plug-in's, tells its author less.

    Returns
    -------
    str
        Empty where gpbench raised the error on purpose, whose words say what to do, and where none of the method's
        own code was running.
    """
    if isinstance(error, GpbenchError | KeyboardInterrupt):
        return ""
    try:
        own = _top(method.load().__module__)
    except GpbenchError:
        return ""
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if _top(module) == own:
            file = Path(frame.f_code.co_filename)
            depth = module.count(".") + (2 if file.name == "__init__.py" else 1)
            found = f"{'/'.join(file.parts[-depth:])}:{line}"
    return found


def _top(module: str) -> str:
    return module.partition(".")[0]
