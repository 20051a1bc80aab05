import math
from dataclasses import dataclass

import pytest

from gpbench.errors import UsageError
from gpbench.schemes.base import Setting, setting, settings_of


@dataclass(frozen=True)
class Knobs:
    size: int = setting(10, "how many", minimum=1)
    rate: float = setting(0.5, "how fast", minimum=0.0, maximum=1.0)
    decay: float = setting(200.0, "how long", minimum=1.0)
    length: float | None = setting(None, "how far; none: chosen", kind=float, minimum=0.0)
    kind: str = setting("soft", "which", choices=("soft", "hard"))
    quiet: bool = setting(default=False, about="whether")


KNOBS = {each.name: each for each in settings_of(Knobs)}


def test_settings_are_read_from_the_dataclass_in_order():
    assert list(KNOBS) == ["size", "rate", "decay", "length", "kind", "quiet"]
    assert KNOBS["length"] == Setting("length", float, None, "how far; none: chosen", minimum=0.0, optional=True)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("size", "3", 3),
        ("rate", "1", 1.0),
        ("length", "none", None),
        ("length", "2e-3", 2e-3),
        ("kind", "hard", "hard"),
        ("quiet", "Yes", True),
        ("quiet", "0", False),
    ],
)
def test_texts_become_values_of_the_right_type(name, text, value):
    parsed = KNOBS[name].parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("size", "0", "an integer >= 1"),
        ("size", "2.5", "an integer >= 1"),
        ("rate", "1.01", r"a number in \[0, 1\]"),
        ("rate", "nan", r"a number in \[0, 1\]"),
        ("decay", "inf", "a number >= 1"),
        ("decay", "none", "a number >= 1"),
        ("kind", "Soft", "one of soft, hard"),
        ("quiet", "perhaps", "true or false"),
    ],
)
def test_other_texts_are_refused_with_what_was_expected(name, text, expected):
    with pytest.raises(UsageError, match=f"setting {name} must be {expected}; got '?{text}"):
        KNOBS[name].parse(text)


def test_values_of_the_wrong_type_are_refused():
    assert KNOBS["rate"].check(1) == 1.0
    for wrong in (True, "0.5", math.nan, None):
        with pytest.raises(UsageError, match="setting rate must be"):
            KNOBS["rate"].check(wrong)
