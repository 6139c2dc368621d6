"""The lines that are messages, and those that are commands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.local.terminal.chat import ABOUT, HELP, UNKNOWN, Command, parse_line, render_message


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
        ("/steer", "usage", "/steer needs an argument: /steer TEXT"),
        ("/steer ", "usage", "/steer needs an argument: /steer TEXT"),
        ("/approve", "approve", ""),
        ("/deny", "deny", ""),
        ("/deny too much\nfor us", "deny", "too much\nfor us"),
        ('/edit {"sum": 5}', "edit", '{"sum": 5}'),
        ("/edit and\nanother way", "edit", "and\nanother way"),
        ("/again", "again", ""),
        ("/again now", "usage", UNKNOWN.format("/again")),
        ("/edit", "usage", "/edit needs an argument: /edit JSON"),
        ("/feedback ok well done", "feedback", "ok well done"),
        ("/feedback", "usage", "/feedback needs an argument: /feedback REACTION [TEXT]"),
        ("/attach a b.csv", "attach", "a b.csv"),
        ("/attach", "usage", "/attach needs an argument: /attach FILE"),
        ("/approve it", "usage", UNKNOWN.format("/approve")),
        ("/steering", "usage", UNKNOWN.format("/steering")),
        ("/stop now", "usage", UNKNOWN.format("/stop")),
        ("/", "usage", UNKNOWN.format("/")),
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


def test_help_fits_into_80_columns_and_its_descriptions_begin_in_one_of_them():
    lines = HELP.splitlines()
    assert max(map(len, lines)) <= 80
    rows = [line for line in lines if line.startswith("  ")]
    assert len(rows) == len(ABOUT)
    assert len({line.index(does) for line, does in zip(rows, ABOUT.values(), strict=True)}) == 1


@pytest.mark.parametrize("usage", [usage for usage in ABOUT if not usage.startswith("//")])
def test_help_names_existing_commands_only(usage):
    assert parse_line(usage).verb == usage.split()[0].removeprefix("/")
