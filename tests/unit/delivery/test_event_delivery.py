"""Delivery of events: one filter for live and replayed events, and no gap where an event is withheld."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from stepline.delivery.resume import resume
from stepline.events.filter import EventFilter, EventRule, Rule
from stepline.local.client.change import EventsApplied, TurnEnded
from stepline.local.client.state import ClientState
from stepline.metrics import EVENT_RULE_FAILURES
from stepline.model.entry import Closed, Decided
from stepline.model.wire.event import ClientEvent, DeltaFrame
from stepline.protocol.decision.fanout import FanoutRule
from stepline.tools.context import NOT_JSON, ToolContext, ToolOutput
from tests.support.conversation import FAR, LANE, USER, Conversation, durable, event_types, frames, of, tool
from tests.support.fold import fold_frames
from tests.support.generation import answered, called, end_tag

EVERYTHING_ELSE = EventRule(types=frozenset({"chat.start", "chat.complete"}))
NOTHING = EventRule(types=frozenset())


def guarded(*rules: Rule, script: tuple[str, ...] = ()) -> tuple[Conversation, list[bytes]]:
    """Return a conversation under these rules, and the inbox of a listener."""
    conversation = Conversation(*(script or (called("react.read", {"paths": ["fi:x"]}), answered("done"))))
    conversation.ports = replace(conversation.ports, outward=EventFilter(rules))
    return conversation, conversation.listen()


def replayed(conversation: Conversation) -> list[bytes]:
    inbox = conversation.connect("late")
    resume(conversation.ports, LANE, user=USER, connection="late", until_s=FAR, after=0, have={}, claim=0)
    return inbox


def test_a_withheld_event_is_sent_neither_live_nor_in_a_replay() -> None:
    conversation, inbox = guarded(EVERYTHING_ELSE)
    conversation.send()
    conversation.run()
    assert event_types(inbox) == ["chat.start", "chat.complete"]
    assert event_types(replayed(conversation)) == ["chat.start", "chat.complete"]


def test_withheld_thinking_is_neither_streamed_nor_stored_nor_in_an_event() -> None:
    script = (called("react.read", {"paths": ["fi:x"]}), answered("done"))
    conversation = Conversation(
        *(text.replace("<channel:thinking>", "<channel:thinking>SECRET ") for text in script)
    )
    conversation.ports = replace(conversation.ports, outward=EventFilter(lanes=frozenset({"thinking"})))
    inbox = conversation.listen()
    conversation.send()
    conversation.run()
    assert all(decided.thinking[0].startswith("SECRET") for decided in conversation.entries(Decided))
    assert "solver.react.decision" in event_types(inbox)
    assert any(frame.lane.startswith("answer.") for frame in of(DeltaFrame, inbox))
    assert not any(b"SECRET" in body for body in (*inbox, *replayed(conversation)))
    claims = range(conversation.tail.n + 1)
    assert not any(
        "SECRET" in delta.text for n in claims for delta in conversation.ports.deltas.since(LANE, n)
    )


def test_a_fully_withheld_batch_leaves_no_gap() -> None:
    conversation, inbox = guarded(EVERYTHING_ELSE)
    conversation.send()
    conversation.run()
    assert [len(events) for _, events in durable(inbox)] == [1, 0, 0, 0, 1]
    for heard in (inbox, replayed(conversation)):
        state, effects = fold_frames(ClientState(conversation=LANE.conversation), frames(heard))
        assert (state.cursor, state.behind(), state.open) == (conversation.tail.n, False, False)
        assert [effect.n for effect in effects if isinstance(effect, EventsApplied)] == [1, 2, 3, 4, 5]
        assert [effect.answer for effect in effects if isinstance(effect, TurnEnded)] == ["done"]


def test_a_client_whose_events_are_all_withheld_knows_its_position() -> None:
    conversation, inbox = guarded(NOTHING)
    conversation.send()
    conversation.run()
    state, effects = fold_frames(ClientState(conversation=LANE.conversation), frames(inbox))
    assert (state.cursor, state.behind()) == (conversation.tail.n, False)
    assert not any(effect.events for effect in effects if isinstance(effect, EventsApplied))


class Broken:
    """A rule that fails on results."""

    def passes(self, event: ClientEvent, /) -> bool:
        if event.type == "react.tool.result":
            raise LookupError("no such role")
        return True


def test_a_failing_rule_withholds_its_event_and_is_logged_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    conversation, inbox = guarded(Broken())
    with caplog.at_level(logging.ERROR):
        conversation.send()
        conversation.run()
    assert "react.tool.result" not in event_types(inbox)
    assert {"react.tool.call", "chat.complete"} <= set(event_types(inbox))
    assert [record.getMessage() for record in caplog.records] == ["event rule failed"]
    meter: Any = conversation.ports.meter
    assert meter.counts[EVENT_RULE_FAILURES] == 1


# Undeliverable frames were dropped without a trace.
def test_every_lost_frame_is_detected_and_replayed_once() -> None:
    conversation, inbox = guarded()
    conversation.send()
    conversation.run()
    sent = frames(inbox)
    whole, _ = fold_frames(ClientState(conversation=LANE.conversation), sent)
    for lost in range(len(sent) - 1):
        state, before = fold_frames(
            ClientState(conversation=LANE.conversation), [*sent[:lost], *sent[lost + 1 :]]
        )
        assert state.behind() or sent[lost].__struct_config__.tag != "events"
        conversation.app.ports.publisher.close("late")  # type: ignore[attr-defined]  # the memory twin's own
        state, after = fold_frames(state, frames(replayed(conversation)))
        applied = [effect.n for effect in (*before, *after) if isinstance(effect, EventsApplied)]
        assert applied == [n for n, _ in durable(inbox)]
        assert (state.cursor, state.behind()) == (whole.cursor, False)


# Errors in a listener's code were swallowed without a trace.
def test_an_invalid_tool_event_is_logged_and_reported_as_such(caplog: pytest.LogCaptureFixture) -> None:
    def run(context: ToolContext) -> ToolOutput:
        context.emit("progress", {"percent": 50})
        context.emit("preview", {"frame": object()})
        context.emit("progress", {"percent": 100})
        return ToolOutput(blocks=(context.result("acme.run", {"status": "ok"}),))

    conversation, inbox = guarded(script=(called("acme.run"), answered("done")))
    conversation.use(tool("acme.run", "pure", run))
    with caplog.at_level(logging.ERROR):
        conversation.send()
        conversation.run()
    assert [record.getMessage() for record in caplog.records] == ["tool event not told"]
    sent = [
        event.data for _, events in durable(inbox) for event in events if event.type == "react.tool.event"
    ]
    assert [(data["type"], data["data"]) for data in sent] == [
        ("progress", {"percent": 50}),
        ("preview", {"error": {"code": NOT_JSON}}),
        ("progress", {"percent": 100}),
    ]
    assert event_types(inbox)[-2:] == ["chat.complete", "conv.status"]


# --- whole turns


def test_an_answer_with_citations_ends_with_links_and_sources() -> None:
    search = called("web_tools.web_search", {"queries": ["prompt caching"], "objective": "o"})
    conversation, inbox = guarded(
        script=(search, answered("So it is [[S:1]], not [[S:77]].", suggested_followups=["More?"]))
    )
    conversation.send()
    conversation.run()
    data = {event.type: event.data for _, events in durable(inbox) for event in events}
    found = data["web_search.filtered_results"]["results"][0]
    (cited,) = data["chat.citations"]["items"]
    assert cited == {name: found[name] for name in ("sid", "title", "url")}
    answer = data["chat.complete"]
    assert f'[{cited["title"]}]({cited["url"]} "S:{cited["sid"]}")' in answer["answer"]
    assert (answer["used_sources"], answer["unresolved_sids"]) == ([1], [77])
    assert conversation.entries(Closed)[0].answer == "So it is [[S:1]], not [[S:77]]."


def test_an_action_that_was_not_run_is_reported_by_number_alone() -> None:
    read = called("react.read", {"paths": ["ar:plan.latest"]})
    file = {"path": "a.md", "channel": "canvas", "content": "SECRET", "kind": "file"}
    write = called("react.write", file).partition(end_tag("thinking"))[2]
    conversation, inbox = guarded(script=(read + write, answered("done")))
    conversation.agent = replace(conversation.agent, fanout=FanoutRule(mode="safe_fanout"))
    conversation.send()
    conversation.run()
    events = [event for _, batch in durable(inbox) for event in batch]
    (rejected,) = [event.data for event in events if event.type == "react.tool.rejected"]
    assert (rejected["action_index"], rejected["tool_id"]) == (2, "react.write")
    assert rejected["code"] == "multi_action_bundle_strategy_incompatible"
    assert [event.data["tool_id"] for event in events if event.type == "react.tool.call"] == ["react.read"]
    assert "SECRET" not in repr(inbox)
