"""The command line's own words, and its reference page."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from stepline.errors import DependencyError
from stepline.local.argument import parse_have, parse_payload
from stepline.local.caller import name_user
from stepline.local.cli import Edge, main
from stepline.local.reference import render_reference

REFERENCE = Path(__file__).parents[3] / "docs/reference/cli.md"


def test_the_reference_page_is_what_the_commands_say():
    assert REFERENCE.read_text() == render_reference()


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_explains_itself_without_a_stage(name):
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert result.output.startswith("Usage: ")


def test_what_a_killed_client_had_is_read():
    assert tuple(parse_have("12/answer=340")) == (12, "answer", 340)


@pytest.mark.parametrize("text", ["", "12", "answer=3", "12/answer", "12/answer=x", "-1/answer=3"])
def test_what_cannot_be_read_is_refused(text):
    with pytest.raises(click.BadParameter):
        parse_have(text)


def test_our_errors_are_one_line_and_exit_code_1():
    group = Edge("group")

    @group.command()
    def broken():
        raise DependencyError("it is not there", code="socket_unreachable")

    result = CliRunner().invoke(group, ["broken"])
    assert result.exit_code == 1
    assert result.output == "error: socket_unreachable: it is not there\n"


def test_a_given_user_is_taken_as_given():
    assert name_user("ann") == "ann"


def test_a_payload_is_an_object():
    assert parse_payload('{"text": "yes", "fields": {"a": 1}}') == {"text": "yes", "fields": {"a": 1}}


@pytest.mark.parametrize("text", ["", "[]", "1", "{", "[" * 100_000])
def test_a_payload_that_is_none_is_refused(text):
    with pytest.raises(click.BadParameter):
        parse_payload(text)
