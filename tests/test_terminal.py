import io

import pytest

from gpbench.terminal import StatusLine, duration


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1:00"), (200, "3:20"), (7505, "2:05:05")]
)
def test_duration(seconds, words):
    assert duration(seconds) == words


def test_a_line_is_written_over_and_cleared(monkeypatch):
    monkeypatch.setenv("COLUMNS", "8")
    stream = Terminal()
    line = StatusLine(stream)
    for words in ("abcdefghij", "xy"):
        line.show(words)
    line.clear()
    line.clear()
    assert stream.getvalue() == "\rabcdefg\rxy     \r  \r"


def test_a_message_stays_and_acts_on_nothing():
    stream = Terminal()
    line = StatusLine(stream)
    line.show("half")
    line.say("a\x1b[2J\nb")
    assert stream.getvalue() == "\rhalf\r    \rgpbench: a\ufffd[2J b\n"


def test_without_a_terminal_only_messages_are_written():
    stream = io.StringIO()
    line = StatusLine(stream)
    line.show("half")
    line.say("done")
    line.clear()
    assert stream.getvalue() == "gpbench: done\n"
