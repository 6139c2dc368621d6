"""Entries of every kind with any content that their types allow: what no log holds, a reader may still meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from stepline.model.block import Body, Produced
from stepline.model.decision import Action, Notice
from stepline.model.entry import (
    ApprovalAnswered,
    ApprovalRequested,
    Closed,
    Decided,
    Deferred,
    Deleted,
    Dropped,
    Imported,
    Importing,
    Inbound,
    Listed,
    Opened,
    Owner,
    Reopened,
    Resulted,
    Started,
    TakenOver,
)
from stepline.model.plan_steps import Plan
from stepline.model.program.execution import ToolEvent
from stepline.model.source import Citation, Source
from stepline.model.usage import Usage

TOKENS = (
    "[[S:1]]",
    "a [[S:1-3]] b",
    "\uff3b\uff3bS\uff1a2\uff3d\uff3d",
    "`[[S:1]]`",
    "[[S:",
    "[[S:99]]",
    "x",
)

texts = st.sampled_from(TOKENS) | st.text(st.characters(codec="utf-8"), max_size=12)
counts = st.integers(0, 2**40)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts
names = st.sampled_from(
    [
        "path",
        "content",
        "contract",
        "prog_name",
        "index",
        "tool_id",
        "parent_tool_call_id",
        "code",
        "visibility",
    ]
)
json: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(names | texts, json, max_size=4)
times = st.just("2026-11-22T10:00:00.000Z")


def some(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, max_size=2).map(tuple)


usages = st.builds(Usage, input_tokens=counts, cache_read_tokens=counts, output_tokens=counts)
citations = some(
    st.builds(
        Citation,
        sid=st.integers(0, 4),
        title=texts,
        url=st.sampled_from(["https://example.com/a", "HTTP://x", "javascript:alert(1)", "", "fi:x"]),
    )
)
plans = st.builds(
    Plan,
    plan_id=texts,
    steps=some(texts),
    status=st.dictionaries(st.sampled_from(["1", "2", "9"]), st.sampled_from(["pending", "done", "failed"])),
    created_ts=times,
    last_ts=times,
    origin_turn_id=texts,
    last_turn_id=texts,
)
actions = st.builds(Action, call_id=texts, tool_id=texts, params=objects, code=st.none() | texts)
notices = st.builds(Notice, code=texts, message=texts, extra=objects)
blocks = st.builds(
    Produced,
    path=st.sampled_from(["", "fi:turn_1.outputs/a.md", "tc:turn_1.x.result"]),
    text=texts,
    body=st.none() | st.builds(Body, key=texts, sha256=texts, size_bytes=counts),
    meta=st.fixed_dictionaries({}, optional={"visibility": st.sampled_from(["external", "internal"]) | json}),
)
tool_events = st.builds(
    ToolEvent,
    type=st.sampled_from(["web_search.filtered_results", "rows", "chat.complete"]),
    at=times,
    tool_id=texts,
    data=objects
    | st.fixed_dictionaries(
        {"search_id": texts, "objective": texts, "queries": st.lists(texts), "results": st.lists(objects)}
    ),
)
outcomes = st.sampled_from(["completed", "error"])

entries = st.one_of(
    st.builds(Owner, user=texts),
    st.builds(
        Inbound,
        message_id=texts,
        event=st.sampled_from(["prompt", "followup", "steer", "event"]),
        text=texts,
        user=texts,
        at=times,
    ),
    st.builds(Opened, turn=texts, at=times, prompts=some(counts)),
    st.builds(
        Listed,
        turn=texts,
        at=times,
        until=times,
        servers=texts,
        body=st.builds(Body, key=texts, sha256=texts, size_bytes=counts),
        failed=some(texts),
    ),
    st.builds(
        Reopened,
        iteration=counts,
        attempt=counts,
        usage=st.none() | usages,
        until=st.just("") | times,
        code=texts,
    ),
    st.builds(
        Decided,
        iteration=counts,
        claim=counts,
        action=st.sampled_from(["call_tool", "complete", "exit"]),
        started_at=times,
        accepted=st.booleans(),
        notes=texts,
        actions=some(actions),
        answer=texts,
        notices=some(notices),
        plan=st.none() | plans,
        usage=st.none() | usages,
        citations=citations,
    ),
    st.builds(Started, call_id=texts, deadline=texts),
    st.builds(Importing, digest=texts, at=times, files=texts),
    st.builds(Imported, digest=texts, at=times),
    st.builds(
        Resulted,
        call_id=texts,
        tool_id=texts,
        iteration=counts,
        status=st.sampled_from(["ok", "error", "unverified"]),
        at=times,
        duration_ms=counts,
        blocks=some(blocks),
        plans=some(plans),
        error=st.none() | objects,
        program=st.booleans(),
        emitted=some(tool_events),
        sources=some(st.builds(Source, sid=counts, title=texts)),
    ),
    st.builds(Deferred, turn=texts, iteration=counts, answer=texts, citations=citations),
    st.builds(
        Closed,
        turn=texts,
        outcome=outcomes,
        reason=texts,
        at=times,
        answer=texts,
        followups=some(texts),
        code=st.sampled_from(["", "execution_lost", "step_timeout", "step_failed"]),
        message=texts,
        citations=citations,
        usage=st.none() | usages,
        rounds=counts,
        files=counts,
        elapsed_ms=counts,
        model_ms=counts,
        tools_ms=counts,
        model=texts,
    ),
    st.builds(Dropped, n=counts, reason=texts),
    st.builds(Deleted, at=times, turn=texts, call_id=texts),
    st.builds(TakenOver, turn=texts, reason=texts, takeovers=counts),
    st.builds(
        ApprovalRequested,
        turn=texts,
        at=times,
        iteration=counts,
        action=actions,
        rule=st.sampled_from(["always", "first_use"]),
        until=st.just("") | times,
    ),
    st.builds(
        ApprovalAnswered,
        n=counts,
        turn=texts,
        at=times,
        requested_at=times,
        iteration=counts,
        call_id=texts,
        tool_id=texts,
        verdict=st.sampled_from(["approved", "edited", "denied", "expired", "withdrawn"]),
        message_id=texts,
        text=texts,
        action=st.none() | actions,
        client=texts,
    ),
)
