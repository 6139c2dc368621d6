"""Rates of requests other than messages: reads, searches, tickets and changes, of a user and of a tenant."""

from __future__ import annotations

from typing import Any

import pytest

from stepline.model.tenancy.request_rates import Rates, RequestRates
from stepline.model.wire.event import ErrorFrame
from tests.support.api_caller import Caller
from tests.support.conversation import LANE, Conversation, of
from tests.unit.ingress.test_receive import body, say

URL = f"/v1/conversations/{LANE.conversation}"
ASKED: list[tuple[str, str, str, Any]] = [
    ("reads", "GET", "/v1/conversations", None),
    ("reads", "GET", URL, None),
    ("reads", "GET", f"{URL}/events", None),
    ("reads", "GET", "/v1/limits", None),
    ("reads", "POST", f"/conversations/{LANE.tenant}/{LANE.project}/fetch", {}),
    ("searches", "GET", "/v1/search", None),
    ("searches", "POST", f"/conversations/{LANE.tenant}/{LANE.project}/search", {"query": "heron"}),
    ("tickets", "POST", "/v1/socket-tickets", None),
    ("changes", "PATCH", URL, {"title": "Mine"}),
    ("changes", "PUT", f"{URL}/read", {"n": 1}),
    ("changes", "DELETE", URL, None),
]


def begun(**rates: Rates) -> Conversation:
    conversation = Conversation(rates=RequestRates(**rates))
    conversation.send()
    return conversation


@pytest.mark.parametrize(("kind", "method", "path", "asked"), ASKED)
@pytest.mark.parametrize("whose", ["user", "tenant"])
def test_a_request_beyond_its_rate_is_refused_with_a_retry_time(kind, method, path, asked, whose):
    conversation = begun(**{whose: Rates(**{kind: 2})})
    conversation.clock.pause(45.5)
    caller = Caller(conversation.ports)
    answers = [caller.ask(method, path, asked) for _ in range(3)]
    assert [answer.code == "rate_limited" for answer in answers] == [False, False, True]
    assert (answers[-1].status, answers[-1].headers["Retry-After"]) == (429, "15")
    conversation.clock.pause(15)
    assert caller.ask(method, path, asked).code != "rate_limited"


@pytest.mark.parametrize(("kind", "method", "path", "asked"), ASKED)
def test_each_kind_of_request_has_a_separate_rate(kind, method, path, asked):
    others = {name: 1 for name in ("reads", "searches", "tickets", "changes") if name != kind}
    caller = Caller(begun(user=Rates(**others, **{kind: 0})).ports)
    assert {caller.ask(method, path, asked).code for _ in range(4)}.isdisjoint({"rate_limited"})


def test_requests_are_counted_per_user_and_per_tenant():
    conversation = begun(user=Rates(reads=2), tenant=Rates(reads=3))
    ann, bob, other = (
        Caller(conversation.ports, user="ann"),
        Caller(conversation.ports, user="bob"),
        Caller(conversation.ports, user="bob", tenant="elsewhere"),
    )
    codes = [caller.ask("GET", "/v1/conversations").code for caller in (ann, ann, ann, bob, bob, other)]
    assert codes == ["", "", "rate_limited", "", "rate_limited", ""]


@pytest.mark.parametrize("action", ["resume", "ping", "watch", "auth"])
def test_a_websockets_reads_have_the_rate_of_reads(action: str) -> None:
    conversation = begun(user=Rates(reads=1))
    inbox = conversation.connect("k1")
    texts = {
        "resume": body("resume", after=0),
        "ping": body("ping"),
        "watch": '{"action": "watch"}',
        "auth": '{"action": "auth", "ticket": "none"}',
    }
    for _ in range(2):
        say(conversation, texts[action])
    refused = [error for error in of(ErrorFrame, inbox) if error.code == "rate_limited"]
    assert len(refused) == 1
    assert refused[0].retryable


def test_messages_do_not_count_towards_the_rate_of_reads() -> None:
    conversation = begun(user=Rates(reads=1))
    inbox = conversation.connect("k1")
    for n in range(3):
        say(conversation, body(message_id=f"n{n}"))
    assert of(ErrorFrame, inbox) == []
