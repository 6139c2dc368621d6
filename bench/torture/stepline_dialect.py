"""The scripted model's replies in Stepline's decision protocol, which is text: `docs/how-to/own-model.md`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bench.torture.reply import Reply, plan_reply
from stepline.local.scripted.messages_request import parse_prompt
from stepline.local.scripted.policy import PROTOCOL_MARK, answer_side_request
from stepline.local.scripted.wire.chat_wire import read_chat
from tests.support.generation import answered, called

TOOL_IDS: Final = {"note": "torture.note", "pay": "torture.pay"}


def speak_stepline(body: Mapping[str, Any], text: str) -> Reply | None:
    """Return the reply to a request of Stepline, whose messages have this text; None for one of another subject."""
    system = "".join(
        str(one.get("content")) for one in body.get("messages", ()) if one.get("role") == "system"
    )
    if PROTOCOL_MARK not in system:
        side = answer_side_request(parse_prompt(read_chat(body))) if system else ""
        return Reply(pieces=((side, 0.0),)) if side else None
    reply = plan_reply(text, quotes=True)
    if reply.tool:
        return Reply(pieces=((called(TOOL_IDS[reply.tool], {"word": reply.word}), 0.0),))
    answer = "".join(piece for piece, _ in reply.pieces)
    before, _, after = answered(answer).partition(answer)
    return Reply(pieces=((before, 0.0), *reply.pieces, (after, 0.0)))
