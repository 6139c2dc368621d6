"""Turns with tools of MCP servers, replayed without the servers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepline.model.entry import Listed
from stepline.replay.load_record import load_record
from stepline.replay.recorded_turn import find_turns
from stepline.replay.replay_turn import replay_turns
from tests.support.conversation import LANE
from tests.support.generation import answered, called
from tests.support.recorded_talk import replayer
from tests.unit.loop.test_turn_tools import RemoteConversation, bundle

__all__ = ["bundle"]


@pytest.mark.usefixtures("bundle")
def test_lists_and_results_of_servers_are_those_of_the_record() -> None:
    conversation = RemoteConversation(
        called("mcp.crm.find"),
        called("mcp.crm.add"),
        answered("Found."),
        called("mcp.crm.find"),
        answered("Again."),
    )
    conversation.say("a")
    conversation.clock.pause(3_600)
    conversation.say("b")
    assert len(conversation.entries(Listed)) == 2
    conversation.ports = replace(conversation.ports, servers=None)
    artifacts = conversation.ports.artifacts
    turns = find_turns(LANE, load_record(conversation.log, artifacts, LANE))
    reports = list(replay_turns(turns, replayer(conversation), artifacts))
    assert [(report.outcome, report.where) for report in reports] == [("equal", ""), ("equal", "")]
