"""The tools of MCP servers in the layout `journal`: they are in block B of the turn that listed them."""

from __future__ import annotations

import pytest

from stepline.adapters.memory.model import Say
from stepline.bundle.assembly import RemoteRules, build_agent
from stepline.bundle.parts import Parts
from stepline.model.entry import Decided
from stepline.model.usage import Usage
from stepline.tools.context import ReadCaps
from tests.support.generation import answered, called
from tests.unit.inspection.test_sent_request import rendered_again
from tests.unit.loop.test_turn_tools import ADD, FIND, MODULE, RemoteConversation, bundle

__all__ = ["bundle"]

HELD = Usage(cache_write_5m_tokens=8_000, output_tokens=9)


class RemoteJournal(RemoteConversation):
    """A conversation in this layout whose agent has the tools of a server."""

    def build(self, ttl_s: float = 600) -> None:
        remote = RemoteRules(ttl_s=ttl_s)
        self.agent = build_agent(
            ReadCaps(), parts=Parts(tools_module=MODULE), remote=remote, layout="journal"
        )


@pytest.mark.usefixtures("bundle")
def test_the_tools_of_a_server_are_common_tools_and_every_request_can_be_made_again():
    conversation = RemoteJournal(called("mcp.crm.find", {}), answered("done"))
    conversation.send()
    conversation.run()
    for request in conversation.model.requests:
        _, second, _ = (part.text for part in request.system)
        assert "## mcp.crm.find\n" in second.partition("[AVAILABLE INFRASTRUCTURE TOOLS]")[0]
    assert len(rendered_again(conversation, conversation.model.requests)) == 2


@pytest.mark.usefixtures("bundle")
def test_another_list_is_the_reason_of_a_bust():
    conversation = RemoteJournal(
        Say(text=answered("one"), usage=HELD),
        Say(text=answered("two"), usage=Usage(input_tokens=9_000)),
        ttl_s=60,
    )
    conversation.say("m1")
    conversation.clock.pause(70)
    conversation.crm.tools = (FIND, ADD, FIND.__class__(name="drop", description="Drop a customer."))
    conversation.say("m2")
    bust = conversation.entries(Decided)[-1].bust
    assert bust is not None
    assert bust.reason == "tools"
