import contextlib
import io
import re
import sys
import threading
import time

import pytest

from biasgate.tasks.common.progress import pause_display, show_activity, show_cursor, show_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Call a function with a terminal as standard error; return what it showed."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")

    def shown_by(work):
        # Not in the fixture itself: pytest sets its own standard error before the test starts.
        with contextlib.redirect_stderr(Terminal()) as stream:
            work()
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())

    return shown_by


def test_nothing_is_written_where_there_is_no_terminal(capsys):
    with show_progress("reading", total=10) as advance:
        advance(10, total=20)
    assert capsys.readouterr() == ("", "")


def test_nothing_is_drawn_in_a_notebook_which_keeps_each_drawing(terminal, monkeypatch):
    monkeypatch.setenv("JPY_PARENT_PID", "7")

    def work():
        with show_progress("reading", total=10) as advance:
            advance(10)

    assert terminal(work) == ""


def test_a_terminal_shows_what_is_done_how_fast_and_the_time_left(terminal):
    def work():
        with show_progress("reading a.csv") as advance:
            advance(1000, total=4000)
            time.sleep(0.01)
            advance(500)
            time.sleep(0.01)
            advance(500)

    shown = terminal(work)
    assert re.search(r"reading a\.csv .* 2,000 rows, [\d,]+ rows/s +\d:\d\d:\d\d", shown)


def test_bytes_are_shown_in_megabytes(terminal):
    def work():
        with show_progress("downloading", total=448_174_578, unit="bytes") as advance:
            advance(12_000_000)

    assert "12 MB" in terminal(work)


def test_a_finished_bar_leaves_the_terminal_to_what_still_runs(terminal):
    def work():
        stream = sys.stderr
        with show_activity("outer"):
            with show_progress("inner", total=2) as advance:
                advance(2)
            start = stream.tell()
            time.sleep(0.3)  # three times what is between two drawings
            drawn = stream.getvalue()[start:]
            assert "outer" in drawn
            assert "inner" not in drawn

    assert "inner" in terminal(work)


def test_bars_of_several_threads_share_the_terminal(terminal):
    barrier = threading.Barrier(3)

    def step(name):
        with show_progress(name, total=2) as advance:
            barrier.wait()
            advance(2)
            barrier.wait()

    def work():
        threads = [threading.Thread(target=step, args=(f"step {n}",)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    shown = terminal(work)
    assert all(f"step {n}" in shown for n in range(3))


def test_an_error_inside_leaves_the_terminal_free_for_the_next(terminal):
    def work():
        with contextlib.suppress(ZeroDivisionError), show_progress("first"):
            _ = 1 / 0
        with show_progress("second"):
            pass

    assert "second" in terminal(work)


def test_work_that_counts_nothing_shows_how_long_it_has_taken(terminal):
    def work():
        with show_activity("verifying"):
            pass

    shown = terminal(work)
    assert re.search(r"verifying ━+ 0 s", shown)
    assert "-:--:--" not in shown


def test_what_is_printed_on_standard_output_stays_there(terminal, capsys):
    def work():
        with show_activity("verifying"):
            print("a result")  # noqa: T201

    assert "a result" not in terminal(work)
    assert capsys.readouterr().out == "a result\n"


def test_nothing_is_drawn_while_somebody_is_asked(terminal):
    def work():
        with show_activity("verifying"), pause_display():
            start = sys.stderr.tell()
            time.sleep(0.3)  # three times what is between two drawings
            assert sys.stderr.tell() == start

    assert "verifying" in terminal(work)


def test_a_process_that_ends_meanwhile_shows_the_cursor_again(terminal, monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "__stderr__", stream)

    def work():
        with show_activity("verifying"):
            show_cursor()
        show_cursor()  # nothing is drawn any more

    terminal(work)
    assert stream.getvalue() == "\x1b[?25h\n"
