"""Every endpoint of the table: what is another's is answered exactly like what is not there."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from typing import Any

import pytest

from stepline.api.endpoint import Endpoint
from stepline.api.endpoint_table import ENDPOINTS
from stepline.api.router import Answer
from stepline.model.file.attachment import Attachment, attachment_key
from tests.support.api_caller import Caller
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered, called

OTHERS = ({"user": "eve"}, {"tenant": "umbrella"}, {"project": "sales"})
FOUNDING = {"begin_upload"}
"""A file may come before the first message, as a message may: a conversation of this name is still to begin."""
NAMING = {"fetch_named", "search", "search_project"}
"""Their body or their query names the conversation."""
OWNED = [
    one
    for one in ENDPOINTS
    if ("{conversation}" in one.path or one.run.__name__ in NAMING) and one.run.__name__ not in FOUNDING
]
LOCATED = [endpoint for endpoint in ENDPOINTS if "{tenant}" in endpoint.path or "{project}" in endpoint.path]
BODIES: dict[str, Any] = {
    "rename_conversation": {"title": "Mine"},
    "mark_read": {"n": 1},
    "fetch_turns": {"materialize": True},
    "read_rated": {},
    "search_project": {"query": "question"},
    "rate_turn": {"reaction": "ok"},
    "give_feedback": {"reaction": "ok"},
    "rate_turn_by_machine": {"reaction": "ok", "text": "Checked.", "confidence": 0.9},
    "list_feedback": {"start": "2026-11-01", "end": "2026-11-30"},
}
"""A good body of each endpoint that takes one."""
QUERIES = {
    "compare_requests": {"to": "2"},
    "get_blocks": {"path": "ar:none"},
    "search": {"q": "question"},
    "read_rates": {"from": "2026-11-01", "to": "2026-11-30"},
}
"""A good query of each endpoint that needs one."""
CSV = b"1,2\n"
SENT = Attachment(
    filename="b.csv", mime="text/csv", size_bytes=len(CSV), sha256=hashlib.sha256(CSV).hexdigest()
)
NAMES = {
    "upload": f"up_{'0' * 32}",
    "owner": USER,
    "kind": "outputs",
    "path": "a.md",
    "disposition": "download",
}


def name(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}"


@cache
def talked() -> Conversation:
    written = {"path": "outputs/a.md", "channel": "canvas", "content": "# A", "kind": "file"}
    conversation = Conversation(called("react.write", written), answered("One."))
    conversation.ports.artifacts.put(attachment_key(LANE, SENT.sha256), CSV, mime=SENT.mime)
    conversation.send(attachments=(SENT,))
    conversation.run()
    return conversation


def ask(caller: Caller, endpoint: Endpoint, **names: str) -> Answer:
    turn = talked().timeline().turns[0]
    known = {
        "tenant": caller.principal.tenant,
        "project": caller.principal.project,
        "conversation": LANE.conversation,
        "turn": turn,
        **NAMES,
        **names,
    }
    path = re.sub(r"\{([a-z_]+)\+?\}", lambda found: known.get(found[1], "1"), endpoint.path)
    called, conversation = endpoint.run.__name__, known["conversation"]
    named = {"query": "question", "scope": "conversation", "conversation_id": conversation}
    bodies = {
        **BODIES,
        "fetch_named": {"conversation_id": conversation},
        "search_project": named,
        "create_link": {"path": f"fi:{turn}.outputs/a.md"},
    }
    queries = {**QUERIES, "search": {"q": "question", "conversation": conversation}}
    return caller.ask(
        endpoint.method, path, bodies[called] if endpoint.body else None, **queries.get(called, {})
    )


@pytest.mark.parametrize("other", OTHERS, ids=lambda other: next(iter(other)))
@pytest.mark.parametrize("endpoint", OWNED, ids=name)
def test_anothers_conversation_is_answered_like_one_that_is_not_there(
    endpoint: Endpoint, other: dict[str, str]
) -> None:
    caller = Caller(talked().ports, **other)
    foreign = ask(caller, endpoint)
    assert (foreign.status, foreign.code) == (404, "not_found")
    assert foreign == ask(caller, endpoint, conversation="nobody-has-said-anything-here")
    assert foreign == ask(Caller(talked().ports), endpoint, conversation="nobody-has-said-anything-here")


@pytest.mark.parametrize("place", ["tenant", "project"])
@pytest.mark.parametrize("endpoint", LOCATED, ids=name)
def test_a_place_that_is_not_the_callers_is_not_there(endpoint: Endpoint, place: str) -> None:
    answer = ask(Caller(talked().ports), endpoint, **{place: "umbrella"})
    assert (answer.status, answer.code) == (404, "not_found")


@pytest.mark.parametrize("endpoint", OWNED, ids=name)
def test_whoever_is_refused_has_changed_nothing(endpoint: Endpoint) -> None:
    conversation = talked()
    before = (conversation.batches(), conversation.ports.log.listing(LANE))
    for other in OTHERS:
        ask(Caller(conversation.ports, **other), endpoint)
    assert (conversation.batches(), conversation.ports.log.listing(LANE)) == before
