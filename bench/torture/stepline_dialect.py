"""The scripted model's replies in Stepline's decision protocol, which is text: `docs/how-to/own-model.md`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bench.torture.reply import Reply, plan_reply
from stepline.local.scripted.messages_request import parse_prompt
from stepline.local.scripted.policy import (
    GATE_MARK,
    PREFIX_MARK,
    PROTOCOL_MARK,
    SUMMARY_MARK,
    answer_side_request,
)
from stepline.local.scripted.wire.chat_wire import read_chat
from tests.support.generation import answered, called

SIDE_MARKS: Final = (GATE_MARK, PREFIX_MARK, SUMMARY_MARK)
TOOL_IDS: Final = {"note": "torture.note", "pay": "torture.pay"}


def speak_stepline(body: Mapping[str, Any], text: str) -> Reply | None:
    """Return the reply to a request of Stepline, whose messages have this text; None for one of another subject."""
    system = "".join(
        _text(one.get("content")) for one in body.get("messages", ()) if one.get("role") == "system"
    )
    if system.strip().partition("\n")[0].strip() in SIDE_MARKS:
        return Reply(pieces=((answer_side_request(parse_prompt(read_chat(body))), 0.0),))
    if PROTOCOL_MARK not in system:
        return None
    reply = plan_reply(text, quotes=True)
    if reply.tool:
        return Reply(pieces=((called(TOOL_IDS[reply.tool], {"word": reply.word}), 0.0),))
    answer = "".join(piece for piece, _ in reply.pieces)
    before, _, after = answered(answer).partition(answer)
    return Reply(pieces=((before, 0.0), *reply.pieces, (after, 0.0)))


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())
