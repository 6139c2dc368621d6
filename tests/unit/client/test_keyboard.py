"""What a person types while the agent works: keys to lines, a terminal that does not echo, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import termios

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.local.keyboard import STOP, Pipe, Terminal, fold_keys


@pytest.mark.parametrize(
    ("keys", "draft", "lines"),
    [
        ("hello", "hello", []),
        ("hello\r", "", ["hello"]),
        ("one\ntwo\nthr", "thr", ["one", "two"]),
        ("helo\x7flo\n", "", ["hello"]),
        ("\x7f\x08a\n", "", ["a"]),
        ("nonsense\x15sense\n", "", ["sense"]),
        ("two words\x17more\n", "", ["two more"]),
        ("words\x17\n", "", [""]),
        ("a\x1b[Ab\x1b[1;5Cc\x1bOPd\x1bxe\n", "", ["abcde"]),
        ("\t\x00\x04a\n", "", ["a"]),
        ("é🙂\n", "", ["é🙂"]),
    ],
)
def test_keys_make_lines(keys, draft, lines):
    assert fold_keys("", keys) == (draft, lines, "")


@given(st.lists(st.sampled_from(["a", " ", "\n", "\x7f", "\x15", "\x1b[A", "\x1bOP", "é"])), st.data())
def test_keys_that_come_in_pieces_make_the_same_lines(keys, data):
    text = "".join(keys)
    cut = data.draw(st.integers(0, len(text)))
    whole_draft, whole, _ = fold_keys("", text)
    draft, first, begun = fold_keys("", text[:cut])
    draft, second, _ = fold_keys(draft, begun + text[cut:])
    assert (draft, [*first, *second]) == (whole_draft, whole)


@given(st.text())
def test_whatever_is_typed_a_line_holds_nothing_that_acts(keys):
    draft, lines, _ = fold_keys("", keys)
    assert all(line.isprintable() for line in [draft, *lines])


def test_a_pipe_brings_its_lines_and_nothing_in_between():
    pipe = Pipe(iter(["one\n"]))
    with pipe:
        pipe.give_back("again")
        assert (pipe.typed(), pipe.draft) == ([], "")
    assert [pipe.line(), pipe.line()] == ["one\n", None]


@pytest.fixture
def ends():
    far, near = os.openpty()
    yield far, near
    os.close(far)
    os.close(near)


def echoes(file):
    return bool(termios.tcgetattr(file)[3] & termios.ECHO)


def test_a_terminal_takes_lines_without_echo_while_the_agent_works_and_then_is_as_before(ends):
    far, near = ends
    before, terminal = termios.tcgetattr(near), Terminal(near)
    with terminal:
        assert not echoes(near)
        assert terminal.typed() == []
        os.write(far, "né".encode()[:2])
        assert (terminal.typed(), terminal.draft) == ([], "n")
        os.write(far, "né".encode()[2:] + b"xt\nthe")
        assert (terminal.typed(), terminal.draft) == (["néxt"], "the")
    assert termios.tcgetattr(near) == before
    with terminal:
        assert terminal.draft == "the"


def test_what_is_handed_back_stands_before_what_is_being_typed(ends):
    terminal = Terminal(ends[1])
    terminal.give_back("and\nthis")
    assert terminal.draft == "and this"
    with terminal:
        os.write(ends[0], b"!")
        terminal.typed()
    terminal.give_back("first")
    assert terminal.draft == "first and this!"


def test_ctrl_c_stops_and_the_second_one_leaves(ends):
    terminal, before = Terminal(ends[1]), signal.getsignal(signal.SIGINT)
    with terminal:
        signal.raise_signal(signal.SIGINT)
        assert terminal.typed() == [STOP]
        assert terminal.typed() == []
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    with terminal:
        signal.raise_signal(signal.SIGINT)
        assert terminal.typed() == [STOP]
