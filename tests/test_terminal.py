import contextlib
import errno
import io
import logging
import os
import subprocess
import sys
import unicodedata
import warnings

import pytest

from gpbench.cli import main
from gpbench.errors import GpbenchWarning
from gpbench.terminal import Meter, StatusLine, duration, echo, printable, printable_lines, warn_on_one_line

ATTACK = "a\x1b[2J\x9b31m\x07\x08\r\x00\x7f\u202e\u2028\x1b]0;title\x07b"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def _harmless(text):
    """Whether nothing in a text can act on a terminal but its line breaks and tabs."""
    return all(mark in "\n\t" or unicodedata.category(mark)[0] != "C" for mark in text)


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


def test_a_line_and_its_messages_act_on_nothing():
    stream = Terminal()
    line = StatusLine(stream)
    line.show("half" + ATTACK)
    line.say("a\x1b[2J\nb")
    written = stream.getvalue()
    assert written.endswith("gpbench: a\ufffd[2J b\n")
    assert _harmless(written.replace("\r", ""))
    assert written.count("\r") == 3  # to write, and to clear


def test_without_a_terminal_only_messages_are_written():
    stream = io.StringIO()
    line = StatusLine(stream)
    line.show("half")
    line.say("done")
    line.clear()
    assert stream.getvalue() == "gpbench: done\n"


def test_all_characters_are_harmless_once_they_are_printable():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    assert _harmless(printable_lines(every))
    assert _harmless(printable(every))
    assert "\n" not in printable(every)


def test_letters_of_all_tongues_lines_and_tabs_stay():
    text = "naïve ± 0.1\tΩ 数据\n  two blanks\n"
    assert printable_lines(text) == text
    assert printable_lines("a\r\nb\r\n") == "a\nb\n"
    assert printable(" a \n b\t") == "a b"


@pytest.mark.parametrize("err", [False, True])
@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("content", [False, True])
def test_content_keeps_its_bytes_unless_it_goes_to_a_terminal(monkeypatch, err, terminal, content):
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr" if err else "stdout", stream)
    echo(ATTACK, err=err, content=content)
    kept = content and not terminal
    assert stream.getvalue() == (ATTACK if kept else printable_lines(ATTACK)) + "\n"
    assert _harmless(stream.getvalue()) != kept


def test_a_line_that_is_written_over_makes_way(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    line = StatusLine()
    line.show("half")
    echo("whole", err=True)
    assert stream.getvalue() == "\rhalf\r    \rwhole\n"
    line.show("more")
    line.clear()
    echo("end", err=True, nl=False)
    assert stream.getvalue().endswith("\r    \rend")


def test_characters_that_the_stream_lacks_become_question_marks(monkeypatch):
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, encoding="ascii"))
    echo("0.1 ± 0.2")
    echo("name\udcff", content=True)
    assert buffer.getvalue() == b"0.1 ? 0.2\nname?\n"


class Failing(io.StringIO):
    def write(self, _):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_output_that_fails_is_an_error_and_a_message_that_fails_is_lost(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Failing())
    echo("lost", err=True)
    monkeypatch.setattr(sys, "stdout", Failing())
    with pytest.raises(OSError, match="No space left"):
        echo("wanted")


def test_warnings_take_one_line_each(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr(logging, "lastResort", logging.lastResort)
    warn_on_one_line()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("overflow\nencountered \x1b[2J", RuntimeWarning, stacklevel=1)
        warnings.warn("the prepared form\nwas damaged", GpbenchWarning, stacklevel=1)
    lastly = logging.lastResort
    lastly.handle(logging.LogRecord("urllib3", logging.WARNING, "", 0, "bad header: %s", ("\x1b[2J\nX",), None))
    first, second, third = stream.getvalue().splitlines()
    assert first.startswith("gpbench: RuntimeWarning (test_terminal.py:")
    assert first.endswith("): overflow encountered \ufffd[2J")
    assert second == "gpbench: the prepared form was damaged"
    assert third == "gpbench: urllib3: bad header: \ufffd[2J X"


MAIN = [sys.executable, "-c", "from gpbench.cli import main; main()"]


def _run(*arguments, closed=(), cwd=None, **how):
    """The program with some of its standard streams closed from the start."""

    def close():
        for number in closed:
            os.close(number)

    streams = {name: subprocess.PIPE for number, name in ((1, "stdout"), (2, "stderr")) if number not in closed}
    return subprocess.run([*MAIN, *arguments], preexec_fn=close, cwd=cwd, text=True, check=False, **(streams | how))


RUN = ["run", "-m", "linear", "-d", "wine", "--folds", "2"]


@pytest.fixture
def private(monkeypatch, tmp_path):
    for name in ("DATA", "RESULTS"):
        monkeypatch.setenv(f"GPBENCH_{name}", str(tmp_path / name.lower()))
    monkeypatch.setenv("GPBENCH_MIRROR", "")
    return tmp_path


@pytest.mark.parametrize(("closed", "jobs"), [([2], "1"), ([0, 2], "2")])
def test_with_standard_error_closed_the_table_comes(private, closed, jobs):
    done = _run(*RUN, "--jobs", jobs, closed=closed)
    assert done.returncode == 0
    assert "linear" in done.stdout


def test_messages_into_a_closed_stream_are_lost_and_end_up_in_no_file(private):
    (private / "wrong.csv").write_text("a,y\n1,2\nx\n")
    before = (private / "wrong.csv").read_text()
    done = _run("run", "-m", "linear", "-d", str(private / "wrong.csv"), closed=[2])
    assert (done.returncode, done.stdout) == (1, "")
    assert (private / "wrong.csv").read_text() == before


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["fetch", "--check"]])
def test_closed_standard_output_is_answered(private, arguments):
    done = _run(*arguments, closed=[1])
    assert done.returncode == 1
    assert done.stderr == "gpbench: cannot read or write standard output: it is closed\n"


def test_what_ran_is_stored_though_all_streams_are_closed(private):
    assert _run(*RUN, closed=[0, 1, 2]).returncode == 1
    assert len(list((private / "results" / "runs").glob("*.json"))) == 2


@pytest.fixture
def on_a_terminal(private, monkeypatch):
    """Runs the program here, both streams a terminal; gives the exit code and all that was written."""

    def run(*arguments):
        stream = Terminal()
        with monkeypatch.context() as patch:
            patch.chdir(private)
            for name in ("stdout", "stderr"):
                patch.setattr(sys, name, stream)
            with pytest.raises(SystemExit) as ended:
                main.main([*arguments], prog_name="gpbench")
        return ended.value.code, stream.getvalue()

    return run


def _acts_on_nothing(written):
    """Of control characters only those of gpbench's own: line breaks, and the return before a line written over."""
    return _harmless(written.replace("\r", ""))


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31mname\x7f"


@pytest.mark.parametrize(
    "arguments",
    [
        ["fetch", HOSTILE],
        ["fetch", "--" + HOSTILE],
        [HOSTILE],
        ["run", "-m", HOSTILE, "-d", "wine"],
        ["run", "-m", "linear", "-d", HOSTILE],
        ["run", "-m", "linear", "-d", "wine", "--set", HOSTILE],
        ["run", "-m", "linear", "-d", "wine", "--folds", HOSTILE],
        ["report", HOSTILE],
        ["list", "methods", HOSTILE],
        ["fetch", "glass", "--mirror", f"http://127.0.0.1:1/{HOSTILE}"],
        ["fetch", "glass", "--mirror", HOSTILE],
    ],
)
def test_what_was_typed_does_not_act_on_the_terminal(on_a_terminal, arguments):
    code, written = on_a_terminal(*arguments)
    assert code in {1, 2, 3}
    assert "name" in written
    assert _acts_on_nothing(written)


def _hostile_table(folder):
    """A file whose name, columns, classes and member bear escape sequences."""
    rows = "".join(f"{i % 7},{i % 5},{'xy'[i % 2]}{HOSTILE}\n" for i in range(60))
    path = folder / f"{HOSTILE}.csv"
    path.write_text(f"a{HOSTILE},b,target\n{rows}")
    return path


def test_names_in_files_do_not_act_on_the_terminal(private, on_a_terminal):
    """But csv in a pipe keeps its bytes: a program reads it, and finds the name that it knows."""
    run = ["run", "-m", "linear", "-d", str(_hostile_table(private)), "--folds", "2"]
    written = {"run": on_a_terminal(*run), "json": on_a_terminal(*run, "--json")}
    for form in ("text", "csv", "markdown", "latex", "html"):
        written[form] = on_a_terminal("report", "--format", form)
    assert {code for code, _ in written.values()} == {0}
    for form, (_, text) in written.items():
        assert "name" in text, form
        assert _acts_on_nothing(text), form
    assert "name\x7f.csv" in _run("report", "--format", "csv").stdout


def test_an_error_in_a_file_does_not_act_on_the_terminal(private, on_a_terminal):
    path = private / "wrong.csv"
    path.write_text(f"a,b{HOSTILE},y\n" + "1,2,3\n" * 20 + f"1,{HOSTILE},3\n1,,2\n")
    code, written = on_a_terminal("run", "-m", "linear", "-d", str(path))
    assert code in {1, 4}
    assert _acts_on_nothing(written)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_on_a_real_terminal(private):
    import pty  # noqa: PLC0415  # not on Windows

    ours, theirs = pty.openpty()
    process = subprocess.Popen([*MAIN, "fetch", "waveform3:30", HOSTILE], stdout=theirs, stderr=theirs, stdin=theirs)
    os.close(theirs)
    got = b""
    with contextlib.suppress(OSError):  # what Linux says at the end
        while block := os.read(ours, 1 << 16):
            got += block
    os.close(ours)
    assert process.wait() == 2
    assert _acts_on_nothing(got.decode())


def test_a_reader_that_leaves_early_ends_the_program_quietly(private):
    process = subprocess.Popen([*MAIN, "list", "methods"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() in {0, 1}  # 0 where all had fitted into the pipe


def test_nothing_is_written_but_to_a_terminal():
    stream = io.StringIO()
    meter = Meter(stream)
    meter("a", 1, 2)
    meter.close()
    assert stream.getvalue() == ""


def test_share_and_time_left_are_shown_and_cleared():
    stream, now = Terminal(), [0.0]
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
