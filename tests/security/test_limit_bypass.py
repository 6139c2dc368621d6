"""Ways around a limit or the kill switch that look open, each tried: none may lead to one more call than is allowed."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from stepline.adapters.memory.model import Say
from stepline.bundle.hook import HookContext, hook_of
from stepline.errors import LimitError
from stepline.ingress.approval_answer import ApprovalAnswer, answer_request
from stepline.ingress.upload import UploadPorts, UploadRequest, judge_upload, start_upload
from stepline.loop.agent import Hooks
from stepline.loop.approvals.approval_policy import ApprovalPolicy
from stepline.model.entry import ApprovalRequested, Resulted
from stepline.model.file.upload_slot import quarantine_key
from stepline.model.tenancy.limits import Limits, scopes_of
from stepline.model.usage import Usage
from tests.security.strangers import principal
from tests.support.api_caller import Caller
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered, called
from tests.support.steered_conversation import SPOKEN, SteeredConversation

SCOPES = scopes_of(LANE.tenant, LANE.project, USER)
PLAN = called("react.plan", {"steps": ["look"]})
WRITE = called("react.write", {"path": "a.md", "channel": "canvas", "content": "# A", "kind": "file"})
SPENT = Usage(input_tokens=900, output_tokens=100)


def set_limits(conversation: Conversation, place: int = 0, **limits: Any) -> None:
    accounts = conversation.ports.accounts
    (there,) = accounts.limits([SCOPES[place]])
    accounts.set_limits(SCOPES[place], Limits(**limits), version=there.version, by="boss", at="")


def test_repeated_steers_get_one_final_round_beyond_the_budget() -> None:
    live = SteeredConversation(*[Say(text=SPOKEN, usage=SPENT, piece_chars=5)] * 40)
    for call in range(30):
        live.at(8, lambda call=call: live.steer(id=f"s{call}"), call=call)
    live.at(7, lambda: set_limits(live, tokens_day=1))
    live.run()
    assert live.state.status == "idle"
    assert len(live.model.requests) <= 2


def test_after_a_stopped_turn_no_hook_calls_a_model() -> None:
    asked: list[str] = []

    def rate(hook: HookContext) -> None:
        asked.append(hook.hook)

    conversation = Conversation(PLAN, answered("Done."))
    conversation.agent = replace(conversation.agent, hooks=Hooks(post_run_hook=hook_of(rate)))
    conversation.send()
    conversation.decide()
    conversation.act()
    set_limits(conversation, place=2, stopped="unpaid")
    conversation.drive(conversation.decide())
    assert asked == []


def test_while_work_is_stopped_an_answer_lets_no_call_run() -> None:
    conversation = Conversation(WRITE, answered("Done."))
    policy = ApprovalPolicy(places=({"effect:keyed": "always"},))
    conversation.agent = replace(conversation.agent, approvals=policy.rule_of)
    conversation.send()
    conversation.run()
    (asked,) = conversation.entries(ApprovalRequested)
    set_limits(conversation, place=2, stopped="unpaid")
    answer = ApprovalAnswer(message_id="a1", user=USER, call_id=asked.action.call_id, verdict="approved")
    with pytest.raises(LimitError) as caught:
        answer_request(conversation.ports, LANE, answer)
    assert caught.value.reason == "stopped"
    assert [one for one in conversation.entries(Resulted) if one.status == "ok"] == []


def upload(desk: UploadPorts, name: str) -> None:
    body = name.encode() * 10
    request = UploadRequest(
        filename=name, size_bytes=len(body), sha256=hashlib.sha256(body).hexdigest(), mime="text/plain"
    )
    grant = start_upload(desk, principal(), LANE.conversation, request)
    desk.quarantine.objects[quarantine_key(LANE, grant.upload)] = body  # type: ignore[attr-defined]  # the memory twin's own
    judge_upload(desk, LANE, grant.upload)


def test_files_that_no_message_attaches_fill_the_storage_like_others() -> None:
    conversation = Conversation()
    set_limits(conversation, storage_bytes=100)
    desk = Caller(conversation.ports).uploads
    upload(desk, "1.txt")
    upload(desk, "2.txt")
    with pytest.raises(LimitError) as caught:
        upload(desk, "3.txt")
    assert caught.value.reason == "limit_storage"
