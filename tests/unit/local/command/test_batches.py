"""The log as users and programs read it."""

from __future__ import annotations

import msgspec
import pytest

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.log import MemoryLog
from stepline.inspection.documents import render_batch
from stepline.local.command.batches import read_batches, render_entry, render_summary
from stepline.log.spill import spill
from stepline.model.batch import Batch, State
from stepline.model.block import Body, Produced
from stepline.model.decision import Action, Notice
from stepline.model.entry import (
    ApprovalAnswered,
    ApprovalRequested,
    Begun,
    Closed,
    Compacted,
    Compacting,
    Contributed,
    Decided,
    Deferred,
    Deleted,
    Dropped,
    Entry,
    Feedback,
    Forked,
    Imported,
    Importing,
    Inbound,
    Listed,
    Opened,
    Owner,
    Pruned,
    Queued,
    Reopened,
    Resulted,
    Started,
    SteeredEntry,
    TakenOver,
    Titled,
)
from stepline.model.ids import make_lane
from stepline.model.source import Citation
from stepline.model.usage import Usage
from stepline.model.visible_text import has_hidden

LANE = make_lane("local", "default", "c1")
AT = "2026-01-02T03:04:05.678Z"
COMPACTION = {
    "id": "c1",
    "turn": "turn_1",
    "at": AT,
    "scope": "history",
    "trigger": "render_token_limit",
    "before_tokens": 90,
    "max_tokens": 80,
}
ACTION = Action(call_id="tc_2", tool_id="mail.send", params={})
ANSWER = {
    "n": 3,
    "turn": "turn_1",
    "at": AT,
    "requested_at": AT,
    "iteration": 0,
    "call_id": "tc_2",
    "tool_id": "mail.send",
    "message_id": "a1",
}
ENTRIES = [
    (Owner(user="ann"), ["belongs to ann"]),
    (Inbound(message_id="m", event="prompt", text="hi\nthere", user="ann", at=AT), ["prompt: hi there"]),
    (
        Inbound(message_id="m", event="form", text="", user="ann", at=AT, payload={"plan": "pro"}),
        ['form: {"plan":"pro"}'],
    ),
    (Inbound(message_id="m", event="steer", text="", user="ann", at=AT, reactive=False), ["steer:"]),
    (Opened(turn="turn_1", at=AT, prompts=(1,)), ["── turn_1 opened"]),
    (
        Decided(iteration=2, claim=1, action="exit", started_at=AT, accepted=False, interrupted=True),
        ["round 2: exit, interrupted"],
    ),
    (
        Decided(
            iteration=0,
            claim=1,
            action="call_tool",
            started_at=AT,
            actions=(Action(call_id="tc_1", tool_id="react.read", params={}),),
            notices=(Notice(code="odd", message="careful"),),
            show_artifacts=("fi:a.md",),
            show_skills=("lab.charts",),
        ),
        [
            "round 0: call_tool",
            "  call tc_1 react.read",
            "  stages fi:a.md sk:lab.charts",
            "  notice odd",
        ],
    ),
    (
        Resulted(
            call_id="tc_1",
            tool_id="react.read",
            iteration=0,
            status="ok",
            at=AT,
            blocks=(Produced(path="fi:a.md"),),
        ),
        ["ok: react.read tc_1 fi:a.md"],
    ),
    (Reopened(iteration=1, attempt=2), ["round 1: attempt 2"]),
    (
        Reopened(iteration=1, attempt=2, until=AT, code="model_overloaded"),
        [f"round 1: waits until {AT} (model_overloaded)"],
    ),
    (Started(call_id="tc_2"), ["runs tc_2"]),
    (Importing(digest="ab" * 32, at=AT, files=""), ["import abababababab started"]),
    (Forked(origin="c-1", n=7, at=AT), ["fork of c-1, with its batches up to 7"]),
    (Forked(origin="c-1", n=7, at=AT, branch_of="c-1"), ["branch of c-1, with its batches up to 7"]),
    (Imported(digest="ab" * 32, at=AT), ["import abababababab completed"]),
    (Deferred(turn="turn_1", iteration=1), ["round 1: answer held back: a new event arrived"]),
    (Dropped(n=4, reason="nothing_to_steer"), ["dropped 4: nothing_to_steer"]),
    (
        SteeredEntry(n=4, turn="turn_1", at=AT, iteration=1, message_id="m4", text="shorter", finalize=2),
        ["steered by 4: 2 rounds left"],
    ),
    (TakenOver(turn="turn_1", reason="ended", takeovers=1), ["taken over (ended), 1 takeover"]),
    (
        ApprovalRequested(turn="turn_1", at=AT, iteration=0, action=ACTION, rule="always"),
        ["waits for an approval: tc_2 mail.send (always)"],
    ),
    (
        ApprovalAnswered(**ANSWER, verdict="denied", text="not\nnow"),
        ["tc_2 denied: not now"],
    ),
    (
        ApprovalAnswered(**ANSWER, verdict="approved", client="desk\n"),
        ["tc_2 approved by desk"],
    ),
    (Queued(turn="turn_1", at=AT, place=3), ["queued at position 3"]),
    (Begun(n=3, turn="turn_1", at=AT, queued_at=AT), ["started after 0.0 s in the queue"]),
    (
        Pruned(turn="turn_1", at=AT, cause="ttl", keep=6, intact=2),
        ["turns before the last 6 shortened (ttl)"],
    ),
    (Compacting(**COMPACTION), ["compaction started: 90 of 80 tokens"]),
    (
        Compacted(**COMPACTION, status="skipped", reason="no gain", after_tokens=90),
        ["compaction skipped (no gain): 90 → 90 tokens"],
    ),
    (Titled(title="A\ntitle", at=AT), ["title: A title"]),
    (
        Listed(
            turn="turn_1",
            at=AT,
            until=AT,
            servers="s",
            body=Body(key="out/a", sha256="a", size_bytes=1),
            tools=2,
            failed=("crm: mcp_timeout",),
            left_out=("shop.pay: mcp_bad_schema",),
        ),
        [f"2 tools of MCP servers listed until {AT}, without crm: mcp_timeout, shop.pay: mcp_bad_schema"],
    ),
    (
        Contributed(turn="turn_1", at=AT, blocks=(Produced(type="stage.note", path="ar:x"),)),
        ["contributed stage.note ar:x"],
    ),
    (Feedback(turn="turn_1", at=AT, reaction="ok", text="nice"), ["feedback on turn_1: ok nice"]),
    (Deleted(turn="turn_1", at=AT), ["deleted"]),
    (
        Closed(turn="turn_1", outcome="completed", reason="answered", at=AT, answer="yes"),
        ["answer: yes", "── turn_1 completed: answered"],
    ),
]


SHOWN = [
    (
        SteeredEntry(n=4, turn="turn_1", at=AT, iteration=1, message_id="m4", text="", finalize=0),
        ["steered by 4: stopped"],
    ),
    (
        SteeredEntry(n=4, turn="turn_1", at=AT, iteration=1, message_id="m4", text="end", finalize=1),
        ["steered by 4: 1 round left"],
    ),
    (
        Closed(
            turn="turn_1",
            outcome="completed",
            reason="complete",
            at=AT,
            answer="so [[S:1]]",
            followups=("More\nof it",),
            citations=(Citation(sid=1, title="One\x1b", url="https://example.com/1"),),
            usage=Usage(input_tokens=10, cache_read_tokens=90, output_tokens=5),
            rounds=2,
        ),
        [
            "answer: so [[S:1]]",
            "  [1] One␛ — https://example.com/1",
            "  » More of it",
            "  rounds 2, tokens 100 in (90 cached), 5 out",
            "── turn_1 completed: complete",
        ],
    ),
    (
        Decided(
            iteration=0,
            claim=1,
            action="call_tool",
            started_at=AT,
            actions=(Action(call_id="tc_1", tool_id="react.read", params={}),),
            notices=(Notice(code="dup", message="Action 2 was not run.", extra={"index": 2}),),
        ),
        [
            "round 0: call_tool",
            "  call tc_1 react.read",
            "  ✗ action 2 was not run: dup",
        ],
    ),
]


@pytest.mark.parametrize(("entry", "lines"), [*ENTRIES, *SHOWN])
def test_an_entry_says_what_happened(entry, lines):
    assert render_entry(entry) == lines


def test_every_kind_of_entry_is_shown():
    kinds = Entry.__args__
    assert {type(entry) for entry, _ in ENTRIES} == set(kinds)


def test_no_entry_of_the_log_acts_on_the_terminal_or_forges_a_line():
    evil = "\x1b[2J\x9b31m\u202e\r\n    8  belongs to eve\u2028"
    entries = (
        Owner(user=evil),
        Resulted(call_id=evil, tool_id=evil, iteration=1, status="error", error={"code": evil}, at=AT),
        Closed(turn=evil, outcome="error", reason=evil, code=evil, message=evil, answer=evil, at=AT),
        Started(call_id=evil),
        Dropped(n=1, reason=evil),
        Titled(turn="turn_1", title=evil, at=AT),
        Feedback(turn=evil, reaction=evil, text=evil, at=AT),
    )
    lines = list(render_summary(Batch(n=7, by="x", at=AT, entries=entries, state=State())))
    assert len(lines) == sum(len(render_entry(entry)) for entry in entries)
    assert not [text for text in lines if has_hidden(text) or "\n" in text]


def test_the_number_of_a_batch_is_printed_once():
    batch = Batch(n=7, by="x", at=AT, entries=(Owner(user="ann"), Started(call_id="tc_1")), state=State())
    assert list(render_summary(batch)) == ["    7  belongs to ann", "       runs tc_1"]


def test_the_batches_come_whole_though_their_bodies_are_stored_apart():
    log, artifacts = MemoryLog(), MemoryArtifacts()
    text = "é" * 40_000
    said = Inbound(message_id="m", event="prompt", text=text, user="ann", at=AT)
    whole = Batch(n=1, by="x", at=AT, entries=(Owner(user="ann"), said), state=State())
    small = spill(artifacts, LANE, whole)
    assert small.spilled
    log.put(LANE, small)
    assert read_batches(log, artifacts, LANE) == [whole]
    assert read_batches(log, artifacts, LANE, after=1) == []


def test_a_batch_as_json_names_every_field():
    usage = Usage(input_tokens=5, output_tokens=2)
    decided = Decided(iteration=0, claim=1, action="exit", started_at=AT, usage=usage)
    batch = Batch(n=7, by="x", at=AT, entries=(Owner(user="ann"), decided), state=State(owner="ann"))
    found = msgspec.json.decode(msgspec.json.encode(render_batch(batch)))
    assert (found["n"], found["state"]["owner"], found["state"]["cursor"]["phase"]) == (7, "ann", "decide")
    assert found["entries"][0] == {"kind": "owner", "user": "ann"}
    assert (found["entries"][1]["kind"], found["entries"][1]["usage"]["input_tokens"]) == ("decision", 5)
