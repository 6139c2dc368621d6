"""Which lines are messages, and which are commands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.local.terminal.chat import ABOUT, Command, parse_line, render_message


@pytest.mark.parametrize(
    ("line", "verb", "text"),
    [
        ("hello /stop", "say", "hello /stop"),
        (" /stop", "say", " /stop"),
        ("/stop ", "stop", ""),
        ("/new", "new", ""),
        ("/quit", "quit", ""),
        ("/help", "help", ""),
        ("/steer  be short ", "steer", "be short"),
        ("/steer be short\nand kind", "steer", "be short\nand kind"),
        ("/steer", "help", ""),
        ("/steer ", "help", ""),
        ("/approve", "approve", ""),
        ("/deny", "deny", ""),
        ("/deny too much\nfor us", "deny", "too much\nfor us"),
        ('/edit {"sum": 5}', "edit", '{"sum": 5}'),
        ("/edit", "help", ""),
        ("/feedback ok well done", "feedback", "ok well done"),
        ("/feedback", "help", ""),
        ("/attach a b.csv", "attach", "a b.csv"),
        ("/attach", "help", ""),
        ("/approve it", "unknown", "/approve"),
        ("/steering", "unknown", "/steering"),
        ("/stop now", "unknown", "/stop"),
        ("/", "unknown", "/"),
        ("//stop", "say", "/stop"),
        ("///a b", "say", "//a b"),
        ("//! a\n/stop", "say", "//! a\n/stop"),
        ("/stop\n", "say", "/stop\n"),
    ],
)
def test_a_line_says_what_it_asks_for(line, verb, text):
    assert parse_line(line) == Command(verb=verb, text=text)


@given(st.text(st.sampled_from("/ astopnewhlquir\t\u00a0\u200d"), min_size=1))
def test_any_line_can_be_sent_as_a_message(text):
    assert parse_line(render_message(text)) == Command(verb="say", text=text)


@pytest.mark.parametrize("usage", [usage for usage in ABOUT if not usage.startswith("//")])
def test_help_names_commands_that_there_are(usage):
    assert parse_line(usage).verb == usage.split()[0].removeprefix("/")
