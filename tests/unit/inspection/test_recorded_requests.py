"""Every round of the recorded conversations: the log renders the bytes that were sent."""

from __future__ import annotations

import pytest

from stepline.model.entry import Decided
from tests.support.conversation import LANE
from tests.support.log_invariant import requests
from tests.support.script import RECORDED
from tests.unit.local.scripted.scripted_conversation import ScriptedConversation


@pytest.mark.parametrize("mode", ["off", "safe_fanout"])
@pytest.mark.parametrize("said", RECORDED, ids=lambda said: said[:40])
def test_the_log_renders_the_bytes_that_were_sent(said: str, mode: str) -> None:
    conversation = ScriptedConversation(
        "Write a file note.md with grey herons.", AI_REACT_AGENT_MULTI_ACTION=mode
    )
    conversation.say(said)
    conversation.say("Thank you.")
    assert len(conversation.entries(Decided)) >= 3
    assert not list(requests(conversation.ports.artifacts, LANE, conversation.batches()))
