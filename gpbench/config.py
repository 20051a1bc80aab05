"""Where data and results live: flags, then ``GPBENCH_*``, then ``gpbench.toml`` or ``[tool.gpbench]``, then defaults.

===========  ==================  =================  =======================================================
setting      variable            in the file        default
===========  ==================  =================  =======================================================
data folder  GPBENCH_DATA        data               ``datasets/cache`` in a checkout, else the user's cache
results      GPBENCH_RESULTS     results            ``results`` in the current folder
mirror       GPBENCH_MIRROR      mirror             none
===========  ==================  =================  =======================================================

Paths in a file are relative to that file. An empty variable counts as unset.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpbench
from gpbench.errors import UsageError, unknown_name
from gpbench.toml import read_toml

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Config", "checkout", "load_config", "shipped"]

_VARIABLES = {"data": "GPBENCH_DATA", "results": "GPBENCH_RESULTS", "mirror": "GPBENCH_MIRROR"}


@dataclass(frozen=True)
class Config:
    """What the flags, the environment and the files come to.

    Attributes
    ----------
    data : Path
        Downloads and prepared data sets.
    results : Path
        Tables and pictures; the store of cells is :attr:`store`.
    mirror : str or None
        A folder or a URL that is asked before a data set's own source.
    origins : dict
        Setting -> where its value came from, in words; ``gpbench doctor`` shows it.
    """

    data: Path
    results: Path
    mirror: str | None
    origins: Mapping[str, str]

    @property
    def store(self) -> Path:
        """The folder of stored cells."""
        return self.results / "runs"


def checkout() -> Path | None:
    """The root of the checkout that this package runs from; None where it is installed as a wheel."""
    root = Path(gpbench.__file__).resolve().parents[1]
    return root if (root / "datasets" / "catalogue").is_dir() and (root / "pyproject.toml").is_file() else None


def shipped(name: str, *, parent: str = "results") -> Path:
    """A folder of files that ship with gpbench: ``PARENT/NAME`` of a checkout, or what the wheel holds of it.

    Parameters
    ----------
    name : str
        Of the folder: ``published``, ``reference``, ``catalogue``, ``truth``.
    parent : {"results", "datasets"}
        Where a checkout has it.
    """
    package = Path(gpbench.__file__).resolve().parent
    inside = package / "_data" / name
    return inside if inside.is_dir() else package.parent / parent / name


def load_config(
    flags: Mapping[str, str | Path | None] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Config:
    """Settle each setting by the first place that gives it.

    Parameters
    ----------
    flags : mapping
        ``data``, ``results``, ``mirror`` as given on the command line; None counts as not given.
    environ : mapping
        The environment; the process's own by default.
    folder : Path
        The current folder.

    Raises
    ------
    UsageError
        A configuration file that is no TOML, or holds an unknown name or a value of the wrong kind; a folder that is
        a file or cannot be one; ``~name`` of nobody.
    """
    variables = os.environ if environ is None else environ
    here = Path.cwd() if folder is None else folder
    values, origins = _defaults(here)
    for name, value, origin in _from_files(here):
        values[name], origins[name] = value, origin
    for name, variable in _VARIABLES.items():
        if variables.get(variable, "").strip():
            values[name], origins[name] = variables[variable].strip(), variable
    for name, given in (flags or {}).items():
        if name not in _VARIABLES:
            raise unknown_name("setting", name, _VARIABLES)
        if given is not None:
            values[name], origins[name] = str(given), f"--{name}"
    mirror = values["mirror"]
    return Config(
        data=_folder(here, values["data"], origins["data"]),
        results=_folder(here, values["results"], origins["results"]),
        mirror=mirror if mirror is None or "://" in mirror else str(_path(here, mirror, origins["mirror"])),
        origins=origins,
    )


def _defaults(here: Path) -> tuple[dict[str, Any], dict[str, str]]:
    if checkout() == here.resolve():
        data = here / "datasets" / "cache"
    else:
        import platformdirs  # noqa: PLC0415  # not needed in a checkout

        data = Path(platformdirs.user_cache_dir("gpbench", appauthor=False))
    return (
        {"data": str(data), "results": str(here / "results"), "mirror": None},
        dict.fromkeys(_VARIABLES, "default"),
    )


def _from_files(here: Path) -> list[tuple[str, str, str]]:
    """(name, value, origin) of each setting in a file; gpbench.toml, being the more particular, comes last."""
    found = []
    for file, section in (("pyproject.toml", ("tool", "gpbench")), ("gpbench.toml", ())):
        path = here / file
        if not path.is_file():
            continue
        table = read_toml(path)
        for part in section:
            table = table.table(part)
        table.only(_VARIABLES, kind="setting")
        origin = f"{file} [{'.'.join(section)}]" if section else file
        found += [(name, table.text(name).strip(), origin) for name in table]
    return found


def _folder(here: Path, text: str, origin: str) -> Path:
    path = _path(here, text, origin)
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:  # a name that is too long, or holds what no name may hold
        raise UsageError(f"{text!r} cannot be a folder: {error} (set by {origin})") from error
    barred = path.exists() and not path.is_dir()
    if barred:
        raise UsageError(f"{path} must be a folder; it is a file (set by {origin})")
    return path


def _path(here: Path, text: str, origin: str) -> Path:
    try:
        return here / Path(text).expanduser()
    except RuntimeError as error:  # ~name without a user of that name
        raise UsageError(f"{text}: there is no such user, or it has no home folder (set by {origin})") from error
