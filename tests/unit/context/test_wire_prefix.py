"""The cached part of a request as each wire sends it: the next request begins with the same bytes, and marks are where the wire has them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given

from stepline.adapters.anthropic.provider import AnthropicProvider
from stepline.adapters.chat.provider import ChatProvider
from stepline.adapters.converse.provider import ConverseProvider
from stepline.adapters.provider.wire import WireProvider
from stepline.context.request import MARKS_MAX
from stepline.ports.model import ModelRequest, Part, RoleChoice
from tests.support.log_builder import LogBuilder, logs, patient
from tests.unit.context.caching_provider import Asked, ask_all

WIRES: Final[Mapping[str, tuple[WireProvider, str]]] = {
    "messages": (AnthropicProvider(), "claude-sonnet-5-5"),
    "chat": (ChatProvider(), "gpt-5.5"),
    "converse": (ConverseProvider(), "anthropic.claude-haiku-5-5"),
    "converse, Nova": (ConverseProvider(), "amazon.nova-2-lite-v1:0"),
    "converse, without marks": (ConverseProvider(), "meta.llama4-scout-17b-instruct-v1:0"),
}
MARKED: Final = frozenset({"messages", "converse", "converse, Nova"})


class SentRequest:
    """A request on a wire: `system` and the `blocks` of its user, each in bytes and without marks, which are counted.

    `marks` are the numbers of blocks before each mark of the user's message.
    """

    def __init__(self, wire: str, asked: Asked) -> None:
        provider, model = WIRES[wire]
        rendered = asked.rendered
        request = ModelRequest(role="r", system=rendered.system, content=rendered.content, max_tokens=1000)
        call = provider.plan(request, RoleChoice(model=model))
        *first, user = call["messages"]
        self.system = msgspec.json.encode([_bare(one) for one in call.get("system", first)])
        self.system_marks = sum(_is_marked(block) for block in call.get("system", ()))
        self.blocks: list[bytes] = []
        self.marks: list[int] = []
        for block in user["content"]:
            if "cachePoint" not in block:
                self.blocks.append(msgspec.json.encode(_bare(block)))
            if _is_marked(block):
                self.marks.append(len(self.blocks))


def _bare(block: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name not in ("cache_control", "cachePoint")}


def _is_marked(block: Mapping[str, Any]) -> bool:
    return "cache_control" in block or "cachePoint" in block


def cached_blocks(asked: Asked) -> list[int]:
    """Return the number of blocks up to each mark of a request; blank texts are no blocks."""
    kept = [not isinstance(part, Part) or bool(part.text.strip()) for part in asked.rendered.content]
    return [sum(kept[: mark + 1]) for mark in asked.marks]


@pytest.mark.parametrize("wire", WIRES)
@patient
@given(log=logs(forgetting=True))
def test_the_cached_bytes_of_a_request_begin_the_next_one(wire: str, log: LogBuilder) -> None:
    for before, after in pairwise(ask_all(log)):
        sent, following = SentRequest(wire, before), SentRequest(wire, after)
        assert sent.system == following.system
        for end in cached_blocks(before):
            same = sent.blocks[:end] == following.blocks[:end]
            assert same or after.timeline.parts.rewritten


@pytest.mark.parametrize("wire", WIRES)
@patient
@given(log=logs(forgetting=True))
def test_a_wire_with_marks_has_each_after_its_block_and_no_other_has_any(wire: str, log: LogBuilder) -> None:
    for asked in ask_all(log):
        sent = SentRequest(wire, asked)
        assert sent.marks == (cached_blocks(asked) if wire in MARKED else [])
        assert len(sent.marks) + sent.system_marks <= MARKS_MAX
