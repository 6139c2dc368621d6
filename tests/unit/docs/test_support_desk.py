"""The service of examples/support_desk: its event opens a turn, and its reader waits until that ends."""

from __future__ import annotations

import dataclasses
from typing import Any

from examples.support_desk.desk import ENDS, open_ticket, read_events
from stepline import EventSource
from stepline.model.entry import Inbound
from tests.support.api_caller import Caller
from tests.support.api_server import TOKEN, ApiServer, served
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered

WHERE = {"tenant": LANE.tenant, "project": LANE.project, "conversation": LANE.conversation}


def submit(conversation: Conversation) -> None:
    """Submit the ticket of the conversation."""
    open_ticket(EventSource(conversation.ports, source="desk"), WHERE, "The lamp does not light.", user=USER)


def opened(answer: str) -> Conversation:
    """Return a conversation that a ticket has opened."""
    conversation = Conversation(answered(answer))
    submit(conversation)
    return conversation


def answers_of(events: list[dict[str, Any]]) -> list[str]:
    """Return the answers of the turns that have ended."""
    return [event["data"]["final_answer"] for event in events if event["type"] == "chat.complete"]


def reader_of(conversation: Conversation) -> ApiServer:
    """Return an API whose reads wait by the clock of the conversation."""
    caller = Caller(conversation.ports)
    caller.services = dataclasses.replace(caller.services, wait_s=20)
    return ApiServer(caller)


def test_a_ticket_is_one_event_and_its_turn_is_read_to_the_end() -> None:
    conversation = opened("Check the plug.")
    server = reader_of(conversation)
    with served(server) as url:
        events = read_events(url, TOKEN, LANE.conversation)
        first = next(events)
        conversation.run()
        rest = list(events)
    submit(conversation)
    assert [entry.event for entry in conversation.entries(Inbound)] == ["ticket"]
    assert first["type"] not in ENDS
    assert answers_of(rest) == ["Check the plug."]
    assert server.failures == []


def test_an_answer_that_outgrows_a_frame_is_put_together() -> None:
    long = "Check the plug. " * 2_200
    conversation = opened(long)
    conversation.run()
    with served(reader_of(conversation)) as url:
        events = list(read_events(url, TOKEN, LANE.conversation))
    assert answers_of(events) == [long]
