"""What ``gpbench fetch`` does with several data sets: one that cannot be had does not keep the others from coming."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from gpbench.data.catalogue import entries
from gpbench.data.fetch import Places
from gpbench.data.load import known, load
from gpbench.data.mirror import verify, write_mirror
from gpbench.errors import DataError, DataUnavailable, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from gpbench.data.download import Progress

__all__ = ["check_here", "fetch_sets", "mirror_sets", "names_of"]

Say = Callable[[str], None]


def names_of(names: Sequence[str], *, every: bool) -> list[str]:
    """The data sets that are asked for, each once.

    Raises
    ------
    UsageError
        Names and ``--all`` together, or neither; an unknown name.
    """
    if every and names:
        raise UsageError("expected data sets' names or --all; got both")
    if not every and not names:
        raise UsageError("expected data sets' names, or --all for every one; `gpbench list datasets` shows them")
    for name in names:
        known(name)
    return list(dict.fromkeys(names)) if names else list(entries())


def fetch_sets(names: Iterable[str], *, folder: Path, mirror: str | None, progress: Progress, say: Say) -> None:
    """Fetch and prepare data sets.

    Parameters
    ----------
    names : iterable of str
        As for :func:`gpbench.data.load.load`.
    folder, mirror, progress
        Likewise.
    say : callable
        Takes one line for each data set.

    Raises
    ------
    DataUnavailable
        At least one cannot be had; raised after the others have come.
    DataError
        At least one is not what the catalogue says, and none is missing.
    """

    def one(name: str) -> str:
        found = load(name, folder=folder, mirror=mirror, progress=progress)
        return f"{name}: {found.n:,} rows, {found.d} features, {found.task}; checksum {found.checksum[:12]}"

    _each(names, one, say=say)


def mirror_sets(
    names: Iterable[str], to: Path, *, folder: Path, mirror: str | None, progress: Progress, say: Say
) -> None:
    """Write the files of data sets to a mirror.

    Parameters
    ----------
    names : iterable of str
        Ids of the catalogue, or ``openml:ID``.
    to : Path
        The mirror.
    folder, mirror, progress, say
        As for :func:`fetch_sets`.

    Raises
    ------
    DataUnavailable, DataError
        As :func:`fetch_sets`.
    """
    places = Places(to, mirror, progress=progress)

    def one(name: str) -> str:
        written = write_mirror(name, to, folder=folder, places=places)
        return f"{name}: {', '.join(path.name for path in written) or 'needs no files'}"

    _each(names, one, say=say)


def _each(names: Iterable[str], one: Callable[[str], str], *, say: Say) -> None:
    failed: dict[str, DataError] = {}
    for name in names:
        try:
            say(one(name))
        except DataError as error:
            failed[name] = error
    if not failed:
        return
    errors = list(failed.values())
    if len(errors) == 1:
        raise errors[0]
    kind = DataUnavailable if any(isinstance(error, DataUnavailable) for error in errors) else DataError
    raise kind(f"{len(errors)} data sets failed: {', '.join(failed)}\n" + "\n".join(map(str, errors)))


def check_here(folder: Path, names: Sequence[str], *, say: Say) -> None:
    """Verify downloads and prepared data sets, and say what was found.

    Raises
    ------
    DataError
        Something is damaged.
    """
    findings = list(verify(folder, names))
    bad = [finding for finding in findings if finding.problem is not None]
    unread = [finding for finding in findings if finding.unread]
    for finding in findings:
        state = "DAMAGED" if finding.problem is not None else "unread" if finding.unread else "ok"
        say(f"{state:8}{finding.place}")
    if bad:
        lines = "\n".join(f"  {finding.place}: {finding.problem}" for finding in bad)
        raise DataError(f"{len(bad)} of {len(findings)} are damaged; remove them and fetch again:\n{lines}")
    if not findings:
        say(f"nothing is here ({folder})")
        return
    say(f"{len(findings) - len(unread)} files and prepared data sets are whole in {folder}")
    if unread:
        say(f"{len(unread)} have no known hash and were not read: `gpbench fetch` of their data set does it")
