"""The same conversation as a plain transcript with automatic caching: the cost of an append-only agent.

Messages as in a native tool-calling transcript: the prompt, then for each round the assistant's text and
calls and the results, a content block each, and the answer. One mark moves with the end, and nothing is ever
left out. A call and a result count as their JSON, with a result's text unchanged; there are no headers, paths
and times.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from bench.purse import Bill
from bench.workload import Script, ToolRound
from stepline.local.scripted.cache import PromptCache
from stepline.local.scripted.messages_request import TTL_S, Prompt, PromptBlock, count_tokens

MODEL: Final = "claude-sonnet-5-5"
TOOL: Final = "bench.look"


def bill_transcript(script: Script, *, system: str, request_s: float) -> Bill:
    """Return the conversation's bill; a request takes `request_s` with its tools."""
    now_s, bill, ends = 0.0, Bill(), TTL_S["5m"]
    cache = PromptCache(now_s=lambda: now_s)
    blocks = [_block(system)]
    for turn in script.turns:
        now_s += turn.gap_s
        blocks.append(_block(turn.prompt))
        for step in (*turn.rounds, None):
            marked = (*blocks[:-1], replace(blocks[-1], ttl_s=ends))
            prompt = Prompt(
                model=MODEL, max_tokens=1, stream=True, blocks=marked, system="", messages=(("user", ""),)
            )
            use = cache.look(prompt, workspace="peer")
            cache.commit(use)
            bill.add(use)
            now_s += request_s
            blocks += _round(step) if step else [_block(turn.answer)]
    return bill


def _round(step: ToolRound) -> Iterator[PromptBlock]:
    yield _block(f"{step.thinking}\n{step.notes}")
    names = {call.name: f"toolu_{hashlib.sha256(call.name.encode()).hexdigest()[:24]}" for call in step.calls}
    for call in step.calls:
        asked = {"type": "tool_use", "id": names[call.name], "name": TOOL, "input": {"query": call.name}}
        yield _block(json.dumps(asked))
    for call in step.calls:
        frame = {"type": "tool_result", "tool_use_id": names[call.name], "content": ""}
        yield _block(f"{json.dumps(frame)}{call.text}")


def _block(text: str) -> PromptBlock:
    return PromptBlock(identity=text, text=text, tokens=count_tokens(text))
