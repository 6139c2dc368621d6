"""The prompt of a message is the same by any door as by our own client.

`tests/data/doors/sent.json` has what each door sends for an action of its client; `web/tests/door/sent_frames.test.ts`
records it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.anthropic.provider import AnthropicProvider
from stepline.adapters.chat.provider import ChatProvider
from stepline.adapters.converse.provider import ConverseProvider
from stepline.adapters.memory.upload.preflight import MemoryPreflight
from stepline.adapters.memory.upload.quarantine import MemoryQuarantine
from stepline.ingress.message import receive
from stepline.ingress.upload import UploadPorts, UploadRequest, judge_upload, start_upload
from stepline.loop.approvals.approval_policy import ApprovalPolicy
from stepline.model.entry import ApprovalRequested
from stepline.model.file.upload_slot import quarantine_key
from stepline.ports.channel import Principal
from stepline.ports.model import Content, ModelRequest, Part, RoleChoice
from stepline.tools.context import ToolOutput
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec
from tests.support.conversation import FAR, LANE, USER, Conversation
from tests.support.generation import answered, called
from tests.support.strategies import texts
from tests.tiers import ROOT

SENT: Final[Mapping[str, Mapping[str, Mapping[str, Any]]]] = json.loads(
    (ROOT / "tests/data/doors/sent.json").read_text()
)
"""The frame of each action by each door; those of `client` are our own client's."""
DOORS: Final = sorted(door for door in SENT["a message"] if door != "client")
WIRES: Final = {
    "claude-sonnet-5-5": AnthropicProvider(),
    "gpt-5.5": ChatProvider(),
    "amazon.nova-2-lite-v1:0": ConverseProvider(),
}
FILE: Final = b"hi"
PAY: Final = ToolSpec(
    tool_id="bank.pay",
    schema={
        "type": "object",
        "properties": {"sum": {"type": "integer"}},
        "required": ["sum"],
        "additionalProperties": False,
    },
    effect="keyed",
    purpose="p",
    returns="r",
    read_only=False,
)


def waiting() -> Conversation:
    """Return a conversation in which a call waits for an answer."""
    conversation = Conversation(called("bank.pay", {"sum": 100}), answered("Done."))
    conversation.use(Tool(spec=PAY, run=lambda params, _: ToolOutput(ret={"paid": params["sum"]})))
    rule = ApprovalPolicy(places=({"bank.pay": "always"},)).rule_of
    conversation.agent = replace(conversation.agent, approvals=rule)
    conversation.connect("k1")
    return conversation


def upload(conversation: Conversation) -> str:
    """Return a file of the user that is ready for a message."""
    quarantine = MemoryQuarantine(conversation.ports.clock)
    desk = UploadPorts(ports=conversation.ports, quarantine=quarantine, preflight=MemoryPreflight())
    who = Principal(tenant=LANE.tenant, project=LANE.project, user=USER, expires_at=FAR)
    file = UploadRequest(filename="a.txt", size_bytes=len(FILE), sha256=hashlib.sha256(FILE).hexdigest())
    name = start_upload(desk, who, LANE.conversation, file).upload
    quarantine.objects[quarantine_key(LANE, name)] = FILE
    judge_upload(desk, LANE, name)
    return name


def requests_after(frame: Mapping[str, Any]) -> list[ModelRequest]:
    """Return the requests to the model of a conversation to which a client sends a frame."""
    conversation = Conversation(answered("Yes."))
    conversation.connect("k1")
    fields: dict[str, Any] = {"message_id": "a1", **frame}
    if "call_id" in frame:
        conversation = waiting()
        conversation.send("pay")
        conversation.run()
        (asked,) = conversation.entries(ApprovalRequested)
        fields["call_id"] = asked.action.call_id
    if "uploads" in frame:
        fields["uploads"] = [upload(conversation) for _ in frame["uploads"]]
    receive(conversation.ports, "k1", json.dumps(fields))
    conversation.run()
    conversation.model.assert_read()
    return list(conversation.model.requests)


def bodies(requests: Iterable[ModelRequest]) -> list[bytes]:
    """Return each request as each wire sends it."""
    return [
        msgspec.json.encode(provider.plan(request, RoleChoice(model=model)))
        for request in requests
        for model, provider in WIRES.items()
    ]


def cached(request: ModelRequest) -> list[Content]:
    """Return the parts of a request up to its last mark."""
    parts = [*request.system, *request.content]
    last = max(at for at, part in enumerate(parts) if isinstance(part, Part) and part.cache)
    return parts[: last + 1]


@pytest.mark.parametrize(
    ("action", "door"),
    [(action, door) for action, sent in SENT.items() for door in sent if door != "client"],
)
def test_an_action_at_a_door_makes_the_same_requests(action: str, door: str) -> None:
    own = bodies(requests_after(SENT[action]["client"]))
    assert own
    assert bodies(requests_after(SENT[action][door])) == own


@pytest.mark.parametrize("door", DOORS)
@given(text=texts.filter(str.strip), zone=st.sampled_from(["", "UTC", "Asia/Tokyo", "Europe/Zurich"]))
def test_the_cached_part_of_a_request_depends_on_neither_the_door_nor_its_time_zone(
    door: str, text: str, zone: str
) -> None:
    own, other = SENT["a message"]["client"], SENT["a message"][door]
    (request,) = requests_after({**own, "text": text})
    (again,) = requests_after({**other, "text": text, "timezone": zone})
    assert cached(again) == cached(request)
    assert (bodies([again]) == bodies([request])) == (zone == own["timezone"])


def test_the_text_of_a_message_is_in_the_cached_part() -> None:
    frame = SENT["a message"]["client"]
    (request,) = requests_after(frame)
    assert frame["text"].splitlines()[0] in "".join(
        part.text for part in cached(request) if isinstance(part, Part)
    )
