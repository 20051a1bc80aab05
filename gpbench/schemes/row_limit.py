"""The limit on rows of schemes that hold matrices of rows by rows, and what they say beyond it."""

from __future__ import annotations

from gpbench.errors import UsageError

__all__ = ["check_row_limit"]


def check_row_limit(name: str, rows: int, *, max_rows: int) -> None:
    """See that there are no more rows than a scheme's setting ``max_rows`` allows, before memory is taken.

    Parameters
    ----------
    name : str
        Of the scheme, for the message.
    rows : int
        Rows that it would train on.
    max_rows : int
        The setting.

    Raises
    ------
    UsageError
        There are more.
    """
    if rows > max_rows:
        raise UsageError(
            f"{name} needs matrices of rows by rows: expected at most max_rows = {max_rows} rows; got {rows}; "
            f"train on fewer rows, or set max_rows={rows}, where memory grows with the square of the rows and time "
            "with their cube"
        )
