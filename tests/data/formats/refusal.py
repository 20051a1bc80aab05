"""What every parser must do with any bytes: give rows, or a ``DataError`` that names the file and the line or row."""

import re

from gpbench.errors import DataError


def read_or_refuse(read):
    """The blocks that ``read`` gives; None if it refused in good order."""
    try:
        return list(read())
    except DataError as error:
        message = str(error)
    assert re.search(r"table\.\w+.*(line|row) \d+", message, re.DOTALL), message
    return None
