"""How to read a file of the user's own: what the flags of ``gpbench run`` say about it."""

from __future__ import annotations

from dataclasses import dataclass

from gpbench.data.dataset import TASKS
from gpbench.errors import UsageError, unknown_name

__all__ = ["FILE_FORMATS", "FileOptions"]

FILE_FORMATS = ("csv", "tsv", "parquet", "arff", "libsvm", "npz")
"""What ``--file-format`` can name; csv stands for all text tables."""


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """What a file does not say of itself.

    Attributes
    ----------
    target : str or None
        Name of the target's column, names of one-hot columns with commas between, or a position from 0 (-1: last).
        Default: the last column that is neither dropped nor an index.
    task : str or None
        binary, multiclass, count or ordinal. Default: what the targets tell (two labels: binary; texts or few integers:
        multiclass).
    impute : "median" or None
        Missing values, which are an error otherwise, become the median of the split's training rows (categories: the
        most frequent one).
    missing : tuple of str
        More words that stand for a missing value; ``-WORD`` takes a known one away.
    drop : tuple of str
        Columns that are left out: names, or positions from 0.
    header : bool or None
        Whether the first line of a text table names its columns. Default: what the lines after it tell.
    file_format : str or None
        One of :data:`FILE_FORMATS`, where the suffix does not tell.
    member : str or None
        Name of the file inside an archive.

    Raises
    ------
    UsageError
        A value that is none of those.
    """

    target: str | None = None
    task: str | None = None
    impute: str | None = None
    missing: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    header: bool | None = None
    file_format: str | None = None
    member: str | None = None

    def __post_init__(self) -> None:
        if self.task is not None and self.task not in TASKS:
            raise UsageError(f"task must be one of {', '.join(TASKS)}; got {self.task!r}")
        if self.impute not in (None, "median"):
            raise UsageError(f"--impute must be median; got {self.impute!r}")
        if self.file_format is not None and self.file_format not in FILE_FORMATS:
            raise unknown_name("file format", self.file_format, FILE_FORMATS)

    def given(self) -> list[str]:
        """The flags that are set, as they are typed."""
        flags = {
            "--target": self.target,
            "--task": self.task,
            "--impute": self.impute,
            "--missing": ",".join(self.missing) or None,
            "--drop": " --drop ".join(self.drop) or None,
            "--header": None if self.header is None else "yes" if self.header else "no",
            "--file-format": self.file_format,
        }
        return [f"{flag} {value}" for flag, value in flags.items() if value is not None]
