import io

from gpbench.data.meter import Meter


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_nothing_is_written_but_to_a_terminal():
    stream = io.StringIO()
    meter = Meter(stream)
    meter("a", 1, 2)
    meter.close()
    assert stream.getvalue() == ""


def test_share_and_time_left_are_shown_and_cleared():
    stream, now = _Terminal(), [0.0]
    meter = Meter(stream, clock=lambda: now[0])
    meter("HIGGS.csv.gz", 0, 100_000_000)
    now[0] = 2.0
    meter("HIGGS.csv.gz", 25_000_000, 100_000_000)
    assert stream.getvalue().rstrip().endswith("HIGGS.csv.gz:  25 %, 25.0 of 100.0 MB, 6 s left")
    now[0] = 2.01
    before = stream.getvalue()
    meter("HIGGS.csv.gz", 25_100_000, 100_000_000)
    assert stream.getvalue() == before  # not more often than the eye follows
    meter("preparing", 1_000_000, None)
    assert "preparing: 1.0 MB" in stream.getvalue()
    meter.close()
    assert stream.getvalue().endswith(" \r")
